package relay

import (
	"context"
	"slices"
	"sync"
	"testing"

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
