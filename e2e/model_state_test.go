package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"comanda/handlers"
	"comanda/store"
)

const (
	modelBudget  = 4 // failed tries before a person is asked
	modelOffline = 5 // tries in a row after which a target counts as out of reach
)

// model is what the appliance must be, told in a few maps. Where the product is free to choose it allows a set.
type model struct {
	w       *modelWorld
	limits  map[string]int64 // customer → pesos
	events  map[string]mEvent
	orders  map[string]mOrder
	tickets []*mTicket // by id
	byKey   map[string]*mTicket
	paused  bool            // every relay
	held    map[string]bool // targets that an operator has paused
}

// mEvent is what an event says.
type mEvent struct {
	id, order, customer string
	pesos               int64
	a, b                int64 // quantities of two SKUs; 0 is no line
}

// mOrder is a decided order, by the event that decided it.
type mOrder struct {
	mEvent
	credit bool
}

// mTicket is a ticket as it was last seen.
type mTicket struct {
	id                       int64
	key, order, target, body string
	remote                   bool
	status, token            string
	holder                   *modelRelay // of its claim
	attempts, due            int64
	unknown                  bool      // sends of which nobody knows what came
	ledger                   string    // how it got into the ledger
	ended                    string    // when it was done
	cleared                  time.Time // when an operator said what came of its sends
	noted                    bool      // another client put it into the ledger; it is not to be carried out
}

func newModel(w *modelWorld) *model {
	return &model{w: w, limits: map[string]int64{}, events: map[string]mEvent{}, orders: map[string]mOrder{}, byKey: map[string]*mTicket{}, held: map[string]bool{}}
}

// take is what must be answered to an event; keep says whether it is on disk then.
func (m *model) take(e mEvent, keep bool) (want handlers.Answer, problem string) {
	if was, ok := m.events[e.id]; ok {
		if was != e {
			m.w.saw("event id reused for another order")
			return want, "event-id-reused"
		}
		standing := m.orders[e.order]
		want = standing.answer("duplicate", e.id)
		if standing.id != e.id {
			want.Differs = standing.differs(e)
		}
		return want, ""
	}
	if standing, ok := m.orders[e.order]; ok {
		want = standing.answer("already_decided", e.id)
		want.Differs = standing.differs(e)
		if keep {
			m.events[e.id] = e
		}
		if len(want.Differs) > 0 {
			m.w.saw("contradictory event refused")
		}
		return want, ""
	}
	limit, known := m.limits[e.customer]
	o := mOrder{e, e.pesos == 0 || known && e.pesos <= limit}
	if keep {
		m.events[e.id], m.orders[e.order] = e, o
		m.print(o)
	}
	return o.answer("accepted", e.id), ""
}

func (o mOrder) answer(status, event string) handlers.Answer {
	a := handlers.Answer{Status: status, EventID: event, OrderID: o.order, CreditOK: o.credit, Decision: "refund", Tickets: []string{"refund:" + o.order}}
	if o.credit {
		a.Decision, a.Tickets = "inventory", nil
		for _, l := range o.lines() {
			a.Tickets = append(a.Tickets, "inventory:"+o.order+":"+l.sku)
		}
	}
	return a
}

type mLine struct {
	sku string
	n   int64
}

func (e mEvent) lines() (all []mLine) {
	for _, l := range []mLine{{"CF-A", e.a}, {"TE-B", e.b}} {
		if l.n > 0 {
			all = append(all, l)
		}
	}
	return all
}

func (o mOrder) differs(e mEvent) []string {
	names := []string{}
	if o.customer != e.customer {
		names = append(names, "customer_id")
	}
	if o.pesos != e.pesos {
		names = append(names, "amount")
	}
	if o.a != e.a || o.b != e.b {
		names = append(names, "line_items")
	}
	return names
}

// print puts the tickets of a decided order on the rail.
func (m *model) print(o mOrder) {
	lines := o.lines()
	for i, key := range o.answer("", "").Tickets {
		target, _, _ := strings.Cut(key, ":")
		payload := fmt.Sprintf(`"amount":%d.00,"currency":"MXN"`, o.pesos)
		if target == store.LedgerInventory {
			payload = fmt.Sprintf(`"sku":%q,"quantity":%d`, lines[i].sku, lines[i].n)
		}
		_, remote := m.w.conf.targets[target]
		t := &mTicket{id: int64(len(m.tickets) + 1), key: key, order: o.order, target: target, remote: remote, status: "pending",
			body: fmt.Sprintf(`{"order_id":%q,"effect_type":%q,"effect_key":%q,%s}`, o.order, target, key, payload)}
		m.tickets, m.byKey[key] = append(m.tickets, t), t
	}
}

// died notes what a dead relay leaves behind.
func (m *model) died(r *modelRelay) {
	for _, t := range m.tickets {
		if t.status == "processing" && t.holder == r {
			m.w.saw("a relay died with a claim")
			m.w.saw(map[bool]string{true: "a relay died with a send unknown", false: "a relay died before it sent"}[t.unknown])
		}
	}
}

// heard reports whether a relay has been told that a key was carried out.
func (m *model) heard(r *modelRelay, t *mTicket) bool {
	g := m.w.gates[t.target]
	return g != nil && slices.ContainsFunc(g.letters, func(l *letter) bool {
		return l.relay == r && l.key == t.key && l.ended && (l.fault.heard == "done" || l.fault.heard == "found")
	})
}

// refused reports whether a target has answered a send of the key with a refusal.
func (m *model) refused(t *mTicket) bool {
	g := m.w.gates[t.target]
	return g != nil && slices.ContainsFunc(g.letters, func(l *letter) bool {
		return l.key == t.key && (l.fault.heard == "rejected" || l.fault.heard == "no place")
	})
}

// void reports whether a relay may take over a claim: its holder is dead, or was watched for the whole lease.
func (m *model) void(t *mTicket, by *modelRelay) bool {
	seen, ok := by.maybe[t.token]
	return t.holder == nil || t.holder.dead || ok && time.Since(seen) >= modelLease
}

// watches notes which claims a relay sees at the begin of a move.
func (m *model) watches(r *modelRelay) {
	for _, t := range m.tickets {
		if _, ok := r.maybe[t.token]; t.status == "processing" && !ok {
			r.maybe[t.token] = time.Now()
		}
	}
}

// open reports whether a pending ticket may be claimed now.
func (m *model) open(t *mTicket) bool {
	now := m.w.wall().UnixMilli()
	return !m.paused && !m.held[t.target] && (t.due <= now || t.due > now+store.LongestWait.Milliseconds())
}

// moves says what is wrong with what became of one ticket in a move of a relay; nil is a command of another kind.
func (m *model) moves(t, now *mTicket, by *modelRelay) error {
	same := t.status == now.status && t.token == now.token && t.attempts == now.attempts
	if same {
		if by != nil && !by.running && !by.dead && t.status == "processing" && t.holder == by {
			return fmt.Errorf("%s ended its pass and left %s behind as its own", by.name, t.key)
		}
		return nil
	}
	bad := func(why string) error {
		return fmt.Errorf("%s went from %s (attempt %d) to %s (attempt %d): %s", t.key, t.status, t.attempts, now.status, now.attempts, why)
	}
	late := by != nil && now.status == "done" && m.heard(by, t) // evidence is not fenced
	claims := now.attempts - t.attempts
	switch {
	case by == nil:
		return bad("no relay moved")
	case slices.Contains([]string{"done", "discarded", "dead"}, t.status):
		return bad("it had ended")
	case claims < 0 || claims > 1:
		return bad("one move is one claim at the most")
	case now.status == "discarded":
		return bad("a relay discards nothing")
	case claims == 0 && late:
		if t.holder != by || t.status != "processing" {
			m.w.saw("a late success made a ticket done")
		}
	case t.status == "review":
		return bad("a person was to look at it")
	case t.status == "pending" && claims == 0:
		return bad("nobody had claimed it")
	case t.status == "pending" && !m.open(t):
		return bad("it was not due, or its target was paused")
	case t.status == "processing" && (t.holder != by || claims == 1):
		if !m.void(t, by) {
			return bad("the claim was another's, and not void")
		}
		m.w.saw("reclaimed a void lease")
		if t.holder != nil && !t.holder.dead {
			m.w.saw("reclaimed the lease of a relay that stood still")
		}
	}
	return m.ends(t, now, by, bad)
}

// ends says what is wrong with how a ticket stands after a move.
func (m *model) ends(t, now *mTicket, by *modelRelay, bad func(string) error) error {
	switch {
	case now.status == "processing" && !by.running:
		return bad("the pass is over")
	case now.status == "done" && t.remote && !m.heard(by, t) && t.ledger == "":
		return bad("nobody said that it happened")
	case now.status == "dead" && (!t.remote || !m.refused(t)):
		return bad("nobody refused it")
	case now.status == "dead" && now.unknown:
		return bad("an earlier send may have been carried out")
	case now.status == "review" && !t.remote:
		return bad("a local effect needs nobody")
	}
	return nil
}
