//go:build unix

package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A copy holds what the file holds, with what is only in the -wal; the file and its -wal are not touched, whether
// somebody works on it or a killed program left it.
func TestCopy(t *testing.T) {
	db := openNew(t)
	tx := func(tx *Tx) error { return tx.Log("test", "copied", "", "") }
	update(t, db, tx)
	dir := t.TempDir()
	left := filepath.Join(dir, "left.db") // as after a kill: with a -wal, and nobody has it open
	takeAway(t, db.Path(), left)
	beside := func(of string) [2][32]byte {
		to := filepath.Join(t.TempDir(), "x")
		takeAway(t, of, to)
		return [2][32]byte{sumOf(t, to), sumOf(t, to+"-wal")}
	}
	for i, from := range []string{db.Path(), left} {
		to, before := filepath.Join(dir, fmt.Sprint("copy", i)), beside(from)
		if err := Copy(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(to); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("the copy is %v, %v", st.Mode(), err)
		}
		if beside(from) != before {
			t.Errorf("copying changed %s or its -wal", from)
		}
		checks, err := Examine(t.Context(), to, Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.Level == LevelWrong {
				t.Errorf("the copy: %+v", c)
			}
		}
		copied, err := Open(t.Context(), to, Options{MustExist: true})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := copied.Query(t.Context(), `SELECT count(*) FROM operator_log WHERE action = 'copied'`); err != nil || a.first() != "1" {
			t.Errorf("the copy has %v, %v", a.Rows, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
	}
	update(t, db, tx) // the locks are still ours
	if err := Copy(t.Context(), db.Path(), left); err == nil || !strings.Contains(err.Error(), "can't be made") {
		t.Errorf("a copy over another file: %v", err)
	}
	if err := Copy(t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "new")); err == nil {
		t.Error("a copy of nothing")
	}
}

// A copy that begins while nobody writes is whole also when somebody begins to, and writes his -wal back in the
// middle of it.
func TestCopyOfAFileThatWakesUp(t *testing.T) {
	db := openNew(t)
	tickets, rounds := 30_000, 10
	if testing.Short() { // under the race detector
		tickets, rounds = 6000, 3
	}
	put(t, db, TicketIssueRefund, tickets)
	dir := t.TempDir()
	for i := range rounds {
		if _, err := db.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = db.Update(ctx, func(tx *Tx) error {
					_, err := tx.exec(`UPDATE outbox SET detail = $1 WHERE id % 3000 = 1`, fmt.Sprintf("round %d %d", i, n))
					return err
				})
				_, _ = db.Checkpoint(ctx)
			}
		})
		to := filepath.Join(dir, fmt.Sprint(i))
		err := Copy(t.Context(), db.Path(), to)
		stop()
		writing.Wait()
		if err != nil {
			t.Fatal(err)
		}
		copied := open(t, to, Options{Readers: 1, ReadFor: time.Minute}) // the whole file is looked through
		if a, err := copied.Query(t.Context(), `PRAGMA integrity_check`); err != nil || a.first() != "ok" {
			t.Errorf("copy %d: %v, %v", i, a.rows(3), err)
		}
		wantNumber(t, copied, 1, `SELECT count(DISTINCT detail) FROM outbox WHERE id % 3000 = 1`) // one transaction wrote them all
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
}

// takeAway copies a file and its -wal with the hands of another process: to open them here would take our locks away.
func takeAway(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"", "-wal"} {
		if out, err := exec.Command("cp", from+name, to+name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func sumOf(t *testing.T, path string) [32]byte {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(body)
}

// In a copy for the lab nothing is sent: every target is local, and nothing is paused.
func TestMarkLab(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error {
		if _, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: "https://gateway.example"}}, "test"); err != nil {
			return err
		}
		if err := tx.PauseTarget(LedgerInventory, "test", ""); err != nil {
			return err
		}
		return tx.Pause(true, "test")
	})
	update(t, db, func(tx *Tx) error { return tx.MarkLab("test") })
	for _, target := range view(t, db, (*Tx).Targets) {
		if target.Real() || target.Paused != nil || target.Address != "" {
			t.Errorf("%+v", target)
		}
	}
	if view(t, db, (*Tx).Paused) {
		t.Error("the relays are paused")
	}
}
