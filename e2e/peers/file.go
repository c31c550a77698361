package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite"
)

// pragmas of every file, as comanda sets them for its own.
var pragmas = []struct{ name, set, want string }{
	{"journal_mode", "WAL", "wal"},
	{"synchronous", "FULL", "2"},
	{"foreign_keys", "ON", "1"},
	{"busy_timeout", "5000", "5000"},
	{"cache_size", "-8000", "-8000"},
	{"temp_store", "2", "2"},
	{"wal_autocheckpoint", "1000", "1000"},
}

// openFile opens a file with one connection, which is what each of the others advises or does best
// with, and reads every pragma back.
func openFile(ctx context.Context, path string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range pragmas {
		q.Add("_pragma", p.name+"("+p.set+")")
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	for _, p := range pragmas {
		var got string
		err := db.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(&got)
		if err == nil && got != p.want {
			err = fmt.Errorf("PRAGMA %s of %s is %s instead of %s", p.name, path, got, p.want)
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// count asks for one row of numbers.
func count(ctx context.Context, db *sql.DB, query string, into ...any) error {
	if err := db.QueryRowContext(ctx, query).Scan(into...); err != nil {
		return fmt.Errorf("count the rows: %w", err)
	}
	return nil
}

// until asks again and again for a number, until it is want.
func until(ctx context.Context, db *sql.DB, query string, want int) error {
	for {
		var got int
		if err := count(ctx, db, query, &got); err != nil || got == want {
			return err
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("%d instead of %d: %w", got, want, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await waits until every ticket was worked once.
func (t *tally) await(ctx context.Context) error {
	select {
	case <-t.all:
		return nil
	case <-ctx.Done():
		done, _ := t.seen()
		return fmt.Errorf("%d of %d tickets were worked: %w", done, t.want, ctx.Err())
	}
}

// inTx runs fn in a transaction.
func inTx(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
