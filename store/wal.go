package store

import (
	"context"
	"fmt"
	"time"
)

// SQLite writes each commit to the -wal and begins it anew only when nobody reads from it. Where readers
// overlap without a pause that moment never comes, however short each of them is, so from walLong on the
// writer makes one: it takes the readers out of service as they come home, and empties the -wal when it has
// them all. Up to walFull it goes on writing meanwhile (TestWALStaysShort).
const (
	walPages     = 1000             // in the -wal from which on a commit moves them to the file
	walLong      = 16 << 20         // bytes of the -wal from which on it is emptied
	walFull      = 48 << 20         // bytes of the -wal from which on nothing is written before
	walHurry     = time.Second      // how long a read may last while it is being emptied
	walAgain     = time.Second      // after a try that another program's reader was in the way of
	walFirstWait = 30 * time.Second // after one that waited for it; then twice as long each time,
	walLastWait  = 10 * time.Minute // so that somebody who reads without an end does not stop the orders
)

// walKeeper is the writer's part in keeping the -wal short. Only the commit loop uses it.
type walKeeper struct {
	db    *DB
	held  []*conn       // readers that are out of service
	since time.Time     // when the first of them was taken; zero while nothing is under way
	next  time.Time     // not before, after a try that did not wait, unless the -wal is full
	rest  time.Time     // not before, after one that waited in vain,
	wait  time.Duration // this long
}

// due looks whether the -wal has to be emptied, and if so begins. An examination that reads the whole file is
// waited for: the -wal grows as long as it lasts.
func (k *walKeeper) due() bool {
	if !k.since.IsZero() {
		return true
	}
	size, now := k.db.walBytes(), time.Now()
	if size < walLong || size < walFull && now.Before(k.next) || now.Before(k.rest) || k.db.reads.endless() {
		return false
	}
	k.since = now
	k.db.recall.Store(true)
	return true
}

// full reports whether the next commit has to wait for the readers.
func (k *walKeeper) full() bool { return !k.since.IsZero() && k.db.walBytes() >= walFull }

// comeHome takes back the connection of a read that has ended.
func (db *DB) comeHome(c *conn) {
	if db.recall.Load() {
		db.home <- c
		return
	}
	db.readers <- c
}

// take puts a reader out of service, and empties the -wal when it was the last one.
func (k *walKeeper) take(c *conn) {
	if k.since.IsZero() { // it came home after the try was given up
		k.db.readers <- c
		return
	}
	if k.held = append(k.held, c); len(k.held) < k.db.opt.Readers {
		return
	}
	patient := k.db.walBytes() >= walFull
	switch {
	case k.db.emptyWAL(patient):
		k.wait = 0
	case patient:
		k.wait = min(max(2*k.wait, walFirstWait), walLastWait)
		k.rest = time.Now().Add(k.wait)
	default:
		k.next = time.Now().Add(walAgain)
	}
	k.giveBack()
}

// hurry cuts short who reads for too long; who can't be cut short makes this try fail.
func (k *walKeeper) hurry() {
	k.db.reads.hurry(walHurry, " while the -wal had to be emptied")
	if time.Since(k.since) > 2*readFor {
		k.next = time.Now().Add(walAgain)
		k.giveBack()
	}
}

func (k *walKeeper) giveBack() {
	k.db.recall.Store(false)
	for _, c := range k.held {
		k.db.readers <- c
	}
	k.held, k.since = nil, time.Time{}
}

// emptyWAL moves what is in the -wal to the file and reports whether it is empty now. A reader of another
// program is in the way; a patient one waits for as long as those of this program last.
func (db *DB) emptyWAL(patient bool) bool {
	if db.InPlace() != nil { // it would meet another index or file
		return false
	}
	defer db.stage.enter(Idle)
	db.stage.enter(Syncing)
	if patient {
		db.writerWaits(db.opt.ReadFor + time.Second)
		defer db.writerWaits(0)
	}
	return checkpoint(context.Background(), db.writer.sql, sqlEmptyWAL) == nil
}

// writerWaits sets how long SQLite itself waits for others on the writer's connection. To begin a transaction
// the writer waits by itself, and this is 0 (see begin).
func (db *DB) writerWaits(d time.Duration) {
	_, _ = db.writer.sql.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
}
