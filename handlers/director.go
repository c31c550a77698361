package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"comanda/handlers/order"
	"comanda/store"
)

// The states of an answer and of an event.
const (
	statusAccepted       = "accepted"
	statusDuplicate      = "duplicate"
	statusAlreadyDecided = "already_decided"
	outcomeDecided       = "decided"
)

// Answer is what the sender of an event is told once it is on disk.
type Answer struct {
	Status   string   `json:"status"` // accepted, duplicate or already_decided
	EventID  string   `json:"event_id"`
	OrderID  string   `json:"order_id"`
	CreditOK bool     `json:"credit_ok"`
	Decision string   `json:"decision"`         // refund or inventory
	Tickets  []string `json:"tickets"`          // idempotency keys
	Differs  []string `json:"differs,omitzero"` // fields in which the event contradicts the standing decision; nil if it was the first
}

// Director is order-triage: it takes an event, deduplicates it, classifies its order, checks credit
// and writes its decision as tickets, in one transaction.
type Director struct {
	DB         *store.DB
	Credit     CreditSource       // nil asks the local book
	CreditWait time.Duration      // how long a credit check may take; 0 means 15 s
	Crash      func(point string) // nil does nothing
}

func (d *Director) crash(point string) {
	if d.Crash != nil {
		d.Crash(point)
	}
}

// Arrival is what is known of an event beside its body.
type Arrival struct {
	Sender         order.Sender
	Source         string // the sender's name; "" has no path of its own
	WebhookID      string // as signature.ID gives it
	ClockUntrusted string // why the wall clock is not to be trusted now, or ""
}

// incoming is an event on its way to a decision.
type incoming struct {
	order  *order.Order
	body   []byte
	digest []byte
	from   Arrival
}

// Triage takes the raw body of one event. When it returns an answer, what the answer says is on disk.
// Its errors are Problems, or errors of the store that problemOf translates.
func (d *Director) Triage(ctx context.Context, from Arrival, body []byte) (Answer, error) {
	o, err := order.DecodeFrom(body, from.Sender)
	if err != nil {
		return Answer{}, refusedOrder(err)
	}
	digest := o.Digest()
	in := incoming{order: o, body: body, digest: digest[:], from: from}

	if d.Credit == nil && d.DB.GetsOn() {
		return d.decideAtOnce(ctx, in)
	}
	seen, err := d.look(ctx, in)
	if err != nil {
		return Answer{}, fmt.Errorf("look up the event: %w", err)
	}
	if seen.isEvent {
		return in.again(seen)
	}
	var verdict Verdict
	if !seen.isDecided {
		if verdict, err = d.askCredit(ctx, o); err != nil {
			return Answer{}, err
		}
	}
	answer, _, err := d.decideOnce(ctx, in, verdict)
	return answer, err
}

// decideAtOnce is for the local book, which nobody waits for: the look-ups in the deciding transaction are the only
// ones. Where that transaction does not come to its end (a full disk, a held file) an event that was accepted before is
// answered all the same.
func (d *Director) decideAtOnce(ctx context.Context, in incoming) (Answer, error) {
	verdict, err := d.askCredit(ctx, in.order)
	if err != nil {
		return Answer{}, err
	}
	answer, known, err := d.decideOnce(ctx, in, verdict)
	if fault := new(Problem); err == nil || errors.As(err, &fault) || errors.Is(err, store.ErrUnknownOutcome) && !known {
		return answer, err
	}
	if seen, lookErr := d.look(ctx, in); lookErr == nil && seen.isEvent {
		return in.again(seen)
	}
	return Answer{}, err
}

// refusedOrder is the decoder's problem with its status.
func refusedOrder(err error) error {
	var p *order.Problem
	if !errors.As(err, &p) {
		return err
	}
	status := http.StatusBadRequest
	if p.Type == "invalid-order" {
		status = http.StatusUnprocessableEntity
	}
	return &Problem{Status: status, Name: p.Type, Detail: p.Detail, Faults: p.Faults}
}

// findings is what the file knows about an event and its order.
type findings struct {
	isEvent   bool
	event     store.Event
	isDecided bool
	order     store.Order
}

// look makes the look-ups on what is on disk now.
func (d *Director) look(ctx context.Context, in incoming) (seen findings, err error) {
	err = d.DB.View(ctx, func(tx *store.Tx) (err error) {
		seen, err = in.lookUp(tx)
		return err
	})
	return seen, err
}

// lookUp makes the first two look-ups: the event id, then the order's standing decision.
func (in incoming) lookUp(tx *store.Tx) (f findings, err error) {
	if known, err := tx.Known(in.order.EventID, in.order.OrderID); err != nil || !known {
		return f, err
	}
	if f.event, f.isEvent, err = tx.Event(in.order.EventID); err != nil {
		return f, err
	}
	f.order, f.isDecided, err = tx.Order(in.order.OrderID)
	return f, err
}

// again answers an event whose id was accepted before: the same answer for the same order, and a
// refusal for another one.
func (in incoming) again(f findings) (Answer, error) {
	if !in.sameOrder(f.event) {
		return Answer{}, &Problem{Status: http.StatusUnprocessableEntity, Name: "event-id-reused",
			Detail:  "this event_id was accepted before with another order; an event_id names one order for ever",
			eventID: in.order.EventID}
	}
	if !f.isDecided {
		return Answer{}, fmt.Errorf("event %q is kept and the decision on its order is not", in.order.EventID)
	}
	a := in.answer(statusDuplicate, f.order)
	if f.event.Outcome == statusAlreadyDecided {
		a.Differs = []string{}
		if err := json.Unmarshal(f.event.Differs, &a.Differs); err != nil {
			return Answer{}, fmt.Errorf("read what event %q says otherwise: %w", in.order.EventID, err)
		}
	}
	return a, nil
}

// sameOrder compares by digest. A row without one was put in by another client: its body tells.
func (in incoming) sameOrder(e store.Event) bool {
	if len(e.Digest) > 0 {
		return bytes.Equal(e.Digest, in.digest)
	}
	first, err := order.DecodeFrom(e.Body, order.Sender{Prefix: idPrefix(e.Source)})
	if err != nil {
		return e.OrderID == in.order.OrderID
	}
	digest := first.Digest()
	return bytes.Equal(digest[:], in.digest)
}

// answer tells a standing decision.
func (in incoming) answer(status string, standing store.Order) Answer {
	return Answer{
		Status:   status,
		EventID:  in.order.EventID,
		OrderID:  standing.OrderID,
		CreditOK: standing.CreditOK,
		Decision: standing.Decision,
		Tickets:  decide(standingOrder(standing), standing.CreditOK).keys(),
	}
}

// decideOnce is the deciding transaction. The look-ups are made again in it, and only these count.
// A refusal is a result, not an error: an error would make the whole group run again. known says whether the event
// was found there.
func (d *Director) decideOnce(ctx context.Context, in incoming, verdict Verdict) (answer Answer, known bool, err error) {
	var refusal error
	crashed := false // the transaction may run more than once, the crash point counts orders
	err = d.DB.Accept(ctx, func(tx *store.Tx) error {
		answer, refusal, known = Answer{}, nil, false
		f, err := in.lookUp(tx)
		switch {
		case err != nil:
			return err
		case f.isEvent:
			answer, refusal = in.again(f)
			known = true
			return nil
		case f.isDecided:
			answer, err = in.recordLate(tx, f.order)
			return err
		}
		if answer, err = in.record(tx, verdict); err == nil && !crashed {
			crashed = true
			d.crash("triage.before_commit")
		}
		return err
	})
	if err != nil {
		return Answer{}, known, fmt.Errorf("decide: %w", err)
	}
	if refusal == nil && answer.Status == statusAccepted {
		d.crash("triage.after_commit")
	}
	return answer, known, refusal
}

// record decides the order and writes the event, the decision and the tickets.
func (in incoming) record(tx *store.Tx, verdict Verdict) (Answer, error) {
	if verdict == nil { // it was decided a moment ago: a file restored under a running server
		return Answer{}, notNow("busy", 1, "the standing decision is gone; nothing was kept", nil)
	}
	credit, err := verdict(tx)
	if err != nil {
		return Answer{}, err
	}
	d := decide(in.order, credit.OK)
	standing := row(in.order, credit, d)
	if _, err := tx.Record(store.Decision{Event: in.event(outcomeDecided, nil), Order: standing, Tickets: d.tickets}); err != nil {
		return Answer{}, err
	}
	return Answer{Status: statusAccepted, EventID: in.order.EventID, OrderID: in.order.OrderID, CreditOK: credit.OK, Decision: d.name, Tickets: d.keys()}, nil
}

// recordLate keeps an event that came for an order which has its decision.
func (in incoming) recordLate(tx *store.Tx, standing store.Order) (Answer, error) {
	a := in.answer(statusAlreadyDecided, standing)
	a.Differs = order.Differs(standingOrder(standing), in.order)
	if a.Differs == nil {
		a.Differs = []string{}
	}
	_, err := tx.Record(store.Decision{Event: in.event(statusAlreadyDecided, a.Differs)})
	return a, err
}

// event is the row of this event; the store puts in the time.
func (in incoming) event(outcome string, differs []string) store.Event {
	e := store.Event{EventID: in.order.EventID, OrderID: in.order.OrderID, Body: in.body, Digest: in.digest, Outcome: outcome,
		Source: in.from.Source, WebhookID: in.from.WebhookID, ClockUntrusted: in.from.ClockUntrusted}
	if differs != nil {
		e.Differs = []byte(text(differs))
	}
	return e
}
