package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// settleAll settles tickets in one transaction and returns how each ended.
func settleAll(t testing.TB, db *DB, c Claim, tickets ...Ticket) []Settled {
	t.Helper()
	var ends []Settled
	update(t, db, func(tx *Tx) error {
		ends = nil
		for _, one := range tickets {
			end, err := settle(tx, c.Token, one)
			if err != nil {
				return err
			}
			ends = append(ends, end)
		}
		return nil
	})
	return ends
}

func wantEnds(t *testing.T, what string, got []Settled, want ...Settled) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The ledger row, the effect and 'done' are one transaction, and a key has one effect however often its
// ticket is carried out.
func TestSettleLocalOnce(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 2)
	c := claim(t, db, ClaimRequest{})
	first, second := c.Tickets[0], c.Tickets[1]
	wantEnds(t, "first", settleAll(t, db, c, first), Done)
	wantEnds(t, "again", settleAll(t, db, c, first), Lost)
	update(t, db, func(tx *Tx) error { // somebody paid by hand
		_, err := tx.exec(`INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ($1, $2, 'refund', 'done')`, second.Key, second.AggregateID)
		return err
	})
	wantEnds(t, "known to the ledger", settleAll(t, db, c, second), AlreadyDone)
	wantNumber(t, db, 2, `SELECT count(*) FROM outbox WHERE status = 'done' AND processed_at IS NOT NULL AND claim_token IS NULL`)
	wantNumber(t, db, 2, `SELECT count(*) FROM ledger`)
	wantNumber(t, db, 1, `SELECT count(*) FROM external_effects_log`)
	wantNumber(t, db, 1, `SELECT count(*) FROM ledger JOIN external_effects_log USING (effect_key, effect_type, order_id) WHERE how = 'local'`)
}

// Whatever statement of a settlement fails, nothing of it stays: not even for the tickets before it.
func TestSettleAllOrNothing(t *testing.T) {
	for _, table := range []string{"ledger", "external_effects_log"} {
		path := newPath(t)
		db := open(t, path, Options{})
		put(t, db, TicketIssueRefund, 2)
		c := claim(t, db, ClaimRequest{})
		other := raw(t, path)
		mustExec(t, other, fmt.Sprintf(`CREATE TRIGGER oranges BEFORE INSERT ON %s WHEN NEW.order_id = '%s' BEGIN SELECT RAISE(ABORT, 'oranges'); END`, table, c.Tickets[1].AggregateID))
		before := dump(t, db)
		err := db.Update(t.Context(), func(tx *Tx) error {
			for _, one := range c.Tickets {
				if _, err := settle(tx, c.Token, one); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "oranges") {
			t.Errorf("a failing insert into %s: %v", table, err)
		}
		if after := dump(t, db); after != before {
			t.Errorf("a failing insert into %s left\n%s\nof\n%s", table, after, before)
		}
		mustExec(t, other, `DROP TRIGGER oranges`)
		wantEnds(t, "then", settleAll(t, db, c, c.Tickets...), Done, Done)
	}
}

// A batch is settled in one commit, lost ones beside won ones.
func TestSettleBatch(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 4)
	c := claim(t, db, ClaimRequest{})
	update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, ids[1:2]); return err })
	before := db.Commits()
	wantEnds(t, "batch", settleAll(t, db, c, c.Tickets...), Done, Lost, Done, Done)
	if n := db.Commits() - before; n != 1 {
		t.Errorf("a batch took %d commits", n)
	}
	wantNumber(t, db, 3, `SELECT count(*) FROM external_effects_log`)
	wantNumber(t, db, 1, `SELECT count(*) FROM outbox WHERE status = 'pending' AND id = $1`, ids[1])
}

// tries are all the changes that name a claim's token; each reports whether it changed something.
var tries = map[string]func(tx *Tx, token string, one Ticket) (bool, error){
	"settle": func(tx *Tx, k string, o Ticket) (bool, error) { end, err := settle(tx, k, o); return end != Lost, err },
	"retry":  func(tx *Tx, k string, o Ticket) (bool, error) { return tx.Retry(k, o.ID, 1000, "late") },
	"review": func(tx *Tx, k string, o Ticket) (bool, error) { return tx.Review(k, o.ID, "undecodable", "late") },
	"bury":   func(tx *Tx, k string, o Ticket) (bool, error) { return tx.Bury(k, o.ID, "late") },
	"release": func(tx *Tx, k string, o Ticket) (bool, error) {
		n, err := tx.Release(k, []int64{o.ID})
		return n > 0, err
	},
	"free": func(tx *Tx, k string, o Ticket) (bool, error) {
		n, _, err := tx.free(VoidLease{Token: k, Begun: []int64{o.ID}})
		return n > 0, err
	},
}

// A worker that lost its lease changes nothing, whatever became of its ticket in the meantime.
func TestLateWorkerChangesNothing(t *testing.T) {
	meantimes := map[string]func(t *testing.T, db *DB, late Claim){
		"freed": func(t *testing.T, db *DB, late Claim) {
			update(t, db, func(tx *Tx) error { _, _, err := tx.free(VoidLease{Token: late.Token}); return err })
		},
		"claimed again": func(t *testing.T, db *DB, late Claim) {
			wantIDs(t, "claimed again", claim(t, db, ClaimRequest{Void: void(late, "x")}).Tickets, late.Tickets[0].ID)
		},
		"done": func(t *testing.T, db *DB, late Claim) {
			c := claim(t, db, ClaimRequest{Void: void(late, "x")})
			wantEnds(t, "done", settleAll(t, db, c, c.Tickets...), Done)
		},
		"dead": func(t *testing.T, db *DB, late Claim) {
			update(t, db, func(tx *Tx) error { _, err := tx.Bury(late.Token, late.Tickets[0].ID, "rejected"); return err })
		},
		"in review": func(t *testing.T, db *DB, late Claim) {
			update(t, db, func(tx *Tx) error { _, err := tx.Review(late.Token, late.Tickets[0].ID, "unknown", ""); return err })
		},
	}
	for meantime, happen := range meantimes {
		for name, try := range tries {
			t.Run(meantime+"/"+name, func(t *testing.T) {
				db := openNew(t)
				put(t, db, TicketIssueRefund, 1)
				late := claim(t, db, ClaimRequest{})
				happen(t, db, late)
				before := dump(t, db)
				update(t, db, func(tx *Tx) error {
					if did, err := try(tx, late.Token, late.Tickets[0]); did || err != nil {
						return fmt.Errorf("the late worker's %s says %t, %w", name, did, err)
					}
					return nil
				})
				if after := dump(t, db); after != before {
					t.Errorf("the late worker changed\n%s\nto\n%s", before, after)
				}
			})
		}
	}
}

func TestEndsOfATicket(t *testing.T) {
	for name, want := range map[string]string{"settle": "done", "retry": "pending", "review": "review", "bury": "dead", "release": "pending", "free": "pending"} {
		db := openNew(t)
		id := put(t, db, TicketIssueRefund, 1)[0]
		c := claim(t, db, ClaimRequest{})
		update(t, db, func(tx *Tx) error {
			if did, err := tries[name](tx, c.Token, c.Tickets[0]); !did || err != nil {
				return fmt.Errorf("%s says %t, %w", name, did, err)
			}
			return nil
		})
		got := ticket(t, db, id)
		ended := want == "done" || want == "dead"
		if got.Status != want || (got.ProcessedAt != nil) != ended || got.ClaimToken != nil || got.Attempts != 1 {
			t.Errorf("%s made it %+v, want %s", name, got, want)
		}
		failed := name == "retry" || name == "review" || name == "bury"
		if (got.Failures == 1) != failed || failed != (got.Detail == "late") {
			t.Errorf("%s: failures %d, detail %q", name, got.Failures, got.Detail)
		}
		attempts := int64(0)
		if failed && name != "bury" || name == "free" { // what is buried was sent; free was told that the ticket had been begun
			attempts = 1
		}
		wantNumber(t, db, attempts, `SELECT count(*) FROM attempts WHERE ended_at IS NOT NULL AND claim_token = $1`, c.Token)
	}
}

// A group that is run again member by member carries nothing out twice.
func TestSettleInAGroupThatFails(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		put(t, db, TicketIssueRefund, 1)
		c := claim(t, db, ClaimRequest{})
		letGo := hold(db)
		var end Settled
		good := later(t.Context(), db, func(tx *Tx) (err error) { end, err = settle(tx, c.Token, c.Tickets[0]); return err })
		bad := later(t.Context(), db, func(*Tx) error { return errors.New("no") })
		letGo()
		if err := <-good; err != nil || end != Done {
			t.Errorf("settled %q, %v", end, err)
		}
		if err := <-bad; err == nil {
			t.Error("the failing member got no error")
		}
		wantNumber(t, db, 1, `SELECT count(*) FROM external_effects_log`)
	})
}
