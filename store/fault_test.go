package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A disk without room says so, nothing of what did not fit is kept, and when there is room again nothing
// needs a hand.
func TestFullDisk(t *testing.T) {
	db := openNew(t)
	limit := func(text string) {
		t.Helper()
		if _, err := db.writer.sql.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	limit(fmt.Sprintf(`PRAGMA max_page_count = %d`, number(t, db, `SELECT page_count FROM pragma_page_count`)))
	before := dump(t, db)
	big := func(tx *Tx) error {
		return errors.Join(credit("small")(tx), tx.SetCredit(Credit{CustomerID: "big", Currency: "MXN", Limit: strings.Repeat("9", 100_000)}, "tester"))
	}
	if err := db.Update(t.Context(), big); !errors.Is(err, ErrFull) {
		t.Errorf("Update on a full disk: %v, want ErrFull", err)
	}
	if !errors.Is(db.LastCommit(), ErrFull) {
		t.Errorf("LastCommit on a full disk: %v", db.LastCommit())
	}
	if after := dump(t, db); after != before {
		t.Errorf("a full disk kept\n%s", after)
	}
	limit(`PRAGMA max_page_count = 1000000`)
	update(t, db, func(*Tx) error { return nil })
	if db.LastCommit() == nil {
		t.Error("an empty transaction counts as a proof of the disk")
	}
	update(t, db, big)
	if db.LastCommit() != nil {
		t.Errorf("LastCommit after a good one: %v", db.LastCommit())
	}
}

// When COMMIT itself fails nobody of the group may be told that its write is there, or that it is not.
func TestCommitThatFails(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		letGo := hold(db)
		answers := []chan error{
			later(context.Background(), db, credit("a")),
			later(context.Background(), db, func(tx *Tx) error { // a constraint that SQLite looks at in COMMIT
				if _, err := tx.exec(`PRAGMA defer_foreign_keys = ON`); err != nil {
					return err
				}
				return tx.noteAttempt(999, "token", "failed", "")
			}),
			later(context.Background(), db, credit("b")),
		}
		letGo()
		for i, answer := range answers {
			if err := <-answer; !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("member %d: %v, want ErrUnknownOutcome", i, err)
			}
		}
		if !errors.Is(db.LastCommit(), ErrUnknownOutcome) {
			t.Errorf("LastCommit: %v", db.LastCommit())
		}
		update(t, db, credit("next"))
		wantNumber(t, db, 1, sqlCreditCount)
	})
}

// A caller's own error is no fault of the disk.
func TestHealthIsTheDisks(t *testing.T) {
	db := openNew(t)
	for _, fn := range []func(*Tx) error{
		func(*Tx) error { return errors.New("no") },
		func(*Tx) error { panic("no") },
		func(tx *Tx) error { _, err := tx.exec(sqlSetCredit, "", "MXN", "1", 1); return err },
	} {
		if err := db.Update(t.Context(), fn); err == nil {
			t.Error("a failing member got no error")
		}
		if db.LastCommit() != nil {
			t.Errorf("LastCommit: %v", db.LastCommit())
		}
	}
}
