package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"comanda/store"
)

// result is what one worker found out about one ticket. Not begun means: give it back untouched.
type result struct {
	ticket store.Ticket
	kind   store.Kind
	begun  bool
	err    error
	park   string    // why no further try would help; "" when one would
	began  time.Time // its turn
	took   time.Duration
}

// through reports whether the effect has let the ticket through: what is left is to write it down.
func (r result) through() bool { return r.begun && r.park == "" && r.err == nil }

// stopGrace is how long a running effect may go on after the process was asked to stop; the whole
// stop is given 10 s.
const stopGrace = 8 * time.Second

// carryAll has the tickets of a claim carried out by a bounded number of workers. The results stand
// in the order of the tickets.
func (r *Runner) carryAll(ctx context.Context, claim store.Claim) []result {
	results := make([]result, len(claim.Tickets))
	now := time.Now()
	for i, t := range claim.Tickets {
		results[i].ticket, results[i].began = t, now
	}
	effects, cancel := r.graceful(ctx, claim)
	defer cancel()
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(r.opt.Workers, len(results)) {
		workers.Go(func() {
			for i := range next {
				r.carry(effects, &results[i])
			}
		})
	}
	for i := range results {
		if ctx.Err() != nil || claim.Left() <= 0 {
			break // stopped, or too late: the rest is given back
		}
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

// graceful returns a context that ends with the lease, or some time after ctx.
func (r *Runner) graceful(ctx context.Context, claim store.Claim) (context.Context, context.CancelFunc) {
	leased, over := within(context.WithoutCancel(ctx), claim.Left(), r.opt.DB.Boot)
	effects, cancel := context.WithCancelCause(leased)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, func() { cancel(errStopped) }) })
	return effects, func() { stop(); cancel(nil); over() }
}

// carry runs the effect of one ticket. While it runs, the holder's lock file names the ticket, so
// that a crash of the process is charged to it.
func (r *Runner) carry(ctx context.Context, res *result) {
	res.began = time.Now()
	defer func() { res.took = time.Since(res.began) }()
	effect, ok := r.opt.Effects[res.ticket.EffectType]
	if !ok {
		res.begun, res.park = true, "unknown type"
		res.err = fmt.Errorf("no effect of this program carries out %q", res.ticket.EffectType)
		return
	}
	res.kind = effect.Kind()
	if res.ticket.WireKey != nil && r.wasSent(res) {
		return
	}
	end, err := r.opt.Holder.Begin(res.ticket.ID)
	if err != nil {
		r.opt.Log.Error("ticket not begun", "id", res.ticket.ID, "error", err)
		return
	}
	defer end()
	res.begun = true
	defer func() {
		if p := recover(); p != nil {
			res.park, res.err = "panicked", fmt.Errorf("the effect panicked: %v", p)
			r.opt.Log.Error("effect panicked", "id", res.ticket.ID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	_, res.err = effect.Carry(ctx, store.Work{OrderID: res.ticket.AggregateID, Payload: res.ticket.Payload, EffectKey: res.ticket.Key})
	switch {
	case errors.Is(res.err, store.ErrUndecodable):
		res.park = "undecodable"
	case res.err != nil && context.Cause(ctx) == errStopped:
		res.begun, res.err = false, nil // stopped, not failed
	case res.err != nil && ctx.Err() != nil:
		res.err = errors.New("it took longer than its lease")
	}
}

// wasSent parks a ticket that may have happened outside before its target was made local again: simulating it
// now would be a lie, whatever a person has confirmed since.
func (r *Runner) wasSent(res *result) bool {
	var unknown bool
	err := r.opt.DB.View(context.Background(), func(tx *store.Tx) (err error) {
		unknown, err = tx.WasSent(res.ticket.ID)
		return err
	})
	switch {
	case err != nil:
		r.opt.Log.Error("ticket not begun", "id", res.ticket.ID, "error", err)
		return true
	case unknown:
		res.begun, res.park = true, "sent before"
		res.err = errors.New("sent to an address that is no longer configured, and what may have happened there is not simulated: ask there, and resolve it")
	}
	return unknown
}

// errStopped is why an effect's context ends when the process was asked to stop.
var errStopped = errors.New("the process stops")
