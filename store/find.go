package store

import (
	"strconv"
	"strings"
)

// Hit is what a person who typed something into a search box meant.
type Hit struct {
	Kind string // "order", "ticket" or "event"
	ID   string // an order's or event's id, or a ticket's number
}

// An order is known by its decision, or by what somebody put in by hand for it: each by its index.
const sqlAnyOfOrder = `SELECT 1 FROM orders WHERE order_id = $1
	UNION ALL SELECT 1 FROM outbox WHERE aggregate_id = $1
	UNION ALL SELECT 1 FROM events WHERE order_id = $1
	UNION ALL SELECT 1 FROM ledger WHERE order_id = $1
	UNION ALL SELECT 1 FROM external_effects_log WHERE order_id = $1 LIMIT 1`

const (
	sqlIsTicket  = `SELECT 1 FROM outbox WHERE id = $1`
	sqlIsEvent   = `SELECT 1 FROM events WHERE event_id = $1`
	sqlKeyTicket = `SELECT id FROM outbox WHERE idempotency_key = $1`
)

// An effect that somebody noted by hand has a key and no ticket: it leads to its order.
const sqlKeyOrder = `SELECT order_id FROM ledger WHERE effect_key = $1
	UNION ALL SELECT order_id FROM external_effects_log WHERE effect_key = $1 LIMIT 1`

// Find looks for exactly what was typed: an order's id, the number of a ticket ("12", "#12"), an event's id or an
// idempotency key, in this order, since a shop's orders may be called "12" too. False means that there is nothing of
// that name; SearchOrders then finds what begins with it. Customers are not looked for.
func (tx *Tx) Find(q string) (Hit, bool, error) {
	for _, look := range []func(string) (Hit, bool, error){tx.findOrder, tx.findTicket, tx.findEvent, tx.findKey} {
		for _, text := range []string{q, strings.TrimSpace(q)} {
			f, found, err := look(text)
			if err != nil || found {
				return f, found, err
			}
		}
	}
	return Hit{}, false, nil
}

func (tx *Tx) findOrder(id string) (Hit, bool, error) {
	found, err := tx.find(sqlAnyOfOrder, []any{id}, new(int64))
	return Hit{"order", id}, found, err
}

func (tx *Tx) findTicket(text string) (Hit, bool, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
	if err != nil {
		return Hit{}, false, nil
	}
	found, err := tx.find(sqlIsTicket, []any{id}, new(int64))
	return Hit{"ticket", strconv.FormatInt(id, 10)}, found, err
}

func (tx *Tx) findEvent(id string) (Hit, bool, error) {
	found, err := tx.find(sqlIsEvent, []any{id}, new(int64))
	return Hit{"event", id}, found, err
}

func (tx *Tx) findKey(key string) (Hit, bool, error) {
	var id int64
	found, err := tx.find(sqlKeyTicket, []any{key}, &id)
	if err != nil || found {
		return Hit{"ticket", strconv.FormatInt(id, 10)}, found, err
	}
	var order string
	found, err = tx.find(sqlKeyOrder, []any{key}, &order)
	return Hit{"order", order}, found, err
}
