package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"modernc.org/sqlite"
)

// ticketOf puts one ticket of an order on the rail.
func ticketOf(order string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.InsertTicket(NewTicket{OrderID: order, EffectType: "test", Payload: "{}", Key: order})
		return err
	}
}

// childPut puts a ticket on the rail of the order that each line names, and says how that ended. At the end of
// its input it closes the file and goes.
func childPut(args []string, in *bufio.Scanner, out io.Writer) error {
	db, err := Open(context.Background(), args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	for in.Scan() {
		if err := db.Update(context.Background(), ticketOf(in.Text())); err != nil {
			fmt.Fprintln(out, "refused", err)
			continue
		}
		fmt.Fprintln(out, "put")
	}
	if err := db.Close(); err != nil {
		return err
	}
	fmt.Fprintln(out, "closed")
	return nil
}

// childCount says how many tickets there are and what SQLite thinks of the file.
func childCount(args []string, _ *bufio.Scanner, out io.Writer) error {
	db, err := Open(context.Background(), args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	tickets, err := db.Query(context.Background(), `SELECT count(*) FROM outbox`)
	if err != nil {
		return err
	}
	whole, err := db.Query(context.Background(), `PRAGMA integrity_check`)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, tickets.first(), whole.first())
	return db.Close()
}

// another is another process that has put a ticket on the rail of the file at path.
func another(t *testing.T, path, order string) *child {
	t.Helper()
	c := spawn(t, "put", path)
	c.hear()
	c.say(order)
	if got := c.hear(); got[0] != "put" {
		t.Fatalf("another process: %q", got)
	}
	return c
}

func (c *child) leave() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Fatal(err)
	}
	if got := c.hear(); got[0] != "closed" {
		c.t.Errorf("the other process: %q", got)
	}
}

// older is a file that was there before it is opened: its -wal is made by looking.
func older(t *testing.T) *DB {
	t.Helper()
	path := newPath(t)
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path, Options{})
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func wantOrders(t *testing.T, path string, want ...string) {
	t.Helper()
	db := open(t, path, Options{})
	for _, order := range want {
		wantNumber(t, db, 1, `SELECT count(*) FROM outbox WHERE aggregate_id = $1`, order)
	}
	wantNumber(t, db, int64(len(want)), `SELECT count(*) FROM outbox`)
	if a, err := db.Query(t.Context(), `PRAGMA integrity_check`); err != nil || a.first() != "ok" {
		t.Errorf("integrity: %v, %v", a.Rows, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Nothing is promised into a file that nobody can find again, nor told from it.
func TestMovedFileTakesNothing(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, path string) error{
		"removed":     func(_ *testing.T, path string) error { return os.Remove(path) },
		"moved":       func(_ *testing.T, path string) error { return os.Rename(path, path+".old") },
		"wal removed": func(_ *testing.T, path string) error { return os.Remove(path + "-wal") },
		"shm removed": func(_ *testing.T, path string) error { return os.Remove(path + "-shm") },
		"replaced": func(t *testing.T, path string) error {
			other := open(t, newPath(t), Options{})
			put(t, other, TicketIssueRefund, 1)
			if err := other.Close(); err != nil {
				return err
			}
			return os.Rename(other.Path(), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := older(t)
			if err := db.InPlace(); err != nil {
				t.Fatal(err)
			}
			if err := move(t, db.Path()); err != nil {
				t.Fatal(err)
			}
			if err := db.Update(t.Context(), ticketOf("O")); !errors.Is(err, ErrMoved) {
				t.Errorf("an update: %v", err)
			}
			if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.Paused(); return err }); !errors.Is(err, ErrMoved) {
				t.Errorf("an update that only looks: %v", err)
			}
			if err := db.View(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrMoved) {
				t.Errorf("a view: %v", err)
			}
			if err := db.InPlace(); !errors.Is(err, ErrMoved) || db.LastCommit() == nil {
				t.Errorf("in place: %v; last commit: %v", err, db.LastCommit())
			}
		})
	}
}

// A file that is taken away after the last look and before the commit has reached it: nobody is told that his
// write is safe.
func TestFileTakenAwayWhileCommitting(t *testing.T) {
	for _, tail := range []string{"", "-wal", "-shm"} {
		db := older(t)
		hooked := db.writer.sql.Raw(func(c any) error {
			c.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { _ = os.Remove(db.Path() + tail); return 0 })
			return nil
		})
		if hooked != nil {
			t.Fatal(hooked)
		}
		if err := db.Update(t.Context(), ticketOf("O")); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrMoved) {
			t.Errorf("%q removed in the commit: %v", tail, err)
		}
	}
}

// What was promised before the -wal was removed is brought into the file when the process ends, also if another
// one has looked in the meantime.
func TestRemovedWALIsSavedAtTheEnd(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, path string){
		"nobody looked": func(*testing.T, string) {},
		"another process looked": func(t *testing.T, path string) {
			c := spawn(t, "put", path)
			if c.out.Scan(); c.out.Text() == "ready" {
				c.say("ANOTHER")
				if got := c.hear(); got[0] == "put" {
					t.Errorf("it takes orders beside a -wal that it can't see")
				}
			}
			c.kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := older(t)
			update(t, db, ticketOf("PROMISED"))
			remove(t, db.Path()+"-wal")
			look(t, db.Path())
			if err := db.Update(t.Context(), ticketOf("LATE")); !errors.Is(err, ErrMoved) {
				t.Errorf("an update: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			wantOrders(t, db.Path(), "PROMISED")
		})
	}
}

// A process whose file was taken away leaves what lies at its names now alone when it ends: SQLite itself would
// remove the -wal of whoever works there.
func TestClosingLeavesTheNewFileAlone(t *testing.T) {
	db := older(t)
	path, old := db.Path(), filepath.Join(t.TempDir(), "old.db")
	update(t, db, ticketOf("OLD"))
	for _, tail := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+tail, old+tail); err != nil {
			t.Fatal(err)
		}
	}
	c := another(t, path, "NEW")
	if err := db.Close(); !errors.Is(err, ErrMoved) {
		t.Errorf("Close: %v, want ErrMoved", err)
	}
	c.say("NEWER")
	if got := c.hear(); got[0] != "put" {
		t.Errorf("after it was closed the other process says %q", got)
	}
	c.kill()
	wantOrders(t, path, "NEW", "NEWER")
	wantOrders(t, old, "OLD")
}

// Without its -shm a process shares no lock with those that come later; what it has is not written over what they
// have written.
func TestClosingWithoutItsIndexOverwritesNothing(t *testing.T) {
	for name, end := range map[string]func(c *child){"it lives": func(*child) {}, "it has left": (*child).leave, "it was killed": (*child).kill} {
		t.Run(name, func(t *testing.T) {
			db := older(t)
			update(t, db, ticketOf("FIRST"))
			remove(t, db.Path()+"-shm")
			c := another(t, db.Path(), "SECOND")
			for i := range 50 {
				c.say(fmt.Sprintf("MORE-%d", i))
				c.hear()
			}
			end(c)
			if err := db.Update(t.Context(), ticketOf("LATE")); !errors.Is(err, ErrMoved) {
				t.Errorf("an update: %v", err)
			}
			if err := db.Close(); !errors.Is(err, ErrMoved) {
				t.Errorf("Close: %v, want ErrMoved", err)
			}
			c.kill()
			// Here the file is still open, with the index that nobody shares: another process must look.
			if got := spawn(t, "count", db.Path()).hear(); !slices.Equal(got, []string{"52", "ok"}) {
				t.Errorf("the file holds %q, want 52 tickets and ok", got)
			}
		})
	}
}

// The same with another -wal: what its own holds is not what the index, which both share, speaks of.
func TestClosingWithoutItsWALOverwritesNothing(t *testing.T) {
	for name, end := range map[string]func(c *child){"it lives": func(*child) {}, "it has left": (*child).leave, "it was killed": (*child).kill} {
		t.Run(name, func(t *testing.T) {
			db := older(t)
			for i := range 20 {
				update(t, db, ticketOf(fmt.Sprintf("FIRST-%d", i)))
			}
			if _, err := db.writer.sql.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
				t.Fatal(err)
			}
			update(t, db, ticketOf("LAST")) // so that there is something in it to be written over the others'
			if _, err := db.writer.sql.ExecContext(t.Context(), `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
				t.Fatal(err)
			}
			remove(t, db.Path()+"-wal")
			c := another(t, db.Path(), "SECOND")
			for i := range 50 {
				c.say(fmt.Sprintf("MORE-%d", i))
				c.hear()
			}
			end(c)
			if err := db.Close(); !errors.Is(err, ErrMoved) {
				t.Errorf("Close: %v, want ErrMoved", err)
			}
			c.kill()
			if got := spawn(t, "count", db.Path()).hear(); !slices.Equal(got, []string{"72", "ok"}) {
				t.Errorf("the file holds %q, want 72 tickets and ok", got)
			}
		})
	}
}

// The file's own care does nothing to a file that was taken away: a checkpoint would write what lies in the -wal that
// is open over what others have promised since.
func TestCareLeavesAMovedFileAlone(t *testing.T) {
	for _, tail := range []string{"", "-wal", "-shm"} {
		t.Run("file"+tail, func(t *testing.T) {
			db := older(t)
			update(t, db, ticketOf("FIRST"))
			aside := filepath.Join(t.TempDir(), "aside")
			if err := os.Rename(db.Path()+tail, aside); err != nil {
				t.Fatal(err)
			}
			if tail == "-shm" { // who comes now shares no lock with us
				c := another(t, db.Path(), "SECOND")
				c.say("THIRD")
				c.hear()
				c.leave()
			}
			if _, err := db.Checkpoint(t.Context()); !errors.Is(err, ErrMoved) {
				t.Errorf("a checkpoint: %v, want ErrMoved", err)
			}
			if err := db.Optimize(t.Context()); !errors.Is(err, ErrMoved) {
				t.Errorf("new statistics: %v, want ErrMoved", err)
			}
			if tail == "-shm" {
				if got := spawn(t, "count", db.Path()).hear(); !slices.Equal(got, []string{"3", "ok"}) {
					t.Errorf("the file holds %q, want 3 tickets and ok", got)
				}
			}
		})
	}
}

// A process that is killed after its -wal was removed takes what was promised with it: it must have said so before.
func TestRemovedWALIsSaidBeforeTheKill(t *testing.T) {
	path := newPath(t)
	c := another(t, path, "PROMISED")
	remove(t, path+"-wal")
	c.say("LATE")
	if got := c.hear(); got[0] != "refused" {
		t.Errorf("the process says %q, want that its file was taken away", got)
	}
}
