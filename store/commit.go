package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// member is one caller's part of a group commit.
type member struct {
	fn    func(*Tx) error
	state atomic.Int32 // waiting → started | withdrawn
	done  chan error
}

const (
	waiting int32 = iota
	started
	withdrawn
)

// Update runs fn in a write transaction that it shares with whatever else arrives at the same time,
// and returns after the commit. fn may be run more than once: it must set its results anew each
// time, and they count only when Update returns nil. fn must not wait for anything but the
// transaction.
//
// It returns fn's own error (then nothing of fn was written), ErrBusy, ErrFull, ErrMoved or ErrOtherSchema
// (nothing was written), ErrUnknownOutcome (COMMIT failed, or the file was taken away in the meantime), ctx's
// error if fn had not been started, or ErrClosed.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.under.Add(1)
	defer db.under.Add(-1)
	m := &member{fn: fn, done: make(chan error, 1)}
	select {
	case <-db.closing:
		return ErrClosed
	default:
	}
	select {
	case db.queue <- m:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
	select {
	case err := <-m.done:
		return err
	case <-ctx.Done():
		if m.state.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		return <-m.done // begun: it may be on disk, so its outcome is worth the wait
	case <-db.stopped:
		select {
		case err := <-m.done:
			return err
		default:
			return ErrClosed
		}
	}
}

// UnderWay is how many calls of Update have not returned.
func (db *DB) UnderWay() int { return int(db.under.Load()) }

// Wake is signalled after a commit that put tickets on the rail or made them due. It is a hint: one
// signal may stand for many commits.
func (db *DB) Wake() <-chan struct{} { return db.wake }

// commitLoop is the one writer. It never lingers for more members: while one group is on its way to
// the disk the next one gathers by itself. Beside, it keeps the -wal short.
func (db *DB) commitLoop() {
	defer close(db.stopped)
	wal := walKeeper{db: db}
	ticker := time.NewTicker(walTry)
	defer ticker.Stop()
	for {
		queue, tick := db.queue, ticker.C
		switch {
		case !wal.due():
			tick = nil
		case wal.holdsUp():
			queue = nil
		}
		select {
		case m := <-queue:
			db.commitGroup(db.gather(m))
		case e := <-db.errands:
			db.runErrand(e)
		case <-tick:
			wal.empty()
		case <-db.others.look:
			db.lookAtOthers()
		case <-db.closing:
			for { // what was handed in before Close is still done
				select {
				case m := <-db.queue:
					db.commitGroup(db.gather(m))
				default:
					return
				}
			}
		}
	}
}

func (db *DB) gather(first *member) []*member {
	group := make([]*member, 0, db.opt.GroupMax)
	for m := first; ; {
		if m.state.CompareAndSwap(waiting, started) {
			group = append(group, m)
		}
		if len(group) == db.opt.GroupMax {
			return group
		}
		select {
		case m = <-db.queue:
		default:
			return group
		}
	}
}

// commitGroup runs the members in one transaction. If one of them fails the whole is rolled back
// and each runs alone, so that only the failing one gets its error.
func (db *DB) commitGroup(group []*member) {
	if len(group) == 0 {
		return
	}
	defer db.stage.enter(Idle)
	tx := &Tx{conn: db.writer, ctx: context.Background(), now: db.opt.Now().UnixMilli(), boot: db.opt.Boot, tight: db.Tight()}
	if err := db.begin(tx); err != nil {
		if db.makeRoom(err) {
			db.commitGroup(group)
			return
		}
		db.health.commit(err, false)
		answer(group, err)
		return
	}
	for _, m := range group {
		err := runMember(tx, m)
		if err == nil {
			continue
		}
		db.rollback(tx)
		again := db.makeRoom(err)
		if len(group) == 1 && !again {
			db.health.member(err)
			answer(group, err)
			return
		}
		for _, alone := range group {
			db.commitGroup([]*member{alone})
		}
		return
	}
	began := time.Now()
	err := db.commit(tx)
	if db.opt.Committed != nil && (tx.wrote || err != nil) {
		db.opt.Committed(len(group), time.Since(began), err)
	}
	db.makeRoom(err) // for the next ones: this one's outcome is unknown
	db.health.commit(err, tx.wrote)
	if err == nil && tx.used {
		db.testify(tx.next)
	}
	if err == nil && tx.wake {
		db.signal()
	}
	answer(group, err)
}

// begin takes the file's write lock. SQLite's own wait sleeps longer and longer between its looks, so a
// process that writes without a pause can keep another one out for as long as it likes; here a waiter
// looks every millisecond or two, and gets its turn.
func (db *DB) begin(tx *Tx) error {
	db.stage.enter(Working)
	began := time.Now()
	giveUp := began.Add(db.opt.BusyTimeout)
	for first := true; ; first = false {
		err := db.tryBegin(tx)
		busy := errors.Is(err, ErrBusy)
		if err == nil || !busy || time.Now().After(giveUp) {
			db.stage.wasLocked(began, busy)
			if err != nil {
				return fmt.Errorf("begin to write: %w", err)
			}
			db.stage.enter(Working)
			if err = db.checkVersion(tx); err != nil {
				db.rollback(tx)
			}
			return err
		}
		if first {
			db.stage.enter(Locked)
		}
		tx.err = nil
		time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
	}
}

func (db *DB) tryBegin(tx *Tx) error {
	_, err := tx.exec(sqlBeginWrite)
	if err == nil || errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) {
		return err
	}
	db.rollback(tx) // perhaps an earlier rollback failed and its transaction is still open
	tx.err = nil
	_, err = tx.exec(sqlBeginWrite)
	return err
}

// commit ends the transaction. An error of COMMIT itself leaves open what is on disk.
func (db *DB) commit(tx *Tx) error {
	if err := tx.writeSeq(); err != nil {
		db.rollback(tx)
		return fmt.Errorf("write the sequence: %w", err)
	}
	if err := db.InPlace(); err != nil {
		db.rollback(tx)
		return err
	}
	db.stage.enter(Syncing)
	if _, err := tx.exec(sqlCommit); err != nil {
		db.rollback(tx)
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	if err := db.InPlace(); err != nil { // it may have been taken away before the commit reached it
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return nil
}

// rollback undoes what is still undone; SQLite may have rolled back by itself, which is no error here.
func (db *DB) rollback(tx *Tx) {
	_, _ = db.writer.sql.ExecContext(tx.ctx, sqlRollback)
}

func (db *DB) signal() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

// runMember turns a panic into that member's error: the group and the writer live on.
func runMember(tx *Tx, m *member) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	if err := m.fn(tx); err != nil {
		return err
	}
	return tx.err // an error that fn swallowed still ends the transaction
}

func answer(group []*member, err error) {
	for _, m := range group {
		m.done <- err
	}
}

// health remembers how the last commit ended.
type health struct {
	last   atomic.Pointer[error]
	groups atomic.Int64 // commits that wrote
}

func (h *health) commit(err error, wrote bool) {
	if err != nil {
		h.last.Store(&err)
		return
	}
	if wrote { // an empty transaction proves nothing about the disk
		h.last.Store(nil)
		h.groups.Add(1)
	}
}

// member notes a member's error only where it is the disk's fault, not the caller's.
func (h *health) member(err error) {
	if errors.Is(err, ErrFull) || IsDiskFault(err) {
		h.last.Store(&err)
	}
}

// LastCommit returns the error with which the last commit failed, or nil.
func (db *DB) LastCommit() error {
	if e := db.health.last.Load(); e != nil {
		return *e
	}
	return nil
}

// Commits returns how many commits have written since the file was opened: each is one fsync.
func (db *DB) Commits() int64 { return db.health.groups.Load() }
