package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"comanda/store"
)

func (c *orderShowCmd) Run(s *session) error {
	var story store.Story
	err := s.view(c.DB, fmt.Sprintf("there is no order %s in %s: look at the id, or at --db", c.Order, c.DB), func(tx *store.Tx) (err error) {
		story, err = tx.Story(c.Order)
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(story)
	}
	return s.story(c.Order, story)
}

func (s *session) story(id string, story store.Story) error {
	if err := s.order(id, story.Order); err != nil {
		return err
	}
	if len(story.Tickets) > 0 {
		s.printf("\n")
		if err := s.tickets(story.Tickets); err != nil {
			return err
		}
	}
	s.printf("\n")
	err := s.table(func(row func(...string)) {
		row("seq", "at", "kind", "what")
		for _, m := range story.Timeline {
			row(strconv.FormatInt(m.Seq, 10), instant(m.At), m.Kind, m.Text)
		}
	})
	s.printf("\n%s\n", s.show(effectCount(story)))
	return err
}

// order prints the decision of an order; nil is an order that only tickets put in by hand name.
func (s *session) order(id string, o *store.Order) error {
	if o == nil {
		s.printf("order %s: no decision\n", s.show(id))
		return nil
	}
	s.printf("order %s: %s\n", s.show(id), s.show(o.Decision))
	return s.table(func(row func(...string)) {
		row("  customer", o.CustomerID)
		row("  amount", o.Amount+" "+o.Currency)
		row("  credit", map[bool]string{true: "enough", false: "not enough"}[o.CreditOK])
		row("  lines", lineItems(string(o.LineItems)))
		row("  class", o.Category+", "+o.Priority)
		row("  event", o.EventID)
		row("  decided at", instant(o.DecidedAt))
	})
}

// lineItems shortens [{"sku":"A","quantity":2}] to "2 × A"; what it can't read it leaves as it is.
func lineItems(text string) string {
	var lines []struct {
		SKU      string      `json:"sku"`
		Quantity json.Number `json:"quantity"`
	}
	if json.Unmarshal([]byte(text), &lines) != nil || len(lines) == 0 {
		return text
	}
	parts := make([]string, len(lines))
	for i, l := range lines {
		parts[i] = l.Quantity.String() + " × " + l.SKU
	}
	return strings.Join(parts, ", ")
}

// effectCount is the last line of a story: "refund: 1 effect". The decided effect comes first, also
// when it has not happened; others only where there are some.
func effectCount(story store.Story) string {
	counts := map[string]int{}
	var kinds []string
	if story.Decision != nil {
		kinds = append(kinds, *story.Decision)
	}
	seen := map[string]bool{}
	count := func(kind, key string) {
		seen[key] = true
		if counts[kind]++; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, e := range story.Effects {
		count(e.EffectType, e.EffectKey)
	}
	for _, l := range story.Ledger { // what happened outside has no row in the lab's world
		if !seen[l.EffectKey] {
			count(l.EffectType, l.EffectKey)
		}
	}
	if len(kinds) == 0 {
		return plural(0, "effect")
	}
	for i, kind := range kinds {
		kinds[i] = kind + ": " + plural(counts[kind], "effect")
	}
	return strings.Join(kinds, ", ")
}

func (c *eventShowCmd) Run(s *session) error {
	var event store.Event
	var decided *store.Order
	err := s.view(c.DB, fmt.Sprintf("there is no event %s in %s: look at the id, or at --db", c.Event, c.DB), func(tx *store.Tx) error {
		e, ok, err := tx.Event(c.Event)
		if err != nil {
			return err
		}
		if !ok {
			return store.ErrNotFound
		}
		event = e
		o, ok, err := tx.Order(e.OrderID)
		if ok {
			decided = &o
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(eventAnswer{event, differs(event), decided})
	}
	return s.event(event, decided)
}

type eventAnswer struct {
	Event   store.Event  `json:"event"`
	Differs []string     `json:"differs"` // what the event's order says otherwise than the standing decision
	Order   *store.Order `json:"order"`
}

func differs(e store.Event) []string {
	names := []string{}
	_ = json.Unmarshal(e.Differs, &names) // written by this program; a list put in by hand may be anything
	return names
}

func (s *session) event(e store.Event, decided *store.Order) error {
	s.printf("event %s: %s\n", s.show(e.EventID), s.show(e.Outcome))
	err := s.table(func(row func(...string)) {
		row("  order", e.OrderID)
		row("  received at", instant(e.ReceivedAt))
		if names := differs(e); len(names) > 0 {
			row("  differs in", strings.Join(names, ", "))
		}
		if e.Source != "" {
			row("  source", e.Source)
		}
		if e.WebhookID != "" {
			row("  webhook id", e.WebhookID)
		}
		if e.ClockUntrusted != "" {
			row("  clock", "not to be trusted then: "+e.ClockUntrusted)
		}
	})
	if err != nil {
		return err
	}
	s.printf("\nbody (%d bytes, as it came):\n", len(e.Body))
	for line := range strings.Lines(string(e.Body)) {
		s.printf("  %s\n", s.show(strings.TrimRight(line, "\r\n")))
	}
	s.printf("\n")
	return s.order(e.OrderID, decided)
}
