package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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

// timeline tells the rows in the order in which they came to be. What one transaction wrote under
// one number stands in the order of cause and effect.
func (s *Story) timeline() []Moment {
	m := []Moment{}
	add := func(seq, at int64, kind, text, phrase, detail string, names ...any) {
		m = append(m, Moment{Seq: seq, At: at, Kind: kind, Text: text, Phrase: phrase, Detail: detail, Names: names})
	}
	for _, e := range s.Events {
		e.tell(add)
	}
	for _, c := range s.Copies {
		add(c.Seq, c.LastAt, "copies", fmt.Sprintf("event %s came again: %d times by then", c.EventID, c.Copies), "copies", "", "Event", c.EventID, "N", c.Copies)
	}
	for _, r := range s.Refused {
		add(r.Seq, r.ReceivedAt, "refused", fmt.Sprintf("a body under event %s was refused: %s", r.EventID, r.Problem), "refused", r.Problem, "Event", r.EventID)
	}
	if s.Order != nil {
		s.Order.tell(add)
	}
	for _, t := range s.Tickets {
		t.tellBegin(add)
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
		t.tellEnd(add, s.lastAt(t))
	}
	slices.SortStableFunc(m, func(a, b Moment) int { return cmp.Compare(a.Seq, b.Seq) })
	return m
}

func (e Event) tell(add telling) {
	if e.Outcome == "already_decided" {
		add(e.Seq, e.ReceivedAt, "already_decided", fmt.Sprintf("event %s came for an order that was decided%s", e.EventID, e.otherwise()),
			"late", strings.Join(e.differing(), ", "), "Event", e.EventID)
	} else {
		add(e.Seq, e.ReceivedAt, "event", "event "+e.EventID+" accepted", "event", "", "Event", e.EventID)
	}
	if e.ClockUntrusted != "" {
		add(e.Seq, e.ReceivedAt, "clock", "the clock was not to be trusted when event "+e.EventID+" came: "+e.ClockUntrusted,
			"clock", e.ClockUntrusted, "Event", e.EventID)
	}
}

func (o Order) tell(add telling) {
	add(o.Seq, o.DecidedAt, "decided", fmt.Sprintf("%s %s for customer %s: credit_ok=%t, decision %s", o.Amount, o.Currency, o.CustomerID, o.CreditOK, o.Decision),
		"decided_"+o.Decision, "", "Amount", o.Amount, "Currency", o.Currency, "Customer", o.CustomerID)
}

// tellBegin adds that a ticket was put on the rail, and its last claim.
func (t Ticket) tellBegin(add telling) {
	id := digits(t.ID)
	add(t.Seq, t.CreatedAt, "ticket", "ticket "+id+" "+t.Key+" put on the rail", "ticket", "", "Ticket", id, "Key", t.Key)
	if t.ClaimedSeq > 0 && t.ClaimedAt != nil {
		add(t.ClaimedSeq, *t.ClaimedAt, "claimed", fmt.Sprintf("ticket %s claimed (claim %d)", id, t.Attempts), "claimed", "", "Ticket", id, "Claim", digits(t.Attempts))
	}
}

// tellEnd adds what became of a ticket that is not on the rail any more.
func (t Ticket) tellEnd(add telling, at int64) {
	if t.EndedSeq > 0 && t.Status != "pending" && t.Status != "processing" {
		add(t.EndedSeq, at, t.Status, fmt.Sprintf("ticket %d is %s%s", t.ID, inState[t.Status], because(t.Detail)), "is_"+t.Status, t.Detail, "Ticket", digits(t.ID))
	}
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
