package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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

// pressure is how long the tests of pressure take: some seconds, or what COMANDA_PRESSURE says.
func pressure(t *testing.T, normally time.Duration) time.Duration {
	t.Helper()
	if given := os.Getenv("COMANDA_PRESSURE"); given != "" {
		d, err := time.ParseDuration(given)
		if err != nil {
			t.Fatalf("COMANDA_PRESSURE: %v", err)
		}
		return d
	}
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	return normally
}

const mostWAL = 64 << 20

// Readers that take as long as they may and begin again at once, and a writer that never rests: the -wal
// stays under 64 MB, and nobody's short read or write waits for long. COMANDA_PRESSURE=10m lasts 10 minutes.
func TestWALStaysShort(t *testing.T) {
	for name, other := range map[string]bool{"readers of this process": false, "readers of another one": true} {
		t.Run(name, func(t *testing.T) { walStaysShort(t, pressure(t, 4*time.Second), other) })
	}
}

func walStaysShort(t *testing.T, lasts time.Duration, otherProcess bool) {
	path := newPath(t)
	opt := Options{Readers: 4, ReadFor: min(readFor, lasts/2)}
	db := open(t, path, opt)
	reading := db
	if otherProcess {
		reading = open(t, path, opt)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts+time.Minute)
	defer cancel()
	var slow, cut atomic.Int64
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			<-time.After(time.Duration(i) * 400 * time.Millisecond) // so that they overlap
			for ctx.Err() == nil {
				err := reading.View(ctx, func(tx *Tx) error {
					return tx.each(sqlEndlessAfterOne, nil, func(func(...any) error) error { _, err := tx.Paused(); return err })
				})
				slow.Add(1)
				switch {
				case errors.Is(err, ErrTooLong):
					if strings.Contains(err.Error(), "-wal") {
						cut.Add(1)
					}
				case ctx.Err() == nil:
					t.Errorf("a slow reader: %v", err)
				}
			}
		})
	}
	var longestRead, longestWrite time.Duration
	all.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if err := db.View(context.Background(), func(tx *Tx) error { _, err := tx.Paused(); return err }); err != nil {
				t.Errorf("a short read: %v", err)
				return
			}
			longestRead = max(longestRead, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	})
	var mostSeen int64
	body := []byte(strings.Repeat("x", refusedBytes))
	for start := time.Now(); ctx.Err() == nil && (time.Since(start) < lasts || mostSeen < walLong); { // a slow disk is given a minute more
		began := time.Now()
		update(t, db, func(tx *Tx) error { // a quarter of a megabyte
			for range 64 {
				if err := tx.KeepRefused(Refused{Problem: "bad-json", Body: body}); err != nil {
					return err
				}
			}
			return nil
		})
		longestWrite = max(longestWrite, time.Since(began))
		mostSeen = max(mostSeen, db.walBytes())
	}
	cancel()
	all.Wait()
	t.Logf("%d slow reads, %d of them cut short to empty the -wal; longest -wal %.1f MB; longest short read %s, longest write %s",
		slow.Load(), cut.Load(), float64(mostSeen)/(1<<20), longestRead.Round(time.Millisecond), longestWrite.Round(time.Millisecond))
	if mostSeen >= mostWAL {
		t.Errorf("the -wal grew to %d bytes", mostSeen)
	}
	if mostSeen < walLong {
		t.Errorf("the -wal came to %d bytes only: too little was written for this to say anything", mostSeen)
	}
}
