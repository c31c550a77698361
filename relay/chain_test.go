package relay

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// A drain claims each batch but the first with the settlement of the one before: one commit a batch, and one more.
// What is carried out is claimed on disk, each claim passes its crash point once, and each ticket is claimed once.
func TestDrainClaimsWithTheSettlement(t *testing.T) {
	db := openFile(t)
	const batch, batches = 5, 6
	var mu sync.Mutex
	var claims, unclaimed int
	r := newRunner(t, db, func(_ context.Context, w store.Work) error {
		err := db.View(t.Context(), func(tx *store.Tx) error {
			all, err := tx.Tickets(store.TicketFilter{OrderID: w.OrderID, Limit: 1})
			if err == nil && all[0].Status != "processing" {
				mu.Lock()
				defer mu.Unlock()
				unclaimed++
			}
			return err
		})
		return err
	}, func(o *Options) {
		o.Batch = batch
		o.Crash = func(point string) {
			if point == "relay.claimed" {
				claims++
			}
		}
	})
	put(t, db, batch*batches)
	before := db.Commits()
	if err := r.drain(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	if commits := db.Commits() - before; commits != batches+1 {
		t.Errorf("%d commits for %d batches, want %d", commits, batches, batches+1)
	}
	if c := counts(t, db); c.Done != batch*batches || claims != batches || unclaimed != 0 {
		t.Errorf("%+v, %d claims, %d carried out unclaimed", c, claims, unclaimed)
	}
	for id := range int64(batch * batches) {
		if got := ticket(t, db, id+1); got.Attempts != 1 {
			t.Errorf("ticket %d was claimed %d times", got.ID, got.Attempts)
		}
	}
}

// A stop in the middle of a drain gives back what was claimed with the last settlement, begins none of it, and
// charges nobody.
func TestStopGivesBackTheNextClaim(t *testing.T) {
	db := openFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var carried []string
	r := newRunner(t, db, func(_ context.Context, w store.Work) error { carried = append(carried, w.OrderID); return nil }, func(o *Options) {
		o.Batch, o.Workers = 2, 1
		o.Crash = func(point string) {
			if point == "effect.after_commit" {
				cancel()
			}
		}
	})
	put(t, db, 6)
	if err := r.drain(ctx, func() {}); err != nil {
		t.Fatal(err)
	}
	if c := counts(t, db); c.Done != 2 || c.Pending != 4 || !slices.Equal(carried, []string{"O-1", "O-2"}) {
		t.Errorf("%+v after %v, want 2 done and 4 pending", c, carried)
	}
	if got := ticket(t, db, 3); got.Failures != 0 || got.Crashes != 0 || got.Attempts != 1 {
		t.Errorf("%+v, want it claimed once and charged nothing", got)
	}
}

// A next claim that fails costs the settlement nothing.
func TestNextClaimFailsAlone(t *testing.T) {
	db := openFile(t)
	r := newRunner(t, db, nil, func(o *Options) { o.Batch = 2 })
	put(t, db, 4)
	outside(t, db, `CREATE TRIGGER no_claim BEFORE UPDATE OF status ON outbox WHEN NEW.status = 'processing' AND NEW.id > 2
		BEGIN SELECT RAISE(ABORT, 'no'); END`)
	if err := r.drain(t.Context(), func() {}); err == nil {
		t.Error("the claim alone did not fail")
	}
	if c := counts(t, db); c.Done != 2 || c.Pending != 2 {
		t.Errorf("%+v, want 2 done and 2 pending", c)
	}
}

// Whoever asks for a pass in the middle of a long drain gets its turn after the batch that is under way.
func TestDrainHandsOver(t *testing.T) {
	db := openFile(t)
	var r *Runner
	left := make(chan int64, 1)
	r = newRunner(t, db, func(_ context.Context, w store.Work) error {
		if w.OrderID != "O-1" {
			return nil
		}
		go func() {
			if _, err := r.RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
			left <- counts(t, db).Pending
		}()
		for r.wanted.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	}, func(o *Options) { o.Batch = 2 })
	put(t, db, 200)
	if err := r.drain(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	if n := <-left; n == 0 {
		t.Error("who asked for a pass waited for the end of the drain")
	}
}

// A drain that lasts frees what a relay held that died meanwhile, and does not leave that to its end.
func TestDrainFreesTheDead(t *testing.T) {
	db := openFile(t)
	other, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64
	r := newRunner(t, db, func(_ context.Context, w store.Work) error {
		if w.OrderID == "O-1" {
			left.Store(counts(t, db).Pending)
		}
		time.Sleep(voidEvery / 20)
		return nil
	}, func(o *Options) {
		o.Batch, o.Workers = 2, 2
		die := sync.OnceFunc(func() { _ = other.Close() })
		o.Crash = func(string) { die() } // the drain has just seen it alive
	})
	put(t, db, 61)
	outside(t, db, `UPDATE outbox SET status = 'processing', claim_token = 'other', lease_holder = '`+other.ID+`', lease_ms = 3600000 WHERE id = 1`)
	if err := r.drain(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	if c := counts(t, db); c.Done != 61 || left.Load() == 0 {
		t.Errorf("%+v; when the dead one's ticket was carried out %d others waited", c, left.Load())
	}
}
