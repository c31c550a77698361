package store

import (
	"slices"
	"testing"
	"time"
)

// lane claims for one target; "" for those that are simulated here.
func lane(t testing.TB, db *DB, name string) Claim {
	t.Helper()
	return claim(t, db, ClaimRequest{Target: name, TargetOf: targetOf})
}

func wantDue(t *testing.T, db *DB, what, name string, want bool) {
	t.Helper()
	got := view(t, db, func(tx *Tx) (bool, error) {
		now, _, _, err := tx.Due(ClaimRequest{Target: name, TargetOf: targetOf})
		return now, err
	})
	if got != want {
		t.Errorf("%s: due for %q is %t", what, name, got)
	}
}

// What a file sends out for real is never simulated, and a lane takes what is its own and nothing else.
func TestLanesTakeTheirOwn(t *testing.T) {
	for address, what := range map[string]string{gate: "with an address", "": "without one"} {
		db := openNew(t)
		refunds, lines, others := put(t, db, TicketIssueRefund, 2), put(t, db, TicketInventorySync, 2), put(t, db, "a_new_effect", 1)
		markAll(t, db, Mark{Name: "refund", URL: address})
		wantDue(t, db, what, "", true)
		c := lane(t, db, "")
		wantIDs(t, what+": simulated", c.Tickets, slices.Concat(lines, others)...)
		if !slices.Equal(c.Elsewhere, []string{"refund"}) || c.Halted != "" {
			t.Errorf("%s: the claim for what is simulated is %+v", what, c)
		}
		wantDue(t, db, what+": the rest is real", "", false)
		if c := lane(t, db, "inventory"); c.Halted != "real" || len(c.Tickets) > 0 {
			t.Errorf("%s: a lane to a target that is not real got %+v", what, c)
		}
		wantDue(t, db, what, "inventory", false)
		wantDue(t, db, what, "refund", true)
		wantIDs(t, what+": its lane", lane(t, db, "refund").Tickets, refunds...)
		wantDue(t, db, what, "refund", false)
		if c := lane(t, db, ""); len(c.Tickets)+len(c.Elsewhere) > 0 {
			t.Errorf("%s: with nothing pending the claim is %+v", what, c)
		}
	}
}

// The mark is read in the claim's own transaction: another process may have set it a moment ago.
func TestClaimSeesAnothersMark(t *testing.T) {
	path := newPath(t)
	db, other := open(t, path, Options{}), open(t, path, Options{})
	ids := put(t, db, TicketIssueRefund, 1)
	c := lane(t, db, "")
	wantIDs(t, "before", c.Tickets, ids...)
	update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, ids); return err })
	markAll(t, other, Mark{Name: "refund", URL: gate})
	wantIDs(t, "after", lane(t, db, "").Tickets)
	update(t, other, func(tx *Tx) error { _, err := tx.TargetLocal("refund", "olga"); return err })
	wantIDs(t, "made local", lane(t, db, "").Tickets, ids...)
}

// A halted target's tickets stay where they are, and those of the others go on.
func TestHaltedLanes(t *testing.T) {
	for want, halt := range map[string]func(*Tx) error{
		"paused": func(tx *Tx) error { return tx.PauseTarget("refund", "olga", "") },
		"held":   func(tx *Tx) error { return tx.HoldTarget("refund", 5000) },
		"real":   func(tx *Tx) error { _, err := tx.TargetLocal("refund", "olga"); return err },
	} {
		db, clock := openAt(t)
		markAll(t, db, Mark{Name: "refund", URL: gate}, Mark{Name: "inventory", URL: stockURL})
		refunds, lines := put(t, db, TicketIssueRefund, 1), put(t, db, TicketInventorySync, 1)
		update(t, db, halt)
		wantDue(t, db, want, "refund", false)
		if c := lane(t, db, "refund"); c.Halted != want || len(c.Tickets) > 0 || c.Probe {
			t.Errorf("%s: the claim is %+v", want, c)
		}
		wantIDs(t, want+": the other target's", lane(t, db, "inventory").Tickets, lines...)
		if got := ticket(t, db, refunds[0]); got.Status != "pending" || got.Attempts != 0 || got.DueAt != 0 {
			t.Errorf("%s: the ticket is %+v", want, got)
		}
		if want == "held" {
			clock.pass(5 * time.Second)
			wantIDs(t, "the hold is over", lane(t, db, "refund").Tickets, refunds...)
		}
	}
}

// A target of the lab can be paused too.
func TestPausedLab(t *testing.T) {
	db := openNew(t)
	refunds, lines := put(t, db, TicketIssueRefund, 1), put(t, db, TicketInventorySync, 1)
	update(t, db, func(tx *Tx) error { return tx.PauseTarget("refund", "olga", "") })
	c := lane(t, db, "")
	wantIDs(t, "paused", c.Tickets, lines...)
	if len(c.Elsewhere) > 0 {
		t.Errorf("a paused target of the lab is elsewhere: %v", c.Elsewhere)
	}
	update(t, db, func(tx *Tx) error { return tx.Pause(true, "olga") })
	update(t, db, func(tx *Tx) error { return tx.ResumeTarget("refund", "olga") })
	wantDue(t, db, "the relay is paused", "", false)
	update(t, db, func(tx *Tx) error { return tx.Pause(false, "olga") })
	wantDue(t, db, "resumed", "", true)
	wantIDs(t, "resumed", lane(t, db, "").Tickets, refunds...)
}

// While a target can't be reached its three oldest due tickets try it in turn, one at a time.
func TestTurns(t *testing.T) {
	db, clock := openAt(t)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	put(t, db, TicketInventorySync, 1)
	ids := put(t, db, TicketIssueRefund, 5)
	turn := func(what string, n int, want int64) {
		t.Helper()
		c := claim(t, db, ClaimRequest{Target: "refund", TargetOf: targetOf, Turn: n})
		wantIDs(t, what, c.Tickets, want)
		update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
	}
	for i := range 2 * ProbesInTurn {
		turn("in turn", i+1, ids[i%ProbesInTurn])
	}
	c := lane(t, db, "refund")
	update(t, db, func(tx *Tx) error { // the oldest waits, and comes back to the head
		_, err := tx.Release(c.Token, ids[1:])
		if err == nil {
			_, err = tx.Requeue(c.Token, ids[0], Requeue{WaitMS: 1000})
		}
		return err
	})
	turn("the oldest waits", 1, ids[1])
	turn("the oldest waits", 3, ids[3])
	clock.pass(time.Second)
	turn("it is due again", 1, ids[0])
	turn("it is due again", 3, ids[2])
	turn("it is due again", 4, ids[0]) // and not the fourth
	c = lane(t, db, "refund")
	update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, ids[3:]); return err })
	for n, want := range map[int]int64{1: ids[3], 2: ids[4], 3: ids[3]} {
		turn("two are left", n, want)
	}
}
