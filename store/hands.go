package store

import "fmt"

// Conflict is what stands in the way of an operator's act: the ticket's state, or a word for more than that.
type Conflict struct {
	State string
	Why   string // a sentence
}

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
}

// standing is what an act has to be checked against.
type standing struct {
	ticket       Ticket
	unknown      bool
	inLedger     bool
	compensating bool
}

func (tx *Tx) standing(id int64) (s standing, err error) {
	if s.ticket, err = tx.Ticket(id); err != nil {
		return s, err
	}
	if s.unknown, err = tx.HasUnknown(id); err != nil {
		return s, err
	}
	if s.inLedger, err = tx.find(`SELECT 1 FROM ledger WHERE effect_key = $1`, []any{s.ticket.Key}, new(int64)); err != nil {
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
	if why, state := s.against(a); why != "" {
		return s.ticket, &Conflict{State: state, Why: fmt.Sprintf("ticket %d %s", id, why)}
	}
	return s.ticket, nil
}

// against says what is against the act; "" when nothing is.
func (s standing) against(a HandAct) (why, state string) {
	state = s.ticket.Status
	switch state {
	case "done":
		return "is done, and what is done is never run again", state
	case "discarded":
		return "was discarded, and stays so", state
	case "processing":
		return "is being carried out; look again when that has ended", state
	}
	if s.inLedger && !(a.Do == ActResolve && a.Happened) {
		return "has its effect in the ledger: it happened; resolve it as that", "in the ledger"
	}
	switch a.Do {
	case ActRetry:
		return s.againstRetry(a), s.word()
	case ActDiscard:
		return s.againstDiscard(), state
	}
	return s.againstResolve(), state
}

// word is the ticket's state, or "compensating" where that is what stands in the way of a retry.
func (s standing) word() string {
	if s.compensating && s.ticket.EffectType == TicketInventorySync && s.ticket.Status == "dead" {
		return "compensating"
	}
	return s.ticket.Status
}

func (s standing) againstRetry(a HandAct) string {
	switch {
	case s.compensating && s.ticket.EffectType == TicketInventorySync && s.ticket.Status == "dead":
		return "is a line of an order that is being taken back"
	case s.ticket.Status == "review" && !a.SendAgain:
		return `is in review: ask the target whether it happened and resolve it, or confirm with "send again" that it may go out a second time`
	case s.ticket.Status == "dead" && s.unknown && !a.SendAgain:
		return `has a send of which nobody knows what came: resolve it, or confirm with "send again"`
	}
	return ""
}

func (s standing) againstDiscard() string {
	switch {
	case s.unknown:
		return "has a send of which nobody knows what came: resolve it first"
	case s.ticket.Status == "review":
		return "is in review: resolve it"
	}
	return ""
}

func (s standing) againstResolve() string {
	if s.ticket.Status == "review" || s.ticket.Status == "dead" && s.unknown {
		return ""
	}
	return "has nothing to resolve: nobody doubts what came of it"
}

// ByHand carries out an operator's act on one ticket and returns the ticket as it stands then. It returns a
// *Conflict if the state does not allow it, or ErrNotFound.
func (tx *Tx) ByHand(id int64, a HandAct) (Ticket, error) {
	t, err := tx.MayAct(id, a)
	if err != nil {
		return t, err
	}
	var action string
	switch {
	case a.Do == ActRetry:
		action, err = "ticket retried", tx.retryByHand(t, a)
	case a.Do == ActDiscard:
		action, err = "ticket discarded", tx.endByHand(t, "discarded", a.Reason)
	case a.Do == ActResolve && a.Happened:
		action, err = "ticket resolved: it happened", tx.itHappened(t, a)
	case a.Do == ActResolve:
		action, err = "ticket resolved: it did not happen", tx.itDidNot(t, a)
	default:
		return t, fmt.Errorf("there is no act %q", a.Do)
	}
	if err != nil {
		return t, err
	}
	if err := tx.Log(a.Who, action, TicketSubject(id), a.detail()); err != nil {
		return t, err
	}
	return tx.Ticket(id)
}

// TicketSubject is how the operator log names a ticket.
func TicketSubject(id int64) string { return fmt.Sprintf("ticket %d", id) }

func (a HandAct) detail() string {
	s := a.Reason
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
