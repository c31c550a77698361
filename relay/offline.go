package relay

import (
	"sync"
	"time"
)

// When a target counts as offline, and how it is tried then.
const (
	offlineAfter   = 5                // tries in a row that did not reach it
	longestProbing = 60 * time.Second // between two probes at most
)

// reach tells whether a target can be reached. Offline is a state, not a failure: nothing is charged for
// it, and one ticket at a time tries whether it is over.
type reach struct {
	base, most time.Duration // between probes

	mu      sync.Mutex
	missed  int // tries in a row that did not reach the target
	offline bool
	wait    time.Duration
	next    time.Time // of the next probe
	turn    int       // which of the oldest tickets is next, from 1
}

func newReach(base, most time.Duration, offline bool) *reach {
	return &reach{base: base, most: min(most, longestProbing), offline: offline, turn: 1, wait: base}
}

// saw takes in one try. It reports whether the target is offline now, and whether that is news.
func (r *reach) saw(unreachable, bytesOut bool) (offline, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.offline
	if !unreachable {
		r.missed, r.offline, r.turn, r.wait = 0, false, 1, r.base
		return false, was
	}
	r.missed++
	if !was && r.missed < offlineAfter {
		return false, false
	}
	r.offline = true
	if was {
		r.wait = min(r.most, 2*r.wait)
	}
	if was && bytesOut {
		r.turn++
	}
	r.next = time.Now().Add(min(r.wait, r.most))
	return true, !was
}

// state says whether the target is offline, which ticket is to try it, and how long until then.
func (r *reach) state() (offline bool, turn int, in time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.offline {
		return false, 0, 0
	}
	return true, r.turn, max(0, time.Until(r.next))
}

// row is how many tries in a row did not reach the target.
func (r *reach) row() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.missed)
}
