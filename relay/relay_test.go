package relay

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("RELAY_TEST_CHILD"); path != "" {
		os.Exit(childRelay(path))
	}
	if path := os.Getenv("RELAY_TEST_CARE"); path != "" {
		os.Exit(childCare(path))
	}
	os.Exit(m.Run())
}

// effect is an effect of the tests: a local one that does what carry says.
type effect struct {
	kind  string
	carry func(ctx context.Context, w store.Work) error
}

func (e effect) Kind() store.Kind {
	return store.Kind{Name: e.kind, TicketType: e.kind, LedgerType: e.kind, KeyPrefix: e.kind, Mark: "E"}
}

func (e effect) Carry(ctx context.Context, w store.Work) (store.Act, error) {
	if e.carry != nil {
		if err := e.carry(ctx, w); err != nil {
			return store.Act{}, err
		}
	}
	return store.InLab, nil
}

func openFile(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newRunner(t *testing.T, db *store.DB, carry func(context.Context, store.Work) error, change ...func(*Options)) *Runner {
	t.Helper()
	opt := Options{
		DB: db, Effects: map[string]Effect{"test": effect{"test", carry}}, Workers: 4,
		Log: slog.New(slog.DiscardHandler), Backoff: func(int64) time.Duration { return time.Hour },
	}
	for _, c := range change {
		c(&opt)
	}
	holder, err := db.NewHolder(t.Context(), opt.Workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Close() })
	opt.Holder = holder
	return NewRunner(opt)
}

// put puts n tickets of type test on the rail: orders O-1 … O-n.
func put(t *testing.T, db *store.DB, n int) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		for i := 1; i <= n; i++ {
			order := fmt.Sprintf("O-%d", i)
			if _, err := tx.InsertTicket(store.NewTicket{OrderID: order, EffectType: "test", Payload: "{}", Key: store.Key("test", order)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ticket(t *testing.T, db *store.DB, id int64) store.Ticket {
	t.Helper()
	var got store.Ticket
	err := db.View(t.Context(), func(tx *store.Tx) (err error) {
		got, err = tx.Ticket(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func counts(t *testing.T, db *store.DB) store.Counts {
	t.Helper()
	var c store.Counts
	err := db.View(t.Context(), func(tx *store.Tx) (err error) {
		c, err = tx.Counts()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func effectsOf(t *testing.T, db *store.DB, where string) int64 {
	t.Helper()
	a, err := db.Query(t.Context(), `SELECT count(*) FROM external_effects_log WHERE `+where)
	if err != nil {
		t.Fatal(err)
	}
	return a.Rows[0][0].(int64)
}

func runOnce(t *testing.T, r *Runner) Tally {
	t.Helper()
	tally, err := r.RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

// setTicket changes one ticket by the hands of an outside client.
func setTicket(t *testing.T, db *store.DB, set string, id int64) {
	t.Helper()
	outside(t, db, fmt.Sprintf(`UPDATE outbox SET %s WHERE id = %d`, set, id))
}

func TestOneClaimCarriedOutAndSettled(t *testing.T) {
	db := openFile(t)
	put(t, db, 3)
	r := newRunner(t, db, nil, func(o *Options) { o.Batch = 2 })
	if got, want := runOnce(t, r), (Tally{Claimed: 2, Done: 2}); got != want {
		t.Errorf("first pass %+v, want %+v", got, want)
	}
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Done: 1}); got != want {
		t.Errorf("second pass %+v, want %+v", got, want)
	}
	if got := runOnce(t, r); got != (Tally{}) {
		t.Errorf("third pass %+v, want nothing", got)
	}
	if n := effectsOf(t, db, "1"); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
}

// An effect that already happened is settled as done without a second row in the world.
func TestAlreadyDoneSettlesWithoutASecondEffect(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	outside(t, db, `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('test:O-1', 'O-1', 'test', 'done')`)
	r := newRunner(t, db, nil)
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Done: 1}); got != want {
		t.Errorf("pass %+v, want %+v", got, want)
	}
	if n := effectsOf(t, db, "1"); n != 0 {
		t.Errorf("%d effects, want none beside the one put in by hand", n)
	}
}

func TestPoisonParksOneTicket(t *testing.T) {
	db := openFile(t)
	put(t, db, 5)
	setTicket(t, db, `effect_type = 'nobody'`, 4)
	r := newRunner(t, db, func(_ context.Context, w store.Work) error {
		switch w.OrderID {
		case "O-2":
			panic("poison")
		case "O-3":
			return fmt.Errorf("%w: not JSON", store.ErrUndecodable)
		}
		return nil
	})
	if got, want := runOnce(t, r), (Tally{Claimed: 5, Done: 2, Review: 3}); got != want {
		t.Errorf("pass %+v, want %+v", got, want)
	}
	for id, outcome := range map[int64]string{2: "panicked", 3: "undecodable", 4: "unknown type"} {
		if got := ticket(t, db, id); got.Status != "review" || got.Attempts != 1 || got.Detail == "" {
			t.Errorf("ticket %d is %s after %d attempts: %q, want review after one", id, got.Status, got.Attempts, got.Detail)
		}
		if got := lastOutcome(t, db, id); got != outcome {
			t.Errorf("ticket %d ended as %q, want %q", id, got, outcome)
		}
	}
	if got := runOnce(t, r); got != (Tally{}) {
		t.Errorf("a parked ticket was claimed again: %+v", got)
	}
}

func lastOutcome(t *testing.T, db *store.DB, id int64) string {
	t.Helper()
	var outcome string
	err := db.View(t.Context(), func(tx *store.Tx) error {
		attempts, err := tx.Attempts(id)
		if err == nil && len(attempts) > 0 && attempts[len(attempts)-1].Outcome != nil {
			outcome = *attempts[len(attempts)-1].Outcome
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestFailedTryWaitsAndInTheEndAsksAPerson(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	r := newRunner(t, db, func(context.Context, store.Work) error { return fmt.Errorf("the warehouse is closed") })
	for failures := int64(1); failures < 12; failures++ {
		if got, want := runOnce(t, r), (Tally{Claimed: 1, Retried: 1}); got != want {
			t.Fatalf("try %d: %+v, want %+v", failures, got, want)
		}
		if got := runOnce(t, r); got != (Tally{}) {
			t.Fatalf("claimed before its wait was over: %+v", got)
		}
		got := ticket(t, db, 1)
		if got.Failures != failures || got.Status != "pending" || got.Detail != "the warehouse is closed" {
			t.Fatalf("after try %d: %+v", failures, got)
		}
		setTicket(t, db, `due_at = 1`, 1)
	}
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Review: 1}); got != want {
		t.Errorf("last try: %+v, want %+v", got, want)
	}
}

func TestBackoffDoublesUnderItsCeiling(t *testing.T) {
	for failures, ceiling := range map[int64]time.Duration{0: 5 * time.Second, 3: 40 * time.Second, 12: 20480 * time.Second, 13: 6 * time.Hour, 100: 6 * time.Hour} {
		for range 200 {
			if d := backoff(5*time.Second, 6*time.Hour)(failures); d <= 0 || d > ceiling+time.Millisecond {
				t.Errorf("after %d failures %v, want within %v", failures, d, ceiling)
			}
		}
	}
}

func TestPausedClaimsNothing(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	r := newRunner(t, db, nil)
	pause := func(paused bool) {
		if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.Pause(paused, "test") }); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	if _, err := r.RunOnce(t.Context()); err != ErrPaused {
		t.Errorf("a pass while paused: %v, want ErrPaused", err)
	}
	if got := ticket(t, db, 1); got.Status != "pending" || got.Attempts != 0 {
		t.Errorf("ticket was touched: %+v", got)
	}
	pause(false)
	if got := runOnce(t, r); got.Done != 1 {
		t.Errorf("after resuming: %+v", got)
	}
}

func TestStopReleasesWhatWasNotBegun(t *testing.T) {
	db := openFile(t)
	put(t, db, 10)
	ctx, stop := context.WithCancel(t.Context())
	r := newRunner(t, db, func(context.Context, store.Work) error { stop(); return nil }, func(o *Options) { o.Workers = 1 })
	tally, err := r.RunOnce(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := counts(t, db)
	if tally.Done < 1 || tally.Done > 2 || c.Done != int64(tally.Done) || c.Pending != 10-c.Done || c.Processing != 0 {
		t.Errorf("stopped at the first of ten: %+v, %+v", tally, c)
	}
	if got := ticket(t, db, 10); got.Failures != 0 || got.Crashes != 0 || got.DueAt != 0 || got.Attempts != 1 {
		t.Errorf("a released ticket was charged: %+v", got)
	}
}

// A relay that comes back after its lease settles nothing: another one has the ticket.
func TestLateRelayChangesNothing(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	late := newRunner(t, db, func(context.Context, store.Work) error {
		if calls.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return nil
	}, func(o *Options) { o.Lease = 50 * time.Millisecond })
	ended := make(chan Tally)
	go func() {
		var tally Tally
		for calls.Load() == 0 { // on a slow machine the lease may be over before the ticket is begun
			tally, _ = late.RunOnce(t.Context())
		}
		ended <- tally
	}()
	<-begun
	other := newRunner(t, db, nil, func(o *Options) { o.Lease = time.Minute })
	deadline := time.Now().Add(10 * time.Second)
	for runOnce(t, other).Done == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the lease was never taken over")
		}
	}
	before := ticket(t, db, 1)
	close(goOn)
	if got := <-ended; got.Done != 0 {
		t.Errorf("the late relay says %+v, want nothing done", got)
	}
	if after := ticket(t, db, 1); after.EndedSeq != before.EndedSeq || *after.ProcessedAt != *before.ProcessedAt || after.Attempts != before.Attempts {
		t.Errorf("the late relay changed the ticket from %+v to %+v", before, after)
	}
	if n := effectsOf(t, db, "1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// An effect that outlasts its lease failed; it is not taken up again at once, for ever.
func TestEffectLongerThanItsLeaseIsAFailedTry(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	r := newRunner(t, db, func(ctx context.Context, _ store.Work) error { <-ctx.Done(); return ctx.Err() },
		func(o *Options) { o.Lease = 300 * time.Millisecond })
	if got, err := r.RunOnce(t.Context()); err != nil || got.Claimed != 1 || got.Done != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	_, stop := startLoop(t, r)
	deadline := time.Now().Add(time.Minute)
	for ticket(t, db, 1).Failures == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the try was never charged")
		}
	}
	stop()
	if got := ticket(t, db, 1); got.Attempts > 2 || got.Status != "pending" {
		t.Errorf("claimed %d times, %s", got.Attempts, got.Status)
	}
}

// A claim that can't be used ends the round instead of being made again at once.
func TestUselessClaimEndsTheRound(t *testing.T) {
	db := openFile(t)
	put(t, db, 3)
	r := newRunner(t, db, nil, func(o *Options) { o.Lease = time.Nanosecond })
	l, stop := startLoop(t, r)
	deadline := time.Now().Add(10 * time.Second)
	for ticket(t, db, 1).Attempts == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was claimed")
		}
	}
	if err := l.runner.drain(t.Context(), l.pulse.beat); err != nil {
		t.Error(err)
	}
	stop()
	if got := ticket(t, db, 1); got.Attempts > 3 {
		t.Errorf("claimed %d times in two rounds", got.Attempts)
	}
}

// What a pass of this very process left behind, by a panic, is taken up by its next pass at once.
func TestOwnLostClaimIsFreedAtOnce(t *testing.T) {
	db := openFile(t)
	put(t, db, 1)
	first := true
	r := newRunner(t, db, nil, func(o *Options) {
		o.Lease = time.Hour
		o.Crash = func(point string) {
			if point == "relay.claimed" && first {
				first = false
				panic("loose wire")
			}
		}
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = r.RunOnce(t.Context())
	}()
	if got := runOnce(t, r); got.Done != 1 {
		t.Errorf("the next pass came to %+v", got)
	}
}

func TestCrashPointOnceATicket(t *testing.T) {
	db := openFile(t)
	put(t, db, 2)
	passed := map[string]int{}
	r := newRunner(t, db, nil, func(o *Options) { o.Crash = func(point string) { passed[point]++ } })
	claim, err := db.Claim(t.Context(), store.ClaimRequest{Limit: 2, Lease: time.Minute, Holder: "h"})
	if err != nil {
		t.Fatal(err)
	}
	var results []result
	for _, ticket := range claim.Tickets {
		results = append(results, result{ticket: ticket, begun: true, kind: store.Kind{LedgerType: "test"}})
	}
	seen := map[int64]bool{}
	again := fmt.Errorf("another member of the group failed")
	for _, end := range []error{again, nil} { // rolled back and run again
		if err := db.Update(t.Context(), func(tx *store.Tx) error {
			if _, err := r.write(tx, claim.Token, results, seen); err != nil {
				return err
			}
			return end
		}); err != end {
			t.Fatal(err)
		}
	}
	if passed["effect.before_commit"] != 2 {
		t.Errorf("crash points passed: %v", passed)
	}
}
