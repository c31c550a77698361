package store

import (
	"context"
	"fmt"
	"time"

	sqlitelib "modernc.org/sqlite/lib"
)

// Answer is the result of a query: column names and rows of nil, int64, float64, string or []byte.
type Answer struct {
	Columns []string
	Rows    [][]any
}

// Query runs one read-only query on the file's own SQLite. ctx interrupts it, and so does the end of the 5 s
// that a read may last (ErrTooLong). A statement that would write is refused by the connection itself.
func (db *DB) Query(ctx context.Context, text string, args ...any) (Answer, error) {
	return db.query(ctx, db.opt.ReadFor, text, args)
}

// query is Query with a limit of its own; 0 is none.
func (db *DB) query(ctx context.Context, limit time.Duration, text string, args []any) (a Answer, err error) {
	r, err := db.beginRead(ctx, ctx, limit)
	if err != nil {
		return Answer{}, err
	}
	a, err = r.conn.query(r.ctx, text, args)
	if code(err) == sqlitelib.SQLITE_READONLY {
		err = refuse("only queries that read are allowed here: %v", err)
	}
	return a, translate(db.endRead(r, err))
}

// query runs text in the transaction that has begun, in which it can't attach or make other files, and leaves
// the connection as it was whatever text did to it.
func (c *conn) query(ctx context.Context, text string, args []any) (Answer, error) {
	defer func() {
		_ = c.exec(context.Background(), sqlRollback)
		_, _ = c.sql.ExecContext(context.Background(), `PRAGMA query_only = ON`)
	}()
	rows, err := c.sql.QueryContext(ctx, text, args...)
	if err != nil {
		return Answer{}, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return Answer{}, fmt.Errorf("read columns: %w", err)
	}
	a := Answer{Columns: columns, Rows: [][]any{}}
	for rows.Next() {
		row := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return a, err
		}
		a.Rows = append(a.Rows, row)
	}
	return a, rows.Err()
}
