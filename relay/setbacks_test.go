package relay

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"comanda/store"
	"comanda/store/crashdisk"
)

// sickFile is a file with a real target on a disk that can be made to fail.
func sickFile(t *testing.T) (*store.DB, *crashdisk.Disk) {
	t.Helper()
	disk, err := crashdisk.New()
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{Boot: fakeBoot, Readers: 4, VFS: disk.VFS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, disk
}

// failing fails what is done to the disk in these ways, and counts it.
func failing(tried *atomic.Int64, with map[crashdisk.Kind]int32) crashdisk.Fault {
	return func(op crashdisk.Op) crashdisk.Verdict {
		code, fails := with[op.Kind]
		if fails {
			tried.Add(1)
		}
		return crashdisk.Verdict{Code: code}
	}
}

var (
	noWrites = map[crashdisk.Kind]int32{crashdisk.Write: crashdisk.WriteError, crashdisk.Sync: crashdisk.SyncError}
	noRoom   = map[crashdisk.Kind]int32{crashdisk.Write: crashdisk.Full}
	nothing  = map[crashdisk.Kind]int32{crashdisk.Read: crashdisk.ReadError, crashdisk.Write: crashdisk.WriteError, crashdisk.Sync: crashdisk.SyncError}
)

// linesWith is how many lines of a log hold a part.
func linesWith(log *syncBuffer, part string) (n int) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// The disk answers with errors, or has no room, for a minute. The relay stays, tries less and less often, says so
// once for the local effects and once for the target, and goes on by itself within longestSetback, though its
// schedule is hourly.
func TestDiskFailsForAMinute(t *testing.T) {
	for name, ill := range map[string]map[crashdisk.Kind]int32{"errors": noWrites, "no room": noRoom} {
		t.Run(name, func(t *testing.T) { failForAMinute(t, ill) })
	}
}

func failForAMinute(t *testing.T, ill map[crashdisk.Kind]int32) {
	synctest.Test(t, func(t *testing.T) {
		db, disk := sickFile(t)
		markReal(t, db, "test")
		g, log := newGateway(), &syncBuffer{}
		r := remoteRunner(t, db, remoteOf(g), func(o *Options) {
			o.Effects["lab"] = effect{"lab", nil}
			o.Log = slog.New(slog.NewTextHandler(log, nil))
		})
		put(t, db, 3)
		if err := db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.InsertTicket(store.NewTicket{OrderID: "L", EffectType: "lab", Payload: "{}", Key: store.Key("lab", "L")})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		var tried atomic.Int64
		disk.Break(failing(&tried, ill))
		loop, stop := startLoop(t, r)
		time.Sleep(time.Minute)
		if sent, _, _ := g.seen(); sent > 0 {
			t.Errorf("%d letters were sent though no row could be written", sent)
		}
		if db.LastCommit() == nil || loop.pulse.since() < 50*time.Second {
			t.Errorf("LastCommit %v, the loop came round %s ago: nobody can tell that something is wrong", db.LastCommit(), loop.pulse.since())
		}
		// Two that try after 1, 2, 4, 8, 10, 10 … s are about 20 tries of a claim.
		if n := tried.Load(); n < 5 || n > 60 {
			t.Errorf("%d writes and syncs were tried within a minute, want some and not a storm", n)
		}
		if n := linesWith(log, "pass failed"); n < 1 || n > 4 {
			t.Errorf("%d lines say that passes fail, want one each:\n%s", n, log)
		}
		disk.Break(nil)
		began := time.Now()
		for counts(t, db).Done < 4 {
			if time.Since(began) > 3*longestSetback {
				t.Fatalf("not recovered %s after the disk was well: %+v\n%s", time.Since(began), counts(t, db), log)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%d writes and syncs tried within the minute, all done %s after it", tried.Load(), time.Since(began))
		if n := linesWith(log, "passes succeed again"); n != 2 {
			t.Errorf("%d lines say that it is over, want 2:\n%s", n, log)
		}
		stop()
	})
}

// The disk fails while a letter is on its way. What the target said is written down once the disk is well.
func TestEvidenceOutlastsASickDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, disk := sickFile(t)
		markReal(t, db, "test")
		put(t, db, 1)
		g := newGateway()
		remote := remoteOf(g)
		remote.KeyTTL = 0 // what is not written down would be left to a person
		var tried atomic.Int64
		var well sync.WaitGroup
		other, err := store.Open(t.Context(), db.Path(), store.Options{Boot: fakeBoot})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		g.set(func(_ context.Context, l store.Letter) store.Reply {
			if err := other.Update(t.Context(), (*store.Tx).Touch); err != nil { // what db has read so far counts no more
				t.Error(err)
			}
			disk.Break(failing(&tried, nothing))
			well.Go(func() {
				time.Sleep(time.Minute)
				disk.Break(nil)
			})
			return g.perform(l)
		})
		if got, want := runOnce(t, remoteRunner(t, db, remote)), (Tally{Claimed: 1, Done: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		well.Wait()
		if diff := cmp.Diff([]string{"send done"}, attempts(t, db, 1)); diff != "" {
			t.Error(diff)
		}
		if n := tried.Load(); n < 3 || n > 150 {
			t.Errorf("%d reads and writes were tried within a minute, want some and not a storm", n)
		}
	})
}
