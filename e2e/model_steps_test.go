package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"comanda/handlers"
	hands "comanda/handlers/hand"
	"comanda/store"

	"github.com/google/go-cmp/cmp"
)

// step is one command with what luck gave it; what it does depends on where the run stands, so that steps can be
// left out of a run.
type step struct{ op, a, b, c uint64 }

type modelOp struct {
	weight int
	do     func(w *modelWorld, s step) error
}

func modelOps() []modelOp {
	return []modelOp{
		{14, (*modelWorld).newOrder}, {7, (*modelWorld).duplicate}, {3, (*modelWorld).reuse}, {5, (*modelWorld).another},
		{4, (*modelWorld).credit}, {28, (*modelWorld).onePass}, {12, (*modelWorld).stoppedPass}, {9, (*modelWorld).letGoOn},
		{4, (*modelWorld).killOne}, {5, (*modelWorld).oneMore}, {2, (*modelWorld).oneLess}, {2, (*modelWorld).crashAll},
		{2, (*modelWorld).crashTriage}, {4, (*modelWorld).crashSettling}, {10, (*modelWorld).sleep}, {3, (*modelWorld).setClock},
		{16, (*modelWorld).byHand}, {8, (*modelWorld).overtake}, {2, (*modelWorld).pauseAll}, {3, (*modelWorld).pauseTarget}, {4, (*modelWorld).change}, {3, (*modelWorld).noteByHand},
	}
}

func (w *modelWorld) run(s step) error {
	ops := modelOps()
	n := 0
	for _, op := range ops {
		n += op.weight
	}
	at := int(s.op % uint64(n))
	for _, op := range ops {
		if at -= op.weight; at < 0 {
			return op.do(w, s)
		}
	}
	return nil
}

func pick[T any](of []T, n uint64) (one T) {
	if len(of) > 0 {
		one = of[n%uint64(len(of))]
	}
	return one
}

func (w *modelWorld) drawEvent(s step, order string) mEvent {
	return mEvent{id: fmt.Sprintf("EVT-%d", len(w.m.events)+1), order: order, customer: pick([]string{"CUS-1", "CUS-2", "CUS-3"}, s.a),
		pesos: pick([]int64{0, 50, 150, 900}, s.b), a: 1 + int64(s.c%3), b: int64(s.c / 3 % 3)}
}

func (e mEvent) wire(spelling uint64) []byte {
	lines := ""
	for _, l := range e.lines() {
		one := fmt.Sprintf(`{"sku":%q,"quantity":%d}`, l.sku, l.n)
		switch {
		case lines == "":
			lines = one
		case spelling%2 == 1:
			lines = one + "," + lines
		default:
			lines += "," + one
		}
	}
	return fmt.Appendf(nil, `{"event_id":%q,"order_id":%q,"customer_id":%q,"amount":"%d.0","currency":"MXN","line_items":[%s]}`, e.id, e.order, e.customer, e.pesos, lines)
}

// send hands an event in and compares the answer.
func (w *modelWorld) send(e mEvent, spelling uint64) error {
	want, problem := w.m.take(e, true)
	got, err := w.director.Triage(w.ctx, handlers.Arrival{}, e.wire(spelling))
	w.note("event %+v → %s %s%s", e, got.Status, got.Decision, problem)
	var p *handlers.Problem
	switch {
	case problem != "":
		if !errors.As(err, &p) || p.Name != problem {
			return fmt.Errorf("event %+v: %v %v, want %s", e, got, err, problem)
		}
	case err != nil:
		return fmt.Errorf("event %+v: %w", e, err)
	case want.Status == "already_decided" || got.Differs != nil || want.Differs != nil:
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("event %+v (-want +got):\n%s", e, diff)
		}
	default:
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("event %+v (-want +got):\n%s", e, diff)
		}
	}
	return w.m.look(w.ctx, nil)
}

func (w *modelWorld) newOrder(s step) error {
	return w.send(w.drawEvent(s, fmt.Sprintf("ORD-%d", len(w.m.orders)+1)), 0)
}

func (w *modelWorld) known(n uint64) (e mEvent, ok bool) {
	if len(w.m.events) == 0 {
		return e, false
	}
	return w.m.events[fmt.Sprintf("EVT-%d", 1+n%uint64(len(w.m.events)))], true
}

func (w *modelWorld) duplicate(s step) error {
	e, ok := w.known(s.a)
	if !ok {
		return nil
	}
	for _, t := range w.m.tickets {
		if t.order == e.order && t.status == "processing" {
			w.saw("duplicate while in flight")
		}
	}
	return w.send(e, s.b)
}

func (w *modelWorld) reuse(s step) error {
	e, ok := w.known(s.a)
	if !ok {
		return nil
	}
	e.pesos += 1 + int64(s.b%3)
	return w.send(e, 0)
}

func (w *modelWorld) another(s step) error {
	e, ok := w.known(s.c)
	if !ok {
		return nil
	}
	next := w.drawEvent(s, e.order)
	if s.b%4 == 0 {
		id := next.id
		next = w.m.orders[e.order].mEvent
		next.id = id
	}
	return w.send(next, s.a)
}

func (w *modelWorld) credit(s step) error {
	c, limit := pick([]string{"CUS-1", "CUS-2"}, s.a), pick([]int64{0, 100, 500}, s.b)
	w.m.limits[c] = limit
	w.note("credit of %s is %d", c, limit)
	return w.serve.Update(w.ctx, func(tx *store.Tx) error {
		return tx.SetCredit(store.Credit{CustomerID: c, Currency: "MXN", Limit: fmt.Sprintf("%d.00", limit)}, "model")
	})
}

func (w *modelWorld) idle() (all []*modelRelay) {
	for _, r := range w.relays {
		if !r.running {
			all = append(all, r)
		}
	}
	return all
}

func (w *modelWorld) standing() (all []*modelRelay) {
	for _, r := range w.relays {
		if r.at != nil {
			all = append(all, r)
		}
	}
	return all
}

// moves has a relay make a pass and compares what came of it.
func (w *modelWorld) moves(r *modelRelay, stopAt string, luck uint64) error {
	w.m.watches(r)
	dead := map[string]bool{}
	var local []*mTicket
	for _, t := range w.m.tickets {
		if t.status == "processing" && t.holder != nil && t.holder.dead {
			dead[t.token] = true
		}
		if t.status == "pending" && w.m.held[t.target] && t.due == 0 {
			w.saw("paused target with due tickets")
		}
		if t.status == "pending" && !t.remote && w.m.open(t) {
			local = append(local, t)
		}
	}
	w.pass(r, stopAt, luck)
	w.note("a pass of %s%s", r.name, r.where())
	if err := w.m.look(w.ctx, r); err != nil {
		return err
	}
	for _, t := range w.m.tickets {
		if t.status == "processing" && dead[t.token] {
			return fmt.Errorf("%s left %s to a dead relay", r.name, t.key)
		}
	}
	if len(local) > 0 && len(dead) == 0 && !r.stood && local[0].status != "done" { // what a dead one held comes first, by its number
		return fmt.Errorf("%s was due and first, and a pass left it %s", local[0].key, local[0].status)
	}
	return nil
}

func (r *modelRelay) where() string {
	if r.at == nil {
		return ""
	}
	return ", which stands still at " + r.at.point
}

func (w *modelWorld) onePass(s step) error {
	r := pick(w.idle(), s.a)
	if r == nil {
		return nil
	}
	return w.moves(r, "", s.b)
}

func (w *modelWorld) stoppedPass(s step) error {
	r := pick(w.idle(), s.a)
	if r == nil {
		return nil
	}
	return w.moves(r, pick([]string{"relay.claimed", "carry", "effect.before_send", "gateway.before", "gateway.did", "effect.after_send"}, s.c), s.b)
}

func (w *modelWorld) letGoOn(s step) error {
	r := pick(w.standing(), s.a)
	if r == nil {
		return nil
	}
	return w.letGo(r)
}

// letGo has a relay that stands still go on, and compares what came of it.
func (w *modelWorld) letGo(r *modelRelay) error {
	if !slices.ContainsFunc(w.m.tickets, func(t *mTicket) bool { return t.status == "processing" && t.holder == r }) {
		w.saw("late settle fenced")
	}
	w.m.watches(r)
	w.goOn(r)
	w.note("%s goes on%s", r.name, r.where())
	return w.m.look(w.ctx, r)
}

// overtake has a relay stand still past its lease while another one takes over what it had.
func (w *modelWorld) overtake(s step) error {
	late := pick(w.idle(), s.a)
	if late == nil {
		return nil
	}
	if err := w.moves(late, pick([]string{"gateway.did", "effect.after_send", "effect.before_send", "carry"}, s.c), s.b); err != nil || late.at == nil {
		return err
	}
	if len(w.idle()) == 0 {
		if err := w.startRelay(); err != nil {
			return err
		}
	}
	other := pick(w.idle(), s.a)
	if err := w.moves(other, "", s.b); err != nil { // it sees the claim
		return err
	}
	time.Sleep(modelLease + time.Second)
	if err := w.moves(other, pick([]string{"", "relay.claimed", "relay.claimed", "gateway.did"}, s.b), s.c); err != nil {
		return err
	}
	return w.letGo(late)
}

func (w *modelWorld) killOne(s step) error {
	r := pick(w.relays, s.a)
	if r == nil {
		return nil
	}
	w.note("%s is killed%s", r.name, r.where())
	if err := w.kill(r); err != nil {
		return err
	}
	return w.m.look(w.ctx, nil)
}

func (w *modelWorld) oneMore(step) error {
	if len(w.relays) == 3 {
		return nil
	}
	return w.startRelay()
}

func (w *modelWorld) oneLess(s step) error {
	r := pick(w.idle(), s.a)
	if r == nil {
		return nil
	}
	w.note("%s stops", r.name)
	if err := w.stopRelay(r); err != nil {
		return err
	}
	return w.m.look(w.ctx, nil)
}

func (w *modelWorld) crashAll(s step) error {
	reboot := s.a%2 == 0
	w.note("everything is killed, reboot %v", reboot)
	if reboot && slices.ContainsFunc(w.m.tickets, func(t *mTicket) bool { return t.unknown }) {
		w.saw("reboot with an unknown send")
	}
	if err := w.crash(reboot); err != nil {
		return err
	}
	if err := w.m.look(w.ctx, nil); err != nil {
		return err
	}
	return w.startRelay()
}

// crashTriage kills everything while an order is decided, before its commit or after.
func (w *modelWorld) crashTriage(s step) error {
	e := w.drawEvent(s, fmt.Sprintf("ORD-%d", len(w.m.orders)+1))
	point := pick([]string{"triage.before_commit", "triage.after_commit"}, s.a)
	here, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.director.Crash = func(name string) {
		if name == point {
			close(here)
			<-goOn
		}
	}
	d := w.director
	go func() { defer close(ended); _, _ = d.Triage(w.ctx, handlers.Arrival{}, e.wire(0)) }()
	<-here
	w.note("everything is killed at %s of %+v", point, e)
	w.m.take(e, point == "triage.after_commit")
	w.saw("killed at " + point)
	if err := w.crashWith(false, func() { close(goOn); <-ended }); err != nil {
		return err
	}
	if err := w.m.look(w.ctx, nil); err != nil {
		return err
	}
	if err := w.startRelay(); err != nil {
		return err
	}
	return w.send(e, 0) // the sender had no answer, and sends it again
}

// crashSettling kills everything while local effects are carried out, before their commit.
func (w *modelWorld) crashSettling(s step) error {
	r := pick(w.idle(), s.a)
	if r == nil {
		return nil
	}
	w.m.watches(r)
	w.pass(r, "effect.before_commit", s.b)
	w.note("a pass of %s%s", r.name, r.where())
	if err := w.m.look(w.ctx, r); err != nil || r.at == nil {
		return err
	}
	w.saw("killed before a settlement's commit")
	return w.crashAll(s)
}

func (w *modelWorld) sleep(s step) error {
	d := pick([]time.Duration{time.Second, 31 * time.Second, modelLease + time.Second, modelLease + time.Second, time.Hour, 13 * time.Hour, 25 * time.Hour}, s.a)
	time.Sleep(d)
	w.note("%v pass", d)
	return w.m.look(w.ctx, nil)
}

func (w *modelWorld) setClock(s step) error {
	d := pick([]time.Duration{-time.Hour, time.Hour, -365 * 24 * time.Hour, 365 * 24 * time.Hour}, s.a)
	if d < 0 && slices.ContainsFunc(w.m.tickets, func(t *mTicket) bool { return t.status == "processing" }) {
		w.saw("clock set back with a lease out")
	}
	w.skew += d
	w.note("the wall clock jumps %v", d)
	return nil
}

func (w *modelWorld) pauseAll(s step) error {
	w.m.paused = !w.m.paused
	w.note("relays paused: %v", w.m.paused)
	return w.serve.Update(w.ctx, func(tx *store.Tx) error { return tx.Pause(w.m.paused, "model") })
}

func (w *modelWorld) pauseTarget(s step) error {
	name := pick([]string{store.LedgerRefund, store.LedgerInventory}, s.a)
	pause := s.b%3 == 0
	w.m.held[name] = pause
	w.note("%s paused: %v", name, pause)
	return w.serve.Update(w.ctx, func(tx *store.Tx) error {
		if pause {
			return tx.PauseTarget(name, "model", "stock-taking")
		}
		return tx.ResumeTarget(name, "model")
	})
}

func (w *modelWorld) change(s step) error {
	w.weather = pick([]weather{calm, stormy, offline}, s.a)
	w.note("the weather is %s", w.weather)
	w.saw("weather " + string(w.weather))
	return nil
}

// noteByHand has another client put an effect into the ledger that was not carried out yet.
func (w *modelWorld) noteByHand(s step) error {
	t := pick(w.m.tickets, s.a)
	if t == nil || t.status != "pending" || t.ledger != "" || t.unknown || w.m.did(t) {
		return nil
	}
	o, err := openOutside(w.path)
	if err != nil {
		return err
	}
	w.note("another client puts %s into the ledger", t.key)
	t.noted = true
	_, err = o.exec(w.ctx, "INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES (?, ?, ?, 'done')", t.key, t.order, t.target)
	if err = errors.Join(err, o.close()); err != nil {
		return err
	}
	return w.m.look(w.ctx, nil)
}

// byHand has an operator, who knows what the target knows, do something to a ticket.
func (w *modelWorld) byHand(s step) error {
	t := pick(w.m.tickets, s.a)
	for _, one := range w.m.tickets { // those that wait for a person are likelier
		if s.c%3 == 1 && one.status == "review" || s.c%3 == 2 && one.status == "dead" {
			t = one
		}
	}
	if t == nil {
		return nil
	}
	var g *modelGateway
	did, settled := false, true
	if g = w.gates[t.target]; g != nil {
		did, settled = g.happened(t.key)
	}
	act := store.HandAct{Do: pick([]string{store.ActRetry, store.ActDiscard, store.ActResolve}, s.b), Reason: "the model says so", Who: "model", Happened: did}
	act.SendAgain = act.Do == store.ActRetry && settled && !did
	if !settled && act.Do == store.ActResolve {
		return nil // the target itself does not know yet
	}
	return w.act(t, act)
}

// act carries an operator's act out and compares.
func (w *modelWorld) act(t *mTicket, act store.HandAct) error {
	want, may := w.m.mayAct(t, act)
	a := hands.Act{HandAct: act, IDs: []int64{t.id}, LedgerTypes: map[string]string{store.TicketIssueRefund: store.LedgerRefund, store.TicketInventorySync: store.LedgerInventory}}
	rep, err := a.Carry(w.ctx, w.serve)
	said, _ := json.Marshal(rep)
	w.note("%s %s (%s), happened %v, send again %v → %s", act.Do, t.key, t.status, act.Happened, act.SendAgain, said)
	if err != nil {
		return err
	}
	if did := len(rep.Tickets) == 1; did != may {
		return fmt.Errorf("%s of %s (%s): allowed %v, want %v: %s", act.Do, t.key, t.status, did, may, said)
	}
	if may {
		w.saw(act.Do + " of " + t.status)
		t.status = want
		if act.SendAgain || act.Do == store.ActResolve {
			t.cleared = time.Now()
		}
	}
	return w.m.look(w.ctx, nil)
}

// mayAct is what the contract says of an operator's act, and what the ticket is then.
func (m *model) mayAct(t *mTicket, a store.HandAct) (status string, may bool) {
	known := t.ledger != ""
	switch a.Do {
	case store.ActRetry:
		return "pending", !known && (t.status == "pending" || t.status == "dead" && (!t.unknown || a.SendAgain) || t.status == "review" && a.SendAgain)
	case store.ActDiscard:
		return "discarded", !known && !t.unknown && (t.status == "pending" || t.status == "dead")
	}
	may = t.status == "review" || t.status == "dead" && (t.unknown || known)
	if a.Happened {
		return "done", may
	}
	return "dead", may && !known
}
