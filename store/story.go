package store

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

// What the file holds of an order, by the index of its id in each table.
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
