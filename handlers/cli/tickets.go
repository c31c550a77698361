package cli

import (
	"errors"
	"fmt"
	"strconv"

	"comanda/store"
)

const maxTickets = 1_000_000

func (c *ticketListCmd) Run(s *session) error {
	if c.Status != "" && !store.IsStatus(c.Status) {
		return Usage(fmt.Errorf("--status must be pending, processing, done, dead, review or discarded, not %q", c.Status))
	}
	if c.Limit < 1 || c.Limit > maxTickets {
		return Usage(fmt.Errorf("--limit must be between 1 and %d, not %d", maxTickets, c.Limit))
	}
	var tickets []store.Ticket
	err := s.view(c.DB, "", func(tx *store.Tx) (err error) {
		tickets, err = c.read(tx)
		return err
	})
	if err != nil {
		return err
	}
	more := len(tickets) > c.Limit
	tickets = tickets[:min(len(tickets), c.Limit)]
	switch {
	case c.JSON:
		return s.json(tickets)
	case len(tickets) == 0:
		s.printf("no such tickets\n")
		return nil
	}
	err = s.tickets(tickets)
	if more {
		s.printf("\nthere are older ones: --limit %d shows more\n", min(c.Limit*10, maxTickets))
	}
	return err
}

// read brings the tickets newest first, one more than the limit if there are more.
func (c *ticketListCmd) read(tx *store.Tx) ([]store.Ticket, error) {
	all := []store.Ticket{}
	f := store.TicketFilter{Status: c.Status, EffectType: c.EffectType, OrderID: c.Order}
	for len(all) <= c.Limit {
		f.Limit = min(page, c.Limit+1-len(all))
		some, err := tx.Tickets(f)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < f.Limit {
			break
		}
		f.Before = some[len(some)-1].ID
	}
	return all, nil
}

func (s *session) tickets(tickets []store.Ticket) error {
	return s.table(func(row func(...string)) {
		row("ticket", "status", "attempts", "key", "created at", "ended at", "detail")
		for _, t := range tickets {
			row(strconv.FormatInt(t.ID, 10), t.Status, strconv.FormatInt(t.Attempts, 10), t.Key,
				instant(t.CreatedAt), instantOr(t.ProcessedAt, "-"), t.Detail)
		}
	})
}

func (c *ticketShowCmd) Run(s *session) error {
	var answer struct {
		Ticket   store.Ticket    `json:"ticket"`
		Attempts []store.Attempt `json:"attempts"`
	}
	err := s.view(c.DB, fmt.Sprintf("there is no ticket %d in %s: see `comanda tickets list`", c.ID, c.DB), func(tx *store.Tx) (err error) {
		if answer.Ticket, err = tx.Ticket(c.ID); err != nil {
			return err
		}
		answer.Attempts, err = tx.Attempts(c.ID)
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(answer)
	}
	return errors.Join(s.ticket(answer.Ticket), s.attempts(answer.Attempts))
}

func (s *session) ticket(t store.Ticket) error {
	s.printf("ticket %d: %s\n", t.ID, t.Status)
	return s.table(func(row func(...string)) {
		row("  order", t.AggregateID)
		row("  effect", t.EffectType)
		row("  key", t.Key)
		row("  payload", t.Payload)
		row("  attempts", strconv.FormatInt(t.Attempts, 10))
		row("  created at", instant(t.CreatedAt))
		if t.ClaimedAt != nil {
			row("  claimed at", instant(*t.ClaimedAt))
		}
		if t.ClaimToken != nil {
			row("  claimed by", textOr(t.LeaseHolder, "-")+", token "+*t.ClaimToken)
		}
		if t.Status == "pending" && t.DueAt > 0 {
			row("  due at", instant(t.DueAt))
		}
		if t.ProcessedAt != nil {
			row("  ended at", instant(*t.ProcessedAt))
		}
		if t.WireKey != nil && *t.WireKey != t.Key {
			row("  key sent", *t.WireKey)
		}
		if t.Detail != "" {
			row("  detail", t.Detail)
		}
	})
}

func (s *session) attempts(attempts []store.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	s.printf("\n")
	return s.table(func(row func(...string)) {
		row("attempt", "kind", "begun at", "ended at", "outcome", "receipt", "detail")
		for _, a := range attempts {
			row(strconv.FormatInt(a.ID, 10), a.Kind, instant(a.BegunAt), instantOr(a.EndedAt, "-"), textOr(a.Outcome, "unknown"), textOrDash(a.Receipt), a.Detail)
		}
	})
}
