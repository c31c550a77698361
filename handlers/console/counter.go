package console

import (
	"cmp"
	"net/http"
	"slices"

	"comanda/handlers/hand"
	"comanda/store"
)

// An hour in so many columns.
const (
	chartSpan    = int64(60 * 60 * 1000) // ms
	chartColumns = 12
)

// patience is how long tickets may wait, and no relay come round, before that is worth a sentence, in milliseconds.
const patience = int64(60 * 1000)

// counterSheet is what the first page shows.
type counterSheet struct {
	Says     []sentence // the one that matters most first
	Targets  []hand.Target
	Counts   store.Counts
	NeedYou  int64
	Waiting  int64
	Orders   int64 // decided in the last hour
	Safe     int64 // orders that wait, if a target is out of reach
	Oldest   int64 // age of the oldest pending ticket, ms; 0 for none
	Paused   bool
	LastPass *int64 // ms ago
	Relays   []store.Relay
	Now      int64
	Chart    chart
	First    bool   // no order has come yet
	Real     bool   // some effects go out for real
	Host     string // for the command to try
	File     string
	Sample   bool // there is a button for it
}

// sentence is one thing to say, and how bad it is.
type sentence struct {
	Level string // "bad", "warn" or "good"
	Text  string
	Said  string // after it, in the program's English words; "" for nothing
	Link  string // where more of it stands; "" nowhere
}

// counter is GET /: how things stand, in one sentence first.
func (c *Console) counter(v *visit) error {
	reasons, warnings := c.ready() // before the reader: it may wait for the disk
	s := counterSheet{Host: v.Request().Host, File: c.opt.DB.Path(), Sample: c.opt.Sample != nil}
	err := v.view(func(tx *store.Tx) error { return s.read(tx, c.opt) })
	if err != nil {
		return err
	}
	s.Says = v.sentences(&s, reasons, warnings)
	return v.show(http.StatusOK, "counter", sheet{Live: true, Every: 15, Body: &s})
}

func (s *counterSheet) read(tx *store.Tx, opt Options) (err error) {
	s.Now = tx.Now()
	if s.Counts, err = tx.Counts(); err != nil {
		return err
	}
	s.NeedYou, s.Waiting = s.Counts.Dead+s.Counts.Review, s.Counts.Waiting()
	if s.Targets, err = hand.Targets(tx, opt.TargetNames); err != nil {
		return err
	}
	s.Real = slices.ContainsFunc(s.Targets, func(t hand.Target) bool { return t.Real() })
	if s.Safe, err = tx.WaitingOrders(s.cutOff(opt.LedgerTypes)...); err != nil {
		return err
	}
	if s.Oldest, err = tx.OldestPending(); err != nil {
		return err
	}
	if s.Paused, err = tx.Paused(); err != nil {
		return err
	}
	if s.Relays, err = tx.Relays(); err != nil {
		return err
	}
	for _, r := range s.Relays {
		ago := max(0, s.Now-r.LastPassAt)
		if r.LastPassAt > 0 && (s.LastPass == nil || ago < *s.LastPass) {
			s.LastPass = &ago
		}
	}
	end := s.Now - s.Now%(chartSpan/chartColumns) + chartSpan/chartColumns // whole columns, so that they stand still
	buckets, err := tx.Activity(end-chartSpan, end, chartColumns)
	if err != nil {
		return err
	}
	s.Chart = newChart(buckets, chartSpan/chartColumns)
	for _, b := range buckets {
		s.Orders += b.Orders
	}
	newest, err := tx.Orders(0, 1)
	s.First = len(newest) == 0
	return err
}

// cutOff are the ticket types whose target is out of reach.
func (s *counterSheet) cutOff(ledgerTypes map[string]string) (types []string) {
	for _, t := range s.Targets {
		for ticket, target := range ledgerTypes {
			if t.OfflineSince != nil && t.Name == target {
				types = append(types, ticket)
			}
		}
	}
	return types
}

// sentences say how things stand, the worst first.
func (v *visit) sentences(s *counterSheet, reasons, warnings []string) []sentence {
	var all []sentence
	for _, r := range reasons {
		all = append(all, sentence{"bad", v.lang.say("say.not_ready"), r, "/truth"})
	}
	if s.NeedYou > 0 {
		all = append(all, sentence{"bad", v.lang.say("say.need_you", "N", s.NeedYou), "", "/attention"})
	}
	all = append(all, v.targetSentences(s)...)
	if s.Paused {
		all = append(all, sentence{"warn", v.lang.say("say.paused", "N", s.Waiting), "", "/relay"})
	}
	if !s.Paused && s.Waiting > 0 && s.Oldest > patience && (s.LastPass == nil || *s.LastPass > patience) {
		all = append(all, sentence{"bad", v.lang.say("say.nobody", "N", s.Waiting), "", "/relay"})
	}
	for _, w := range warnings {
		all = append(all, sentence{"warn", "", w, "/truth"})
	}
	if len(all) > 0 {
		return all
	}
	switch {
	case s.First:
		return []sentence{{"good", v.lang.say("say.first"), "", ""}}
	case s.Waiting > 0:
		return []sentence{{"good", v.lang.say("say.under_way", "N", s.Waiting), "", "/rail?status=pending"}}
	}
	return []sentence{{"good", v.lang.say("say.well"), "", ""}}
}

// targetSentences tell which targets nothing goes to. If none of several real ones is reached, it is the line that
// is down, not they.
func (v *visit) targetSentences(s *counterSheet) (all []sentence) {
	var real, offline []hand.Target
	for _, t := range s.Targets {
		if t.Real() {
			real = append(real, t)
		}
		switch {
		case t.Paused != nil && *t.Paused == "answer":
			all = append(all, sentence{"bad", v.lang.say("say.target_refuses", "Target", v.target(t.Name)), "", "/attention"})
		case t.Paused != nil:
			all = append(all, sentence{"warn", v.lang.say("say.target_paused", "Target", v.target(t.Name)), "", "/relay"})
		case t.OfflineSince != nil:
			offline = append(offline, t)
		}
	}
	if len(offline) == 0 {
		return all
	}
	since := slices.MinFunc(offline, func(a, b hand.Target) int { return cmp.Compare(*a.OfflineSince, *b.OfflineSince) })
	at := v.lang.time(*since.OfflineSince, "15:04")
	if len(offline) == len(real) && len(real) > 1 {
		return append([]sentence{{"warn", v.lang.say("say.internet_down", "Since", at, "N", s.Safe), "", "/rail?status=pending"}}, all...)
	}
	for _, t := range offline {
		all = append(all, sentence{"warn", v.lang.say("say.target_offline", "Target", v.target(t.Name), "Since", at, "N", s.Safe), "", "/rail?status=pending"})
	}
	return all
}

// target is what a target is called.
func (v *visit) target(name string) string { return v.lang.sayOr("ledger."+name, name) }
