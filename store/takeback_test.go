package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// A lookup says what the target knew when it was asked. By the time a worker that lost its claim hears that,
// another one may have sent; that send stays unknown.
func TestWindowAnewIsFenced(t *testing.T) {
	_, db, late, b := sending(t)
	begin(t, db, b)
	next := claim(t, db, ClaimRequest{Target: LedgerRefund, TargetOf: targetOf, Void: void(late, "late")})
	b.Token = next.Token
	begin(t, db, b)
	anew := func(token string, want bool, open int64) {
		t.Helper()
		update(t, db, func(tx *Tx) error {
			if ok, err := tx.WindowAnew(token, b.Ticket); ok != want || err != nil {
				return fmt.Errorf("WindowAnew says %t, %w", ok, err)
			}
			return nil
		})
		wantNumber(t, db, open, `SELECT count(*) FROM attempts WHERE kind = 'send' AND closed_seq = 0`)
	}
	anew(late.Token, false, 2)
	anew(next.Token, true, 0)
	if unknown := view(t, db, func(tx *Tx) (bool, error) { return tx.HasUnknown(b.Ticket) }); unknown {
		t.Error("what was closed is still unknown")
	}
}

// What was sent when the boot could not be told may have been sent just now.
func TestLastByteWithoutABoot(t *testing.T) {
	m, db, c, b := sending(t)
	m.boot = ""
	begin(t, db, b)
	m.boot, m.bootMS = "boot 1", 3600_000
	past := view(t, db, func(tx *Tx) (Past, error) { return tx.Past(c.Tickets[0], LedgerRefund, gate) })
	if past.Unknown != 1 || past.LastMS != 0 || !past.Expired {
		t.Errorf("the past is %+v", past)
	}
}

// A line that somebody has put into the ledger went out, though its ticket waits: it is released, not thrown away.
func TestPendingLineThatTheLedgerKnows(t *testing.T) {
	s := newShop(t)
	s.bring(1, "pending")
	s.bring(2, "pending")
	mustExec(t, raw(t, s.db.Path()), `INSERT INTO ledger (effect_key, order_id, effect_type, status) SELECT idempotency_key, aggregate_id, 'inventory', 'done' FROM outbox WHERE id = $1`, s.ids[1])
	s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
	for i, want := range []string{"dead", "pending", "discarded"} {
		if got := ticket(t, s.db, s.ids[i]); got.Status != want {
			t.Errorf("line %d is %s, want %s", i, got.Status, want)
		}
	}
	s.check("known and not yet noted")
	s.end(1, "done")
	s.check("noted")
	wantNumber(t, s.db, 1, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`)
}

// A success that comes for a line that has ended is in the ledger, and the invariant shows it until a person
// has resolved it; then it is released.
func TestLateSuccessOfABuriedLine(t *testing.T) {
	s := newShop(t)
	both := `SELECT count(*) FROM (` + strings.TrimSuffix(sqlNoOrderBothWays, ";") + `)`
	s.bring(1, "pending")
	s.bring(2, "pending")
	s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
	s.do(func(tx *Tx) error {
		tickets, err := tx.Tickets(TicketFilter{EffectType: TicketIssueRefund, Limit: 1})
		if err == nil {
			_, err = tx.Remember(tickets[0].ID, LedgerRefund, "remote")
		}
		return err
	})
	wantNumber(t, s.db, 0, both)
	s.do(func(tx *Tx) error {
		if did, err := tx.Remember(s.ids[0], LedgerInventory, "remote"); did != TooLate || err != nil {
			return fmt.Errorf("a late success is %s, %w", did, err)
		}
		return nil
	})
	wantNumber(t, s.db, 1, both)
	s.do(func(tx *Tx) error {
		_, err := tx.ByHand(s.ids[0], HandAct{Do: ActResolve, Happened: true, Reason: "r", Who: "me", LedgerType: LedgerInventory})
		return err
	})
	wantNumber(t, s.db, 0, both)
	s.check("resolved")
}

// An order whose lines end one way or another is refunded only where it is taken back.
func TestOnlyCompensationRefunds(t *testing.T) {
	for _, name := range []string{"bury", "did not", "discard"} {
		s := newShop(t)
		for i := range s.ids {
			s.do(func(tx *Tx) error {
				var err error
				switch name {
				case "bury":
					_, err = tx.Bury(s.tokens[i], s.ids[i], "no")
					return err
				case "did not":
					_, err = tx.Park(s.tokens[i], s.ids[i], "ask")
				case "discard":
					_, err = tx.Requeue(s.tokens[i], s.ids[i], Requeue{})
				}
				if err != nil {
					return err
				}
				one, err := tx.Ticket(s.ids[i])
				return errors.Join(err, lineActs[name](tx, one, ""))
			})
		}
		wantNumber(t, s.db, 3, `SELECT count(*) FROM outbox WHERE status IN ('dead', 'discarded')`)
		wantNumber(t, s.db, 3, `SELECT count(*) FROM outbox`)
	}
}

// lastActs are the acts that end the last open line of a compensating order: each must write what follows.
var lastActs = map[string]func(tx *Tx, s *shop) error{
	"remember": func(tx *Tx, s *shop) error { _, err := tx.Remember(s.ids[1], LedgerInventory, "remote"); return err },
	"bury":     func(tx *Tx, s *shop) error { _, err := tx.BuryLine(s.tokens[1], s.ids[1], "no"); return err },
	"settle": func(tx *Tx, s *shop) error {
		one, err := tx.Ticket(s.ids[1])
		if err == nil {
			_, err = tx.SettleLocal(s.tokens[1], []Ticket{one}, LedgerInventory)
		}
		return err
	},
	"resolve": func(tx *Tx, s *shop) error {
		if ok, err := tx.Park(s.tokens[1], s.ids[1], "ask"); !ok {
			return errors.Join(err, errors.New("not parked"))
		}
		_, err := tx.ByHand(s.ids[1], HandAct{Do: ActResolve, Reason: "r", Who: "me"})
		return err
	},
	"discard": func(tx *Tx, s *shop) error {
		if ok, err := tx.Requeue(s.tokens[1], s.ids[1], Requeue{}); !ok {
			return errors.Join(err, errors.New("not requeued"))
		}
		_, err := tx.ByHand(s.ids[1], HandAct{Do: ActDiscard, Reason: "r", Who: "me"})
		return err
	},
}

// What follows from the end of a line is in the transaction of that end: whichever of its rows fails, nothing stays.
func TestCompensationIsInTheTransactionOfItsCause(t *testing.T) {
	for name, act := range lastActs {
		for _, failing := range []string{TicketInventoryRelease, TicketIssueRefund} {
			if failing == TicketInventoryRelease && name != "remember" && name != "settle" {
				continue // the line did not go out
			}
			s := newShop(t)
			s.bring(2, "pending")
			s.do(func(tx *Tx) error { _, err := tx.BuryLine(s.tokens[0], s.ids[0], "out of stock"); return err })
			other := raw(t, s.db.Path())
			mustExec(t, other, `CREATE TRIGGER oranges BEFORE INSERT ON outbox WHEN NEW.effect_type = '`+failing+`' BEGIN SELECT RAISE(ABORT, 'oranges'); END`)
			before := dump(t, s.db)
			if err := s.db.Update(t.Context(), func(tx *Tx) error { return act(tx, s) }); err == nil || !strings.Contains(err.Error(), "oranges") {
				t.Errorf("%s with a failing %s: %v", name, failing, err)
			}
			if after := dump(t, s.db); after != before {
				t.Errorf("%s with a failing %s left\n%s\nof\n%s", name, failing, after, before)
			}
			mustExec(t, other, `DROP TRIGGER oranges`)
			s.do(func(tx *Tx) error { return act(tx, s) })
			s.check(name)
			wantNumber(t, s.db, 1, `SELECT count(*) FROM outbox WHERE idempotency_key = 'refund:O'`)
		}
	}
}

// A burial whose group fails beside it is run again alone, and takes the order back once.
func TestCompensationInAGroupThatFails(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		s := fillShop(t, db)
		s.bring(1, "done")
		letGo := hold(db)
		runs, ok := 0, false
		bury := later(t.Context(), db, func(tx *Tx) (err error) {
			runs++
			ok, err = tx.BuryLine(s.tokens[0], s.ids[0], "out of stock")
			return err
		})
		end := later(t.Context(), db, func(tx *Tx) error { _, err := tx.Remember(s.ids[2], LedgerInventory, "remote"); return err })
		bad := later(t.Context(), db, func(*Tx) error { return errors.New("no") })
		letGo()
		synctest.Wait()
		if err := errors.Join(<-bury, <-end); err != nil || !ok || runs != 2 {
			t.Errorf("buried %t after %d runs, %v", ok, runs, err)
		}
		if err := <-bad; err == nil {
			t.Error("the failing member got no error")
		}
		s.check("run again")
		wantNumber(t, db, 2, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`)
		wantNumber(t, db, 1, `SELECT count(*) FROM outbox WHERE effect_type = 'issue_refund'`)
		wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE action = 'order compensating'`)
	})
}

// lineActs are what workers and operators may do to one line, whatever state it is in; what its state does not
// allow changes nothing.
var lineActs = map[string]func(tx *Tx, t Ticket, token string) error{
	"claim": func(tx *Tx, t Ticket, token string) error {
		_, err := tx.mark([]int64{t.ID}, ClaimRequest{Token: token, Holder: "h", Lease: 1e9})
		return err
	},
	"free": func(tx *Tx, _ Ticket, token string) error { _, _, err := tx.free(VoidLease{Token: token}); return err },
	"begin": func(tx *Tx, t Ticket, token string) error {
		_, err := tx.BeginAttempt(Begin{Ticket: t.ID, Token: token, Kind: "send", Target: LedgerInventory, Address: gate, Letter: Letter{Key: t.Key, Body: []byte("{}")}})
		return err
	},
	"unknown":  func(tx *Tx, t Ticket, _ string) error { return endAll(tx, t.ID, string(Unknown)) },
	"not sent": func(tx *Tx, t Ticket, _ string) error { return endAll(tx, t.ID, string(NotSent)) },
	"requeue":  func(tx *Tx, t Ticket, token string) error { _, err := tx.Requeue(token, t.ID, Requeue{}); return err },
	"park":     func(tx *Tx, t Ticket, token string) error { _, err := tx.Park(token, t.ID, "ask"); return err },
	"anew":     func(tx *Tx, t Ticket, token string) error { _, err := tx.WindowAnew(token, t.ID); return err },
	"bury":     func(tx *Tx, t Ticket, token string) error { _, err := tx.BuryLine(token, t.ID, "no"); return err },
	"settle": func(tx *Tx, t Ticket, token string) error {
		_, err := tx.SettleLocal(token, []Ticket{t}, LedgerInventory)
		return err
	},
	"remember": func(tx *Tx, t Ticket, _ string) error {
		if t.ProcessedAt != nil {
			return nil // too late: TestLateSuccessOfABuriedLine
		}
		_, err := tx.Remember(t.ID, LedgerInventory, "remote")
		return err
	},
	"retry":      byHandOr(HandAct{Do: ActRetry}),
	"send again": byHandOr(HandAct{Do: ActRetry, SendAgain: true}),
	"discard":    byHandOr(HandAct{Do: ActDiscard}),
	"happened":   byHandOr(HandAct{Do: ActResolve, Happened: true}),
	"did not":    byHandOr(HandAct{Do: ActResolve}),
}

func byHandOr(a HandAct) func(*Tx, Ticket, string) error {
	a.Who, a.Reason, a.LedgerType = "me", "r", LedgerInventory
	return func(tx *Tx, t Ticket, _ string) error {
		_, err := tx.ByHand(t.ID, a)
		if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
			return nil
		}
		return err
	}
}

func endAll(tx *Tx, id int64, outcome string) error {
	attempts, err := tx.Attempts(id)
	for _, a := range attempts {
		err = errors.Join(err, tx.EndAttempts(Ended{ID: a.ID, Outcome: outcome}))
	}
	return err
}

// Whatever is done to the lines of an order, in whatever sequence: once one was rejected there is a release for
// each line that went out, and the refund as soon as no line is open; before that there is neither.
func TestCompensationHoldsAlways(t *testing.T) {
	db := open(t, newPath(t), Options{Synchronous: "OFF", Readers: 1})
	update(t, db, func(tx *Tx) error {
		_, err := tx.MarkTargets([]Mark{{Name: LedgerInventory, URL: gate}}, "tester")
		return err
	})
	type step struct {
		Line int
		Act  string
	}
	names := []string{"claim", "claim", "claim", "claim", "begin", "bury", "bury", "bury", "remember", "settle"} // these take a line further
	for name := range lineActs {
		names = append(names, name)
	}
	orders := 0
	rapid.Check(t, func(r *rapid.T) {
		todo := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{rapid.IntRange(0, 2).Draw(r, "line"), rapid.SampledFrom(names).Draw(r, "act")}
		}), 10, 60).Draw(r, "steps")
		orders++
		order := fmt.Sprintf("O%d", orders)
		err := db.Update(t.Context(), func(tx *Tx) error {
			if err := recordShop(tx, order); err != nil {
				return err
			}
			lines, err := tx.Tickets(TicketFilter{OrderID: order, Limit: 3})
			for i, s := range todo {
				if err != nil {
					return err
				}
				one, err := tx.Ticket(lines[s.Line].ID)
				if err == nil {
					err = lineActs[s.Act](tx, one, order+one.Key)
				}
				if err == nil {
					err = wellTakenBack(tx, order)
				}
				if err != nil {
					return fmt.Errorf("step %d, %+v: %w", i, s, err)
				}
			}
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
	})
	for what, n := range map[string]int64{
		"orders taken back": number(t, db, `SELECT count(*) FROM orders WHERE compensating = 1`),
		"releases":          number(t, db, `SELECT count(*) FROM outbox WHERE effect_type = 'inventory_release'`),
		"refunds":           number(t, db, `SELECT count(*) FROM outbox WHERE effect_type = 'issue_refund'`),
	} {
		if n == 0 && !testing.Short() { // a fifth of the sequences
			t.Errorf("only %d %s in %d orders: the sequences reach too little", n, what, orders)
		}
	}
}

// wellTakenBack says what is wrong with an order.
func wellTakenBack(tx *Tx, order string) error {
	compensating, err := tx.Compensating(order)
	if err != nil {
		return err
	}
	tickets, err := tx.Tickets(TicketFilter{OrderID: order, Limit: 100})
	releases, done, refunds, open := map[string]bool{}, map[string]bool{}, 0, 0
	for _, t := range tickets {
		switch {
		case t.EffectType == TicketInventoryRelease:
			releases[t.Key] = true
		case t.EffectType == TicketIssueRefund:
			refunds++
		case t.Status == "done":
			done[releaseKey(t.Key)] = true
		case t.ProcessedAt == nil:
			open++
		case t.Status == "discarded" && t.Detail == discardedByRule:
			unknown, uerr := tx.HasUnknown(t.ID)
			if err = errors.Join(err, uerr); unknown {
				err = errors.Join(err, fmt.Errorf("%s was discarded and may have happened", t.Key))
			}
		}
	}
	if !compensating && len(releases)+refunds > 0 {
		err = errors.Join(err, errors.New("an order that nobody takes back has a release or a refund"))
	}
	if compensating && fmt.Sprint(releases) != fmt.Sprint(done) {
		err = errors.Join(err, fmt.Errorf("went out and must be released: %v, released: %v", done, releases))
	}
	if compensating && (refunds == 1) != (open == 0) || refunds > 1 {
		err = errors.Join(err, fmt.Errorf("%d refunds with %d lines open", refunds, open))
	}
	return err
}

const discardedByRule = "another line of its order was rejected"
