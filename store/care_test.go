package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// growWAL writes until the -wal holds at least that many bytes, which a reader keeps it from giving up.
func growWAL(t *testing.T, db *DB, bytes int64) {
	t.Helper()
	release := holdSnapshot(t, db)
	defer release()
	for i := int64(1); db.walBytes() < bytes; i++ {
		update(t, db, func(tx *Tx) error {
			return tx.KeepRefused(Refused{Problem: "bad-json", Body: make([]byte, refusedBytes)})
		})
	}
}

// holdSnapshot has a reader look at the file as it is now until release is called.
func holdSnapshot(t *testing.T, db *DB) (release func()) {
	t.Helper()
	held, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.View(context.Background(), func(tx *Tx) error {
			_, err := tx.Counts()
			close(held)
			<-over
			return err
		})
	}()
	<-held
	return sync.OnceFunc(func() { close(over); <-ended })
}

// While the -wal is written back and emptied orders go on being taken: the longest wait of one is told.
func TestCheckpointKeepsNobodyLong(t *testing.T) {
	db := openNew(t)
	growWAL(t, db, 8<<20)
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			select {
			case <-stop:
				longest <- most
				return
			default:
			}
			began := time.Now()
			if err := db.Update(context.Background(), (*Tx).Touch); err != nil {
				t.Error(err)
			}
			most = max(most, time.Since(began))
		}
	}()
	began := time.Now()
	done, err := db.Checkpoint(t.Context())
	took := time.Since(began)
	if err == nil {
		err = db.Optimize(t.Context())
	}
	close(stop)
	stall := <-longest
	if err != nil || done.Before < 8<<20 || done.After > done.Before/4 {
		t.Fatalf("%+v %v", done, err)
	}
	t.Logf("a wal of %d KiB was emptied in %v; the longest wait of a commit meanwhile: %v", done.Before>>10, took.Round(time.Millisecond), stall.Round(time.Millisecond))
	if stall > careAtWriter+3*time.Second {
		t.Errorf("a commit waited %v", stall)
	}
}

// A reader that does not end is not waited for: the writer goes on at once, and the checkpoint can be tried again.
func TestCheckpointWaitsForNoReader(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 1)
	release := holdSnapshot(t, db)
	defer release()
	put(t, db, TicketInventorySync, 1) // newer than what the reader sees
	if _, err := db.Checkpoint(t.Context()); !errors.Is(err, ErrBusy) {
		t.Fatalf("beside a reader: %v, want ErrBusy", err)
	}
	put(t, db, TicketInventoryRelease, 1)
	release()
	done, err := db.Checkpoint(t.Context())
	if err != nil || done.After != 0 || done.Before == 0 {
		t.Errorf("without a reader: %+v %v", done, err)
	}
	wantNumber(t, db, 3, `SELECT count(*) FROM outbox`)
}

// Another process that holds the file is not waited for either.
func TestCareWaitsForNoOtherProcess(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	put(t, db, TicketIssueRefund, 1)
	other := raw(t, path)
	mustExec(t, other, `BEGIN IMMEDIATE`)
	if _, err := db.Checkpoint(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("checkpoint: %v, want ErrBusy", err)
	}
	if err := db.Optimize(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("optimize: %v, want ErrBusy", err)
	}
	mustExec(t, other, `ROLLBACK`)
	if err := db.Optimize(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNoCareForAClosedFile(t *testing.T) {
	db := openNew(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Optimize(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// Doctor tells what came of the newest run of each task.
func TestDoctorTellsOfTasks(t *testing.T) {
	db := openNew(t)
	if c := checkNamed(t, db, "nightly care"); c.Level != LevelOK || c.Answer != "no run yet" {
		t.Errorf("%+v", c)
	}
	run := func(tick int64, outcome string) {
		update(t, db, func(tx *Tx) error {
			if _, err := tx.BeginTask("optimize", tick, tick); err != nil {
				return err
			}
			return tx.EndTask("optimize", tick, tick, outcome)
		})
	}
	run(1, "first seen") // a task that the file does not know is only noted
	run(1000, TaskFailed+"no room")
	if c := checkNamed(t, db, "nightly care"); c.Level != LevelWarning || c.Answer != "optimize 1970-01-01T00:00:01Z: failed: no room" {
		t.Errorf("%+v", c)
	}
	run(2000, "done")
	if c := checkNamed(t, db, "nightly care"); c.Level != LevelOK || c.Answer != "optimize 1970-01-01T00:00:02Z: done" {
		t.Errorf("%+v", c)
	}
}
