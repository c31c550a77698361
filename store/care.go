package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	sqlitelib "modernc.org/sqlite/lib"
)

// How long one step of the file's own care may take.
const (
	careAtWriter = 2 * time.Second  // of the part that keeps the writer
	careAside    = 10 * time.Minute // of the part that keeps nobody
)

// Checkpointed is what a checkpoint came to: the bytes of the -wal before and after.
type Checkpointed struct{ Before, After int64 }

// Checkpoint writes the -wal back into the file and empties it. Nearly all of the work is done beside the writer,
// on a connection of its own that keeps nobody; the writer does the rest, which is short. It returns ErrBusy when
// a reader or another process stood in the way: nothing is lost, and it can be tried again.
func (db *DB) Checkpoint(ctx context.Context) (done Checkpointed, err error) {
	done.Before = db.walBytes()
	if err := db.checkpointAside(ctx); err != nil {
		return done, fmt.Errorf("write the wal back: %w", err)
	}
	err = db.errand(ctx, careAtWriter, func(ctx context.Context, c *sql.Conn) error {
		return checkpoint(ctx, c, sqlEmptyWAL)
	})
	done.After = db.walBytes()
	if err != nil {
		return done, fmt.Errorf("empty the wal: %w", err)
	}
	return done, nil
}

// checkpointAside copies what no reader needs any more from the -wal into the file, and syncs the file. Commits
// go on meanwhile.
func (db *DB) checkpointAside(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, careAside)
	defer cancel()
	c, done, err := db.aside(ctx, writerDSN(db.path, 0, db.opt.Synchronous, false))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := checkpoint(ctx, c, sqlWriteBack); err != nil && !errors.Is(err, ErrBusy) { // busy: somebody else does it
		return err
	}
	return nil
}

// aside opens a connection for one piece of work that may take long, beside the writer and the readers.
func (db *DB) aside(ctx context.Context, dsn string) (*sql.Conn, func() error, error) {
	if err := db.InPlace(); err != nil { // it would open what lies at the names now
		return nil, nil, err
	}
	pool, err := sql.Open(driverName, dsn+db.opt.otherVFS())
	if err != nil {
		return nil, nil, err
	}
	pool.SetMaxOpenConns(1)
	c, err := pool.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(translate(err), pool.Close())
	}
	return c, func() error { return errors.Join(c.Close(), pool.Close()) }, nil
}

// What a checkpoint does: as much as keeps nobody, or all, with the -wal empty at its end.
const (
	sqlWriteBack = `PRAGMA wal_checkpoint(PASSIVE)`
	sqlEmptyWAL  = `PRAGMA wal_checkpoint(TRUNCATE)`
)

// checkpoint returns ErrBusy when somebody was in the way of a part of it.
func checkpoint(ctx context.Context, c *sql.Conn, pragma string) error {
	var busy, frames, moved int
	if err := c.QueryRowContext(ctx, pragma).Scan(&busy, &frames, &moved); err != nil {
		return interrupted(err)
	}
	if busy != 0 {
		return fmt.Errorf("%w, or somebody reads it", ErrBusy)
	}
	return nil
}

// interrupted tells a statement that was stopped because it took too long from one that failed.
func interrupted(err error) error {
	if code(err) == sqlitelib.SQLITE_INTERRUPT || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: it took longer than it may", ErrBusy)
	}
	return translate(err)
}

func (db *DB) walBytes() int64 {
	st, err := os.Stat(db.path + "-wal") // looked at, never opened
	if err != nil {
		return 0
	}
	return st.Size()
}

// analysisRows bounds how many rows of an index are looked at for the planner's statistics.
const analysisRows = 400

// Optimize has SQLite bring the planner's statistics up to date where that is worth it. ErrBusy is as for
// Checkpoint.
func (db *DB) Optimize(ctx context.Context) error {
	err := db.errand(ctx, careAtWriter, func(ctx context.Context, c *sql.Conn) error {
		if _, err := c.ExecContext(ctx, fmt.Sprintf(`PRAGMA analysis_limit = %d`, analysisRows)); err != nil {
			return interrupted(err)
		}
		if _, err := c.ExecContext(ctx, `PRAGMA optimize = 0x10002`); err != nil { // all tables, not only those that were asked
			return interrupted(err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("bring the statistics up to date: %w", err)
	}
	return nil
}

// errand is something that the writer's connection does outside any transaction, between two groups.
type errand struct {
	fn     func(context.Context, *sql.Conn) error
	within time.Duration
	done   chan error
}

// errand has the writer do fn, which must end when its context does, within that time.
func (db *DB) errand(ctx context.Context, within time.Duration, fn func(context.Context, *sql.Conn) error) error {
	return db.run(ctx, &errand{within: within, done: make(chan error, 1), fn: func(ctx context.Context, c *sql.Conn) error {
		if err := db.InPlace(); err != nil { // what it does to the -wal that is open would meet another index or file
			return err
		}
		defer db.stage.enter(Idle)
		db.stage.enter(Syncing)
		return fn(ctx, c)
	}})
}

// Still runs fn while this process is in no write transaction, and holds none of the file's locks that would keep
// another one from writing. fn must not write itself, and Still must not be called from inside Update.
func (db *DB) Still(fn func()) {
	err := db.run(context.Background(), &errand{done: make(chan error, 1), fn: func(context.Context, *sql.Conn) error { fn(); return nil }})
	if err != nil { // closed: nobody writes any more
		fn()
	}
}

func (db *DB) run(ctx context.Context, e *errand) error {
	select {
	case db.errands <- e:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closing:
		return ErrClosed
	}
	return <-e.done // begun, and bounded
}

func (db *DB) runErrand(e *errand) {
	ctx, cancel := context.WithTimeout(context.Background(), e.within)
	defer cancel()
	e.done <- e.fn(ctx, db.writer.sql)
}
