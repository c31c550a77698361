package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Story is everything that the file knows about one order.
type Story struct {
	Order    *Order        `json:"order"` // nil when only tickets put in by hand name the order
	Decision *string       `json:"decision"`
	Events   []Event       `json:"events"`
	Tickets  []Ticket      `json:"tickets"`
	Attempts []Attempt     `json:"attempts"`
	Ledger   []LedgerRow   `json:"ledger"`
	Effects  []EffectRow   `json:"effects"`
	Acts     []OperatorAct `json:"-"` // of operators, on the order and its tickets: lines of the timeline
	Copies   []Copies      `json:"-"` // of its events, that came after them: lines of the timeline
	Refused  []RefusedBody `json:"-"` // that name one of its events: lines of the timeline
	Timeline []Moment      `json:"timeline"`
}

// OperatorAct is one line of the operator log.
type OperatorAct struct {
	ID      int64
	Seq     int64
	At      int64 // Unix milliseconds
	Who     string
	Action  string
	Subject string // "ticket 12", or an order's id
	Detail  string
}

const actColumns = `id, seq, at, who, action, subject, detail`

func scanAct(scan func(...any) error, a *OperatorAct) error {
	return scan(&a.ID, &a.Seq, &a.At, &a.Who, &a.Action, &a.Subject, &a.Detail)
}

// By operator_log_subject. $2 is what the acts begin with: a customer or a target may be called like the order.
const sqlActs = `SELECT ` + actColumns + ` FROM operator_log WHERE subject = $1 AND substr(action, 1, length($2)) = $2 ORDER BY id`

func (tx *Tx) acts(kind, subject string) ([]OperatorAct, error) {
	return collect(tx, sqlActs, []any{subject, kind}, scanAct)
}

const sqlActsPage = `SELECT ` + actColumns + ` FROM operator_log WHERE id < $1 ORDER BY id DESC LIMIT $2`

// OperatorLog lists what operators did, and the relay in their place, newest first, below the given id; 0 means all.
func (tx *Tx) OperatorLog(before int64, limit int) ([]OperatorAct, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return collect(tx, sqlActsPage, []any{before, limit}, scanAct)
}

// Moment is one line of a timeline. Moments are ordered by Seq, the one sequence over all tables,
// never by the clock.
type Moment struct {
	Seq  int64  `json:"seq"`
	At   int64  `json:"at"` // Unix milliseconds, as the clock was then
	Kind string `json:"kind"`
	Text string `json:"text"`

	// The same for whoever says it in another language: which sentence, the pairs of name and value that it names,
	// and what others have said of it.
	Phrase string `json:"-"`
	Names  []any  `json:"-"`
	Detail string `json:"-"`
}

// telling adds a moment: its text in English, and what is said of it in any language.
type telling func(seq, at int64, kind, text, phrase, detail string, names ...any)

const (
	sqlOrderEvents  = `SELECT ` + eventColumns + ` FROM events WHERE order_id = $1 ORDER BY seq`
	sqlOrderTickets = `SELECT ` + ticketColumns + ` FROM outbox WHERE aggregate_id = $1 ORDER BY id`
	sqlOrderLedger  = `SELECT ` + ledgerColumns + ` FROM ledger WHERE order_id = $1 ORDER BY seq, effect_key`
	sqlOrderEffects = `SELECT ` + effectColumns + ` FROM external_effects_log WHERE order_id = $1 ORDER BY id`
)

// Story returns the story of an order, or ErrNotFound.
func (tx *Tx) Story(orderID string) (Story, error) {
	var s Story
	o, found, err := first(tx, sqlOrder, []any{orderID}, scanOrder)
	if err != nil {
		return s, err
	}
	if found {
		s.Order, s.Decision = &o, &o.Decision
	}
	args := []any{orderID}
	if s.Events, err = collect(tx, sqlOrderEvents, args, scanEvent); err != nil {
		return s, err
	}
	if s.Tickets, err = collect(tx, sqlOrderTickets, args, scanTicket); err != nil {
		return s, err
	}
	if s.Ledger, err = collect(tx, sqlOrderLedger, args, scanLedger); err != nil {
		return s, err
	}
	if s.Effects, err = collect(tx, sqlOrderEffects, args, scanEffect); err != nil {
		return s, err
	}
	if s.Copies, err = tx.copiesOf(orderID); err != nil {
		return s, err
	}
	if s.Refused, err = collect(tx, sqlOrderRefused, args, scanRefused); err != nil {
		return s, err
	}
	if err := tx.ticketStories(&s, orderID); err != nil {
		return s, err
	}
	if !found && len(s.Events)+len(s.Tickets)+len(s.Ledger)+len(s.Effects) == 0 {
		return s, ErrNotFound
	}
	s.Timeline = s.timeline()
	return s, nil
}

// ticketStories adds what was tried for the tickets, and what operators did.
func (tx *Tx) ticketStories(s *Story, orderID string) (err error) {
	s.Attempts = []Attempt{}
	if s.Acts, err = tx.acts("order ", orderID); err != nil {
		return err
	}
	for _, t := range s.Tickets {
		attempts, err := tx.Attempts(t.ID)
		if err != nil {
			return err
		}
		acts, err := tx.acts("ticket ", TicketSubject(t.ID))
		if err != nil {
			return err
		}
		s.Attempts, s.Acts = append(s.Attempts, attempts...), append(s.Acts, acts...)
	}
	return nil
}

// timeline tells the rows in the order in which they came to be. What one transaction wrote under
// one number stands in the order of cause and effect.
func (s *Story) timeline() []Moment {
	m := []Moment{}
	add := func(seq, at int64, kind, text, phrase, detail string, names ...any) {
		m = append(m, Moment{Seq: seq, At: at, Kind: kind, Text: text, Phrase: phrase, Detail: detail, Names: names})
	}
	for _, e := range s.Events {
		if e.Outcome == "already_decided" {
			add(e.Seq, e.ReceivedAt, "already_decided", fmt.Sprintf("event %s came for an order that was decided%s", e.EventID, e.otherwise()),
				"late", strings.Join(e.differing(), ", "), "Event", e.EventID)
		} else {
			add(e.Seq, e.ReceivedAt, "event", "event "+e.EventID+" accepted", "event", "", "Event", e.EventID)
		}
	}
	for _, c := range s.Copies {
		add(c.Seq, c.LastAt, "copies", fmt.Sprintf("event %s came again: %d times by then", c.EventID, c.Copies), "copies", "", "Event", c.EventID, "N", c.Copies)
	}
	for _, r := range s.Refused {
		add(r.Seq, r.ReceivedAt, "refused", fmt.Sprintf("a body under event %s was refused: %s", r.EventID, r.Problem), "refused", r.Problem, "Event", r.EventID)
	}
	if o := s.Order; o != nil {
		add(o.Seq, o.DecidedAt, "decided", fmt.Sprintf("%s %s for customer %s: credit_ok=%t, decision %s", o.Amount, o.Currency, o.CustomerID, o.CreditOK, o.Decision),
			"decided_"+o.Decision, "", "Amount", o.Amount, "Currency", o.Currency, "Customer", o.CustomerID)
	}
	for _, t := range s.Tickets {
		id := digits(t.ID)
		add(t.Seq, t.CreatedAt, "ticket", "ticket "+id+" "+t.Key+" put on the rail", "ticket", "", "Ticket", id, "Key", t.Key)
		if t.ClaimedSeq > 0 && t.ClaimedAt != nil {
			add(t.ClaimedSeq, *t.ClaimedAt, "claimed", fmt.Sprintf("ticket %s claimed (claim %d)", id, t.Attempts), "claimed", "", "Ticket", id, "Claim", digits(t.Attempts))
		}
	}
	for _, a := range s.Attempts {
		a.tell(add)
	}
	for _, e := range s.Effects {
		add(e.Seq, e.OccurredAt, "effect", e.EffectType+" "+e.EffectKey+" went out", "effect", "", "Key", e.EffectKey)
	}
	for _, l := range s.Ledger {
		add(l.Seq, l.CreatedAt, "ledger", fmt.Sprintf("%s noted as done (%s)", l.EffectKey, l.How), "ledger_"+l.How, "", "Key", l.EffectKey)
	}
	for _, a := range s.Acts {
		add(a.Seq, a.At, "operator", fmt.Sprintf("%s by %s%s", a.Action, a.Who, because(a.Detail)), "operator", a.Detail, "Action", a.Action, "Who", a.Who)
	}
	for _, t := range s.Tickets {
		if t.EndedSeq > 0 && t.Status != "pending" && t.Status != "processing" {
			at := s.lastAt(t)
			add(t.EndedSeq, at, t.Status, fmt.Sprintf("ticket %d is %s%s", t.ID, inState[t.Status], because(t.Detail)), "is_"+t.Status, t.Detail, "Ticket", digits(t.ID))
		}
	}
	slices.SortStableFunc(m, func(a, b Moment) int { return cmp.Compare(a.Seq, b.Seq) })
	return m
}

// tell adds an attempt: what it was about to do, and what it found out.
func (a Attempt) tell(add telling) {
	id := digits(a.TicketID)
	if a.Kind == "claim" {
		add(max(a.Seq, a.EndedSeq), *a.EndedAt, "attempt", fmt.Sprintf("ticket %s: %s: %s", id, *a.Outcome, a.Detail), "outcome", a.Detail, "Ticket", id, "Outcome", *a.Outcome)
		return
	}
	what := map[string]string{"send": "sent to", "lookup": "asked whether it happened at"}[a.Kind]
	add(a.Seq, a.BegunAt, a.Kind, fmt.Sprintf("ticket %s: %s %s", id, what, a.Address), a.Kind, "", "Ticket", id, "Address", a.Address)
	if a.Outcome == nil {
		add(a.Seq, a.BegunAt, a.Kind, "ticket "+id+": nobody knows what came of that", "open", "", "Ticket", id)
		return
	}
	receipt := ""
	if a.Receipt != "" {
		receipt = ", receipt " + a.Receipt
	}
	add(a.EndedSeq, *a.EndedAt, a.Kind, fmt.Sprintf("ticket %s: %s: %s%s", id, *a.Outcome, a.Detail, receipt), "outcome", strings.TrimPrefix(a.Detail+receipt, ", "), "Ticket", id, "Outcome", *a.Outcome)
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

// lastAt is when a ticket came to its present state; review has no time of its own, so its last
// attempt's is taken.
func (s *Story) lastAt(t Ticket) int64 {
	if t.ProcessedAt != nil {
		return *t.ProcessedAt
	}
	at := t.CreatedAt
	for _, a := range s.Attempts {
		if a.TicketID == t.ID && a.EndedAt != nil {
			at = *a.EndedAt
		}
	}
	return at
}

// inState is how a state is said of a ticket.
var inState = map[string]string{"done": "done", "dead": "dead", "discarded": "discarded", "review": "in review"}

// otherwise names what an event says otherwise than the standing decision.
func (e Event) otherwise() string {
	if names := e.differing(); len(names) > 0 {
		return "; it says otherwise: " + strings.Join(names, ", ")
	}
	return ""
}

func (e Event) differing() (names []string) {
	_ = json.Unmarshal(e.Differs, &names) // what is no list names nothing
	return names
}

func because(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// The list of orders runs newest decision first; rowid is the order of insertion.
const sqlOrdersPage = `SELECT ` + orderColumns + ` FROM orders WHERE ($1 = 0 OR seq < $1) ORDER BY rowid DESC LIMIT $2`

// A search runs over the primary key: ids that begin with $1, after $2.
const sqlOrdersSearch = `SELECT ` + orderColumns + ` FROM orders WHERE order_id >= $1 AND order_id < $1 || char(1114111) AND order_id > $2
	ORDER BY order_id LIMIT $3`

// Orders lists orders newest first, those with a seq below the given one; 0 means all.
func (tx *Tx) Orders(before int64, limit int) ([]Order, error) {
	return collect(tx, sqlOrdersPage, []any{before, limit}, scanOrder)
}

// SearchOrders lists orders whose id begins with prefix, by id, after the given one.
func (tx *Tx) SearchOrders(prefix, after string, limit int) ([]Order, error) {
	return collect(tx, sqlOrdersSearch, []any{prefix, after, limit}, scanOrder)
}
