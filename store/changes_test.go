package store

import (
	"slices"
	"strings"
	"testing"
)

// changed reads what came since a place.
func changed(t *testing.T, db *DB, since Place) (Place, Changes) {
	t.Helper()
	var c Changes
	now := view(t, db, func(tx *Tx) (now Place, err error) { now, c, err = tx.Changed(since); return now, err })
	slices.Sort(c.Orders)
	return now, c
}

// Whatever happens in this process or another is seen: by the orders that it happened to, or as something more.
func TestChanged(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	const insertByHand = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('HAND', 'issue_refund', '{}', 'k')`
	var c Claim
	at := view(t, db, (*Tx).Place)
	for _, step := range []struct {
		what   string
		do     func()
		orders string
		more   bool
	}{
		{"nothing", func() {}, "", false},
		{"an order", func() { update(t, db, func(tx *Tx) error { return accept(tx, "1") }) }, "ORD-1", false},
		{"a ticket by hand", func() { mustExec(t, other, insertByHand) }, "HAND", false},
		{"a claim", func() { c = claim(t, db, ClaimRequest{Limit: 1}) }, "ORD-1", false},
		{"an end", func() { settleAll(t, db, c, c.Tickets...) }, "ORD-1", false},
		{"a claim that ended already", func() { c = claim(t, db, ClaimRequest{Limit: 1}); settleAll(t, db, c, c.Tickets...) }, "HAND", false},
		{"tickets", func() { put(t, db, "x", 2) }, "ORD-x-3 ORD-x-4", false},
		{"a claim given back", func() {
			c = claim(t, db, ClaimRequest{Limit: 9})
			update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
		}, "", true},
		{"an attempt that failed", func() {
			c = claim(t, db, ClaimRequest{Limit: 1})
			update(t, db, func(tx *Tx) error { _, err := tx.Retry(c.Token, c.Tickets[0].ID, 1, "x"); return err })
		}, "ORD-x-3", true}, // to the file it looks like a ticket that somebody put back
		{"a pause", func() { update(t, db, func(tx *Tx) error { return tx.Pause(true, "me") }) }, "", true},
		{"a pause by hand", func() { mustExec(t, other, `UPDATE relay_state SET paused = 0`) }, "", true},
		{"a target", func() { update(t, db, func(tx *Tx) error { return tx.HoldTarget("refund", 1000) }) }, "", true},
		{"an alert", func() {
			update(t, db, func(tx *Tx) error { _, _, err := tx.RaiseAlert(Condition{"review", "1"}); return err })
		}, "", true},
		{"an act", func() { update(t, db, func(tx *Tx) error { return tx.Log("me", "x", "", "") }) }, "", true},
		{"a state by hand", func() { mustExec(t, other, `UPDATE outbox SET status = 'dead', processed_at = 1 WHERE id = 4`) }, "", true},
		{"a state by hand again", func() { mustExec(t, other, `UPDATE outbox SET status = 'pending', processed_at = NULL WHERE id = 4`) }, "", true},
		{"a ticket that is gone", func() { mustExec(t, other, `DELETE FROM outbox WHERE id = 4`) }, "", true},
		{"a pass", func() { update(t, db, func(tx *Tx) error { return tx.notePass("h", 1) }) }, "", false},
		{"many orders", func() { put(t, db, "y", changedOrders+1) }, "many", true},
		{"nothing more", func() {}, "", false},
	} {
		before := at
		step.do()
		now, got := changed(t, db, at)
		orders := strings.Join(got.Orders, " ")
		if len(got.Orders) == changedOrders {
			orders = "many"
		}
		if orders != step.orders || got.More != step.more || got.Seq != now.Seq || now.Seq < before.Seq || got.Any() != (step.more || orders != "") {
			t.Errorf("%s: orders %q, more %t at %d; want %q, %t", step.what, orders, got.More, got.Seq, step.orders, step.more)
		}
		at = now
	}
	if _, c := changed(t, db, Place{}); !c.More {
		t.Errorf("since the beginning: %+v", c)
	}
}

// A send that ends some time after it began is seen at the order that it was for.
func TestChangedSends(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	ids := put(t, db, TicketIssueRefund, 1)
	claim(t, db, ClaimRequest{Limit: 1})
	mustExec(t, other, `INSERT INTO attempts (ticket_id, claim_token, begun_at, kind, target) VALUES ($1, 't', 1, 'send', 'refund')`, ids[0])
	at := view(t, db, (*Tx).Place)
	update(t, db, func(tx *Tx) error {
		if err := tx.EndAttempts(Ended{ID: 1, Outcome: "done"}); err != nil {
			return err
		}
		_, err := tx.Remember(ids[0], LedgerRefund, "remote")
		return err
	})
	if _, c := changed(t, db, at); len(c.Orders) != 1 || c.More {
		t.Errorf("got %+v, want the one order", c)
	}
}
