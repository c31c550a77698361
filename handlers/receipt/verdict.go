package receipt

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"comanda/store"
)

// The codes of a verdict, for whoever says it in another language. Those that end in Once are said only of local
// effects that the file shows to be that.
const (
	RefundedOnce      = "refunded_once"
	RefundedConfirmed = "refunded_confirmed"  // effectively once: the target said so
	RefundedByHand    = "refunded_by_hand"    // somebody noted it
	RefundedSentAgain = "refunded_sent_again" // confirmed, and an operator had it sent again on the chance that it happened before

	InventoryOnce      = "inventory_once"
	InventoryConfirmed = "inventory_confirmed"
	InventoryByHand    = "inventory_by_hand"
	InventorySentAgain = "inventory_sent_again"
	InventoryMixed     = "inventory_mixed" // several lines, and not all in the same way

	DoneOnce      = "done_once" // effects of other kinds
	DoneConfirmed = "done_confirmed"
	DoneByHand    = "done_by_hand"
	DoneSentAgain = "done_sent_again"
	DoneMixed     = "done_mixed"

	InProgress    = "in_progress"   // N tickets are on the rail
	NeedsPerson   = "needs_person"  // N tickets are in review or dead
	TakenBack     = "taken_back"    // a line was rejected; N lines that had gone out were released, and the deposit refunded
	Discarded     = "discarded"     // N tickets were given up
	Doubled       = "doubled"       // one effect N times
	Contradiction = "contradiction" // the rows say what can't be true together
)

// V is what a story comes to.
type V struct {
	Code    string `json:"code"`
	Text    string `json:"text"`    // English, as the receipt says it
	N       int    `json:"n"`       // what the code counts; effects where it says nothing else
	At      int64  `json:"at"`      // Unix milliseconds of the last effect; 0 when there is none
	Receipt string `json:"receipt"` // the target's own id of the one effect that it confirmed; ""
}

// Verdict judges a story: first what is wrong, then what is open, then what happened. It knows the order's own rows
// only: an effect that somebody has put in under another order's id is found by the doctor, which looks at the whole file.
func Verdict(s store.Story) V {
	f := read(s)
	v, found := f.doubled()
	for _, judge := range []func() (V, bool){f.contradiction, f.open, f.takenBack, f.discarded} {
		if !found {
			v, found = judge()
		}
	}
	if !found {
		v = f.happened()
	}
	if n := len(s.Ledger); n > 0 {
		v.At = s.Ledger[n-1].CreatedAt // the ledger of a story runs by seq
	}
	return v
}

// facts are a story by key.
type facts struct {
	store.Story
	tickets map[string]store.Ticket
	ledger  map[string]store.LedgerRow
	effects map[string]int
	kinds   map[string]int // ledger rows by effect type
}

func read(s store.Story) facts {
	f := facts{s, map[string]store.Ticket{}, map[string]store.LedgerRow{}, map[string]int{}, map[string]int{}}
	for _, t := range s.Tickets {
		f.tickets[t.Key] = t
	}
	for _, l := range s.Ledger {
		f.ledger[l.EffectKey] = l
		f.kinds[l.EffectType]++
	}
	for _, e := range s.Effects {
		f.effects[e.EffectKey]++
	}
	return f
}

func (f facts) compensating() bool { return f.Order != nil && f.Order.Compensating }

// doubled: one key twice in the lab's world, two refunds of one order, or two answers of a target that name two deeds.
func (f facts) doubled() (V, bool) {
	for _, e := range f.Effects {
		if n := f.effects[e.EffectKey]; n > 1 {
			return V{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: %s happened %d times", quote(e.EffectKey), n)}, true
		}
	}
	if n := f.kinds[store.LedgerRefund]; n > 1 {
		return V{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: refunded under %d keys", n)}, true
	}
	for _, t := range f.Tickets {
		receipts := map[string]bool{}
		for _, a := range f.Attempts {
			if a.TicketID == t.ID && a.Kind == "send" && a.Receipt != "" && is(a, store.Happened) {
				receipts[a.Receipt] = true
			}
		}
		if n := len(receipts); n > 1 {
			return V{Code: Doubled, N: n, Text: fmt.Sprintf("effect doubled: the target gave %d receipts for %s", n, quote(t.Key))}, true
		}
	}
	return V{}, false
}

// unclear is a send of which nobody knew what came, whether or not somebody has said so since.
func unclear(a store.Attempt) bool {
	return a.Kind == "send" && (a.Outcome == nil || is(a, store.Unknown))
}

func is(a store.Attempt, outcome store.Evidence) bool {
	return a.Outcome != nil && *a.Outcome == string(outcome)
}

// contradiction finds the first thing that can't be true together with the rest.
func (f facts) contradiction() (V, bool) {
	text := ""
	for _, find := range []func() string{f.ledgerAgainst, f.effectsAgainst, f.ticketsAgainst, f.decisionAgainst} {
		if text == "" {
			text = find()
		}
	}
	return V{Code: Contradiction, N: 1, Text: "contradiction: " + text}, text != ""
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

// wantsPerson reports whether only a person can bring a ticket further: it is in review, or dead. A rejected line of
// an order that was taken back for its sake is at its end, unless a send of it is unclear.
func wantsPerson(s store.Story, t store.Ticket) bool {
	if t.Status != "dead" {
		return t.Status == "review"
	}
	if s.Order == nil || !s.Order.Compensating || t.EffectType != store.TicketInventorySync {
		return true
	}
	for _, a := range s.Attempts {
		if a.TicketID == t.ID && unclear(a) && a.ClosedSeq == 0 {
			return true
		}
	}
	return false
}

func (f facts) open() (V, bool) {
	var waiting, working, review, dead int
	for _, t := range f.Tickets {
		switch {
		case t.Status == "pending":
			waiting++
		case t.Status == "processing":
			working++
		case t.Status == "review":
			review++
		case wantsPerson(f.Story, t):
			dead++
		}
	}
	rail := counted{{waiting, "waiting"}, {working, "being carried out"}}.String()
	switch {
	case review+dead > 0:
		text := "needs a person: " + counted{{review, "in review"}, {dead, "dead"}}.String()
		if rail != "" {
			text += "; not finished: " + rail
		}
		return V{Code: NeedsPerson, N: review + dead, Text: text}, true
	case waiting+working > 0:
		return V{Code: InProgress, N: waiting + working, Text: "not finished: " + rail}, true
	}
	return V{}, false
}

// counted says "1 waiting, 2 being carried out", without what there is none of.
type counted []struct {
	n    int
	what string
}

func (c counted) String() string {
	var parts []string
	for _, p := range c {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// takenBack: each line that went out was released, and the deposit went back.
func (f facts) takenBack() (V, bool) {
	if !f.compensating() {
		return V{}, false
	}
	for _, t := range f.Tickets {
		if t.Status == "discarded" && t.EffectType != store.TicketInventorySync {
			return V{Code: Discarded, N: 1, Text: "discarded: the order was to be taken back, and " + quote(t.Key) + " was given up"}, true
		}
	}
	out, back := f.kinds[store.LedgerInventory], f.kinds[store.LedgerRelease]
	if out != back || f.kinds[store.LedgerRefund] != 1 {
		return V{Code: Contradiction, N: 1, Text: fmt.Sprintf("contradiction: taken back with %s out, %d released, and %s",
			plural(out, "line"), back, plural(f.kinds[store.LedgerRefund], "refund"))}, true
	}
	released := "no line had gone out"
	if back > 0 {
		released = f.ways(store.LedgerRelease).say("released", plural(back, "line"))
	}
	return V{Code: TakenBack, N: back, Text: "taken back: " + released + "; " + f.ways(store.LedgerRefund).say("refunded", "")}, true
}

func (f facts) discarded() (V, bool) {
	n := 0
	for _, t := range f.Tickets {
		if t.Status == "discarded" {
			n++
		}
	}
	if n == 0 {
		return V{}, false
	}
	text := fmt.Sprintf("discarded: %d of %s not carried out", n, plural(len(f.Tickets), "ticket"))
	if len(f.Ledger) > 0 {
		text += "; " + f.ways("").say(plural(len(f.Ledger), "effect"), "")
	}
	return V{Code: Discarded, N: n, Text: text}, true
}

// happened is the verdict on what came to its end as it should.
func (f facts) happened() V {
	refunds, lines := f.kinds[store.LedgerRefund], f.kinds[store.LedgerInventory]
	others := len(f.Ledger) - refunds - lines
	v := V{N: refunds + lines}
	switch {
	case refunds > 0:
		w := f.ways(store.LedgerRefund)
		v.Code, v.Receipt = "refunded_"+w.code(), f.receipt(store.LedgerRefund)
		v.Text = w.say("refunded", "")
	case lines > 0:
		w := f.ways(store.LedgerInventory)
		v.Code, v.Text = "inventory_"+w.code(), w.say("inventory taken", plural(lines, "line"))
		if lines == 1 {
			v.Receipt = f.receipt(store.LedgerInventory)
		}
	case others > 0:
		w := f.ways("")
		return V{Code: "done_" + w.code(), N: others, Text: w.say("done", plural(others, "effect"))}
	default:
		return V{Code: Contradiction, N: 1, Text: "contradiction: nothing was decided and nothing happened"}
	}
	if v.Receipt != "" {
		v.Text += " (receipt " + quote(v.Receipt) + ")"
	}
	if others > 0 {
		v.Text += "; and " + plural(others, "other effect")
	}
	return v
}

// receipt is the target's own id of the first effect of a type that it confirmed.
func (f facts) receipt(effectType string) string {
	for _, l := range f.Ledger {
		t, ok := f.tickets[l.EffectKey]
		for _, a := range f.Attempts {
			if ok && l.EffectType == effectType && l.How == "remote" && a.TicketID == t.ID && a.Receipt != "" &&
				(is(a, store.Happened) || is(a, store.Evidence(store.Found))) {
				return a.Receipt
			}
		}
	}
	return ""
}

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

// plural is "1 line", "3 lines".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
