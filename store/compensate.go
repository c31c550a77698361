package store

import (
	"encoding/json"
	"strings"
)

// A compensation takes an order back of which one line was rejected: lines that did not go out are
// discarded, each that did gets a release, and when no line is open the deposit is refunded. Every step
// happens in the transaction of what caused it, so no kill comes between them.

const sqlStartCompensating = `UPDATE orders SET compensating = 1 WHERE order_id = $1 AND decision = 'inventory' AND compensating = 0`

// A line of which nobody knows what came of it stays on the rail until that is known, and so does one that the
// ledger knows: it went out, and is released when its worker finds that.
const sqlDiscardLines = `UPDATE outbox SET status = 'discarded', processed_at = $2, detail = 'another line of its order was rejected', ended_seq = $3
	WHERE aggregate_id = $1 AND effect_type = '` + TicketInventorySync + `' AND status = 'pending'
	AND NOT EXISTS (SELECT 1 FROM attempts WHERE ticket_id = outbox.id AND ` + isUnknown + `)
	AND NOT EXISTS (SELECT 1 FROM ledger WHERE effect_key = outbox.idempotency_key)`

// Lines that went out already.
const sqlDoneLines = `SELECT ` + ticketColumns + ` FROM outbox WHERE aggregate_id = $1 AND effect_type = '` + TicketInventorySync + `' AND status = 'done' ORDER BY id`

// BuryLine is Bury for a line of an order that is to be taken back for its sake. An order that this file
// does not know, or that was refunded, is left as it is.
func (tx *Tx) BuryLine(token string, id int64, detail string) (bool, error) {
	t, err := tx.Ticket(id)
	if err != nil {
		return false, err
	}
	ok, err := tx.Bury(token, id, detail)
	if err != nil || !ok || t.EffectType != TicketInventorySync {
		return ok, err
	}
	n, err := tx.exec(sqlStartCompensating, t.AggregateID)
	if err != nil || n == 0 {
		return true, err
	}
	if err := tx.Log("relay", "order compensating", t.AggregateID, t.Key+" was rejected: "+detail); err != nil {
		return true, err
	}
	seq, err := tx.seq()
	if err != nil {
		return true, err
	}
	if _, err := tx.exec(sqlDiscardLines, t.AggregateID, tx.now, seq); err != nil {
		return true, err
	}
	done, err := collect(tx, sqlDoneLines, []any{t.AggregateID}, scanTicket)
	if err != nil {
		return true, err
	}
	for _, line := range done {
		if err := tx.release(line); err != nil {
			return true, err
		}
	}
	return true, tx.lineEnded(t.AggregateID)
}

const sqlCompensating = `SELECT 1 FROM orders WHERE order_id = $1 AND compensating = 1`

// Compensating reports whether an order is being, or was, taken back.
func (tx *Tx) Compensating(orderID string) (bool, error) {
	return tx.find(sqlCompensating, []any{orderID}, new(int64))
}

// release puts the opposite of a line that went out on the rail.
func (tx *Tx) release(line Ticket) error {
	_, err := tx.InsertTicket(NewTicket{
		OrderID: line.AggregateID, EffectType: TicketInventoryRelease, Payload: line.Payload, Key: releaseKey(line.Key),
	})
	return err
}

// releaseKey makes "release:ORD-1:SKU-9" of "inventory:ORD-1:SKU-9"; a line that was put in by hand may be
// called otherwise.
func releaseKey(key string) string {
	if rest, ok := strings.CutPrefix(key, LedgerInventory+":"); ok {
		return LedgerRelease + ":" + rest
	}
	return LedgerRelease + ":" + key
}

// For every settlement: the lines of compensating orders among the tickets, by orders_compensating.
const sqlCompensatingLines = `SELECT ` + ticketColumns + ` FROM outbox WHERE id IN (SELECT value FROM json_each($1))
	AND effect_type = '` + TicketInventorySync + `' AND status = 'done'
	AND aggregate_id IN (SELECT order_id FROM orders WHERE compensating = 1) ORDER BY id`

const sqlAnyCompensating = `SELECT 1 FROM orders WHERE compensating = 1 LIMIT 1`

// linesDone is told of every ticket that became done.
func (tx *Tx) linesDone(ids []int64) error {
	some, err := tx.find(sqlAnyCompensating, nil, new(int64))
	if err != nil || !some {
		return err
	}
	lines, err := collect(tx, sqlCompensatingLines, []any{idList(ids)}, scanTicket)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := tx.release(line); err != nil {
			return err
		}
		if err := tx.lineEnded(line.AggregateID); err != nil {
			return err
		}
	}
	return nil
}

const sqlOpenLine = `SELECT 1 FROM outbox WHERE aggregate_id = $1 AND effect_type = '` + TicketInventorySync + `'
	AND status IN ('pending', 'processing', 'review') LIMIT 1`

// lineEnded is told when a line of an order came to its end: in a compensating order the last one has the
// deposit refunded.
func (tx *Tx) lineEnded(orderID string) error {
	compensating, err := tx.Compensating(orderID)
	if err != nil || !compensating {
		return err
	}
	open, err := tx.find(sqlOpenLine, []any{orderID}, new(int64))
	if err != nil || open {
		return err
	}
	o, found, err := first(tx, sqlOrder, []any{orderID}, scanOrder)
	if err != nil || !found {
		return err
	}
	_, err = tx.InsertTicket(NewTicket{
		OrderID: orderID, EffectType: TicketIssueRefund, Payload: RefundPayload(o.Amount, o.Currency), Key: Key(LedgerRefund, orderID),
	})
	return err
}

// RefundPayload is the payload of a refund; amount is exact decimal text with the currency's decimals.
func RefundPayload(amount, currency string) string {
	code, _ := json.Marshal(currency) // a string always can be
	return `{"amount":` + amount + `,"currency":` + string(code) + `}`
}
