package store

import "fmt"

// Change is one line of what happens to a file. Changes come in the order of Seq, the one sequence over all tables.
type Change struct {
	Seq      int64  `json:"seq"`
	At       int64  `json:"at"` // Unix milliseconds, as the clock was then
	Kind     string `json:"kind"`
	Text     string `json:"text"`
	OrderID  string `json:"order_id,omitempty"`
	TicketID int64  `json:"ticket_id,omitempty"`
	Target   string `json:"target,omitempty"`
}

// teller adds what the row with an id tells of itself.
type teller func(tx *Tx, id int64, add func(Change, ...Moment)) error

// moments collects what a row tells of itself.
func moments(tell func(telling)) (all []Moment) {
	tell(func(seq, at int64, kind, text, _, _ string, _ ...any) {
		all = append(all, Moment{Seq: seq, At: at, Kind: kind, Text: text})
	})
	return all
}

const (
	sqlOrderRow   = `SELECT ` + orderColumns + ` FROM orders WHERE rowid = $1`
	sqlEventRow   = `SELECT ` + eventColumns + ` FROM events WHERE rowid = $1`
	sqlActRow     = `SELECT ` + actColumns + ` FROM operator_log WHERE id = $1`
	sqlAttemptRow = `SELECT ` + attemptColumns + ` FROM attempts WHERE id = $1`
)

func tellOrder(tx *Tx, id int64, add func(Change, ...Moment)) error {
	o, ok, err := first(tx, sqlOrderRow, []any{id}, scanOrder)
	if ok {
		add(Change{OrderID: o.OrderID}, moments(o.tell)...)
	}
	return err
}

func tellEvent(tx *Tx, id int64, add func(Change, ...Moment)) error {
	e, ok, err := first(tx, sqlEventRow, []any{id}, scanEvent)
	if !ok {
		return err
	}
	for _, m := range moments(e.tell) {
		if m.Kind != "event" { // its order's decision says that
			add(Change{OrderID: e.OrderID}, m)
		}
	}
	return err
}

func tellAct(tx *Tx, id int64, add func(Change, ...Moment)) error {
	a, ok, err := first(tx, sqlActRow, []any{id}, scanAct)
	if !ok {
		return err
	}
	about, subject := Change{}, ""
	if _, scanErr := fmt.Sscanf(a.Subject, "ticket %d", &about.TicketID); scanErr == nil {
		t, err := tx.Ticket(about.TicketID)
		if err == nil {
			about.OrderID = t.AggregateID
		}
	}
	if a.Subject != "" {
		subject = a.Subject + ": "
	}
	add(about, Moment{Seq: a.Seq, At: a.At, Kind: "operator", Text: fmt.Sprintf("%s%s by %s%s", subject, a.Action, a.Who, because(a.Detail))})
	return nil
}

// tellAttempt hands on an attempt and what it is about.
func tellAttempt(tx *Tx, id int64, say func(Attempt, Change)) error {
	a, ok, err := first(tx, sqlAttemptRow, []any{id}, scanAttempt)
	if err != nil || !ok {
		return err
	}
	t, err := tx.Ticket(a.TicketID)
	if err == nil {
		say(a, Change{OrderID: t.AggregateID, TicketID: a.TicketID, Target: a.Target})
	}
	return ignoreGone(err)
}

func tellBegun(tx *Tx, id int64, add func(Change, ...Moment)) error {
	return tellAttempt(tx, id, func(a Attempt, about Change) { add(about, moments(a.tell)[0]) })
}

func tellEnded(tx *Tx, id int64, add func(Change, ...Moment)) error {
	return tellAttempt(tx, id, func(a Attempt, about Change) { add(about, moments(a.tell)[1:]...) })
}

func tellClaim(tx *Tx, id int64, add func(Change, ...Moment)) error {
	t, err := tx.Ticket(id)
	if err != nil {
		return ignoreGone(err)
	}
	for _, m := range moments(t.tellBegin) {
		if m.Kind == "claimed" {
			add(Change{OrderID: t.AggregateID, TicketID: id}, m)
		}
	}
	return nil
}

func tellEnd(tx *Tx, id int64, add func(Change, ...Moment)) error {
	t, err := tx.Ticket(id)
	if err != nil {
		return ignoreGone(err)
	}
	s := Story{}
	if t.ProcessedAt == nil {
		if s.Attempts, err = tx.Attempts(id); err != nil {
			return err
		}
	}
	add(Change{OrderID: t.AggregateID, TicketID: id}, moments(func(add telling) { t.tellEnd(add, s.lastAt(t)) })...)
	return nil
}

// ignoreGone: a ticket that somebody has deleted meanwhile has nothing to tell.
func ignoreGone(err error) error {
	if err == ErrNotFound {
		return nil
	}
	return err
}
