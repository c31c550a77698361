package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// conn is one connection with its prepared statements. Only one goroutine uses it at a time, but for whoever cuts
// a read short: that one ends the transaction beside its reader.
type conn struct {
	sql    *sql.Conn
	handle uintptr // SQLite's own name of it

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by text; the texts are constants, so the map is bounded
}

// close gives the connection back to its pool. SQLite keeps a connection open, and its -wal with
// it, for as long as it has a statement.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.sql.Close())...)
}

func (c *conn) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.prepared[text]; s != nil {
		return s, nil
	}
	s, err := c.sql.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.prepared[text] = s
	return s, nil
}

// exec runs a statement of the frame around a transaction.
func (c *conn) exec(ctx context.Context, text string) error {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(ctx)
	return err
}

// Tx is one transaction. After a statement has failed every further one returns that same error:
// SQLite may have rolled everything back, and what came after would be committed alone.
type Tx struct {
	conn  *conn
	ctx   context.Context // the transaction's own, never a caller's: an interrupted statement undoes the others
	now   int64
	boot  BootClock
	err   error
	next  int64 // the last place in the sequence that was handed out
	read  bool  // next was read from the file
	used  bool  // next must be written back
	wrote bool  // a statement changed a row: the commit is a sync
	wake  bool  // a ticket became due
	tight bool  // the disk is nearly full: what can be done without is not done
	roomy bool  // there was room for what is new when the first that is new asked

	targets map[string]Target // what sameTarget has read
}

// Now is the transaction's one moment in Unix milliseconds.
func (tx *Tx) Now() int64 { return tx.now }

// exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) exec(text string, args ...any) (int64, error) {
	s, err := tx.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(tx.ctx, args...)
	if err != nil {
		return 0, tx.fail(err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, tx.fail(err)
	}
	tx.wrote = tx.wrote || n > 0
	return n, nil
}

// find reads one row into dest and reports whether there was one.
func (tx *Tx) find(text string, args []any, dest ...any) (bool, error) {
	s, err := tx.prepare(text)
	if err != nil {
		return false, err
	}
	switch err := s.QueryRowContext(tx.ctx, args...).Scan(dest...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, tx.fail(err)
	}
	return true, nil
}

// each calls row for every row of the answer; row scans it.
func (tx *Tx) each(text string, args []any, row func(scan func(...any) error) error) error {
	s, err := tx.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(tx.ctx, args...)
	if err != nil {
		return tx.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return tx.fail(err)
		}
	}
	if err := rows.Err(); err != nil {
		return tx.fail(err)
	}
	return nil
}

// collect returns the rows of the answer as scanned by row.
func collect[T any](tx *Tx, text string, args []any, row func(scan func(...any) error, into *T) error) ([]T, error) {
	all := []T{}
	err := tx.each(text, args, func(scan func(...any) error) error {
		var one T
		if err := row(scan, &one); err != nil {
			return err
		}
		all = append(all, one)
		return nil
	})
	return all, err
}

// first returns the first row of the answer, if there is one.
func first[T any](tx *Tx, text string, args []any, row func(scan func(...any) error, into *T) error) (T, bool, error) {
	all, err := collect(tx, text, args, row)
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

func (tx *Tx) prepare(text string) (*sql.Stmt, error) {
	if tx.err != nil {
		return nil, tx.err
	}
	s, err := tx.conn.stmt(tx.ctx, text)
	if err != nil {
		return nil, tx.fail(err)
	}
	return s, nil
}

func (tx *Tx) fail(err error) error {
	if tx.err == nil {
		tx.err = translate(err)
	}
	return tx.err
}

const sqlSequence = `SELECT value FROM sequence WHERE id = 1`

// seq hands out the next place in the one sequence over all tables.
func (tx *Tx) seq() (int64, error) { return tx.seqs(1) }

// seqs hands out the next n places and returns the first. The counter row is read once and written once a
// transaction.
func (tx *Tx) seqs(n int64) (int64, error) {
	if !tx.read {
		if _, err := tx.find(sqlSequence, nil, &tx.next); err != nil {
			return 0, err
		}
		tx.read = true
	}
	first := tx.next + 1
	tx.next += n
	tx.used = true
	return first, nil
}

func (tx *Tx) writeSeq() error {
	if !tx.used {
		return tx.err
	}
	_, err := tx.exec(`UPDATE sequence SET value = $1 WHERE id = 1`, tx.next)
	return err
}

// View runs fn in a read transaction on one snapshot of the file. ctx bounds the wait for a reader; the
// transaction itself ends after 5 s, and a fn that is not done by then gets ErrTooLong. What needs longer
// reads in pages, each in a View of its own. It returns fn's error, ErrMoved or ErrOtherSchema (what fn read
// is not to be told), ctx's error, ErrTooLong or ErrClosed.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	return db.view(ctx, db.opt.ReadFor, fn)
}

func (db *DB) view(ctx context.Context, limit time.Duration, fn func(*Tx) error) (err error) {
	r, beginErr := db.beginRead(ctx, context.Background(), limit)
	if beginErr != nil {
		return beginErr
	}
	defer func() { err = db.endRead(r, err) }()
	tx := &Tx{conn: r.conn, ctx: r.ctx, now: db.opt.Now().UnixMilli(), boot: db.opt.Boot}
	if err := db.checkVersion(tx); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return db.InPlace()
}
