package store

import (
	"fmt"
	"maps"
	"slices"
)

// Conflict is what stands in the way of an operator's act: the ticket's state, or a word for more than that.
type Conflict struct {
	State     string
	Objection Objection
	Why       string // its sentence
}

// Objection is one reason for which an act is refused: a word for whoever says it in another language.
type Objection string

// The objections.
const (
	alreadyDone      Objection = "done"
	alreadyDiscarded Objection = "discarded"
	inHand           Objection = "in_hand"
	didHappen        Objection = "happened"       // a person may say so
	willBeDone       Objection = "happened_alone" // the relay will
	beingTakenBack   Objection = "taken_back"
	underReview      Objection = "review"  // against a retry
	unclearSend      Objection = "unknown" // against a retry
	findingOut       Objection = "finding_out"
	resolveFirst     Objection = "resolve_first"
	resolveIt        Objection = "resolve"
	nothingOpen      Objection = "nothing_open"
	changedSince     Objection = "changed" // since the operator looked
)

// sentences say each objection of a ticket.
var sentences = map[Objection]string{
	alreadyDone:      "is done, and what is done is never run again",
	alreadyDiscarded: "was discarded, and stays so",
	inHand:           "is being carried out; look again when that has ended",
	didHappen:        "has its effect in the ledger: it happened; resolve it as that",
	willBeDone:       "has its effect in the ledger: it happened, and the relay notes it as done when its turn comes",
	beingTakenBack:   "is a line of an order that is being taken back",
	underReview:      `is in review: ask the target whether it happened and resolve it, or confirm with "send again" that it may go out a second time`,
	unclearSend:      `has a send of which nobody knows what came: resolve it, or confirm with "send again"`,
	findingOut:       "has a send of which nobody knows what came, and the relay is finding out: look again when that has ended",
	resolveFirst:     "has a send of which nobody knows what came: resolve it first",
	resolveIt:        "is in review: resolve it",
	changedSince:     "is not as it was when you looked: look again",
	nothingOpen:      "has nothing to resolve: nobody doubts what came of it",
}

// Objections are all that there are, by their word.
func Objections() []Objection { return slices.Sorted(maps.Keys(sentences)) }

func (c *Conflict) Error() string { return c.Why }

// The acts of an operator.
const (
	ActRetry   = "retry"
	ActDiscard = "discard"
	ActResolve = "resolve"
)

// HandAct is what an operator does to one ticket.
type HandAct struct {
	Do         string // ActRetry, ActDiscard, ActResolve
	SendAgain  bool   // retry: the operator has confirmed that it may go out a second time
	Happened   bool   // resolve
	Reference  string // resolve: the target's own id, or whom was asked
	Reason     string
	Who        string
	LedgerType string // of the ticket's effect type
	Seen       string // the ticket's Mark when the operator looked; "" lets it stand as it may
}

// Mark says how a ticket stands: it has another one as soon as a relay or a person has done anything to it. An act
// that names the mark that a person was shown is never about what came after that.
func (t Ticket) Mark() string { return fmt.Sprintf("%s.%d.%d", t.Status, t.Attempts, t.EndedSeq) }

// standing is what an act has to be checked against.
type standing struct {
	ticket       Ticket
	unknown      bool
	inLedger     bool
	compensating bool
}

const sqlInLedger = `SELECT 1 FROM ledger WHERE effect_key = $1`

func (tx *Tx) standing(id int64) (s standing, err error) {
	if s.ticket, err = tx.Ticket(id); err != nil {
		return s, err
	}
	if s.unknown, err = tx.HasUnknown(id); err != nil {
		return s, err
	}
	if s.inLedger, err = tx.find(sqlInLedger, []any{s.ticket.Key}, new(int64)); err != nil {
		return s, err
	}
	s.compensating, err = tx.Compensating(s.ticket.AggregateID)
	return s, err
}

// MayAct returns the ticket if the act is allowed now, a *Conflict if it is not, and ErrNotFound.
func (tx *Tx) MayAct(id int64, a HandAct) (Ticket, error) {
	s, err := tx.standing(id)
	if err != nil {
		return s.ticket, err
	}
	if o, state := s.against(a); o != "" {
		return s.ticket, &Conflict{State: state, Objection: o, Why: fmt.Sprintf("ticket %d %s", id, sentences[o])}
	}
	return s.ticket, nil
}

// against says what is against the act; "" when nothing is.
func (s standing) against(a HandAct) (o Objection, state string) {
	state = s.ticket.Status
	if a.Seen != "" && a.Seen != s.ticket.Mark() {
		return changedSince, state
	}
	switch state {
	case "done":
		return alreadyDone, state
	case "discarded":
		return alreadyDiscarded, state
	case "processing":
		return inHand, state
	}
	if s.inLedger && !(a.Do == ActResolve && a.Happened) {
		return s.happened(), "in the ledger"
	}
	switch {
	case a.Do == ActRetry && s.takenBack():
		return beingTakenBack, "compensating"
	case a.Do == ActRetry:
		return s.againstRetry(a), state
	case a.Do == ActDiscard:
		return s.againstDiscard(), state
	}
	return s.againstResolve(), state
}

// takenBack: in a compensating order only the lines are not sent again; its releases and its refund may be.
func (s standing) takenBack() bool {
	return s.compensating && s.ticket.EffectType == TicketInventorySync
}

// happened says what is left to do with a ticket whose effect is in the ledger.
func (s standing) happened() Objection {
	if s.mayResolve() {
		return didHappen
	}
	return willBeDone
}

func (s standing) againstRetry(a HandAct) Objection {
	switch {
	case s.ticket.Status == "review" && !a.SendAgain:
		return underReview
	case s.ticket.Status == "dead" && s.unknown && !a.SendAgain:
		return unclearSend
	}
	return ""
}

func (s standing) againstDiscard() Objection {
	switch {
	case s.unknown && s.ticket.Status == "pending":
		return findingOut
	case s.unknown:
		return resolveFirst
	case s.ticket.Status == "review":
		return resolveIt
	}
	return ""
}

func (s standing) againstResolve() Objection {
	switch {
	case s.mayResolve():
		return ""
	case s.unknown:
		return findingOut
	}
	return nothingOpen
}

// mayResolve: what came of the ticket is for a person to say.
func (s standing) mayResolve() bool {
	return s.ticket.Status == "review" || s.ticket.Status == "dead" && (s.unknown || s.inLedger)
}

// ByHand carries out an operator's act on one ticket and returns the ticket as it stands then. It returns a
// *Conflict if the state does not allow it, or ErrNotFound.
func (tx *Tx) ByHand(id int64, a HandAct) (Ticket, error) {
	t, err := tx.MayAct(id, a)
	if err != nil {
		return t, err
	}
	action, do := tx.act(t, a)
	if do == nil {
		return t, fmt.Errorf("there is no act %q", a.Do)
	}
	if err := tx.Log(a.Who, action, TicketSubject(id), a.detail(t)); err != nil { // the cause before what it leads to
		return t, err
	}
	if err := do(); err != nil {
		return t, err
	}
	return tx.Ticket(id)
}

// act is the name of an act in the operator log and what it does; nil when there is none.
func (tx *Tx) act(t Ticket, a HandAct) (action string, do func() error) {
	switch {
	case a.Do == ActRetry:
		return "ticket retried", func() error { return tx.retryByHand(t, a) }
	case a.Do == ActDiscard:
		return "ticket discarded", func() error { return tx.endByHand(t, "discarded", a.Reason) }
	case a.Do == ActResolve && a.Happened:
		return "ticket resolved: it happened", func() error { return tx.itHappened(t, a) }
	case a.Do == ActResolve:
		return "ticket resolved: it did not happen", func() error { return tx.itDidNot(t, a) }
	}
	return "", nil
}

// TicketSubject is how the operator log names a ticket.
func TicketSubject(id int64) string { return fmt.Sprintf("ticket %d", id) }

// detail says why, and what the ticket was before: a retry wipes that from the ticket itself.
func (a HandAct) detail(was Ticket) string {
	s := "was " + was.Status
	if was.Detail != "" {
		s += ": " + was.Detail
	}
	if a.Reason != "" {
		s += "; " + a.Reason
	}
	if a.Reference != "" {
		s += " (reference " + a.Reference + ")"
	}
	if a.SendAgain {
		s += " (send again)"
	}
	return s
}

const sqlRetryByHand = `UPDATE outbox SET status = 'pending', due_at = 0, failures = 0, lookups = 0, crashes = 0, processed_at = NULL, detail = ''
	WHERE id = $1 AND status = $2`

// retryByHand makes a ticket due now. What was sent stays frozen: the same key and bytes go out.
func (tx *Tx) retryByHand(t Ticket, a HandAct) error {
	if a.SendAgain {
		if err := tx.CloseUnknown(t.ID); err != nil {
			return err
		}
	}
	_, err := tx.exec(sqlRetryByHand, t.ID, t.Status)
	tx.wake = true
	return err
}

const sqlEndByHand = `UPDATE outbox SET status = $3, processed_at = $4, detail = $5, ended_seq = $6 WHERE id = $1 AND status = $2`

func (tx *Tx) endByHand(t Ticket, status, detail string) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	if _, err := tx.exec(sqlEndByHand, t.ID, t.Status, status, tx.now, detail, seq); err != nil {
		return err
	}
	return tx.lineEnded(t.AggregateID)
}

const sqlReviewByHand = `UPDATE outbox SET status = 'review', processed_at = NULL WHERE id = $1 AND status = 'dead'`

// itHappened writes the ledger by hand and makes the ticket done.
func (tx *Tx) itHappened(t Ticket, a HandAct) error {
	if err := tx.CloseUnknown(t.ID); err != nil {
		return err
	}
	if _, err := tx.exec(sqlReviewByHand, t.ID); err != nil {
		return err
	}
	_, err := tx.Remember(t.ID, a.LedgerType, "by hand")
	return err
}

func (tx *Tx) itDidNot(t Ticket, a HandAct) error {
	if err := tx.CloseUnknown(t.ID); err != nil {
		return err
	}
	return tx.endByHand(t, "dead", "it did not happen: "+a.Reason)
}
