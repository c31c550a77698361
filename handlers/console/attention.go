package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"comanda/handlers/hand"
	"comanda/store"
)

const (
	mostCauses  = 50
	mostRefused = 50
)

// attentionSheet is what needs a person.
type attentionSheet struct {
	Causes   []store.Cause
	Targets  []hand.Target // those that nothing goes to
	Differ   []differing
	Differs  int64 // all of them
	Refused  []store.RefusedBody
	Refusals int64
	Reasons  []string
	Warnings []string
	Now      int64
}

// differing is an event that contradicts its order's standing decision.
type differing struct {
	store.Event
	Fields string
}

// Nothing reports that nobody is needed.
func (s *attentionSheet) Nothing() bool {
	return len(s.Causes)+len(s.Targets)+len(s.Differ)+len(s.Refused)+len(s.Reasons)+len(s.Warnings) == 0
}

func (c *Console) attention(v *visit) error {
	var s attentionSheet
	s.Reasons, s.Warnings = c.ready()
	err := v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		if s.Causes, err = tx.Causes(mostCauses); err != nil {
			return err
		}
		if s.Targets, err = hand.Targets(tx, c.opt.TargetNames); err != nil {
			return err
		}
		s.Targets = slices.DeleteFunc(s.Targets, func(t hand.Target) bool { return t.State == "up" })
		return s.readEvents(tx)
	})
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "attention", sheet{Live: true, Every: 30, Body: &s})
}

func (s *attentionSheet) readEvents(tx *store.Tx) error {
	events, err := tx.DifferingEvents(0, mostRefused)
	if err != nil {
		return err
	}
	for _, e := range events {
		var fields []string
		_ = json.Unmarshal(e.Differs, &fields) // what is no list names no field
		s.Differ = append(s.Differ, differing{e, strings.Join(fields, ", ")})
	}
	if s.Refused, err = tx.RefusedBodies(0, mostRefused); err != nil {
		return err
	}
	if s.Differs, err = tx.DifferingCount(); err != nil {
		return err
	}
	s.Refusals, err = tx.RefusedCount()
	return err
}
