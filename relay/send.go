package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"comanda/store"
)

// job is one remote ticket in the hands of one worker.
type job struct {
	claim  store.Claim
	ticket store.Ticket
	turn   int // of a claim that tries a target out of reach; 0 of any other
	effect Effect
	letter store.Letter
}

func (j *job) claimed() store.Claimed {
	return store.Claimed{Ticket: j.ticket.ID, Token: j.claim.Token}
}

// end is what a worker's turn at a ticket came to, once it is committed.
type end struct {
	outcome string // done, already_done, too_late, retried, offline, dead, review, released, lost
	detail  string
}

// carry takes one ticket as far as it gets and writes down what came of it.
func (l *lane) carry(ctx context.Context, j job) (sum Tally) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			l.log.Error("sending panicked", "id", j.ticket.ID, "panic", p, "stack", string(debug.Stack()))
			sum = l.report(j, l.park(j, "panicked", fmt.Sprintf("sending it panicked: %v", p)), nil, began)
		}
	}()
	e, err := l.advance(ctx, &j)
	return l.report(j, e, err, began)
}

// advance makes the steps that the ticket's past asks for. Only a lookup that says "never" leads on to
// another one.
func (l *lane) advance(ctx context.Context, j *job) (end, error) {
	if e, stop := l.prepare(ctx, j); stop {
		return e, nil
	}
	for {
		e, more, err := l.step(ctx, j)
		if err != nil || !more {
			return e, err
		}
	}
}

// step makes one step. What is to be sent is begun in the transaction that reads the past; the deadline of a send counts
// from before its row.
func (l *lane) step(ctx context.Context, j *job) (e end, more bool, err error) {
	sending, cancel := within(ctx, l.remote.Timeout, l.r.opt.DB.Boot)
	defer cancel()
	next, past, begun, err := l.look(j, l.mayBegin(ctx, j))
	switch {
	case errors.Is(err, errNothingSent):
		e, err = l.release(j)
		return e, false, err
	case err != nil:
		return end{}, false, err
	}
	switch next.do {
	case stepRemember:
		e, err = l.remember(j, next.why)
		return e, false, err
	case stepPark:
		return l.park(*j, "", next.why), false, nil
	case stepRelease:
		e, err = l.release(j)
		return e, false, err
	case stepSend:
		e, err = l.send(sending, j, past, begun)
		return e, false, err
	}
	return l.ask(ctx, j, past)
}

// opening is a ticket whose turn it is: what its past asks for and, if that is a send, the attempt that began.
type opening struct {
	job      *job
	mayBegin bool
	next     step
	past     store.Past
	begun    store.Begun
}

// look reads the ticket's past and says what is to be done. If that is a send, its row is on disk when look returns nil.
func (l *lane) look(j *job, mayBegin bool) (next step, past store.Past, begun store.Begun, err error) {
	o := &opening{job: j, mayBegin: mayBegin}
	err = l.openings.do(o)
	if err == nil && o.next.do == stepSend && (o.begun.Lost || o.begun.Halted) {
		err = errNothingSent
	}
	return o.next, o.past, o.begun, err
}

// open looks at tickets and begins what is to be sent.
func (l *lane) open(tx *store.Tx, set []*opening) error {
	begun, err := l.openFirst(tx, set)
	for _, o := range set {
		if err != nil {
			return err
		}
		if first, ok := begun[o.job.claimed()]; ok {
			o.next, o.past, o.begun = step{stepSend, ""}, store.Past{Proven: first.Proven}, first
			continue
		}
		err = l.openOne(tx, o)
	}
	return err
}

// openFirst begins in a few statements the sends for which nothing stands in the way: nothing has been sent for these
// tickets, since no letter was frozen when they were claimed, and the ledger does not know them.
func (l *lane) openFirst(tx *store.Tx, set []*opening) (map[store.Claimed]store.Begun, error) {
	var ids []int64
	letters := map[store.Claimed]store.Letter{}
	for _, o := range set {
		if o.job.ticket.WireKey == nil && !o.job.claim.Probe && l.inTime(o) {
			ids = append(ids, o.job.ticket.ID)
			letters[o.job.claimed()] = o.job.letter
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	known, err := tx.InLedger(ids)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(letters, func(c store.Claimed, _ store.Letter) bool { return known[c.Ticket] })
	return tx.BeginFirst(l.attempt("send"), letters)
}

func (l *lane) openOne(tx *store.Tx, o *opening) (err error) {
	o.begun = store.Begun{}
	if o.past, err = tx.Past(o.job.ticket, l.remote.Name, l.remote.Address); err != nil {
		return err
	}
	o.next = l.remote.plan(o.job.ticket, o.past, int64(l.r.opt.RetryBudget))
	if (o.next.do == stepSend || o.next.do == stepLookup) && !l.inTime(o) {
		o.next.do = stepRelease
	}
	if o.next.do == stepSend {
		o.begun, err = l.beginIn(tx, o.job, "send")
	}
	return err
}

// inTime: it may be begun, and the lease outlasts what would be sent.
func (l *lane) inTime(o *opening) bool {
	return o.mayBegin && o.job.claim.Left() >= l.remote.Timeout
}

// prepare finds the effect, has it check the payload, and makes the letter.
func (l *lane) prepare(ctx context.Context, j *job) (end, bool) {
	j.effect = l.r.opt.Effects[j.ticket.EffectType]
	w := store.Work{OrderID: j.ticket.AggregateID, Payload: j.ticket.Payload, EffectKey: j.ticket.Key}
	_, err := j.effect.Carry(ctx, w)
	if err == nil {
		j.letter, err = l.remote.Door.Letter(w, j.effect.Kind().LedgerType)
	}
	if err != nil {
		return l.park(*j, "undecodable", err.Error()), true
	}
	return end{}, false
}

// errNothingSent: the claim was lost, or the target was paused, before anything could be sent.
var errNothingSent = errors.New("nothing was sent")

// begin writes a lookup's row. When it returns nil, the row is on disk and the letter is the frozen one.
func (l *lane) begin(j *job, kind string) (begun store.Begun, err error) {
	err = l.update(func(tx *store.Tx) (err error) {
		begun, err = l.beginIn(tx, j, kind)
		return err
	})
	if err == nil && (begun.Lost || begun.Halted) {
		err = errNothingSent
	}
	return begun, err
}

// update is a transaction before anything was sent.
func (l *lane) update(fn func(*store.Tx) error) error {
	err := l.r.opt.DB.Update(context.Background(), fn)
	if errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", errNothingSent, err) // perhaps there is a row; it will count as unknown
	}
	return err
}

func (l *lane) beginIn(tx *store.Tx, j *job, kind string) (store.Begun, error) {
	b := l.attempt(kind)
	b.Ticket, b.Token, b.Letter, b.Probe = j.ticket.ID, j.claim.Token, j.letter, j.claim.Probe
	return tx.BeginAttempt(b)
}

// attempt is what every attempt of a kind has in common.
func (l *lane) attempt(kind string) store.Begin {
	return store.Begin{Kind: kind, Target: l.remote.Name, Address: l.remote.Address,
		KeyTTL: l.remote.KeyTTL.Milliseconds(), Timeout: l.remote.Timeout.Milliseconds()}
}

// send sends the letter once, as it was frozen with its row.
func (l *lane) send(ctx context.Context, j *job, past store.Past, begun store.Begun) (end, error) {
	l.r.opt.Crash("effect.before_send")
	reply := l.sendOne(ctx, begun.Letter)
	l.r.opt.Crash("effect.after_send")
	return l.settle(ctx, j, past, begun.ID, reply)
}

// settle writes down what a send found out, for the attempt and for the target whoever has the ticket by
// now, and for the ticket if it is still ours.
func (l *lane) settle(ctx context.Context, j *job, past store.Past, attempt int64, reply store.Reply) (end, error) {
	stopped := context.Cause(ctx) == errStopped && (reply.Evidence == store.Unknown || reply.Evidence == store.NotSent)
	offline, news := false, false
	if !stopped {
		offline, news = l.reach.saw(reply.Unreachable, reply.Evidence != store.NotSent)
	}
	v := l.remote.judge(past, reply, l.wait(j, reply), offline)
	if stopped { // being stopped is not failing
		v.requeue = store.Requeue{Detail: "the process was stopped before an answer came"}
	}
	f := &found{job: j, past: past, verdict: v, offline: offline, news: news, unreachable: reply.Unreachable,
		ended: store.Ended{ID: attempt, Outcome: v.outcome, Status: reply.Status, Receipt: reply.Receipt, Detail: v.detail}}
	err := l.founds.do(f)
	if err == nil {
		l.say(v, offline, news, reply.Detail)
	}
	return f.end, err
}

// found is what a send found out, and what came of its ticket.
type found struct {
	job         *job
	past        store.Past
	verdict     verdict
	ended       store.Ended
	offline     bool
	news        bool // that the target is offline, or is not any more
	unreachable bool
	end         end
}

// plain: it happened, no earlier try is unknown, and there is nothing to note about the target but that it answered.
func (f *found) plain() bool {
	return f.verdict.do == doRemember && f.past.Unknown == 0 && !f.news && !f.job.claim.Probe
}

// writeFound writes down what sends found out: what is plain in a few statements for all.
func (l *lane) writeFound(tx *store.Tx, set []*found) error {
	if len(set) == 0 {
		return nil
	}
	ended := make([]store.Ended, len(set))
	plain := map[string][]*found{} // by what the ledger calls them
	for i, f := range set {
		ended[i] = f.ended
		if f.plain() {
			name := f.job.effect.Kind().LedgerType
			plain[name] = append(plain[name], f)
		}
	}
	err := tx.EndAttempts(ended...)
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		if err == nil {
			err = l.rememberAll(tx, name, plain[name])
		}
	}
	for _, f := range set {
		if err == nil && !f.plain() {
			err = l.writeOne(tx, f)
		}
	}
	return err
}

func (l *lane) rememberAll(tx *store.Tx, ledgerType string, set []*found) error {
	ids := make([]int64, len(set))
	for i, f := range set {
		ids[i] = f.job.ticket.ID
	}
	if err := tx.ProveAddress(l.remote.Name, l.remote.Address); err != nil {
		return err
	}
	settled, err := tx.RememberAll(ids, ledgerType, "remote")
	for _, f := range set {
		f.end = end{string(settled[f.job.ticket.ID]), ""}
	}
	return err
}

func (l *lane) writeOne(tx *store.Tx, f *found) (err error) {
	if err = l.noteTarget(tx, f.job, f.verdict, f.unreachable, f.news); err != nil {
		return err
	}
	f.end, err = l.apply(tx, f.job, f.verdict, f.offline, f.past.Unknown > 0)
	return err
}

// say logs what became of the target itself, once it is committed.
func (l *lane) say(v verdict, offline, news bool, why string) {
	if news {
		l.sayReach(offline, why)
	}
	if v.pause != "" {
		l.log.Error("target is paused; its tickets wait until it lets us in", "why", v.pause)
	}
	if v.hold > 0 {
		l.log.Warn("target asked to be left alone", "for", v.hold)
	}
}

// wait is the backoff after a reply: what was not sent and what was not yet taken up costs the ticket
// nothing, so they are counted by the target.
func (l *lane) wait(j *job, reply store.Reply) time.Duration {
	switch reply.Evidence {
	case store.NotSent:
		return l.r.opt.Backoff(l.reach.row())
	case store.NotYet:
		return l.r.opt.Backoff(0)
	}
	return l.r.opt.Backoff(j.ticket.Failures)
}

func (l *lane) sayReach(offline bool, why string) {
	if offline {
		l.log.Warn("target is offline; tickets wait and nothing is charged", "why", why)
		return
	}
	l.log.Info("target is back")
	offer(l.poke)
}

// noteTarget writes down what a reply says about the target itself.
func (l *lane) noteTarget(tx *store.Tx, j *job, v verdict, unreachable, news bool) error {
	var err error
	name := l.remote.Name
	if news {
		err = tx.Offline(name, unreachable)
	}
	if err == nil && v.pause != "" {
		err = tx.PauseByAnswer(name, v.pause, l.remote.Credential)
	}
	if err == nil && v.hold > 0 {
		err = tx.HoldTarget(name, v.hold.Milliseconds())
	}
	if err == nil && v.proves {
		err = tx.ProveAddress(name, l.remote.Address)
	}
	if err == nil && j.claim.Probe && v.pause == "" && !unreachable {
		err = tx.Answered(name)
	}
	return err
}

// apply settles the ticket. Success is evidence and names no token; everything else is a decision.
func (l *lane) apply(tx *store.Tx, j *job, v verdict, offline, unknownBefore bool) (end, error) {
	id, token := j.ticket.ID, j.claim.Token
	switch v.do {
	case doRemember:
		return l.rememberIn(tx, j, unknownBefore)
	case doPark:
		ok, err := tx.Park(token, id, v.detail)
		return end{orLost(ok, review), v.detail}, err
	case doBury:
		bury := tx.Bury
		if l.r.opt.Compensate {
			bury = tx.BuryLine
		}
		if j.ticket.EffectType == store.TicketInventoryRelease { // a compensation is never compensated
			bury = tx.Park
		}
		ok, err := bury(token, id, v.detail)
		return end{orLost(ok, buried(j)), v.detail}, err
	}
	ok, err := tx.Requeue(token, id, v.requeue)
	outcome := retried
	if offline {
		outcome = offlineOutcome
	}
	return end{orLost(ok, outcome), v.requeue.Detail}, err
}

func buried(j *job) string {
	if j.ticket.EffectType == store.TicketInventoryRelease {
		return review
	}
	return dead
}

func (l *lane) rememberIn(tx *store.Tx, j *job, unknownBefore bool) (end, error) {
	if unknownBefore {
		if err := tx.CloseUnknown(j.ticket.ID); err != nil {
			return end{}, err
		}
	}
	settled, err := tx.Remember(j.ticket.ID, j.effect.Kind().LedgerType, "remote")
	return end{string(settled), ""}, err
}

// remember settles a ticket whose effect is known to have happened without another send.
func (l *lane) remember(j *job, why string) (e end, err error) {
	err = l.write(func(tx *store.Tx) (err error) {
		e, err = l.rememberIn(tx, j, true)
		return err
	})
	e.detail = why
	return e, err
}

// park leaves the ticket to a person. outcome is noted as a claim's that came to nothing; "" when an
// attempt's row says it all.
func (l *lane) park(j job, outcome, why string) (e end) {
	err := l.write(func(tx *store.Tx) error {
		var ok bool
		var err error
		if outcome == "" {
			ok, err = tx.Park(j.claim.Token, j.ticket.ID, why)
		} else {
			ok, err = tx.Review(j.claim.Token, j.ticket.ID, outcome, why)
		}
		e = end{orLost(ok, review), why}
		return err
	})
	if err != nil {
		return end{detail: err.Error()}
	}
	return e
}

// release gives the ticket back untouched.
func (l *lane) release(j *job) (end, error) {
	err := l.write(func(tx *store.Tx) error {
		_, err := tx.Release(j.claim.Token, []int64{j.ticket.ID})
		return err
	})
	return end{outcome: released}, err
}

// evidenceFor is how long it is tried to write down what a send found out: nobody else knows.
const evidenceFor = 10 * time.Minute

func (l *lane) writeEvidence(fn func(*store.Tx) error) error { return l.writeWithin(evidenceFor, fn) }

func (l *lane) write(fn func(*store.Tx) error) error { return l.writeWithin(settleFor, fn) }

// writeWithin tries for a while if the file can't be written now. What could not be written down counts as
// unknown at the next look.
func (l *lane) writeWithin(d time.Duration, fn func(*store.Tx) error) error {
	giveUp := time.Now().Add(d)
	for again := settleAgain; ; again = min(2*again, settleSlowest) {
		err := l.r.opt.DB.Update(context.Background(), fn)
		if err == nil || !waitsForOthers(err) || time.Now().After(giveUp) {
			return err
		}
		time.Sleep(again)
	}
}

// report logs one line a ticket and counts it.
func (l *lane) report(j job, e end, err error, began time.Time) (sum Tally) {
	level := slog.LevelInfo
	switch e.outcome {
	case string(store.Done), string(store.AlreadyDone):
		sum.Done = 1
	case retried:
		sum.Retried, level = 1, slog.LevelWarn
	case offlineOutcome:
		sum.Offline = 1
	case dead:
		sum.Dead, level = 1, slog.LevelError
	case review:
		sum.Review, level = 1, slog.LevelError
	case string(store.TooLate):
		level = slog.LevelError
	}
	attrs := []any{"id", j.ticket.ID, "order_id", j.ticket.AggregateID, "effect", j.ticket.EffectType, "key", j.ticket.Key,
		"attempt", j.ticket.Attempts, "outcome", e.outcome, "took", time.Since(began)}
	if e.detail != "" {
		attrs = append(attrs, "detail", e.detail)
	}
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, "error", err.Error())
	}
	l.log.Log(context.Background(), level, "ticket", attrs...)
	outcome := e.outcome
	if err != nil || outcome == "" {
		outcome = unsettled
	}
	l.r.opt.Observe.Turn(l.remote.Name, outcome, time.Since(began))
	return sum
}
