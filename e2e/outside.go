package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
)

// outside is another client of a file, as a shell with the lesson's SQL would be. It is the one
// place beside store that speaks to a database (TestStar): comanda promises that rows put in by
// other hands are carried out, and the lesson's own mistakes can only be made by other hands.
type outside struct{ db *sql.DB }

// openOutside opens a file, or makes a new one. Its one connection waits for the write lock like any
// good neighbour.
func openOutside(path string) (*outside, error) {
	q := url.Values{"_pragma": {"busy_timeout(10000)"}}
	db, err := sql.Open("sqlite", "file://"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s as another client: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return &outside{db}, nil
}

func (o *outside) close() error { return o.db.Close() }

// exec runs one statement and returns how many rows it changed.
func (o *outside) exec(ctx context.Context, text string, args ...any) (int64, error) {
	res, err := o.db.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query runs one query.
func (o *outside) query(ctx context.Context, text string, args ...any) (all [][]any, err error) {
	rows, err := o.db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// byHand runs one statement on the proof's file with another client's hands and checks how many
// rows it changed.
func (p *proof) byHand(ctx context.Context, statement string, want int64) error {
	o, err := openOutside(p.file)
	if err != nil {
		return err
	}
	n, err := o.exec(ctx, statement)
	got := p.rowsChanged(n)
	if err != nil {
		got = "error: " + err.Error()
	}
	p.add(Step{SQL: statement, Answer: got, Want: p.rowsChanged(want), OK: got == p.rowsChanged(want)})
	return o.close()
}
