package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// What is carried out while the batch before is written down is claimed itself: two claims at most, no more effects at
// once than there are workers, and one claim where effects are slow, since its lease runs while it waits, and where
// orders come meanwhile, since each group of them would wait for a batch.
func TestDrainInTwoStrands(t *testing.T) {
	for _, c := range []struct {
		name  string
		sleep time.Duration
		busy  bool
		most  int
	}{{"quick", 2 * time.Millisecond, false, 2}, {"slow", quickly, false, 1}, {"beside orders", 2 * time.Millisecond, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			db := openFile(t)
			if c.busy {
				defer keepWriting(t, db)()
			}
			var mu sync.Mutex
			var running, ran, claims int
			r := newRunner(t, db, func(context.Context, store.Work) error {
				claimed, err := claimsAtWork(t.Context(), db)
				mu.Lock()
				running++
				ran, claims = max(ran, running), max(claims, claimed)
				mu.Unlock()
				time.Sleep(c.sleep)
				mu.Lock()
				defer mu.Unlock()
				running--
				return err
			}, func(o *Options) { o.Batch, o.Workers = 4, 2 })
			put(t, db, 60)
			before := db.Commits()
			if err := r.drain(t.Context(), func() {}); err != nil {
				t.Fatal(err)
			}
			if done := counts(t, db).Done; done != 60 || claims != c.most || ran > 2 {
				t.Errorf("%d done, %d claims at once, want %d; %d effects at once with 2 workers", done, claims, c.most, ran)
			}
			if commits := db.Commits() - before; commits > 60/4+5 && !c.busy {
				t.Errorf("%d commits for %d batches", commits, 60/4)
			}
			for id := range int64(60) {
				if got := ticket(t, db, id+1); got.Attempts != 1 {
					t.Errorf("ticket %d was claimed %d times: there was no worker for it", got.ID, got.Attempts)
				}
			}
		})
	}
}

// keepWriting has others at the writer all the time, until the function that it returns is called.
func keepWriting(t *testing.T, db *store.DB) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for ctx.Err() == nil {
				if err := db.Update(ctx, func(*store.Tx) error { return nil }); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for db.UnderWay() < 4 {
		time.Sleep(time.Millisecond)
	}
	return func() {
		cancel()
		senders.Wait()
	}
}

func claimsAtWork(ctx context.Context, db *store.DB) (n int, err error) {
	tokens := map[string]bool{}
	err = db.View(ctx, func(tx *store.Tx) error {
		all, err := tx.Tickets(store.TicketFilter{Status: "processing", Limit: 1000})
		for _, t := range all {
			tokens[*t.ClaimToken] = true
		}
		return err
	})
	return len(tokens), err
}

// When one strand ends, so does the other, after the batch that it has in hand: what is in the way of one is looked
// at by a pass of its own.
func TestStrandsEndTogether(t *testing.T) {
	db := openFile(t)
	r := newRunner(t, db, func(_ context.Context, w store.Work) error {
		time.Sleep(2 * time.Millisecond)
		if w.OrderID == "O-21" {
			return errors.New("not now")
		}
		return nil
	}, func(o *Options) { o.Batch, o.Workers = 2, 2 })
	put(t, db, 200)
	if err := r.takeTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	more, err := r.chain(t.Context(), func() {})
	if c := counts(t, db); err != nil || !more || c.Done < 20 || c.Done > 100 || c.Processing != 0 {
		t.Errorf("more: %t, %v; %+v: want an end soon after the ticket that failed", more, err, c)
	}
	if err := r.drain(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	if c := counts(t, db); c.Done != 199 || c.Pending != 1 {
		t.Errorf("%+v after the drain", c)
	}
}

// Whichever strand panics, drain does, once the other has ended; nothing stays claimed for long and the next drain
// goes on.
func TestStrandPanics(t *testing.T) {
	for at := range int32(12) {
		db := openFile(t)
		var told, running atomic.Int32
		r := newRunner(t, db, func(context.Context, store.Work) error {
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(2 * time.Millisecond)
			return nil
		}, func(o *Options) {
			o.Batch = 2
			o.Observe.Turn = func(string, string, time.Duration) {
				if told.Add(1) == at+1 {
					panic("here")
				}
			}
		})
		put(t, db, 40)
		err := guarded(func() { _ = r.drain(t.Context(), func() {}) })
		if err == nil || !strings.Contains(err.Error(), "panic in the relay: ") || !strings.Contains(err.Error(), "here") {
			t.Fatalf("turn %d: drain ended with %v", at+1, err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("turn %d: %d effects were under way when drain ended", at+1, n)
		}
		if err := r.drain(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
		if c := counts(t, db); c.Done != 40 {
			t.Errorf("turn %d: %+v after the next drain", at+1, c)
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
