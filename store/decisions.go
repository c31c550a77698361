package store

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Event is one accepted webhook event.
type Event struct {
	EventID    string `json:"event_id"`
	OrderID    string `json:"order_id"`
	Body       Text   `json:"body"` // the raw bytes of the first copy
	ReceivedAt int64  `json:"received_at"`
	// Digest is the SHA-256 of the order that the event carries; the same id with another digest is
	// another order.
	Digest  []byte `json:"-"`
	Outcome string `json:"outcome"` // "decided" or "already_decided"
	Differs JSON   `json:"differs"` // JSON array of the fields that contradict the standing decision
	Seq     int64  `json:"seq"`
	// Source is the name of the sender with a path of its own, or ""; WebhookID is the id under which it was first
	// sent, bounded and in visible ASCII, or "".
	Source    string `json:"source"`
	WebhookID string `json:"webhook_id"`
	// ClockUntrusted is why the wall clock was not to be trusted then (ClockUnsynchronised and so on), or "".
	ClockUntrusted string `json:"clock_untrusted"`
}

// JSON is a JSON value as the file holds it. What another client put there and is no JSON is shown as a
// string.
type JSON []byte

// MarshalJSON shows the value as it is.
func (j JSON) MarshalJSON() ([]byte, error) {
	if json.Valid(j) {
		return j, nil
	}
	return json.Marshal(string(j))
}

// UnmarshalJSON takes the value as it is.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = append(JSON{}, b...)
	return nil
}

// Text is bytes that are shown as a JSON string.
type Text []byte

// MarshalText shows the bytes as they are.
func (t Text) MarshalText() ([]byte, error) { return t, nil }

// UnmarshalText takes the bytes as they are.
func (t *Text) UnmarshalText(b []byte) error {
	*t = append(Text{}, b...)
	return nil
}

// Order is one decided order. Amount is exact decimal text with the currency's decimals.
type Order struct {
	OrderID    string `json:"order_id"`
	EventID    string `json:"event_id"`
	CustomerID string `json:"customer_id"`
	Amount     string `json:"amount"`
	Currency   string `json:"currency"`
	Category   string `json:"category"`
	Priority   string `json:"priority"`
	CreditOK   bool   `json:"credit_ok"`
	Decision   string `json:"decision"` // "refund" or "inventory"
	DecidedAt  int64  `json:"decided_at"`
	LineItems  JSON   `json:"line_items"` // [{"sku":…,"quantity":…}], one a SKU
	// CreditSource is who said whether there is credit: "book", "remote", "book: remote silent", or "" when
	// nobody was asked.
	CreditSource string `json:"credit_source"`
	Compensating bool   `json:"compensating"` // a line was rejected and the order is, or was, taken back
	Seq          int64  `json:"seq"`
}

// NewTicket is a ticket as the director writes it.
type NewTicket struct {
	OrderID    string
	EffectType string
	Payload    string // JSON text
	Key        string
}

// Decision is everything that one event brings about. Order is nil for an event whose order had
// been decided before.
type Decision struct {
	Event   Event
	Order   *Order
	Tickets []NewTicket
}

const eventColumns = `event_id, order_id, body, received_at, digest, outcome, differs, seq, source, webhook_id, clock_untrusted`

func scanEvent(scan func(...any) error, e *Event) error {
	return scan(&e.EventID, &e.OrderID, &e.Body, &e.ReceivedAt, &e.Digest, &e.Outcome, (*[]byte)(&e.Differs), &e.Seq,
		&e.Source, &e.WebhookID, &e.ClockUntrusted)
}

// For the director's first look-up, by primary key.
const sqlEvent = `SELECT ` + eventColumns + ` FROM events WHERE event_id = $1`

// Event returns the accepted event with this id, byte for byte.
func (tx *Tx) Event(id string) (Event, bool, error) {
	if !withDedupe {
		return Event{}, false, nil
	}
	return first(tx, sqlEvent, []any{id}, scanEvent)
}

const orderColumns = `order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, line_items, credit_source, compensating, seq`

func scanOrder(scan func(...any) error, o *Order) error {
	return scan(&o.OrderID, &o.EventID, &o.CustomerID, &o.Amount, &o.Currency, &o.Category, &o.Priority,
		&o.CreditOK, &o.Decision, &o.DecidedAt, (*[]byte)(&o.LineItems),
		&o.CreditSource, &o.Compensating, &o.Seq)
}

// For the director's second look-up, by primary key.
const sqlOrder = `SELECT ` + orderColumns + ` FROM orders WHERE order_id = $1`

// Order returns the standing decision of an order.
func (tx *Tx) Order(id string) (Order, bool, error) {
	if !withDedupe {
		return Order{}, false, nil
	}
	return first(tx, sqlOrder, []any{id}, scanOrder)
}

// For the director's question before its two look-ups: of most events neither is known, and nothing is read.
const sqlKnown = `SELECT 1 FROM events WHERE event_id = $1 UNION ALL SELECT 1 FROM orders WHERE order_id = $2 LIMIT 1`

// Known reports whether the event was accepted before or its order has a decision.
func (tx *Tx) Known(eventID, orderID string) (bool, error) {
	if !withDedupe {
		return false, nil
	}
	var one int
	return tx.find(sqlKnown, []any{eventID, orderID}, &one)
}

// Record writes an event with its decision and tickets: all of it or, by the transaction, nothing.
// The caller has looked up the event and the order in this same transaction. Rows that are there
// already stay as they are; the outbox's unique key is the second line behind the look-ups.
// It returns how many tickets were new.
func (tx *Tx) Record(d Decision) (int, error) {
	if err := tx.insertEvent(d.Event); err != nil {
		return 0, err
	}
	if d.Order != nil {
		if err := tx.insertOrder(*d.Order); err != nil {
			return 0, err
		}
	}
	if err := tx.splitDecision(); err != nil {
		return 0, err
	}
	return tx.insertTickets(d.Tickets)
}

const sqlInsertEvent = `INSERT INTO events (` + eventColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
	ON CONFLICT (event_id) DO NOTHING`

func (tx *Tx) insertEvent(e Event) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	differs := e.Differs
	if len(differs) == 0 {
		differs = JSON("[]")
	}
	n, err := tx.exec(sqlInsertEvent, e.EventID, e.OrderID, []byte(e.Body), tx.now, e.Digest, e.Outcome, string(differs), seq,
		e.Source, e.WebhookID, e.ClockUntrusted)
	return oneRow(n, err, "event", e.EventID)
}

const sqlInsertOrder = `INSERT INTO orders (` + orderColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, $13)
	ON CONFLICT (order_id) DO NOTHING`

func (tx *Tx) insertOrder(o Order) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	n, err := tx.exec(sqlInsertOrder, o.OrderID, o.EventID, o.CustomerID, o.Amount, o.Currency, o.Category, o.Priority,
		o.CreditOK, o.Decision, tx.now, string(o.LineItems), o.CreditSource, seq)
	return oneRow(n, err, "order", o.OrderID)
}

// oneRow turns an insert that met an existing row into an error: the look-ups before it said otherwise.
func oneRow(n int64, err error, what, id string) error {
	if err == nil && n == 0 && withDedupe {
		return fmt.Errorf("%s %q is there already though it was looked up in the same transaction", what, id)
	}
	return err
}

const sqlInsertTickets = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, created_at, seq) VALUES `

// onKeyConflict lets a ticket that is on the rail already stand as it is.
const onKeyConflict = ` ON CONFLICT (idempotency_key) DO NOTHING`

// ticketInserts are the statements that put so many tickets on the rail at once, the most first. What SQLite does once a
// statement costs as much as a row, so a statement a ticket is half as fast.
var ticketInserts = []ticketInsert{insertOf(64), insertOf(16), insertOf(8), insertOf(4), insertOf(3), insertOf(2), insertOf(1)}

type ticketInsert struct {
	rows int
	text string
}

// insertOf is the statement for n rows: $1 is the time, $2 the first one's place in the sequence, and each row has four
// of its own.
func insertOf(n int) ticketInsert {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("($%d, $%d, $%d, $%d, 'pending', $1, $2 + %d)", 4*i+3, 4*i+4, 4*i+5, 4*i+6, i)
	}
	text := sqlInsertTickets + strings.Join(rows, ", ")
	if withUniqueKey {
		text += onKeyConflict
	}
	return ticketInsert{n, text}
}

// InsertTicket puts a ticket on the rail, due at once, and reports whether its key was new.
func (tx *Tx) InsertTicket(t NewTicket) (bool, error) {
	n, err := tx.insertTickets([]NewTicket{t})
	return n > 0, err
}

// insertTickets puts tickets on the rail in their order and returns how many keys were new.
func (tx *Tx) insertTickets(tickets []NewTicket) (added int, err error) {
	for _, insert := range ticketInserts {
		for len(tickets) >= insert.rows {
			n, err := tx.insertRows(insert.text, tickets[:insert.rows])
			if err != nil {
				return 0, err
			}
			added, tickets = added+int(n), tickets[insert.rows:]
		}
	}
	tx.wake = tx.wake || added > 0
	return added, nil
}

func (tx *Tx) insertRows(text string, tickets []NewTicket) (int64, error) {
	first, err := tx.seqs(int64(len(tickets)))
	if err != nil {
		return 0, err
	}
	args := make([]any, 0, 2+4*len(tickets))
	args = append(args, tx.now, first)
	for _, t := range tickets {
		args = append(args, t.OrderID, t.EffectType, t.Payload, t.Key)
	}
	return tx.exec(text, args...)
}

// For check-credit, by primary key.
const sqlCreditLimit = `SELECT limit_amount FROM credit_limits WHERE customer_id = $1 AND currency = $2`

// CreditLimit returns a customer's limit in a currency as exact decimal text; false means that the
// book does not know the pair.
func (tx *Tx) CreditLimit(customerID, currency string) (string, bool, error) {
	var limit string
	ok, err := tx.find(sqlCreditLimit, []any{customerID, currency}, &limit)
	return limit, ok, err
}
