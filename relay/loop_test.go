package relay

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

func TestParseSchedule(t *testing.T) {
	for _, good := range []string{"@every 10s", "@every 1ms", "*/5 * * * *", "@hourly"} {
		if _, err := ParseSchedule(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "TZ=UTC", "CRON_TZ=Mars/Olympus * * * * *", "often", "0 0 30 2 *", "@every -1s x"} {
		if _, err := ParseSchedule(bad); err == nil || strings.Contains(err.Error(), "runtime error") {
			t.Errorf("%q: %v, want a sentence", bad, err)
		}
	}
}

// startLoop runs a loop on an hourly schedule: what it does in a test it does for a wake-up's sake.
func startLoop(t *testing.T, r *Runner) (l *Loop, stop func()) {
	t.Helper()
	schedule, err := ParseSchedule("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l = NewLoop(r, schedule)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return l, stop
}

func awaitN(t *testing.T, what <-chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-what:
		case <-time.After(10 * time.Second):
			t.Fatal("waited 10 s in vain")
		}
	}
}

func TestCommitWakesTheLoop(t *testing.T) {
	db := openFile(t)
	carried := make(chan struct{}, 100)
	r := newRunner(t, db, func(context.Context, store.Work) error { carried <- struct{}{}; return nil }, func(o *Options) { o.Batch = 3 })
	put(t, db, 1)
	_, stop := startLoop(t, r)
	awaitN(t, carried, 1) // at once, without a tick
	outside(t, db, `DELETE FROM outbox`)
	put(t, db, 10)
	awaitN(t, carried, 10) // by the wake-up, draining three at a time
	stop()
	if c := counts(t, db); c.Done != 10 {
		t.Errorf("%+v, want 10 done", c)
	}
}

func TestLoopOutlivesAPanic(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	var claims atomic.Int32
	carried := make(chan struct{}, 1)
	r := newRunner(t, db, func(context.Context, store.Work) error { carried <- struct{}{}; return nil }, func(o *Options) {
		o.Lease = 10 * time.Millisecond // the claim that the panic left behind is soon void
		o.Crash = func(point string) {
			if point == "relay.claimed" && claims.Add(1) == 1 {
				panic("loose wire")
			}
		}
	})
	startLoop(t, r)
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-carried:
			return
		case <-deadline:
			t.Fatal("the loop did not begin again")
		case <-time.After(100 * time.Millisecond):
			offerWake(t, db) // stands for a schedule that ticks more often
		}
	}
}

func offerWake(t *testing.T, db *store.DB) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.Pause(true, "test"); err != nil {
			return err
		}
		return tx.Pause(false, "test")
	}); err != nil {
		t.Fatal(err)
	}
}

func TestRoundIsSeen(t *testing.T) {
	db := openFile(t)
	r := newRunner(t, db, nil)
	l, stop := startLoop(t, r)
	if l.limit() != 3*time.Hour {
		t.Errorf("limit %v, want 3h", l.limit())
	}
	put(t, db, 1)
	deadline := time.Now().Add(10 * time.Second)
	for counts(t, db).Done == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was done")
		}
	}
	stop()
	if since := l.pulse.since(); since > 10*time.Second {
		t.Errorf("last round %v ago", since)
	}
}

// A loop whose every pass fails has not come round: readiness must see it.
func TestFailingPassesAreSeen(t *testing.T) {
	db := openFile(t)
	r := newRunner(t, db, nil)
	schedule, err := ParseSchedule("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	l := NewLoop(r, schedule)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l.pulse.began = l.pulse.began.Add(-time.Minute)
	if l.runner.drain(t.Context(), l.pulse.beat) == nil || l.pulse.since() < time.Minute {
		t.Errorf("a failed pass counts as a round: %v", l.pulse.since())
	}
}
