package store

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Doing is what the writer is about.
type Doing int

// What the writer can be about.
const (
	Idle    Doing = iota // it waits for something to do
	Locked               // another process has the file's write lock
	Working              // a transaction's statements run
	Syncing              // it waits for the disk to take a commit, or a checkpoint
)

// WriterState is what the writer is about, and since when.
type WriterState struct {
	Doing Doing
	For   time.Duration
}

// String is the state in words, for a person.
func (w WriterState) String() string {
	took := w.For.Round(time.Second)
	switch w.Doing {
	case Locked:
		return fmt.Sprintf("the file is busy: another program has held it for %s", took)
	case Working:
		return fmt.Sprintf("a transaction has not come to its end for %s", took)
	case Syncing:
		return fmt.Sprintf("the disk has not answered a write for %s", took)
	}
	return "the writer is idle"
}

// stage is where the writer is. It is read by whoever watches, and never waits: when it was entered and what it
// is are one number.
type stage struct {
	born   time.Time // for its monotonic clock
	now    atomic.Int64
	locked atomic.Int64 // since when another process has had the lock, try after try; 0: it has not
}

const stageBits = 2 // of now, for Doing

func (s *stage) enter(d Doing) {
	s.now.Store(int64(time.Since(s.born))<<stageBits | int64(d))
}

// wasLocked notes a wait for the lock that ended in vain, or well.
func (s *stage) wasLocked(since time.Time, vain bool) {
	switch {
	case !vain:
		s.locked.Store(0)
	case s.locked.Load() == 0:
		s.locked.Store(max(1, int64(since.Sub(s.born))))
	}
}

// Writer says what the writer is about. It asks neither the file nor the writer, so it answers whatever has
// become of them.
func (db *DB) Writer() WriterState {
	age := time.Since(db.stage.born)
	now := db.stage.now.Load()
	state := WriterState{Doing(now & (1<<stageBits - 1)), age - time.Duration(now>>stageBits)}
	if since := db.stage.locked.Load(); since != 0 && (state.Doing == Idle || state.Doing == Locked) {
		state = WriterState{Locked, age - time.Duration(since)}
	}
	if state.Doing == Idle {
		state.For = 0
	}
	return state
}

// GetsOn reports whether a write can be expected to begin at once and to end well: no other process has the file's
// lock, and the last commit did not fail.
func (db *DB) GetsOn() bool { return db.Writer().Doing != Locked && db.LastCommit() == nil }
