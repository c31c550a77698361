package relay

import (
	"context"
	"sync/atomic"
	"time"
)

// hands are the workers of a lane. As many as there may be requests at once are always there; three times as many, less
// three, are spare: while a target answers quickly they have the next tickets claimed and begun, and write down what became
// of the last ones, so that it is kept busy and many share a sync.
//
// Before a slow target, or one that wants a pace, no ticket is claimed that would only wait while its lease runs. A lane of
// one worker sends in the order of its claims. And where nobody could say what became of a send that was begun when the
// process died, no more are begun than are sent at once: each would be a person's work.
type hands struct {
	busy  chan struct{} // one in it for each worker that is free
	spare chan struct{} // the same, once all the others are
	sends chan struct{} // one in it for each request that is under way
	quick atomic.Bool   // the last send was
}

// quickSend is how long a send may take to be a quick one: what waits behind it waits as long.
const quickSend = 100 * time.Millisecond

func newHands(r Remote) *hands {
	more := 3 * (r.Concurrency - 1)
	if r.Rate > 0 || r.KeyTTL == 0 && !r.CanLookup {
		more = 0
	}
	h := &hands{busy: make(chan struct{}, r.Concurrency), spare: make(chan struct{}, more), sends: make(chan struct{}, r.Concurrency)}
	h.free(h.most())
	return h
}

func (h *hands) most() int { return cap(h.busy) + cap(h.spare) }

// used is how many workers are not free.
func (h *hands) used() int { return h.most() - len(h.busy) - len(h.spare) }

// free gives workers back.
func (h *hands) free(n int) {
	for range n {
		select {
		case h.busy <- struct{}{}:
		default:
			h.spare <- struct{}{}
		}
	}
}

// enough says that a claim can wait until more workers are free: each that sends has a ticket, some have one for it in
// hand, and a claim costs as much for one as for many.
func (h *hands) enough() bool {
	used := h.used()
	return h.quick.Load() && used > cap(h.busy) && h.most()-used < cap(h.busy)/2
}

// spares is nil unless the spare workers may be used now.
func (h *hands) spares() <-chan struct{} {
	if h.quick.Load() {
		return h.spare
	}
	return nil
}

// next waits for a worker that may be used; false means that ctx ended before.
func (h *hands) next(ctx context.Context) bool {
	select {
	case <-h.busy:
		return true
	default:
	}
	select {
	case <-h.busy:
	case <-h.spares():
	case <-ctx.Done():
		return false
	}
	return true
}

// another takes one more, if there is one.
func (h *hands) another() bool {
	select {
	case <-h.busy:
		return true
	default:
	}
	select {
	case <-h.spares():
		return true
	default:
		return false
	}
}

// take takes any worker; false means that over came first.
func (h *hands) take(over <-chan time.Time) bool {
	select {
	case <-h.busy:
	case <-h.spare:
	case <-over:
		return false
	}
	return true
}

// takeAll waits until every worker is free, and takes them.
func (h *hands) takeAll() {
	for range h.most() {
		h.take(nil)
	}
}
