package receipt

import (
	"encoding/json"
	"fmt"

	"comanda/store"
)

// doubled: one key twice in the lab's world, two refunds of one order, or two answers of a target that name two deeds.
func (f facts) doubled() (Verdict, bool) {
	for _, e := range f.Effects {
		if n := f.effects[e.EffectKey]; n > 1 {
			return Verdict{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: %s happened %d times", quote(e.EffectKey), n)}, true
		}
	}
	if n := f.kinds[store.LedgerRefund]; n > 1 {
		return Verdict{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: refunded under %d keys", n)}, true
	}
	for _, t := range f.Tickets {
		receipts := map[string]bool{}
		for _, a := range f.Attempts {
			if a.TicketID == t.ID && a.Kind == "send" && a.Receipt != "" && is(a, store.Happened) {
				receipts[a.Receipt] = true
			}
		}
		if n := len(receipts); n > 1 {
			return Verdict{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: the target gave %d receipts for %s", n, quote(t.Key))}, true
		}
	}
	return Verdict{}, false
}

// contradiction finds the first thing that can't be true together with the rest.
func (f facts) contradiction() (Verdict, bool) {
	text := ""
	for _, find := range []func() string{f.ledgerAgainst, f.effectsAgainst, f.ticketsAgainst, f.decisionAgainst} {
		if text == "" {
			text = find()
		}
	}
	return Verdict{Code: Contradiction, N: 1, Text: "contradiction: " + text}, text != ""
}

// ledgerAgainst: what the ledger says came about must be seen where it came about.
func (f facts) ledgerAgainst() string {
	for _, l := range f.Ledger {
		key, out := quote(l.EffectKey), f.effects[l.EffectKey]
		did, doubt := f.outside(l.EffectKey)
		switch {
		case l.How == "local" && out == 0:
			return "the ledger says that " + key + " was carried out here, and no effect shows it"
		case l.How == "local" && did:
			return key + " was carried out here, and a target says that it did it too"
		case l.How == "local" && doubt:
			return key + " was carried out here, and nobody knows what came of a send of it"
		case l.How == "remote" && !did:
			return "the ledger says that a target did " + key + ", and no attempt shows it"
		case l.How == "remote" && out > 0:
			return key + " was done by a target, and carried out here too"
		}
	}
	return ""
}

// outside says whether a target has confirmed a key's effect, and whether one may have done it.
func (f facts) outside(key string) (did, doubt bool) {
	t, ok := f.tickets[key]
	for _, a := range f.Attempts {
		if !ok || a.TicketID != t.ID {
			continue
		}
		did = did || a.Kind == "send" && is(a, store.Happened) || a.Kind == "lookup" && is(a, store.Evidence(store.Found))
		doubt = doubt || unclear(a) && a.ClosedSeq == 0
	}
	return did, doubt
}

func (f facts) effectsAgainst() string {
	for _, e := range f.Effects {
		if _, ok := f.ledger[e.EffectKey]; !ok {
			return quote(e.EffectKey) + " went out, and the ledger does not know of it"
		}
	}
	return ""
}

func (f facts) ticketsAgainst() string {
	for _, t := range f.Tickets {
		_, happened := f.ledger[t.Key]
		switch {
		case t.Status == "done" && !happened:
			return quote(t.Key) + " is done, and the ledger does not know of it"
		case t.Status == "discarded" && happened:
			return quote(t.Key) + " was discarded, and it happened"
		case t.Status == "dead" && happened && !wantsPerson(f.Story, t):
			return quote(t.Key) + " was rejected, and it happened"
		}
	}
	return ""
}

// decisionAgainst: an order has the effects that were decided for it and, unless it was taken back, no other refund
// or stock movement.
func (f facts) decisionAgainst() string {
	if f.kinds[store.LedgerRefund] > 0 && f.kinds[store.LedgerInventory] > 0 && !f.compensating() {
		return "refunded, and inventory taken"
	}
	if f.Order == nil || f.compensating() {
		return ""
	}
	decided := map[string]bool{}
	for _, key := range f.decidedKeys() {
		decided[key] = true
		_, ticket := f.tickets[key]
		row, happened := f.ledger[key]
		switch {
		case !ticket && !happened:
			return quote(key) + " was decided, and nothing is on the rail for it"
		case happened && row.EffectType != f.Order.Decision:
			return quote(key) + " is in the ledger as another effect than the decided one"
		}
	}
	for _, l := range f.Ledger {
		moves := l.EffectType == store.LedgerRefund || l.EffectType == store.LedgerInventory || l.EffectType == store.LedgerRelease
		if moves && !decided[l.EffectKey] {
			return quote(l.EffectKey) + " happened, and was not decided"
		}
	}
	return ""
}

func (f facts) decidedKeys() []string {
	if f.Order.Decision == store.LedgerRefund {
		return []string{store.Key(store.LedgerRefund, f.Order.OrderID)}
	}
	var lines []struct {
		SKU string `json:"sku"`
	}
	_ = json.Unmarshal(f.Order.LineItems, &lines) // of an order put in by hand they may be anything: then nothing was decided
	keys := make([]string, len(lines))
	for i, l := range lines {
		keys[i] = store.Key(store.LedgerInventory, f.Order.OrderID, l.SKU)
	}
	return keys
}
