package store

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	sqlEndless = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`
	// The first row comes at once and the second one never.
	sqlEndlessAfterOne = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i = 1 OR i < 0`
)

// No read lasts longer than its limit: not one that computes, before its first row or after it, nor one that
// asks a question after the other, nor one that asks nothing at all. Whoever reads next on the same
// connection notices nothing.
func TestReadsEnd(t *testing.T) {
	const limit = 200 * time.Millisecond
	db := open(t, newPath(t), Options{Readers: 1, ReadFor: limit})
	ignore := func(func(...any) error) error { return nil }
	view := func(fn func(*Tx) error) func() error {
		return func() error { return db.View(t.Context(), fn) }
	}
	for name, ask := range map[string]func() error{
		"before the first row": view(func(tx *Tx) error { return tx.each(sqlEndless, nil, ignore) }),
		"after the first row":  view(func(tx *Tx) error { return tx.each(sqlEndlessAfterOne, nil, ignore) }),
		"many questions": view(func(tx *Tx) error {
			for {
				if _, err := tx.Paused(); err != nil {
					return err
				}
			}
		}),
		"no question for a while": view(func(tx *Tx) error {
			<-tx.ctx.Done()
			_, err := tx.Paused()
			return err
		}),
		"a query": func() error { _, err := db.Query(t.Context(), sqlEndlessAfterOne); return err },
		"a peek":  func() error { _, err := db.Peek(t.Context(), sqlEndless); return err },
	} {
		began := time.Now()
		err := ask()
		if took := time.Since(began); !errors.Is(err, ErrTooLong) || took < limit {
			t.Errorf("%s: %v after %s, want ErrTooLong", name, err, took)
		}
		if err != nil && err.Error() != "the question took longer than 0.2 s: ask for less at once" {
			t.Errorf("%s: it says %q", name, err)
		}
		if err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Paused(); return err }); err != nil {
			t.Errorf("%s: the next one reads %v", name, err)
		}
	}
}

// A reader is told why even when it comes to its end between the moment its time is over and the one at which it
// would be cut short.
func TestReadsEndForAReason(t *testing.T) {
	db := open(t, newPath(t), Options{Readers: 1, ReadFor: time.Second})
	r, err := db.beginRead(t.Context(), t.Context(), db.opt.ReadFor)
	if err != nil {
		t.Fatal(err)
	}
	if !r.unhook() { // what the end of its time begins
		t.Fatal("it was over before the moment was made")
	}
	r.unhook = func() bool { return true }
	<-r.ctx.Done()
	if err := db.endRead(r, r.ctx.Err()); !errors.Is(err, ErrTooLong) {
		t.Errorf("told %v, want ErrTooLong", err)
	}
}

// What a reader has seen is given up when its time is over, even while it does something else.
func TestSnapshotEnds(t *testing.T) {
	db := open(t, newPath(t), Options{Readers: 1, ReadFor: 3 * walTry})
	err := db.View(t.Context(), func(tx *Tx) error {
		if _, err := tx.Paused(); err != nil { // from here on it has a snapshot
			return err
		}
		update(t, db, credit("meanwhile"))
		if db.emptyWAL() {
			t.Error("the -wal was emptied under a reader: this test proves nothing")
		}
		waitFor(t, "the snapshot's end", func() bool { return db.emptyWAL() })
		return nil
	})
	if err != nil {
		t.Errorf("a reader that asked nothing more: %v", err)
	}
}

// An interrupt that comes when its reader has just finished must not hit the next one.
func TestInterruptHitsNobodyElse(t *testing.T) {
	const limit = 2 * time.Millisecond
	db := open(t, newPath(t), Options{Readers: 1, ReadFor: limit})
	short := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) SELECT count(*) FROM n`, 5_000)
	cut := 0
	for i := range 100 {
		err := db.View(t.Context(), func(*Tx) error {
			time.Sleep(limit - 100*time.Microsecond + time.Duration(2*i)*time.Microsecond) // around the limit
			return nil
		})
		if err != nil && !errors.Is(err, ErrTooLong) { // on a busy machine its time may be over before it begins
			t.Fatalf("a reader that asked nothing: %v", err)
		}
		if _, err := db.query(t.Context(), 0, short, nil); err != nil {
			cut++
		}
	}
	if cut > 0 {
		t.Errorf("%d readers were interrupted in another one's place", cut)
	}
}

// An examination that reads the whole file is not bound by the limit.
func TestExaminationsMayLast(t *testing.T) {
	db := open(t, newPath(t), Options{Readers: 1, ReadFor: time.Nanosecond})
	if _, err := db.Query(t.Context(), `SELECT 1`); !errors.Is(err, ErrTooLong) {
		t.Errorf("a query with a limit of 1 ns: %v", err)
	}
	if c := db.lookAtIntegrity(t.Context())[0]; c.Answer != "ok" {
		t.Errorf("the integrity check: %+v", c)
	}
}
