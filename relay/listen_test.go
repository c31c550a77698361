package relay

import (
	"context"
	"testing"

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
