package store

import (
	"context"
	"errors"
	"strings"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// Peek runs one query that somebody typed. Query's connection can't write to this file, but a text
// that ends Query's transaction first could attach another file and write there; here SQLite compiles
// nothing but what reads (TestPeekOnlyReads). What is not allowed returns ErrRefused; ctx interrupts, and so does
// the end of the 5 s that a read may last (ErrTooLong).
func (db *DB) Peek(ctx context.Context, text string) (Answer, error) {
	if !oneStatement(text) {
		return Answer{}, refuse("more than one statement was given: ask them one at a time")
	}
	r, err := db.beginRead(ctx, ctx, db.opt.ReadFor)
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	if err = r.conn.authorize(onlyReading); err == nil {
		a, err = r.conn.query(r.ctx, text, nil)
		err = errors.Join(err, r.conn.authorize(nil))
	}
	err = db.endRead(r, err)
	switch code(err) {
	case sqlitelib.SQLITE_AUTH, sqlitelib.SQLITE_READONLY:
		return Answer{}, refuse("only queries that read are allowed here (%v)", err)
	}
	return a, translate(err)
}

func (c *conn) authorize(fn sqlite.AuthorizerFn) error {
	return c.sql.Raw(func(driverConn any) error {
		r, ok := driverConn.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("the SQLite driver can't restrict a connection")
		}
		return r.RegisterAuthorizer(fn)
	})
}

// readingPragmas take an argument, or none, and change nothing. Others may be read without one.
var readingPragmas = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"foreign_key_list": true, "foreign_key_check": true, "integrity_check": true, "quick_check": true,
}

// actingPragmas do something even without an argument.
var actingPragmas = map[string]bool{
	"wal_checkpoint": true, "incremental_vacuum": true, "optimize": true, "shrink_memory": true,
}

func onlyReading(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthFunction, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthTransaction:
		if arg1 == "BEGIN" || arg1 == "ROLLBACK" { // the frame that query puts around it
			return sqlite.AuthorizerOK
		}
	case sqlite.AuthPragma:
		name := strings.ToLower(arg1)
		if readingPragmas[name] || arg2 == "" && !actingPragmas[name] {
			return sqlite.AuthorizerOK
		}
	}
	return sqlite.AuthorizerDeny
}

// oneStatement reports whether nothing but white space and comments follows the first semicolon that
// stands outside of strings, names and comments.
func oneStatement(text string) bool {
	ended := false
	for text != "" {
		skip, blank := token(text)
		switch {
		case text[0] == ';':
			ended = true
		case ended && !blank:
			return false
		}
		text = text[skip:]
	}
	return true
}

// token is how long the first token of text is, as far as semicolons matter, and whether it is one
// that means nothing.
func token(text string) (length int, blank bool) {
	until := func(start int, end string) int {
		if i := strings.Index(text[start:], end); i >= 0 {
			return start + i + len(end)
		}
		return len(text)
	}
	switch c := text[0]; {
	case c == '\'' || c == '"' || c == '`':
		return until(1, string(c)), false // a doubled quote is two strings in a row
	case c == '[':
		return until(1, "]"), false
	case strings.HasPrefix(text, "--"):
		return until(2, "\n"), true
	case strings.HasPrefix(text, "/*"):
		return until(2, "*/"), true
	case strings.ContainsRune(" \t\r\n\f", rune(c)):
		return 1, true
	}
	return 1, false
}
