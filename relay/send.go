package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

// send sends the letter once, as it was frozen with its row.
func (l *lane) send(ctx context.Context, j *job, past store.Past, begun store.Begun) (end, error) {
	l.r.opt.Crash("effect.before_send")
	reply := l.sendOne(ctx, begun.Letter)
	l.r.opt.Crash("effect.after_send")
	return l.settle(ctx, j, past, begun.ID, reply)
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
