package store

import (
	"context"
	"fmt"

	sqlitelib "modernc.org/sqlite/lib"
)

// Answer is the result of a query: column names and rows of nil, int64, float64, string or []byte.
type Answer struct {
	Columns []string
	Rows    [][]any
}

// Query runs one read-only query on the file's own SQLite. ctx interrupts it. A statement that would
// write is refused by the connection itself.
func (db *DB) Query(ctx context.Context, text string, args ...any) (Answer, error) {
	var c *conn
	select {
	case c = <-db.readers:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-db.closing:
		return Answer{}, ErrClosed
	}
	defer func() { db.readers <- c }()
	a, err := c.query(ctx, text, args)
	if code(err) == sqlitelib.SQLITE_READONLY {
		return a, refuse("only queries that read are allowed here: %v", err)
	}
	return a, translate(err)
}

// query runs text in a read transaction, in which it can't attach or make other files, and leaves the
// connection as it was whatever text did to it.
func (c *conn) query(ctx context.Context, text string, args []any) (Answer, error) {
	if _, err := c.sql.ExecContext(context.Background(), sqlBeginRead); err != nil {
		return Answer{}, fmt.Errorf("begin to read: %w", err)
	}
	defer func() {
		_, _ = c.sql.ExecContext(context.Background(), sqlRollback)
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
