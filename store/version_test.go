package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"comanda/schema"
)

// newerProgram brings a file up to the schema of a program that knows one step more.
func newerProgram(t *testing.T, path string) {
	t.Helper()
	db := &DB{path: path, opt: Options{}.withDefaults()}
	w, err := db.openConn(t.Context(), writerDSN(path, db.opt.BusyTimeout, "FULL", false))
	if err != nil {
		t.Fatal(err)
	}
	all := steps(t)
	next := schema.Step{Version: len(all) + 1, Name: "9999_next.sql", SQL: `ALTER TABLE outbox ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';`, Checksum: "x"}
	if err := migrateStep(t.Context(), w.sql, next, 1); err != nil {
		t.Fatal(err)
	}
	if err := db.closeConns(); err != nil {
		t.Fatal(err)
	}
}

// A process under which a newer one brings the file up to date writes nothing more and tells nothing more: it does
// not know what the new schema means. What it was about to write fails inside its own transaction, so there is no
// moment in between.
func TestNewerSchemaUnderAnOpenFile(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 2)
	c := claim(t, db, ClaimRequest{Limit: 1})
	newerProgram(t, db.Path())
	before := dump(t, db)
	for name, write := range map[string]func() error{
		"a ticket": func() error { return db.Update(t.Context(), ticketOf("O")) },
		"a touch":  func() error { return db.Update(t.Context(), (*Tx).Touch) },
		"a claim":  func() error { _, err := db.Claim(t.Context(), ClaimRequest{Limit: 9, Holder: "h"}); return err },
		"a settling": func() error {
			return db.Update(t.Context(), func(tx *Tx) error { _, err := settle(tx, c.Token, c.Tickets[0]); return err })
		},
		"a look":      func() error { return db.View(t.Context(), func(*Tx) error { return nil }) },
		"a look back": func() error { _, err := db.NewWatch("another").Void(context.Background()); return err },
	} {
		if err := write(); !errors.Is(err, ErrOtherSchema) {
			t.Errorf("%s: %v, want ErrOtherSchema", name, err)
		}
	}
	if diff := cmp.Diff(before, dump(t, db)); diff != "" {
		t.Errorf("the older program changed (-before +after):\n%s", diff)
	}
	if !errors.Is(db.LastCommit(), ErrOtherSchema) {
		t.Errorf("last commit: %v", db.LastCommit())
	}
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// An older program that starts on the newer file is refused, and leaves it as it is.
func TestOlderProgramIsRefused(t *testing.T) {
	path := newPath(t)
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	newerProgram(t, path)
	before := folder(t, filepath.Dir(path))
	for _, opt := range []Options{{}, {MustExist: true}} {
		if _, err := Open(t.Context(), path, opt); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	if diff := cmp.Diff(before, folder(t, filepath.Dir(path))); diff != "" {
		t.Errorf("the file was touched:\n%.300s", diff)
	}
}
