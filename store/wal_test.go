package store

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
	for start := time.Now(); ctx.Err() == nil && (time.Since(start) < lasts || mostSeen < walLong); { // a slow disk is given a minute more
		began := time.Now()
		writeMuch(t, db, 1)
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

// writeMuch writes so many quarters of a megabyte in one transaction.
func writeMuch(t *testing.T, db *DB, quarters int) {
	t.Helper()
	body := []byte(strings.Repeat("x", refusedBytes))
	update(t, db, func(tx *Tx) error {
		for range 64 * quarters {
			if err := tx.KeepRefused(Refused{Problem: "bad-json", Body: body}); err != nil {
				return err
			}
		}
		return nil
	})
}

// keepReading has a reader that asks nothing more stand in the -wal's way until done is called, which returns what
// became of it.
func keepReading(t *testing.T, db *DB) (done func() error) {
	t.Helper()
	reads, enough, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- db.View(context.Background(), func(tx *Tx) error {
			if _, err := tx.Paused(); err != nil {
				return err
			}
			close(reads)
			select {
			case <-enough:
			case <-tx.ctx.Done():
			}
			_, err := tx.Paused()
			return err
		})
	}()
	<-reads
	done = sync.OnceValue(func() error { close(enough); return <-ended })
	t.Cleanup(func() { _ = done() })
	return done
}

// letWALGrow writes until the -wal is that long.
func letWALGrow(t *testing.T, db *DB, bytes int64) {
	t.Helper()
	for range 2 * bytes >> 22 {
		if db.walBytes() >= bytes {
			return
		}
		writeMuch(t, db, 16)
	}
	t.Fatalf("the -wal came to %d bytes only", db.walBytes())
}

// Nothing is committed to a -wal that is too long while somebody of another process reads from it: when it was
// emptied, what waited is written.
func TestCommitsWaitForALongWAL(t *testing.T) {
	fullRunOnly(t)
	path := newPath(t)
	db, other := open(t, path, Options{}), open(t, path, Options{ReadFor: time.Minute})
	done := keepReading(t, other)
	letWALGrow(t, db, walFull)
	var written atomic.Bool
	var all sync.WaitGroup
	all.Go(func() { writeMuch(t, db, 1); written.Store(true) })
	time.Sleep(5 * walTry)
	if written.Load() {
		t.Error("a commit did not wait for the reader's end")
	}
	if err := done(); err != nil {
		t.Errorf("the reader: %v", err)
	}
	all.Wait()
	if n := db.walBytes(); n > walLong {
		t.Errorf("the -wal has %d bytes after that", n)
	}
}

// When the -wal is long a read that lasts is cut short, whether it began before that or after, in this process or,
// if it began after, in another one; and the reader is told why.
func TestLongWALShortensReads(t *testing.T) {
	fullRunOnly(t)
	path := newPath(t)
	db, other := open(t, path, Options{ReadFor: time.Minute}), open(t, path, Options{ReadFor: time.Minute})
	inTheWay := keepReading(t, other)
	before := keepReading(t, db)
	letWALGrow(t, db, walLong)
	began := time.Now()
	for _, late := range []*DB{db, other} {
		err := late.View(t.Context(), func(tx *Tx) error { <-tx.ctx.Done(); _, err := tx.Paused(); return err })
		if !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "-wal") {
			t.Errorf("a read that began afterwards: %v", err)
		}
	}
	if took := time.Since(began); took > 20*walHurry {
		t.Errorf("both took %s", took)
	}
	if err := before(); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "-wal") {
		t.Errorf("a read that began before: %v", err)
	}
	if err := inTheWay(); err != nil {
		t.Errorf("another process's read that began before: %v", err)
	}
}
