package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"comanda/schema"
)

// Level says how bad the answer of a check is.
type Level string

// Levels of a check.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // worth a look; nothing is broken
	LevelWrong   Level = "wrong"   // an invariant, the file's integrity, a setting, a lease that nobody can free, or no space
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	SQL    string `json:"sql"` // what was asked; "" where it was not the file
	Level  Level  `json:"level"`
	Answer string `json:"answer"`
	Detail string `json:"detail"` // what it means or what to do; "" where the answer says it
}

// Examine opens the file at path, runs Doctor and closes it. A file of ours that can't be opened is
// an answer too: one check that is wrong. What is not ours returns the error of Open (ErrRefused).
func Examine(ctx context.Context, path string, opt Options) ([]Check, error) {
	db, err := Open(ctx, path, opt)
	if err != nil {
		return whyClosed(ctx, path, err)
	}
	checks, err := db.Doctor(ctx)
	if closeErr := db.Close(); err == nil && closeErr != nil {
		checks = append(checks, Check{Name: "close", Level: LevelWrong, Answer: closeErr.Error()})
	}
	return checks, err
}

// whyClosed tells a file of ours that is damaged or locked away from one that was never ours.
func whyClosed(ctx context.Context, path string, cause error) ([]Check, error) {
	if ctx.Err() != nil || errors.Is(cause, ErrBusy) {
		return nil, cause
	}
	full, err := resolve(path, true)
	if err != nil {
		return nil, cause // no such file, not a file, or on a network filesystem
	}
	check := []Check{{Name: "open", Level: LevelWrong, Answer: cause.Error(), Detail: "if it was a file of comanda, restore it from a backup"}}
	m, err := markOf(ctx, full)
	if err == nil && m.check(full) != nil {
		return nil, cause
	}
	return check, nil // ours, or its header can't be read at all
}

// Doctor looks at the file, the disk under it, the clock, the leases and the invariants. It takes no
// write lock and removes nothing. An error means that it could not go on, not that something is wrong.
func (db *DB) Doctor(ctx context.Context) ([]Check, error) {
	var all []Check
	for _, look := range []func(context.Context) []Check{
		db.lookAtPragmas, db.lookAtSchema, db.lookAtIntegrity, db.lookAtTruth, db.lookAtTickets, db.lookAtLeases, db.lookAtStops, db.lookAtTasks, db.lookAtDisk, db.lookAtClock,
	} {
		all = append(all, look(ctx)...)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("the examination was interrupted: %w", err)
		}
	}
	return all, nil
}

// ask runs a query for a check; judge turns its answer into the check's level, answer and detail. A
// query that fails is wrong by itself. An examination reads the whole file and may take as long as that
// takes: no limit of a read holds for it.
func (db *DB) ask(ctx context.Context, name, text string, judge func(Answer, *Check)) Check {
	c := Check{Name: name, SQL: text, Level: LevelOK}
	a, err := db.query(ctx, 0, text, nil)
	if err != nil {
		c.Level, c.Answer = LevelWrong, "can't be read: "+err.Error()
		return c
	}
	judge(a, &c)
	return c
}

// first is the first value of an answer as text.
func (a Answer) first() string {
	if len(a.Rows) == 0 || len(a.Rows[0]) == 0 {
		return ""
	}
	return fmt.Sprint(a.Rows[0][0])
}

// rows shows the first rows of an answer in one line.
func (a Answer) rows(shown int) string {
	var parts []string
	for i, row := range a.Rows {
		if i == shown {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, strings.Trim(fmt.Sprint(row), "[]"))
	}
	return strings.Join(parts, "; ")
}

func (db *DB) lookAtPragmas(ctx context.Context) []Check {
	var all []Check
	steps, err := schema.Steps()
	if err != nil {
		return []Check{{Name: "schema", Level: LevelWrong, Answer: err.Error()}}
	}
	ours := []pragma{
		{"page_size", strconv.Itoa(schema.PageSize)}, {"application_id", strconv.Itoa(schema.ApplicationID)},
		{"user_version", strconv.Itoa(len(steps))}, {"query_only", "1"},
	}
	for _, p := range ours {
		all = append(all, db.ask(ctx, "pragma "+p.name, "PRAGMA "+p.name, func(a Answer, c *Check) { p.judge(a.first(), c) }))
	}
	for _, p := range wantPragmas("FULL") { // as the writer of this process has them, like every other's
		c := Check{Name: "pragma " + p.name, SQL: "PRAGMA " + p.name, Level: LevelOK}
		var got string
		err := db.Update(ctx, func(tx *Tx) error { // the writer's connection has one user
			_, err := tx.find("PRAGMA "+p.name, nil, &got)
			return err
		})
		if err != nil {
			c.Level, c.Answer = LevelWrong, err.Error()
		} else {
			p.judge(got, &c)
		}
		all = append(all, c)
	}
	return all
}

func (p pragma) judge(got string, c *Check) {
	c.Answer = got
	if got != p.want {
		c.Level, c.Detail = LevelWrong, "comanda needs "+p.want+": the file was changed by another program; restore it from a backup"
	}
}

func (db *DB) lookAtIntegrity(ctx context.Context) []Check {
	return []Check{
		db.ask(ctx, "integrity", "PRAGMA integrity_check", func(a Answer, c *Check) {
			if c.Answer = a.rows(5); c.Answer != "ok" {
				c.Level, c.Detail = LevelWrong, "the file is damaged: stop every comanda on it and restore it from a backup"
			}
		}),
		db.ask(ctx, "foreign keys", "PRAGMA foreign_key_check", noRow("a row points to one that is not there")),
	}
}

// noRow judges a query that must find nothing.
func noRow(detail string) func(Answer, *Check) {
	return func(a Answer, c *Check) {
		c.Answer = "no row"
		if n := len(a.Rows); n > 0 {
			c.Level, c.Answer, c.Detail = LevelWrong, fmt.Sprintf("%s: %s", rowCount(n), a.rows(5)), detail
		}
	}
}

func rowCount(n int) string {
	if n == 1 {
		return "1 row"
	}
	return strconv.Itoa(n) + " rows"
}
