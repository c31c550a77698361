package store

import (
	"context"
	"fmt"
	"time"
)

// SQLite writes each commit to the -wal and begins it anew only when nobody reads from it. Where readers overlap
// without a pause that moment never comes, however short each of them is, as long as there are commits between
// them. So from walLong on reads are kept short, in every process on the file, and the writer tries to empty the
// -wal again and again; from walFull on it commits nothing before that has come to pass. Once nothing is written
// and what is in the -wal is in the file, whoever begins to read reads from the file, and is in nobody's way
// (TestWALStaysShort).
const (
	walPages     = 1000                   // in the -wal from which on a commit moves them to the file
	walLong      = 16 << 20               // bytes of the -wal from which on it is emptied
	walFull      = 48 << 20               // bytes of the -wal from which on nothing is written before
	walHurry     = time.Second            // how long a read may last meanwhile
	walTry       = 100 * time.Millisecond // between two tries, and how long each waits for others: it holds the write lock
	walPatience  = 12 * time.Second       // how long commits wait; two reads of a comanda that began before take 10 s at most
	walFirstRest = 30 * time.Second       // after they have waited in vain; then twice as long each time,
	walLastRest  = 10 * time.Minute       // so that somebody who reads without an end does not stop the orders
)

const walWhy = " while the -wal had to be emptied"

// walKeeper is the writer's part in keeping the -wal short. Only the commit loop uses it.
type walKeeper struct {
	db    *DB
	full  time.Time     // since when nothing is committed; zero while that is not so
	rest  time.Time     // no try before, after commits have waited in vain,
	pause time.Duration // this long
}

// due looks whether the -wal has to be emptied. An examination that reads the whole file is waited for: the -wal
// grows as long as it lasts.
func (k *walKeeper) due() bool {
	return k.db.walBytes() >= walLong && !time.Now().Before(k.rest) && !k.db.reads.endless()
}

// holdsUp reports whether the next commit has to wait until the -wal, which is due, is empty.
func (k *walKeeper) holdsUp() bool {
	if k.db.walBytes() < walFull {
		return false
	}
	if k.full.IsZero() {
		k.full = time.Now()
	}
	return true
}

// empty tries once. Who can't be cut short makes it fail.
func (k *walKeeper) empty() {
	k.db.reads.hurry(walHurry, walWhy)
	switch {
	case k.db.emptyWAL():
		k.full, k.pause = time.Time{}, 0
	case !k.full.IsZero() && time.Since(k.full) > walPatience:
		k.pause = min(max(2*k.pause, walFirstRest), walLastRest)
		k.full, k.rest = time.Time{}, time.Now().Add(k.pause)
	}
}

// emptyWAL moves what is in the -wal to the file and reports whether it is empty now.
func (db *DB) emptyWAL() bool {
	if db.InPlace() != nil { // it would meet another index or file
		return false
	}
	defer db.stage.enter(Idle)
	db.stage.enter(Syncing)
	db.writerWaits(walTry)
	defer db.writerWaits(0)
	return checkpoint(context.Background(), db.writer.sql, sqlEmptyWAL) == nil
}

// writerWaits sets how long SQLite itself waits for others on the writer's connection. To begin a transaction
// the writer waits by itself, and this is 0 (see begin).
func (db *DB) writerWaits(d time.Duration) {
	_, _ = db.writer.sql.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
}
