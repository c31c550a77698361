package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper opens a file on a machine that has slept for as long as slept says, and a holder of leases there.
func sleeper(t *testing.T, path string, slept *time.Duration) (*DB, *Holder) {
	t.Helper()
	began := time.Now()
	db, err := Open(context.Background(), path, Options{Readers: 1, Boot: func() (string, int64) {
		return "boot 1", (time.Since(began) + *slept).Milliseconds()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	holder, err := db.NewHolder(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Close() })
	return db, holder
}

// A machine sleeps for three hours in the middle of a lease, which Go's clock does not see. The holder's time is up
// as soon as it is awake, then the ticket is taken over, once, and what the holder settles changes nothing.
func TestLeaseEndsWhileTheMachineSleeps(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		slept := time.Duration(0)
		db, holder := sleeper(t, path, &slept)
		ids := put(t, db, TicketIssueRefund, 2)
		watches := []*Watch{db.NewWatch("second"), db.NewWatch("third")}
		c := claim(t, db, ClaimRequest{Holder: holder.ID, Lease: 2 * time.Minute})
		look := func(what string, want int) []VoidLease {
			t.Helper()
			var all []VoidLease
			for _, w := range watches {
				v := lookForVoid(t, w)
				if len(v) != want {
					t.Errorf("%s: void are %+v", what, v)
				}
				all = v
			}
			return all
		}
		look("claimed", 0)
		<-time.After(30 * time.Second)
		look("half a minute later", 0)
		if left := c.Left(); left != 90*time.Second {
			t.Errorf("%v of the lease are left, want 1m30s", left)
		}
		slept += 3 * time.Hour
		if left := c.Left(); left > 0 {
			t.Errorf("after its sleep the holder has %v left", left)
		}
		look("awake again: the holder is to hear of it first", 0)
		<-time.After(handover)
		v := look("and then", 1)
		again := claim(t, db, ClaimRequest{Holder: holder.ID, Void: v})
		wantIDs(t, "taken over", again.Tickets, ids...)
		if second := claim(t, db, ClaimRequest{Holder: "third", Void: v}); second.Freed != 0 || len(second.Tickets) != 0 {
			t.Errorf("taken over twice: %+v", second)
		}
		wantEnds(t, "the late holder", settleAll(t, db, c, c.Tickets...), Lost, Lost)
		wantEnds(t, "the new one", settleAll(t, db, again, again.Tickets...), Done, Done)
		wantNumber(t, db, 2, `SELECT count(*) FROM external_effects_log`)
	})
}

// A short sleep ends nothing before its time.
func TestShortSleepEndsNoLease(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		slept := time.Duration(0)
		db, holder := sleeper(t, path, &slept)
		put(t, db, TicketIssueRefund, 1)
		watch := db.NewWatch("second")
		claim(t, db, ClaimRequest{Holder: holder.ID, Lease: 2 * time.Minute})
		lookForVoid(t, watch)
		for range 5 {
			<-time.After(10 * time.Second)
			slept += 10 * time.Second
			if v := lookForVoid(t, watch); len(v) != 0 {
				t.Errorf("void too early: %+v", v)
			}
		}
		<-time.After(20 * time.Second)
		if v := lookForVoid(t, watch); len(v) != 1 {
			t.Errorf("after its whole length void are %+v", v)
		}
	})
}
