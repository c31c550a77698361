package relay

import (
	"context"
	"testing"
	"time"

	"comanda/store"
)

// A ticket that another process puts on the rail is carried out long before the schedule, which is hourly here.
func TestAnotherProcessWakesTheLoop(t *testing.T) {
	db := openFile(t)
	carried := make(chan struct{}, 10)
	r := newRunner(t, db, func(context.Context, store.Work) error { carried <- struct{}{}; return nil }, func(o *Options) { o.Listen = ListenEvery })
	put(t, db, 1)
	startLoop(t, r)
	awaitN(t, carried, 1) // it has begun to wait
	outside(t, db, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('O-9', 'test', '{}', 'test:O-9')`)
	awaitN(t, carried, 1)
}

// What another process writes that puts nothing on the rail wakes nobody: two idle relays, each of which notes its
// passes, do not keep each other awake.
func TestIdleRelaysLetEachOtherSleep(t *testing.T) {
	db := openFile(t)
	other, err := store.Open(t.Context(), db.Path(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	const every = 10 * time.Millisecond
	carried := make(chan struct{}, 10)
	for _, file := range []*store.DB{db, other} {
		startLoop(t, newRunner(t, file, func(context.Context, store.Work) error { carried <- struct{}{}; return nil }, func(o *Options) { o.Listen = every }))
	}
	put(t, db, 1)
	awaitN(t, carried, 1)
	const noted = 1100 * time.Millisecond // a relay notes a pass once a second at most
	time.Sleep(noted)
	before := db.Commits() + other.Commits()
	outside(t, db, `UPDATE relay_state SET touched = touched + 1`)
	time.Sleep(2 * noted)
	if n := db.Commits() + other.Commits() - before; n > 0 {
		t.Errorf("%d commits of two relays that have nothing to do", n)
	}
}
