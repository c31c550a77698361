package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"comanda/store"
)

// account is what the checker found out about a file.
type account struct {
	orders  int      // acknowledged orders that were looked for
	lost    []string // of these, whose decision or one of whose effects is not there
	doubled []string // effect keys that stand in the world more than once
	strange []string // effects that no decided order asked for
	broken  []string // invariants that have a row
	waiting int64    // tickets that are not at their end
}

func (a account) String() string {
	return fmt.Sprintf("%d acknowledged orders: lost %d %v, doubled %d %v, unasked %d %v, invariants broken %d %v, tickets waiting %d",
		a.orders, len(a.lost), a.lost, len(a.doubled), a.doubled, len(a.strange), a.strange, len(a.broken), a.broken, a.waiting)
}

func (a account) sound() bool { return len(a.lost)+len(a.doubled)+len(a.strange)+len(a.broken) == 0 }
func (a account) ok() bool    { return a.sound() && a.waiting == 0 }

// examineFor is how long one read may take that examines a file: it goes through all of it, on a slow card too.
const examineFor = 10 * time.Minute

// audit compares a drained file with what was promised: acknowledged maps each order that was
// answered with 200 to the tickets that the answer named. What was not acknowledged may be there or
// not, but never in part. Only orders whose ids begin with prefix are looked at, and the invariants of all.
func audit(ctx context.Context, db *store.DB, prefix string, acknowledged map[string][]string) (account, error) {
	return examine(ctx, db, prefix, acknowledged, func(string) bool { return true })
}

// examine is audit for a file that may not be drained: settled says which orders' effects must be there.
func examine(ctx context.Context, db *store.DB, prefix string, acknowledged map[string][]string, settled func(order string) bool) (account, error) {
	a := account{orders: len(acknowledged)}
	among := among(prefix)
	effects, err := pairs(ctx, db, `SELECT effect_key, order_id FROM external_effects_log WHERE order_id`+among)
	if err != nil {
		return a, err
	}
	tickets, err := pairs(ctx, db, `SELECT idempotency_key, aggregate_id FROM outbox WHERE aggregate_id`+among)
	if err != nil {
		return a, err
	}
	decided, err := pairs(ctx, db, `SELECT order_id, decision FROM orders WHERE order_id`+among)
	if err != nil {
		return a, err
	}
	for key, orders := range effects {
		if len(orders) > 1 {
			a.doubled = append(a.doubled, key)
		}
		if !slices.Equal(tickets[key], orders[:1]) {
			a.strange = append(a.strange, key)
		}
	}
	for order, keys := range acknowledged {
		whole := len(decided[order]) == 1 && len(keys) > 0
		for _, key := range keys {
			whole = whole && slices.Equal(tickets[key], []string{order}) && (!settled(order) || slices.Equal(effects[key], []string{order}))
		}
		if !whole {
			a.lost = append(a.lost, order)
		}
	}
	return a, errors.Join(a.checkInvariants(ctx, db), a.checkWhole(ctx, db, among), a.countWaiting(ctx, db, among))
}

// among is the SQL for "begins with this prefix", which is one of ours and holds no quote.
func among(prefix string) string {
	return fmt.Sprintf(` BETWEEN '%s' AND '%[1]s' || char(1114111)`, prefix)
}

func (a *account) checkInvariants(ctx context.Context, db *store.DB) error {
	for _, query := range store.Invariants() {
		answer, err := db.Query(ctx, query)
		if err != nil {
			return err
		}
		if len(answer.Rows) > 0 {
			a.broken = append(a.broken, query)
		}
	}
	return nil
}

func (a *account) countWaiting(ctx context.Context, db *store.DB, among string) error {
	answer, err := db.Query(ctx, `SELECT count(*) FROM outbox WHERE status <> 'done' AND aggregate_id`+among)
	if err == nil {
		a.waiting, _ = answer.Rows[0][0].(int64)
	}
	return err
}

// An order that is there has its event and as many tickets as its decision asks for.
const sqlInPart = `SELECT id FROM (SELECT order_id AS id FROM orders
WHERE event_id NOT IN (SELECT event_id FROM events)
   OR (SELECT count(*) FROM outbox WHERE aggregate_id = order_id)
      <> CASE decision WHEN 'refund' THEN 1 ELSE json_array_length(line_items) END
UNION SELECT order_id FROM events WHERE order_id NOT IN (SELECT order_id FROM orders)
UNION SELECT aggregate_id FROM outbox WHERE aggregate_id NOT IN (SELECT order_id FROM orders)) WHERE id`

func (a *account) checkWhole(ctx context.Context, db *store.DB, among string) error {
	answer, err := db.Query(ctx, sqlInPart+among)
	if err == nil && len(answer.Rows) > 0 {
		a.broken = append(a.broken, "kept in part: "+strings.ReplaceAll(rowsText(answer.Rows), "\n", ", "))
	}
	return err
}

// pairs reads a query of two text columns: for each first one the second ones, in order.
func pairs(ctx context.Context, db *store.DB, query string) (map[string][]string, error) {
	answer, err := db.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	m := make(map[string][]string, len(answer.Rows))
	for _, row := range answer.Rows {
		first, second := fmt.Sprint(row[0]), fmt.Sprint(row[1])
		m[first] = append(m[first], second)
	}
	return m, nil
}
