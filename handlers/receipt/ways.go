package receipt

import (
	"math"
	"strings"

	"comanda/store"
)

// ways counts how effects came about.
type ways struct{ once, confirmed, again, hand int }

// ways counts the ledger's rows of an effect type; "" is all.
func (f facts) ways(effectType string) (w ways) {
	for _, l := range f.Ledger {
		switch {
		case effectType != "" && l.EffectType != effectType:
		case l.How == "local" && f.effects[l.EffectKey] == 1 && !f.wasUnclear(f.tickets[l.EffectKey].ID, math.MaxInt64):
			w.once++
		case l.How == "remote" && f.sentAgain(l.EffectKey):
			w.again++
		case l.How == "remote":
			w.confirmed++
		default: // also what was carried out here after somebody said that no target had done it
			w.hand++
		}
	}
	return w
}

// sentAgain: an operator had a ticket sent again of which nobody knew whether it had happened.
func (f facts) sentAgain(key string) bool {
	t := f.tickets[key]
	for _, act := range f.Acts {
		if act.Subject == store.TicketSubject(t.ID) && act.Action == "ticket retried" && strings.HasSuffix(act.Detail, " (send again)") && f.wasUnclear(t.ID, act.Seq) {
			return true
		}
	}
	return false
}

// wasUnclear reports whether a ticket had an unclear send before a place in the sequence.
func (f facts) wasUnclear(ticket, before int64) bool {
	for _, a := range f.Attempts {
		if a.TicketID == ticket && a.Seq < before && unclear(a) {
			return true
		}
	}
	return false
}

func (w ways) code() string {
	switch n := w.once + w.confirmed + w.again + w.hand; n {
	case w.once:
		return "once"
	case w.confirmed:
		return "confirmed"
	case w.again:
		return "sent_again"
	case w.hand:
		return "by_hand"
	}
	return "mixed"
}

// say says of a deed how it came about; of is what it was done for, or "".
func (w ways) say(deed, of string) string {
	if of != "" {
		of = " for " + of
	}
	switch w.code() {
	case "once":
		return deed + " exactly once" + of
	case "confirmed":
		return deed + " effectively once" + of + ", confirmed by the target"
	case "sent_again":
		return deed + of + ", confirmed by the target after it was sent again by hand: it may have happened before"
	case "by_hand":
		return deed + of + ", noted by hand"
	}
	return deed + of + ": " + counted{{w.once, "exactly once"}, {w.confirmed, "confirmed by the target"},
		{w.again, "sent again by hand and may have happened before"}, {w.hand, "noted by hand"}}.String()
}
