package relay

import (
	"context"
	"maps"
	"slices"
	"time"

	"comanda/store"
)

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
