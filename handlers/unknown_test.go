package handlers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"comanda/store"
	"comanda/store/crashdisk"
)

// newSickRig is a rig whose disk can be made to fail.
func newSickRig(t *testing.T) (*rig, *crashdisk.Disk) {
	t.Helper()
	disk, err := crashdisk.New()
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "comanda.db"), store.Options{BusyTimeout: 50 * time.Millisecond, VFS: disk.VFS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := newRig(t, func(o *Options) { o.DB = db })
	r.db = db
	return r, disk
}

// broken fails every operation of these kinds.
func broken(v crashdisk.Verdict, kinds ...crashdisk.Kind) crashdisk.Fault {
	return func(op crashdisk.Op) crashdisk.Verdict {
		for _, k := range kinds {
			if op.Kind == k {
				return v
			}
		}
		return crashdisk.Verdict{}
	}
}

// While the disk fails nothing is promised: each order is answered 503 with a time to come back, and readiness says
// so. Once the disk is well the same server takes them, each once.
func TestSickDisk(t *testing.T) {
	for name, c := range map[string]struct {
		fault  crashdisk.Fault
		reason string
	}{
		"syncs fail":           {broken(crashdisk.Verdict{Code: crashdisk.SyncError}, crashdisk.Sync), "disk"},
		"writes fail":          {broken(crashdisk.Verdict{Code: crashdisk.WriteError}, crashdisk.Write), "disk"},
		"writes fail by half":  {broken(crashdisk.Verdict{Code: crashdisk.WriteError, Short: true}, crashdisk.Write), "disk"},
		"there is no room":     {broken(crashdisk.Verdict{Code: crashdisk.Full}, crashdisk.Write), "disk-full"},
		"half of it has room":  {broken(crashdisk.Verdict{Code: crashdisk.Full, Short: true}, crashdisk.Write), "disk-full"},
		"nothing can be read":  {broken(crashdisk.Verdict{Code: crashdisk.ReadError}, crashdisk.Read), "disk"},
		"syncs find no room":   {broken(crashdisk.Verdict{Code: crashdisk.Full}, crashdisk.Sync), "disk-full"},
		"everything goes away": {broken(crashdisk.Verdict{Code: crashdisk.WriteError}, crashdisk.Write, crashdisk.Sync, crashdisk.Truncate), "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			r, disk := newSickRig(t)
			r.post(body("E0", "O0", "1", oneLine)).wants(200, `"accepted"`)
			forgetWhatWasRead(t, r.db.Path())
			disk.Break(c.fault)
			for range 3 {
				m := r.post(body("E1", "O1", "1", oneLine)).problem(503, "not-now") // which wants a Retry-After
				if m["reason"] != c.reason {
					t.Errorf("reason %v, want %s: %v", m["reason"], c.reason, m)
				}
			}
			r.get("/readyz").wants(503, "the last commit failed: "+c.reason)
			r.get("/healthz").wants(200)
			disk.Break(nil)
			r.post(body("E1", "O1", "1", oneLine)).wants(200, `"accepted"`)
			r.post(body("E1", "O1", "1", oneLine)).wants(200, `"duplicate"`)
			r.get("/readyz").wants(200)
			r.holds(2, 2, 2)
		})
	}
}

// forgetWhatWasRead changes the file as another process does, so that nothing of it is read from memory.
func forgetWhatWasRead(t *testing.T, path string) {
	t.Helper()
	db, err := store.Open(context.Background(), path, store.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(t.Context(), (*store.Tx).Touch), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A COMMIT that errs is unknown. Where it left nothing the order that is sent again is decided anew; where the row is
// there after all, as the process that is started after a kill finds it, the answer is duplicate. Never twice.
func TestCommitThatErrsIsFoundOut(t *testing.T) {
	r, disk := newSickRig(t)
	r.post(body("E0", "O0", "1", oneLine)).wants(200)
	fails := broken(crashdisk.Verdict{Code: crashdisk.SyncError}, crashdisk.Sync)
	disk.Break(fails)
	m := r.post(body("E1", "O1", "1", oneLine)).problem(503, "not-now")
	if m["reason"] != "disk" || m["detail"] != "the commit failed and may have been kept or not; send it again: if it was kept the answer will be duplicate" {
		t.Errorf("%v", m)
	}
	left := leftBehind(t, r.db.Path()) // by a process that is killed now
	disk.Break(nil)
	r.post(body("E1", "O1", "1", oneLine)).wants(200, `"accepted"`)
	r.holds(2, 2, 2)

	next := newRigOnCopy(t, left)
	next.post(body("E1", "O1", "1", oneLine)).wants(200, `"duplicate"`)
	next.holds(2, 2, 2)
}

// leftBehind copies the file and its -wal as they lie in the page cache.
func leftBehind(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix) // of a test: nobody else has it open
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func newRigOnCopy(t *testing.T, path string) *rig {
	t.Helper()
	db, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := newRig(t, func(o *Options) { o.DB = db })
	r.db = db
	return r
}
