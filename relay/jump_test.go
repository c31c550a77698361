package relay

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// The wall clock is set while two relays work on one file: a ticket is on its way, two wait for another try of which
// nobody knows what came of the first, the others are pending. Nothing is lost, sent twice at once, or sent before its
// time, and none waits longer for it.
func TestClockIsSetUnderTwoRelays(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, step := range map[string]time.Duration{
		"a year forward": year, "a year back": -year, "from 1970": 30 * year, "two hours back": -2 * time.Hour, "a little": 3 * time.Second, "a little back": -3 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { setUnderTwoRelays(t, step) })
		})
	}
}

func setUnderTwoRelays(t *testing.T, step time.Duration) {
	const tickets = 8
	var set atomic.Int64
	opt := store.Options{Boot: fakeBoot, Readers: 2, Synchronous: "OFF", Now: func() time.Time { return time.Now().Add(time.Duration(set.Load())) }}
	path := filepath.Join(t.TempDir(), "t.db")
	g := newGateway()
	var sends atomic.Int32
	g.answer = func(_ context.Context, l store.Letter) store.Reply {
		switch sends.Add(1) {
		case 1, 2:
			return vague
		case 3:
			time.Sleep(15 * time.Second)
		}
		return g.perform(l)
	}
	ctx, stop := context.WithCancel(t.Context())
	var ended []chan struct{}
	var db *store.DB
	for range 2 {
		file, err := store.Open(t.Context(), path, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		if db == nil {
			db = file
			put(t, db, tickets)
		}
		markReal(t, file, "test")
		remote := remoteOf(g)
		remote.Rate = 0.5 // so that some are pending when the clock is set
		schedule, err := ParseSchedule("@every 1h")
		if err != nil {
			t.Fatal(err)
		}
		loop := NewLoop(remoteRunner(t, file, remote), schedule)
		over := make(chan struct{})
		ended = append(ended, over)
		go func() { defer close(over); _ = loop.Run(ctx) }()
	}
	time.Sleep(5*time.Second + time.Millisecond)
	if c := counts(t, db); c.Done == tickets || c.Processing == 0 {
		t.Errorf("when the clock is set: %+v", c)
	}
	set.Store(int64(step))
	time.Sleep(2 * time.Minute)
	stop()
	for _, over := range ended {
		<-over
	}
	if c := counts(t, db); c.Done != tickets {
		t.Errorf("two minutes later: %+v", c)
	}
	first := map[string]time.Time{}
	times := map[string]int{}
	for i, key := range g.sent {
		if times[key]++; times[key] == 1 {
			first[key] = g.at[i]
		} else if wait := g.at[i].Sub(first[key]); wait <= time.Minute-time.Millisecond || wait > 70*time.Second { // the file keeps whole milliseconds
			t.Errorf("%s was sent again after %v, its wait was a minute", key, wait)
		}
	}
	if len(g.sent) != tickets+2 || len(g.did) != tickets {
		t.Errorf("sent %v", g.sent)
	}
}

// A pause outlasts every step, and a schedule that was set back still comes round.
func TestPausedWhileTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64
		db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{Boot: fakeBoot, Readers: 2, Synchronous: "OFF",
			Now: func() time.Time { return time.Now().Add(time.Duration(set.Load())) }})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		put(t, db, 3)
		pause := func(paused bool) {
			if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.Pause(paused, "test") }); err != nil {
				t.Fatal(err)
			}
		}
		pause(true)
		_, stop := startLoop(t, newRunner(t, db, nil))
		for _, step := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, -2 * time.Hour} {
			set.Add(int64(step))
			time.Sleep(2 * time.Hour)
			if c := counts(t, db); c.Pending != 3 {
				t.Errorf("paused, and set by %v: %+v", step, c)
			}
		}
		pause(false)
		time.Sleep(time.Second)
		stop()
		if c := counts(t, db); c.Done != 3 {
			t.Errorf("resumed: %+v", c)
		}
	})
}
