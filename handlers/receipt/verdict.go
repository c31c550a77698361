package receipt

import (
	"fmt"
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

// Verdict is what a story comes to.
type Verdict struct {
	Code    string `json:"code"`
	Text    string `json:"text"`    // English, as the receipt says it
	N       int    `json:"n"`       // what the code counts; effects where it says nothing else
	At      int64  `json:"at"`      // Unix milliseconds of the last effect; 0 when there is none
	Receipt string `json:"receipt"` // the target's own id of the one effect that it confirmed; ""
}

// Judge says what a story comes to: first what is wrong, then what is open, then what happened. It knows the order's own rows
// only: an effect that somebody has put in under another order's id is found by the doctor, which looks at the whole file.
func Judge(s store.Story) Verdict {
	f := read(s)
	v, found := f.doubled()
	for _, judge := range []func() (Verdict, bool){f.contradiction, f.open, f.takenBack, f.discarded} {
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

// unclear is a send of which nobody knew what came, whether or not somebody has said so since.
func unclear(a store.Attempt) bool {
	return a.Kind == "send" && (a.Outcome == nil || is(a, store.Unknown))
}

func is(a store.Attempt, outcome store.Evidence) bool {
	return a.Outcome != nil && *a.Outcome == string(outcome)
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

func (f facts) open() (Verdict, bool) {
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
		return Verdict{Code: NeedsPerson, N: review + dead, Text: text}, true
	case waiting+working > 0:
		return Verdict{Code: InProgress, N: waiting + working, Text: "not finished: " + rail}, true
	}
	return Verdict{}, false
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
func (f facts) takenBack() (Verdict, bool) {
	if !f.compensating() {
		return Verdict{}, false
	}
	for _, t := range f.Tickets {
		if t.Status == "discarded" && t.EffectType != store.TicketInventorySync {
			return Verdict{Code: Discarded, N: 1, Text: "discarded: the order was to be taken back, and " + quote(t.Key) + " was given up"}, true
		}
	}
	out, back := f.kinds[store.LedgerInventory], f.kinds[store.LedgerRelease]
	if out != back || f.kinds[store.LedgerRefund] != 1 {
		return Verdict{Code: Contradiction, N: 1, Text: fmt.Sprintf("contradiction: taken back with %s out, %d released, and %s",
			plural(out, "line"), back, plural(f.kinds[store.LedgerRefund], "refund"))}, true
	}
	released := "no line had gone out"
	if back > 0 {
		released = f.ways(store.LedgerRelease).say("released", plural(back, "line"))
	}
	return Verdict{Code: TakenBack, N: back, Text: "taken back: " + released + "; " + f.ways(store.LedgerRefund).say("refunded", "")}, true
}

func (f facts) discarded() (Verdict, bool) {
	n := 0
	for _, t := range f.Tickets {
		if t.Status == "discarded" {
			n++
		}
	}
	if n == 0 {
		return Verdict{}, false
	}
	text := fmt.Sprintf("discarded: %d of %s not carried out", n, plural(len(f.Tickets), "ticket"))
	if len(f.Ledger) > 0 {
		text += "; " + f.ways("").say(plural(len(f.Ledger), "effect"), "")
	}
	return Verdict{Code: Discarded, N: n, Text: text}, true
}

// happened is the verdict on what came to its end as it should.
func (f facts) happened() Verdict {
	refunds, lines := f.kinds[store.LedgerRefund], f.kinds[store.LedgerInventory]
	others := len(f.Ledger) - refunds - lines
	v := Verdict{N: refunds + lines}
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
		return Verdict{Code: "done_" + w.code(), N: others, Text: w.say("done", plural(others, "effect"))}
	default:
		return Verdict{Code: Contradiction, N: 1, Text: "contradiction: nothing was decided and nothing happened"}
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

// plural is "1 line", "3 lines".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
