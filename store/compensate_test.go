package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// lineState is how a line of an order stands when another one is rejected.
type lineState string

var lineStates = []lineState{"pending", "unknown", "processing", "review", "done"}

// lineEnds are the ways in which a line that was open may end.
var lineEnds = []string{"done", "discarded", "dead"}

// shop is an order with three lines: the first will be rejected.
type shop struct {
	t      *testing.T
	db     *DB
	ids    []int64
	tokens []string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return fillShop(t, open(t, newPath(t), Options{Synchronous: "OFF", Readers: 1}))
}

func fillShop(t *testing.T, db *DB) *shop {
	t.Helper()
	s := &shop{t: t, db: db}
	update(t, s.db, func(tx *Tx) error { return recordShop(tx, "O") })
	for range 3 {
		c := claim(t, s.db, ClaimRequest{Limit: 1, Lease: time.Hour})
		s.ids, s.tokens = append(s.ids, c.Tickets[0].ID), append(s.tokens, c.Token)
	}
	return s
}

// recordShop records an order with three lines.
func recordShop(tx *Tx, order string) error {
	d := Decision{Event: Event{EventID: "E" + order, OrderID: order, Body: Text("{}"), Digest: make([]byte, 32), Outcome: "decided"},
		Order: &Order{OrderID: order, EventID: "E" + order, CustomerID: "C", Amount: "2154.00", Currency: "MXN", Category: "c", Priority: "p", CreditOK: true, Decision: "inventory", LineItems: JSON("[]")}}
	for _, sku := range []string{"A", "B", "C:%"} {
		d.Tickets = append(d.Tickets, NewTicket{OrderID: order, EffectType: TicketInventorySync, Payload: `{"sku":"` + sku + `","quantity":2}`, Key: Key(LedgerInventory, order, sku)})
	}
	_, err := tx.Record(d)
	return err
}

func (s *shop) do(fn func(tx *Tx) error) { s.t.Helper(); update(s.t, s.db, fn) }

// bring brings line i into a state.
func (s *shop) bring(i int, state lineState) {
	s.t.Helper()
	s.do(func(tx *Tx) error {
		var ok bool
		var err error
		switch state {
		case "processing":
			return nil
		case "pending", "unknown":
			ok, err = tx.Requeue(s.tokens[i], s.ids[i], Requeue{WaitMS: 1000})
		case "review":
			ok, err = tx.Park(s.tokens[i], s.ids[i], "ask")
		case "done":
			var did Settled
			did, err = tx.Remember(s.ids[i], LedgerInventory, "remote")
			ok = did == Done
		}
		if !ok {
			err = errors.Join(err, fmt.Errorf("line %d is not %s", i, state))
		}
		return err
	})
	if state == "unknown" {
		mustExec(s.t, raw(s.t, s.db.Path()), `INSERT INTO attempts (ticket_id, claim_token, begun_at, kind, target, address) VALUES ($1, 't', 1, 'send', 'inventory', 'https://w')`, s.ids[i])
	}
}

// end brings line i, which is open, to its end.
func (s *shop) end(i int, how string) {
	s.t.Helper()
	s.do(func(tx *Tx) error {
		switch how {
		case "done":
			_, err := tx.Remember(s.ids[i], LedgerInventory, "remote")
			return err
		case "discarded":
			if err := tx.CloseUnknown(s.ids[i]); err != nil {
				return err
			}
			if _, err := tx.exec(`UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL WHERE id = $1`, s.ids[i]); err != nil {
				return err
			}
			_, err := tx.ByHand(s.ids[i], HandAct{Do: ActDiscard, Reason: "r", Who: "me"})
			return err
		}
		if _, err := tx.exec(`UPDATE outbox SET status = 'processing', claim_token = 'x', lease_holder = 'h', lease_ms = 1 WHERE id = $1`, s.ids[i]); err != nil {
			return err
		}
		ok, err := tx.BuryLine("x", s.ids[i], "rejected too")
		if !ok {
			err = errors.Join(err, errors.New("not buried"))
		}
		return err
	})
}

// check compares what is on the rail with what must be: a release for each line that went out, and the refund
// when no line is open.
func (s *shop) check(what string) {
	s.t.Helper()
	open := number(s.t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_sync' AND status IN ('pending', 'processing', 'review')`)
	done := number(s.t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_sync' AND status = 'done'`)
	releases := number(s.t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'
		AND EXISTS (SELECT 1 FROM outbox AS l WHERE l.status = 'done' AND l.payload = outbox.payload AND 'release' || substr(l.idempotency_key, 10) = outbox.idempotency_key)`)
	all := number(s.t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`)
	refunds := number(s.t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'issue_refund' AND idempotency_key = 'refund:O' AND payload = '{"amount":2154.00,"currency":"MXN"}'`)
	if releases != done || all != done {
		s.t.Errorf("%s: %d lines went out, %d of %d releases are theirs", what, done, releases, all)
	}
	if (refunds == 1) != (open == 0) || refunds > 1 {
		s.t.Errorf("%s: %d refunds with %d lines open", what, refunds, open)
	}
}

// A rejected line takes its order back, however the other two stand then and however they end.
func TestCompensationMatrix(t *testing.T) {
	cases := 0
	for _, b := range lineStates {
		for _, c := range lineStates {
			for _, endB := range lineEnds {
				for _, endC := range lineEnds {
					cases++
					if testing.Short() && cases%7 != 0 { // under the race detector
						continue
					}
					name := fmt.Sprintf("%s then %s, %s then %s", b, endB, c, endC)
					s := newShop(t)
					s.bring(1, b)
					s.bring(2, c)
					s.do(func(tx *Tx) error {
						ok, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock")
						if !ok {
							err = errors.Join(err, errors.New("not buried"))
						}
						return err
					})
					s.check(name + ", at the burial")
					for i, state := range []lineState{"dead", b, c} {
						got := ticket(t, s.db, s.ids[i]).Status
						want := map[lineState]string{"pending": "discarded", "unknown": "pending", "dead": "dead"}[state]
						if want == "" {
							want = string(state)
						}
						if got != want {
							t.Errorf("%s: line %d is %s, want %s", name, i, got, want)
						}
					}
					for i, how := range map[int]string{1: endB, 2: endC} {
						if got := ticket(t, s.db, s.ids[i]).Status; !slices.Contains([]string{"done", "discarded", "dead"}, got) {
							s.end(i, how)
							s.check(name)
						}
					}
					wantNumber(t, s.db, 1, `SELECT count(*) FROM outbox WHERE idempotency_key = 'refund:O'`)
					s.do(func(tx *Tx) error { // the refund and the releases go out
						for _, kind := range []string{TicketIssueRefund, TicketInventoryRelease} {
							tickets, err := tx.Tickets(TicketFilter{EffectType: kind, Limit: 10})
							if err != nil {
								return err
							}
							for _, one := range tickets {
								if _, err := tx.Remember(one.ID, targetOf[kind], "remote"); err != nil {
									return err
								}
							}
						}
						return nil
					})
					s.check(name + ", at the end")
					wantNumber(t, s.db, 0, `SELECT count(*) FROM (`+sqlNoOrderBothWays[:len(sqlNoOrderBothWays)-1]+`)`)
					if number(t, s.db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`) > 0 {
						mustExec(t, raw(t, s.db.Path()), `DELETE FROM outbox WHERE effect_type = 'inventory_release'`)
						wantNumber(t, s.db, 1, `SELECT count(*) FROM (`+sqlNoOrderBothWays[:len(sqlNoOrderBothWays)-1]+`)`)
					}
				}
			}
		}
	}
	if cases != 225 {
		t.Errorf("%d cases", cases)
	}
}

// What is no line of a known order with credit starts no compensation.
func TestBuryLineElsewhere(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketInventorySync, 1)
	put(t, db, TicketIssueRefund, 1)
	for range 2 {
		c := claim(t, db, ClaimRequest{Limit: 1})
		update(t, db, func(tx *Tx) error {
			ok, err := tx.BuryLine(c.Token, c.Tickets[0].ID, "no")
			if !ok {
				err = errors.Join(err, errors.New("not buried"))
			}
			return err
		})
	}
	wantNumber(t, db, 2, `SELECT count(*) FROM outbox`)
	wantNumber(t, db, 0, `SELECT count(*) FROM operator_log`)
}

// Local lines take part too: one that is settled in the lab gets its release in the same transaction.
func TestLocalLineInACompensatingOrder(t *testing.T) {
	s := newShop(t)
	s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
	for i := 1; i < 3; i++ {
		s.do(func(tx *Tx) error {
			one, err := tx.Ticket(s.ids[i])
			if err != nil {
				return err
			}
			did, err := tx.SettleLocal(s.tokens[i], []Ticket{one}, LedgerInventory)
			if did[one.ID] != Done {
				err = errors.Join(err, fmt.Errorf("settled %v", did))
			}
			return err
		})
		s.check(fmt.Sprintf("line %d", i))
	}
	wantNumber(t, s.db, 2, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`)
	wantNumber(t, s.db, 1, `SELECT count(*) FROM outbox WHERE effect_type = 'issue_refund'`)
}
