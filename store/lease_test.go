package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// holding starts a process that claims the tickets of path and begins the first one.
func holding(t *testing.T, path string, lease time.Duration) (c *child, token, holder string) {
	t.Helper()
	c = spawn(t, "hold", path, lease.String())
	words := c.hear()
	return c, words[1], words[2]
}

func lookForVoid(t *testing.T, w *Watch) []VoidLease {
	t.Helper()
	v, err := w.Void(t.Context())
	if err != nil {
		t.Fatalf("Void: %v", err)
	}
	return v
}

// takeOver frees what is void and claims it.
func takeOver(t *testing.T, db *DB, w *Watch, v []VoidLease) Claim {
	t.Helper()
	c := claim(t, db, ClaimRequest{Void: v})
	w.Done(v, true)
	return c
}

// The kernel lets go of a killed process's lock: its lease, an hour long, is void at once, and the crash is
// charged to the ticket that it had begun.
func TestDeadHolderFreedAtOnce(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	ids := put(t, db, TicketIssueRefund, 3)
	c, token, holder := holding(t, path, time.Hour)
	watch := db.NewWatch("another")
	if v := lookForVoid(t, watch); len(v) != 0 {
		t.Fatalf("a living holder's lease is void: %+v", v)
	}
	c.kill()
	v := lookForVoid(t, watch)
	if len(v) != 1 || v[0].Token != token || v[0].Holder != holder || !v[0].Dead || !slices.Equal(v[0].Begun, ids[:1]) {
		t.Fatalf("void are %+v, want %s of %s with ticket %d begun", v, token, holder, ids[0])
	}
	if other := lookForVoid(t, db.NewWatch("another")); len(other) != 0 {
		t.Errorf("two watchers take the same dead holder: %+v", other)
	}
	got := takeOver(t, db, watch, v)
	wantIDs(t, "taken over", got.Tickets, ids...)
	if got.Freed != 3 || got.Parked != 0 {
		t.Errorf("freed %d, parked %d", got.Freed, got.Parked)
	}
	for i, one := range got.Tickets {
		if want := int64(max(0, 1-i)); one.Crashes != want || one.Attempts != 2 || one.Failures != 0 {
			t.Errorf("ticket %d: crashes %d, attempts %d, failures %d", one.ID, one.Crashes, one.Attempts, one.Failures)
		}
	}
	if _, err := os.Stat(db.lockPath(holder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead holder's lock file is still there: %v", err)
	}
	wantNumber(t, db, 0, `SELECT count(*) FROM relays WHERE holder = $1`, holder)
}

// A stopped process keeps its lock, so its lease stands until somebody has watched it for its whole length.
// When it wakes up it has lost everything.
func TestStoppedHolderFreedAfterItsLease(t *testing.T) {
	const lease = 300 * time.Millisecond
	path := newPath(t)
	db := open(t, path, Options{})
	ids := put(t, db, TicketIssueRefund, 2)
	c, token, holder := holding(t, path, lease)
	c.signal(syscall.SIGSTOP)
	watch := db.NewWatch("another")
	began := time.Now()
	var v []VoidLease
	waitFor(t, "the lease to end", func() bool { v = lookForVoid(t, watch); return len(v) > 0 })
	if took := time.Since(began); took < lease {
		t.Errorf("the lease was void after %v, it lasts %v", took, lease)
	}
	if len(v) != 1 || v[0].Token != token || v[0].Dead || v[0].Begun != nil {
		t.Fatalf("void are %+v, want %s of a late holder", v, token)
	}
	got := takeOver(t, db, watch, v)
	wantIDs(t, "taken over", got.Tickets, ids...)
	wantEnds(t, "settled", settleAll(t, db, got, got.Tickets...), Done, Done)
	before := dump(t, db)
	c.signal(syscall.SIGCONT)
	c.say("settle")
	if words := c.hear(); !slices.Equal(words, []string{"lost", "lost"}) {
		t.Errorf("the stopped holder settled %v, want lost", words)
	}
	if after := dump(t, db); after != before {
		t.Errorf("the stopped holder changed\n%s\nto\n%s", before, after)
	}
	if _, err := os.Stat(db.lockPath(holder)); err != nil {
		t.Errorf("a living holder's lock file was removed: %v", err)
	}
}

// Four processes hammer one file while a fifth opens and closes it: no ticket is shared, and nobody
// sees that the file was busy.
func TestClaimsShareNothing(t *testing.T) {
	tickets := 5000
	if testing.Short() { // under the race detector
		tickets = 1000
	}
	path := newPath(t)
	db := open(t, path, Options{})
	put(t, db, TicketIssueRefund, tickets/2)
	put(t, db, TicketInventorySync, tickets/2)
	var hands []*child
	for _, batch := range []string{"7", "11", "13", "17"} {
		hands = append(hands, spawn(t, "drain", path, batch))
	}
	owner := map[string]string{}
	take := func(words []string) {
		for _, id := range words[2:] {
			if owner[id] != "" {
				t.Errorf("ticket %s was claimed as %s and as %s", id, owner[id], words[1])
			}
			owner[id] = words[1]
		}
	}
	for _, c := range hands {
		take(c.hear())
	}
	for _, c := range hands {
		c.say("go")
	}
	for number(t, db, `SELECT count(*) FROM outbox WHERE status <> 'done'`) > 0 { // as `comanda tickets list` does
		beside, err := Open(t.Context(), path, Options{Readers: 1, MustExist: true})
		if err != nil {
			t.Fatalf("open beside two writers: %v", err)
		}
		if err := beside.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range hands {
		claims := 1
		for words := c.hear(); words[0] == "claim"; words = c.hear() {
			take(words)
			claims++
		}
		t.Logf("%d claims", claims)
	}
	if len(owner) != tickets {
		t.Errorf("%d tickets were claimed, want %d", len(owner), tickets)
	}
	wantNumber(t, db, int64(tickets), `SELECT count(*) FROM external_effects_log`)
	wantNumber(t, db, 0, `SELECT count(*) FROM (SELECT 1 FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1)`)
	wantNumber(t, db, 0, `SELECT count(*) FROM outbox WHERE attempts <> 1`)
	if left, _ := filepath.Glob(path + "*.lock"); len(left) != 0 {
		t.Errorf("lock files are left: %v", left)
	}
}

// Only the watcher's own monotonic clock ends a lease: neither the first look nor a wall clock that
// steps, and a token that was renewed is watched anew.
func TestLeaseIsWatchedForItsWholeLength(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		wall := time.Now()
		db, err := Open(context.Background(), path, Options{Readers: 1, Now: func() time.Time { return wall }})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		h, err := db.NewHolder(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		put(t, db, TicketIssueRefund, 1)
		watch := db.NewWatch("another")
		c := claim(t, db, ClaimRequest{Holder: h.ID, Lease: time.Minute})
		<-time.After(time.Hour) // nobody watched
		for _, step := range []struct{ after, step time.Duration }{
			{0, 0}, {30 * time.Second, 1000 * time.Hour}, {time.Minute - time.Millisecond - 30*time.Second, -1000 * time.Hour}} {
			<-time.After(step.after)
			wall = wall.Add(step.step)
			if v := lookForVoid(t, watch); len(v) != 0 {
				t.Errorf("void too early: %+v", v)
			}
		}
		<-time.After(time.Millisecond)
		v := lookForVoid(t, watch)
		if len(v) != 1 || v[0].Dead || v[0].Token != c.Token {
			t.Errorf("after its whole length void are %+v", v)
		}
		claim(t, db, ClaimRequest{Holder: h.ID, Lease: time.Minute, Void: v})
		watch.Done(v, true)
		if v := lookForVoid(t, watch); len(v) != 0 {
			t.Errorf("a new claim is void: %+v", v)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if v := lookForVoid(t, watch); len(v) != 1 || !v[0].Dead {
			t.Errorf("a holder without a lock file is not dead: %+v", v)
		}
	})
}

// A name that nobody of us gave is a dead holder, and no path is made of it.
func TestStrangeHolders(t *testing.T) {
	db := openNew(t)
	bait := filepath.Join(filepath.Dir(db.Path()), "bait.lock")
	if err := os.WriteFile(bait, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, holder := range []string{"n8n", "", "a/../../bait", "../bait"} {
		id := put(t, db, TicketIssueRefund, 1)[0]
		update(t, db, func(tx *Tx) error {
			_, err := tx.exec(`UPDATE outbox SET status = 'processing', claim_token = 'by hand', lease_holder = $1, lease_ms = 9999999 WHERE id = $2`, holder, id)
			return err
		})
		watch := db.NewWatch("another")
		v := lookForVoid(t, watch)
		if len(v) != 1 || !v[0].Dead || len(v[0].Begun) != 0 {
			t.Errorf("holder %.20q: void are %+v", holder, v)
		}
		c := takeOver(t, db, watch, v)
		wantIDs(t, "taken over", c.Tickets, id)
		settleAll(t, db, c, c.Tickets...)
	}
	if _, err := os.Stat(bait); err != nil {
		t.Error(err)
	}
}

// Relays that start at the same time sweep at the same time, and all of them get a lock of their own.
func TestHoldersStartAtOnce(t *testing.T) {
	path := newPath(t)
	files := []*DB{open(t, path, Options{}), open(t, path, Options{})}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				h, err := files[i%2].NewHolder(t.Context(), 1)
				if err != nil {
					t.Errorf("NewHolder: %v", err)
					return
				}
				if err := h.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(path + "*.lock"); len(left) != 0 {
		t.Errorf("%d lock files are left", len(left))
	}
}

// A start clears away what dead relays left, except what a lease still names.
func TestSweep(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 1)
	alive, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	claim(t, db, ClaimRequest{Holder: "leased"})
	claim(t, db, ClaimRequest{Holder: alive.ID})
	claim(t, db, ClaimRequest{Holder: "gone"})
	for _, name := range []string{"leased", "dead"} {
		if err := os.WriteFile(db.lockPath(name), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(db.Path() + "*.lock")
	want := []string{db.lockPath("leased"), db.lockPath(alive.ID), db.lockPath(h.ID)}
	slices.Sort(left)
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
	wantNumber(t, db, 2, `SELECT count(*) FROM relays`)
	wantNumber(t, db, 0, `SELECT count(*) FROM relays WHERE holder = 'gone'`)
	if err := errors.Join(h.Close(), alive.Close()); err != nil {
		t.Error(err)
	}
}

// The lock file names the tickets that are being carried out, and no others.
func TestBegin(t *testing.T) {
	db := openNew(t)
	h, err := db.NewHolder(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	want := func(ids ...int64) {
		t.Helper()
		got := begunIn(db.lockPath(h.ID))
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Errorf("begun are %v, want %v", got, ids)
		}
	}
	begin := func(id int64) func() {
		t.Helper()
		end, err := h.Begin(id)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	want()
	end1 := begin(1 << 62)
	end2 := begin(2)
	want(2, 1<<62)
	if _, err := h.Begin(3); err == nil {
		t.Error("three tickets begun by two workers")
	}
	end1()
	want(2)
	end3 := begin(3)
	want(2, 3)
	end2()
	end3()
	want()
	for _, text := range []string{"", "oranges", "-5\n", "0\n", strings.Repeat("0", 2*slotWidth), "1e3\n", strconv.Itoa(7) + "\x00\n"} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := begunIn(path); len(got) != 0 {
			t.Errorf("%s charges %v", fmt.Sprintf("%.20q", text), got)
		}
	}
}
