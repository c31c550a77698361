// Package hand is what an operator does to tickets, for the API, the command line and the console alike: first a preview of
// what would follow, then the same over exactly the tickets that were shown.
package hand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bojanz/currency"

	"comanda/store"
)

// MostAtOnce is how many tickets one act may name.
const MostAtOnce = 1000

// Act is one act over several tickets.
type Act struct {
	store.HandAct
	IDs         []int64
	LedgerTypes map[string]string // what the ledger calls the effect of each ticket type
	Seen        map[int64]string  // by id, how the operator saw a ticket stand (One.Mark); what stands otherwise now is left alone
}

// One is what becomes, or would become, of one ticket.
type One struct {
	ID     int64  `json:"id"`
	Key    string `json:"idempotency_key,omitempty"`
	Effect string `json:"effect_type,omitempty"`
	State  string `json:"state"`           // as it is now
	Mark   string `json:"mark,omitempty"`  // how it stands: another one when anything has happened to it
	Why    string `json:"reason,omitzero"` // of a refusal

	OrderID    string          `json:"-"`
	SentBefore bool            `json:"-"` // the target may have seen its key
	Objection  store.Objection `json:"-"` // the same as Why, as a word; NoTicket, or "" for no refusal
	payload    string
}

// NoTicket is the objection against an act on a ticket that does not exist.
const NoTicket store.Objection = "no_ticket"

// Kind is so many tickets of one effect, of which the target has or has not seen the keys.
type Kind struct {
	Effect     string // as the ledger calls it
	SentBefore bool
	N          int
}

// Report is what an act does, or would do.
type Report struct {
	Text    string `json:"text"` // one sentence
	Preview bool   `json:"preview"`
	Tickets []One  `json:"tickets"` // those that the act is for
	Refused []One  `json:"refused"` // those whose state does not allow it

	Kinds []Kind            `json:"-"` // of Tickets, by effect
	Sums  []currency.Amount `json:"-"` // of the refunds among Tickets, one a currency
}

// Problem is an act that makes no sense whatever the tickets are.
type Problem string

func (p Problem) Error() string { return string(p) }

// check refuses acts that lack what they need.
func (a Act) check() error {
	switch {
	case len(a.IDs) == 0:
		return Problem("name at least one ticket")
	case len(a.IDs) > MostAtOnce:
		return Problem(fmt.Sprintf("name at most %d tickets at once", MostAtOnce))
	case a.Do != store.ActRetry && strings.TrimSpace(a.Reason) == "":
		return Problem("give a reason: it is kept in the operator log")
	}
	return errors.Join(CheckReason(a.Reason), CheckReason(a.Reference))
}

// longestReason bounds what a person writes into the operator log, in bytes.
const longestReason = 1000

// CheckReason returns a Problem for a text that the operator log does not take.
func CheckReason(text string) error {
	switch {
	case len(text) > longestReason:
		return Problem(fmt.Sprintf("reason and reference may have %d bytes each", longestReason))
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return Problem("reason and reference must be text")
	}
	return nil
}

// Preview tells what the act would do, and does nothing.
func (a Act) Preview(ctx context.Context, db *store.DB) (r Report, err error) {
	if err := a.check(); err != nil {
		return r, err
	}
	err = db.View(ctx, func(tx *store.Tx) error {
		r = Report{Preview: true, Tickets: []One{}, Refused: []One{}}
		return a.each(func(id int64) (store.Ticket, error) { return tx.MayAct(id, a.on(id)) }, &r)
	})
	a.sumUp(&r)
	return r, err
}

// Carry does the act, all of it in one transaction; a ticket whose state no longer allows it is left alone and
// told.
func (a Act) Carry(ctx context.Context, db *store.DB) (r Report, err error) {
	if err := a.check(); err != nil {
		return r, err
	}
	err = db.Update(ctx, func(tx *store.Tx) error {
		r = Report{Tickets: []One{}, Refused: []One{}}
		return a.each(func(id int64) (store.Ticket, error) {
			t, err := tx.Ticket(id)
			if err != nil {
				return t, err
			}
			act := a.on(id)
			act.LedgerType = a.ledgerType(t.EffectType)
			return tx.ByHand(id, act)
		}, &r)
	})
	a.sumUp(&r)
	return r, err
}

// on is the act on one of the tickets.
func (a Act) on(id int64) store.HandAct {
	act := a.HandAct
	act.Seen = a.Seen[id]
	return act
}

func (a Act) sumUp(r *Report) {
	r.Kinds, r.Sums = a.kinds(r.Tickets), amounts(r.Tickets)
	r.Text = a.says(*r)
}

// each tries every ticket once and sorts it into the report.
func (a Act) each(try func(id int64) (store.Ticket, error), r *Report) error {
	ids := slices.Clone(a.IDs)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		t, err := try(id)
		var conflict *store.Conflict
		switch {
		case errors.Is(err, store.ErrNotFound):
			r.Refused = append(r.Refused, One{ID: id, State: "unknown", Objection: NoTicket, Why: fmt.Sprintf("there is no ticket %d", id)})
		case errors.As(err, &conflict):
			r.Refused = append(r.Refused, One{ID: id, Key: t.Key, Effect: t.EffectType, State: conflict.State, Objection: conflict.Objection, Why: conflict.Why, OrderID: t.AggregateID})
		case err != nil:
			return err
		default:
			r.Tickets = append(r.Tickets, One{ID: id, Key: t.Key, Effect: t.EffectType, State: t.Status, Mark: t.Mark(), OrderID: t.AggregateID, SentBefore: t.WireKey != nil, payload: t.Payload})
		}
	}
	return nil
}

// says tells the report in a sentence: "this sends 3 calls: 1 refund with the same key, 2 never sent".
func (a Act) says(r Report) string {
	n := len(r.Tickets)
	var s string
	switch {
	case n == 0:
		s = "this does nothing"
	case a.Do == store.ActRetry:
		s = fmt.Sprintf("this sends %s: %s", count(n, "call"), kindsText(r.Kinds))
	case a.Do == store.ActDiscard:
		s = fmt.Sprintf("this discards %s, and nothing is sent for them", count(n, "ticket"))
	case a.Happened:
		s = fmt.Sprintf("this notes %s as happened, and nothing is sent for them", count(n, "effect"))
	default:
		s = fmt.Sprintf("this notes %s as not happened; the tickets become dead, and a retry would send them", count(n, "effect"))
	}
	if len(r.Sums) > 0 {
		s += "; " + sumsText(r.Sums) + " in all"
	}
	if len(r.Refused) > 0 {
		s += fmt.Sprintf("; %s left alone", count(len(r.Refused), "ticket"))
	}
	return s
}

// ledgerType is what the ledger calls an effect type; one that was put in by hand it calls the same.
func (a Act) ledgerType(effectType string) string {
	return cmp.Or(a.LedgerTypes[effectType], effectType)
}

// kinds counts the calls by effect, and by whether the target has seen their key.
func (a Act) kinds(tickets []One) (kinds []Kind) {
	for _, t := range tickets {
		name := a.ledgerType(t.Effect)
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Effect == name && k.SentBefore == t.SentBefore })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, Kind{Effect: name, SentBefore: t.SentBefore})
		}
		kinds[i].N++
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Compare(a.words(), b.words()) })
	return kinds
}

func (k Kind) words() string {
	if k.SentBefore {
		return k.Effect + " with the same key"
	}
	return k.Effect + " never sent"
}

func kindsText(kinds []Kind) string {
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = fmt.Sprintf("%d %s", k.N, k.words())
	}
	return strings.Join(parts, ", ")
}

// amounts sums up the money of refunds, by currency.
func amounts(tickets []One) (sums []currency.Amount) {
	for _, t := range tickets {
		if t.Effect != store.TicketIssueRefund {
			continue
		}
		money, ok := payloadMoney(t.payload)
		if !ok {
			continue
		}
		i := slices.IndexFunc(sums, func(a currency.Amount) bool { return a.CurrencyCode() == money.CurrencyCode() })
		if i < 0 {
			sums = append(sums, money)
		} else if sum, err := sums[i].Add(money); err == nil {
			sums[i] = sum
		}
	}
	slices.SortFunc(sums, func(a, b currency.Amount) int { return cmp.Compare(a.CurrencyCode(), b.CurrencyCode()) })
	return sums
}

func sumsText(sums []currency.Amount) string {
	parts := make([]string, len(sums))
	for i, sum := range sums {
		parts[i] = sum.Number() + " " + sum.CurrencyCode()
	}
	return strings.Join(parts, " and ")
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
