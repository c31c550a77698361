//go:build unix

package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"comanda/store/crashdisk"
)

func awaitWriter(t *testing.T, db *DB, want Doing) {
	t.Helper()
	waitFor(t, "the writer to be seen", func() bool { return db.Writer().Doing == want })
}

// What keeps the writer is told apart: a transaction that does not end, a lock that another has, a disk that
// does not answer. Each is over by itself.
func TestWriterIsSeen(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{BusyTimeout: 50 * time.Millisecond})
	awaitWriter(t, db, Idle)
	release, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- db.Update(context.Background(), func(*Tx) error { <-release; return nil }) }()
	awaitWriter(t, db, Working)
	waitFor(t, "its time to pass", func() bool { return db.Writer().For > 20*time.Millisecond })
	if words := db.Writer().String(); !strings.Contains(words, "a transaction has not come to its end") {
		t.Error(words)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	awaitWriter(t, db, Idle)

	other := raw(t, path)
	mustExec(t, other, `BEGIN IMMEDIATE`)
	before := time.Now()
	for range 3 { // the wait is one, though the tries are many
		if err := db.Update(t.Context(), (*Tx).Touch); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	if state := db.Writer(); state.Doing != Locked || state.For < 150*time.Millisecond || state.For > time.Since(before) {
		t.Errorf("%+v, since %v", state, time.Since(before))
	}
	if words := db.Writer().String(); !strings.Contains(words, "another program has held it") {
		t.Error(words)
	}
	mustExec(t, other, `ROLLBACK`)
	update(t, db, (*Tx).Touch)
	awaitWriter(t, db, Idle)
}

// A disk that does not answer a sync: the writer waits, and whoever looks is told.
func TestSilentDiskIsSeen(t *testing.T) {
	d, err := crashdisk.New()
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, newPath(t), Options{VFS: d.VFS()})
	answers := make(chan struct{})
	d.Break(func(op crashdisk.Op) crashdisk.Verdict {
		if op.Kind == crashdisk.Sync {
			<-answers
		}
		return crashdisk.Verdict{}
	})
	ended := make(chan error, 1)
	go func() { ended <- db.Update(context.Background(), (*Tx).Touch) }()
	awaitWriter(t, db, Syncing)
	if words := db.Writer().String(); !strings.Contains(words, "the disk has not answered a write") {
		t.Error(words)
	}
	close(answers)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	awaitWriter(t, db, Idle)
}
