package handlers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"comanda/store"
)

// What the keeper does with refused bodies: at most one a refusedEvery, at most refusedQueue of them
// waiting for the file, each with refusedWait.
const (
	refusedEvery = time.Second
	refusedQueue = 4
	refusedWait  = 5 * time.Second
)

// unsignedEvery is how often a body that nobody has signed is kept: it may come from anybody, and must not take the
// place of those that a sender should hear of. Pushing all of these out takes a week of it.
const unsignedEvery = 10 * time.Minute

// keeper keeps refused bodies for a person to look at, as well as it can: in the background, one at a
// time, and never more than one a second, so that a sender gone mad fills neither the disk nor the
// memory and holds up nobody. What it does not take is only in the log.
type keeper struct {
	db    *store.DB
	log   *slog.Logger
	now   func() time.Time
	queue chan store.Refused
	done  chan struct{}

	mu     sync.Mutex
	last   [2]time.Time // when one was last taken: of the others, of the unsigned
	closed bool
}

// errTight: the room that is left is for orders.
var errTight = errors.New("the disk is nearly full")

func newKeeper(db *store.DB, log *slog.Logger, now func() time.Time) *keeper {
	k := &keeper{db: db, log: log, now: now, queue: make(chan store.Refused, refusedQueue), done: make(chan struct{})}
	go k.run()
	return k
}

// offer takes r or not, and reports which. It never waits.
func (k *keeper) offer(r store.Refused) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, kind, every := k.now(), 0, refusedEvery
	if r.Problem == problemUnsigned {
		kind, every = 1, unsignedEvery
	}
	if last := k.last[kind]; k.closed || !last.IsZero() && now.Sub(last).Abs() < every {
		return false
	}
	select {
	case k.queue <- r:
		k.last[kind] = now
		return true
	default:
		return false
	}
}

func (k *keeper) run() {
	defer close(k.done)
	for r := range k.queue {
		if err := k.keep(r); err != nil {
			k.log.Warn("a refused body was not kept", "problem", r.Problem, "error", err)
		}
	}
}

func (k *keeper) keep(r store.Refused) error {
	if k.db.Tight() {
		return errTight
	}
	ctx, cancel := context.WithTimeout(context.Background(), refusedWait)
	defer cancel()
	return k.db.Accept(ctx, func(tx *store.Tx) error { return tx.KeepRefused(r) })
}

// close keeps what was taken and takes no more.
func (k *keeper) close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.queue)
	}
	k.mu.Unlock()
	<-k.done
}
