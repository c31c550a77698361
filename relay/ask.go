package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"comanda/store"
)

// lookupBudget is how many lookups may come to nothing while the target is up before a person is asked.
const lookupBudget = 5

// ask looks up whether the effect happened. never means that the target says so and can be believed: the
// ticket may be sent as if for the first time.
func (l *lane) ask(ctx context.Context, j *job, past store.Past) (e end, never bool, err error) {
	limited, cancel := context.WithTimeout(ctx, l.remote.Timeout)
	defer cancel()
	asked := time.Now()
	begun, err := l.begin(j, "lookup")
	if errors.Is(err, errNothingSent) {
		e, err = l.release(j)
		return e, false, err
	}
	if err != nil {
		return end{}, false, err
	}
	f := l.lookup(limited, begun.Letter.Key)
	since := time.Duration(past.LastMS)*time.Millisecond + time.Since(asked)
	if f.Knowledge == store.Absent && since >= l.remote.LookupGrace {
		f = l.control(ctx, j, f)
	}
	return l.heed(ctx, j, begun.ID, f, l.remote.LookupGrace-since)
}

// control asks for a key that is known to be done there: a lookup with a mistake in its address says of
// every key that it was never seen.
func (l *lane) control(ctx context.Context, j *job, f store.Finding) store.Finding {
	unclear := func(format string, args ...any) store.Finding {
		return store.Finding{Knowledge: store.Unclear, Status: f.Status, Detail: fmt.Sprintf(format, args...)}
	}
	key, err := l.controlKey(j)
	if err != nil {
		return store.Finding{Knowledge: store.CouldNotAsk, Detail: "the file could not be read for what would test the lookup"}
	}
	if key == "" {
		return unclear("the lookup says that it never happened, and there is no finished one to test the lookup with")
	}
	if ctx.Err() != nil || j.claim.Left() < l.remote.Timeout {
		return store.Finding{Knowledge: store.CouldNotAsk, Detail: "no time was left to test the lookup"}
	}
	ctx, cancel := context.WithTimeout(ctx, l.remote.Timeout)
	defer cancel()
	switch c := l.lookup(ctx, key); c.Knowledge {
	case store.Found:
		return f
	case store.CouldNotAsk:
		return c
	default:
		return unclear("the lookup says that it never happened, but it does not find %s either, which is done", key)
	}
}

func (l *lane) controlKey(j *job) (key string, err error) {
	err = l.r.opt.DB.View(context.Background(), func(tx *store.Tx) (err error) {
		key, err = tx.ControlKey(j.ticket, l.remote.Name, l.remote.Address, l.remote.LookupGrace.Milliseconds())
		return err
	})
	return key, err
}

func (l *lane) lookup(ctx context.Context, key string) store.Finding {
	began := time.Now()
	f := l.remote.Door.Lookup(ctx, key)
	l.r.opt.Observe.Sent(l.remote.Name, "lookup", string(f.Knowledge), time.Since(began))
	return f
}

// heed writes down what a lookup found out, and does what follows.
func (l *lane) heed(ctx context.Context, j *job, attempt int64, f store.Finding, tooEarly time.Duration) (e end, never bool, err error) {
	stopped := context.Cause(ctx) == errStopped && f.Knowledge == store.CouldNotAsk
	offline, news := false, false
	if !stopped {
		offline, news = l.reach.saw(f.Unreachable, true)
	}
	err = l.writeEvidence(func(tx *store.Tx) (err error) {
		never = false
		if err = tx.EndAttempts(store.Ended{ID: attempt, Outcome: string(f.Knowledge), Status: f.Status, Receipt: f.Receipt, Detail: f.Detail}); err != nil {
			return err
		}
		if news {
			if err = tx.Offline(l.remote.Name, offline); err != nil {
				return err
			}
		}
		e, never, err = l.heedIn(tx, j, f, tooEarly, offline || stopped)
		return err
	})
	if news && err == nil {
		l.sayReach(offline, f.Detail)
	}
	if never {
		j.ticket.Failures, j.ticket.Lookups = 0, 0
	}
	return e, never, err
}

func (l *lane) heedIn(tx *store.Tx, j *job, f store.Finding, tooEarly time.Duration, free bool) (e end, never bool, err error) {
	id, token := j.ticket.ID, j.claim.Token
	requeue := func(r store.Requeue) (end, bool, error) {
		ok, err := tx.Requeue(token, id, r)
		outcome := retried
		if free {
			outcome = offlineOutcome
		}
		return end{orLost(ok, outcome), r.Detail}, false, err
	}
	park := func(why string) (end, bool, error) {
		ok, err := tx.Park(token, id, why)
		return end{orLost(ok, review), why}, false, err
	}
	switch {
	case f.Knowledge == store.Found:
		e, err = l.rememberIn(tx, j, true)
		return e, false, err
	case f.Knowledge == store.Absent && tooEarly > 0:
		return requeue(store.Requeue{WaitMS: max(1, tooEarly.Milliseconds()), Detail: "the target does not know it yet; asked again after the grace"})
	case f.Knowledge == store.Absent:
		never, err = tx.WindowAnew(token, id)
		return end{orLost(never, retried), f.Detail}, never, err
	case f.Knowledge == store.CouldNotAsk && free:
		return requeue(store.Requeue{Detail: f.Detail})
	case f.Knowledge == store.CouldNotAsk && j.ticket.Lookups+1 >= lookupBudget:
		return park(fmt.Sprintf("could not ask the target %d times whether it happened, last: %s", lookupBudget, f.Detail))
	case f.Knowledge == store.CouldNotAsk:
		wait := f.RetryAfter
		if wait == 0 {
			wait = l.r.opt.Backoff(j.ticket.Lookups)
		}
		return requeue(store.Requeue{WaitMS: max(1, wait.Milliseconds()), Lookups: 1, Detail: f.Detail})
	}
	return park("the target was asked whether it happened and did not say: " + f.Detail)
}
