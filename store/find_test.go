package store

import (
	"testing"
)

// What a person types is found by its exact name, an order before a ticket's number.
func TestFind(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error { return accept(tx, "7") })
	other := raw(t, db.Path())
	byOrder := `INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key) VALUES (12, '77', 'x', '{}', 'x:77')`
	mustExec(t, other, byOrder)
	mustExec(t, other, `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('refund:HAND', 'HAND', 'refund', 'done')`)
	event := view(t, db, func(tx *Tx) ([]Event, error) {
		return collect(tx, `SELECT `+eventColumns+` FROM events`, nil, scanEvent)
	})[0]
	for q, want := range map[string]Hit{
		event.OrderID: {"order", event.OrderID}, event.EventID: {"event", event.EventID}, "77": {"order", "77"}, " 77 ": {"order", "77"},
		"12": {"ticket", "12"}, "#12": {"ticket", "12"}, "x:77": {"ticket", "12"}, "HAND": {"order", "HAND"}, "refund:HAND": {"order", "HAND"},
		"": {}, "#": {}, "13": {}, "#77": {}, "nothing": {}, "-1": {}, "99999999999999999999": {},
	} {
		if event.EventID == event.OrderID && q == event.EventID {
			continue
		}
		var found bool
		got := view(t, db, func(tx *Tx) (h Hit, err error) { h, found, err = tx.Find(q); return h, err })
		if found != (want != Hit{}) || found && got != want {
			t.Errorf("%q: got %v %t, want %v", q, got, found, want)
		}
	}
}
