package store

import "math"

// Ticket is one row of the outbox. The pointers are nil where the column is NULL.
type Ticket struct {
	ID          int64   `json:"id"`
	AggregateID string  `json:"aggregate_id"`
	EffectType  string  `json:"effect_type"`
	Payload     string  `json:"payload"` // JSON text, as stored
	Key         string  `json:"idempotency_key"`
	Status      string  `json:"status"`
	Attempts    int64   `json:"attempts"`
	CreatedAt   int64   `json:"created_at"`
	ProcessedAt *int64  `json:"processed_at"`
	DueAt       int64   `json:"due_at"`
	ClaimToken  *string `json:"claim_token"`
	LeaseHolder *string `json:"lease_holder"`
	LeaseMS     *int64  `json:"lease_ms"`
	ClaimedAt   *int64  `json:"claimed_at"`
	Failures    int64   `json:"failures"`
	Crashes     int64   `json:"crashes"`
	Detail      string  `json:"detail"`
	WireKey     *string `json:"wire_key"` // as it goes over the wire; nil before the first send
	Lookups     int64   `json:"lookups"`  // that could not be asked while the target was up
	Seq         int64   `json:"seq"`
	ClaimedSeq  int64   `json:"claimed_seq"`
	EndedSeq    int64   `json:"ended_seq"`
}

const ticketColumns = `id, aggregate_id, effect_type, payload, idempotency_key, status, attempts, created_at, processed_at,
	due_at, claim_token, lease_holder, lease_ms, claimed_at, failures, crashes, detail, wire_key, lookups, seq, claimed_seq, ended_seq`

func scanTicket(scan func(...any) error, t *Ticket) error {
	return scan(&t.ID, &t.AggregateID, &t.EffectType, &t.Payload, &t.Key, &t.Status, &t.Attempts, &t.CreatedAt, &t.ProcessedAt,
		&t.DueAt, &t.ClaimToken, &t.LeaseHolder, &t.LeaseMS, &t.ClaimedAt, &t.Failures, &t.Crashes, &t.Detail,
		&t.WireKey, &t.Lookups, &t.Seq, &t.ClaimedSeq, &t.EndedSeq)
}

// TicketFilter chooses tickets; an empty field chooses all.
type TicketFilter struct {
	Status     string
	EffectType string
	OrderID    string
	Before     int64 // only ids below this one; 0 means from the newest on
	Limit      int
}

// The lists of tickets run newest first. $1 is the id below which they begin, $2 the effect type, $3 the limit.
// Each chooses its ids in an index and then reads those rows alone, so that it does not matter where among two million
// they lie. A partial index serves only a query that repeats its predicate as a literal.
const (
	ticketsWhere = ticketColumns + ` FROM outbox WHERE id IN (SELECT id FROM outbox WHERE `
	newest       = ` ORDER BY id DESC LIMIT $3) ORDER BY id DESC`
	// What is pending or being carried out lies in its index by other things than its id: all of it is looked at and
	// the newest are kept. The plus keeps SQLite from looking for them along the primary key, past all that is done.
	newestOpen = ` AND +id < $1 ORDER BY +id DESC LIMIT $3) ORDER BY id DESC`
	// What is at rest and not done, by outbox_aside.
	aside = ` AND status <> 'pending' AND status <> 'processing' AND status <> 'done'`
)

// ticketLists are the choices of ids by state, without an effect type and with one. Among all tickets, and among those
// of a type, most are done: the walk to the newest that are passes by what is not.
var ticketLists = map[string]struct{ all, ofType string }{
	"": {
		`SELECT ` + ticketsWhere + `id < $1 AND $2 = ''` + newest,
		`SELECT ` + ticketsWhere + `effect_type <> '' AND effect_type = $2 AND id < $1` + newest,
	},
	"done": {
		`SELECT ` + ticketsWhere + `status = 'done' AND id < $1 AND $2 = ''` + newest,
		`SELECT ` + ticketsWhere + `status = 'done' AND effect_type <> '' AND effect_type = $2 AND id < $1` + newest,
	},
	"pending": {
		`SELECT ` + ticketsWhere + `status = 'pending' AND $2 = ''` + newestOpen,
		`SELECT ` + ticketsWhere + `status = 'pending' AND effect_type = $2` + newestOpen,
	},
	"processing": {
		`SELECT ` + ticketsWhere + `status = 'processing' AND $2 = ''` + newestOpen,
		`SELECT ` + ticketsWhere + `status = 'processing' AND +effect_type = $2` + newestOpen,
	},
	"dead": {
		`SELECT ` + ticketsWhere + `status = 'dead' AND id < $1 AND $2 = ''` + newest,
		`SELECT ` + ticketsWhere + `status = 'dead' AND effect_type = $2 AND id < $1` + aside + newest,
	},
	"review": {
		`SELECT ` + ticketsWhere + `status = 'review' AND id < $1 AND $2 = ''` + newest,
		`SELECT ` + ticketsWhere + `status = 'review' AND effect_type = $2 AND id < $1` + aside + newest,
	},
	"discarded": {
		`SELECT ` + ticketsWhere + `status = 'discarded' AND id < $1 AND $2 = ''` + newest,
		`SELECT ` + ticketsWhere + `status = 'discarded' AND effect_type = $2 AND id < $1` + aside + newest,
	},
}

// An order has few tickets, by outbox_order_id: the rest is chosen among them.
const sqlTicketsOrder = `SELECT ` + ticketColumns + ` FROM outbox WHERE aggregate_id = $4 AND id < $1 AND ($2 = '' OR effect_type = $2)
	AND ($5 = '' OR status = $5) ORDER BY id DESC LIMIT $3`

// IsStatus reports whether s is one of the six states of a ticket.
func IsStatus(s string) bool { return s != "" && ticketLists[s].all != "" }

// Tickets lists tickets newest first; of a state that does not exist there are none.
func (tx *Tx) Tickets(f TicketFilter) ([]Ticket, error) {
	lists, known := ticketLists[f.Status]
	if !known {
		return []Ticket{}, nil
	}
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	if f.OrderID != "" {
		return collect(tx, sqlTicketsOrder, []any{before, f.EffectType, f.Limit, f.OrderID, f.Status}, scanTicket)
	}
	if f.Status == "done" { // the one state that is walked to: not past two million for nothing
		if n, err := tx.doneOf(f.EffectType); err != nil || n == 0 {
			return []Ticket{}, err
		}
	}
	text := lists.all
	if f.EffectType != "" {
		text = lists.ofType
	}
	return collect(tx, text, []any{before, f.EffectType, f.Limit}, scanTicket)
}

const sqlDoneOf = `SELECT coalesce(sum(n), 0) FROM ticket_counts WHERE status = 'done' AND ($1 = '' OR effect_type = $1)`

// doneOf is how many tickets of a type are done, or of all.
func (tx *Tx) doneOf(effectType string) (n int64, err error) {
	_, err = tx.find(sqlDoneOf, []any{effectType}, &n)
	return n, err
}

const sqlTicket = `SELECT ` + ticketColumns + ` FROM outbox WHERE id = $1`

// Ticket returns one ticket.
func (tx *Tx) Ticket(id int64) (Ticket, error) {
	t, found, err := first(tx, sqlTicket, []any{id}, scanTicket)
	if err == nil && !found {
		err = ErrNotFound
	}
	return t, err
}

// Attempt is one send, one lookup, or one claim that came to something without either.
type Attempt struct {
	ID         int64   `json:"id"`
	TicketID   int64   `json:"ticket_id"`
	Kind       string  `json:"kind"` // "claim", "send" or "lookup"
	ClaimToken string  `json:"claim_token"`
	Target     string  `json:"target"`
	Address    string  `json:"address"`
	BegunAt    int64   `json:"begun_at"`
	EndedAt    *int64  `json:"ended_at"`
	Outcome    *string `json:"outcome"` // nil while nobody knows
	HTTPStatus int64   `json:"http_status"`
	Receipt    string  `json:"receipt"` // the target's own id of what it did
	Detail     string  `json:"detail"`
	Seq        int64   `json:"seq"`
	EndedSeq   int64   `json:"ended_seq"`
	ClosedSeq  int64   `json:"closed_seq"` // not 0: it was cleared up what came of it
}

const attemptColumns = `id, ticket_id, kind, claim_token, target, address, begun_at, ended_at, outcome, http_status, receipt, detail,
	seq, ended_seq, closed_seq`

func scanAttempt(scan func(...any) error, a *Attempt) error {
	return scan(&a.ID, &a.TicketID, &a.Kind, &a.ClaimToken, &a.Target, &a.Address, &a.BegunAt, &a.EndedAt, &a.Outcome,
		&a.HTTPStatus, &a.Receipt, &a.Detail, &a.Seq, &a.EndedSeq, &a.ClosedSeq)
}

const sqlAttempts = `SELECT ` + attemptColumns + ` FROM attempts WHERE ticket_id = $1 ORDER BY id`

// Attempts lists a ticket's attempts in the order in which they began.
func (tx *Tx) Attempts(ticketID int64) ([]Attempt, error) {
	return collect(tx, sqlAttempts, []any{ticketID}, scanAttempt)
}

const sqlInsertAttempt = `INSERT INTO attempts (ticket_id, claim_token, begun_at, ended_at, outcome, detail, seq, ended_seq)
	VALUES ($1, $2, $3, $3, $4, $5, $6, $6)`

// noteAttempt writes down a try that has ended.
func (tx *Tx) noteAttempt(ticketID int64, token, outcome, detail string) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	_, err = tx.exec(sqlInsertAttempt, ticketID, token, tx.now, outcome, detail, seq)
	return err
}

// LedgerRow is one effect that happened.
type LedgerRow struct {
	EffectKey  string `json:"effect_key"`
	OrderID    string `json:"order_id"`
	EffectType string `json:"effect_type"`
	Status     string `json:"status"`
	CreatedAt  int64  `json:"created_at"`
	How        string `json:"how"`
	Seq        int64  `json:"seq"`
}

const ledgerColumns = `effect_key, order_id, effect_type, status, created_at, how, seq`

func scanLedger(scan func(...any) error, l *LedgerRow) error {
	return scan(&l.EffectKey, &l.OrderID, &l.EffectType, &l.Status, &l.CreatedAt, &l.How, &l.Seq)
}

// By key, since the ledger is clustered by it and a key never changes.
const sqlLedgerPage = `SELECT ` + ledgerColumns + ` FROM ledger WHERE effect_key > $1 ORDER BY effect_key LIMIT $2`

// Ledger lists the ledger by key, beginning after the given one.
func (tx *Tx) Ledger(afterKey string, limit int) ([]LedgerRow, error) {
	return collect(tx, sqlLedgerPage, []any{afterKey, limit}, scanLedger)
}

// EffectRow is one effect that went out into the lab's world.
type EffectRow struct {
	ID         int64  `json:"id"`
	EffectKey  string `json:"effect_key"`
	EffectType string `json:"effect_type"`
	OrderID    string `json:"order_id"`
	OccurredAt int64  `json:"occurred_at"`
	Seq        int64  `json:"seq"`
}

const effectColumns = `id, effect_key, effect_type, order_id, occurred_at, seq`

func scanEffect(scan func(...any) error, e *EffectRow) error {
	return scan(&e.ID, &e.EffectKey, &e.EffectType, &e.OrderID, &e.OccurredAt, &e.Seq)
}

const sqlEffectsPage = `SELECT ` + effectColumns + ` FROM external_effects_log WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2`

// Effects lists the effects of the lab's world newest first, below the given id; 0 means all.
func (tx *Tx) Effects(before int64, limit int) ([]EffectRow, error) {
	return collect(tx, sqlEffectsPage, []any{before, limit}, scanEffect)
}
