package relay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"comanda/store"
)

// strand is a row of passes over the local effects, and what each leaves to the next.
type strand struct {
	next   *store.Claim // committed together with the settlement before it
	looked time.Time    // when void leases were last looked for
	ended  *atomic.Bool // this strand or the one beside it: no further pass hangs on one
	widen  func()       // begins the one beside it; nil in that one itself
}

// quickly is how soon a batch is carried out that is worth a second strand. What takes longer is not written down any
// sooner by two of them, and a claim that waits for its workers loses of its lease.
const quickly = 50 * time.Millisecond

// keepsPace says whether the strand may go on after a batch that took so long to carry out, while others wait for the
// writer. Beside them one strand is enough: of two there is one in every group of commits, and they would wait for it.
func (s *strand) keepsPace(took time.Duration, others bool) bool {
	two := took < quickly && !others
	if s.widen == nil {
		return two
	}
	if two {
		s.widen()
	}
	return true
}

// voidEvery is how often a drain looks for void leases. A claim that is made with a settlement frees none.
const voidEvery = time.Second

// takeTurn waits until no other local pass runs. A drain that hears of a waiter hands over after its pass.
func (r *Runner) takeTurn(ctx context.Context) error {
	r.wanted.Add(1)
	defer r.wanted.Add(-1)
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runner) endTurn() { <-r.turn }

// drain makes local passes until nothing is due, the relay is paused, or something is in the way; then the
// schedule brings the next try, or the end of the setbacks. It returns the error of a pass that failed: a loop
// whose every pass fails has not come round, however often it tries.
func (r *Runner) drain(ctx context.Context, beat func()) error {
	for ctx.Err() == nil {
		if r.takeTurn(ctx) != nil {
			return nil
		}
		more, err := r.chain(ctx, beat)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// chain makes one pass and those that hang on it, and gives the turn back. more says that tickets may be due still.
// While batches are full and carried out quickly it does so in two strands: what one has claimed is carried out while
// the other's is written down, so that the writer waits for nobody.
func (r *Runner) chain(ctx context.Context, beat func()) (more bool, err error) {
	defer r.endTurn()
	var ended atomic.Bool
	var beside sync.WaitGroup
	defer beside.Wait() // for a pass that panicked: the turn is not given back before
	var also struct {
		more        bool
		err, panics error
	}
	widen := func() {
		also.panics = guarded(func() { also.more, also.err = r.follow(ctx, &strand{ended: &ended}, beat) })
	}
	more, err = r.follow(ctx, &strand{ended: &ended, widen: sync.OnceFunc(func() {
		if r.strands > 1 {
			beside.Go(widen)
		}
	})}, beat)
	beside.Wait()
	if also.panics != nil {
		panic(also.panics)
	}
	return more || also.more, errors.Join(err, also.err)
}

// follow makes the passes of a strand.
func (r *Runner) follow(ctx context.Context, s *strand, beat func()) (more bool, err error) {
	defer s.ended.Store(true)
	defer func() { r.drop(s.next) }() // of a pass that panicked; such a claim is void at once
	for {
		tally, err := r.passLocal(ctx, s)
		switch {
		case errors.Is(err, ErrPaused):
			return false, nil
		case err != nil:
			return false, err
		case tally.settled() == 0 && s.next == nil:
			return false, nil
		}
		beat()
		if s.next == nil {
			return true, nil
		}
	}
}

func (r *Runner) drop(claim *store.Claim) {
	if claim != nil {
		r.watch.Drop(claim.Token)
	}
}

// passLocal carries out and settles the claim that hangs on s, or one that it makes. With a strand it may claim for
// the pass that follows too.
func (r *Runner) passLocal(ctx context.Context, s *strand) (Tally, error) {
	claim, err := r.take(ctx, s)
	defer r.watch.Drop(claim.Token)
	if err != nil {
		return Tally{}, err
	}
	r.sayElsewhere(claim.Elsewhere)
	tally := Tally{Claimed: len(claim.Tickets), Review: claim.Parked}
	if claim.Paused {
		return tally, ErrPaused
	}
	if len(claim.Tickets) == 0 {
		return tally, nil
	}
	r.opt.Crash("relay.claimed")
	began := time.Now()
	results, passed := r.carryInTurn(ctx, claim), passed{}
	follows := r.mayChain(ctx, s, claim, results) && s.keepsPace(time.Since(began), r.othersWait())
	if !follows || !r.settleAndClaim(claim, results, &tally, passed, s) {
		err = r.settle(claim, results, &tally, passed)
	}
	if err == nil && tally.settled() == 0 && ctx.Err() == nil {
		r.opt.Log.Warn("a claim came to nothing", "tickets", tally.Claimed, "lease", r.opt.Lease)
	}
	return tally, err
}

// othersWait reports whether anybody but the other strand waits for the writer: orders, mostly.
func (r *Runner) othersWait() bool { return r.opt.DB.UnderWay() > 1 }

// carryInTurn is carryAll for one pass at a time, so that no more effects run at once than there are workers.
func (r *Runner) carryInTurn(ctx context.Context, claim store.Claim) []result {
	select {
	case r.carrying <- struct{}{}:
		defer func() { <-r.carrying }()
	case <-ctx.Done(): // it begins none
	}
	return r.carryAll(ctx, claim)
}

// take returns the claim to carry out, which this process has in hand from before it is committed.
func (r *Runner) take(ctx context.Context, s *strand) (store.Claim, error) {
	if s != nil && s.next != nil {
		claim := *s.next
		s.next = nil
		return claim, nil
	}
	if s != nil {
		s.looked = time.Now()
	}
	token := store.NewToken()
	r.watch.Take(token)
	claim, err := r.claim(ctx, store.ClaimRequest{Limit: r.opt.Batch, Token: token})
	claim.Token = token
	return claim, err
}

// mayChain says whether the next claim may be made with this one's settlement: there seems to be more, nothing
// stands in the way, and nobody waits for the turn or for leases to be freed. Batches of one are for whoever wants
// to see one step at a time.
func (r *Runner) mayChain(ctx context.Context, s *strand, claim store.Claim, results []result) bool {
	if s == nil || ctx.Err() != nil || r.opt.Batch == 1 || len(claim.Tickets) < r.opt.Batch || r.wanted.Load() > 0 || s.ended.Load() || time.Since(s.looked) > voidEvery {
		return false
	}
	for _, res := range results {
		if !res.through() {
			return false
		}
	}
	return true
}

// settleAndClaim settles a claim and makes the next one in one transaction, so that a batch costs one sync and not
// two. The next claim is 'processing' on disk before anything of it is begun, as ever. False means that the claim is
// still to be settled: nothing was written, or nobody knows, and then the next claim is in nobody's hand and void.
func (r *Runner) settleAndClaim(claim store.Claim, results []result, tally *Tally, passed passed, s *strand) bool {
	want := r.asHolder(store.ClaimRequest{Limit: r.opt.Batch, Token: store.NewToken()})
	r.watch.Take(want.Token)
	var settled []settlement
	var next *store.Claim
	err := r.opt.DB.Update(context.Background(), func(tx *store.Tx) (err error) {
		next = nil
		if settled, err = r.write(tx, claim.Token, results, passed); err != nil || anyLost(settled) {
			return err
		}
		c, err := tx.Claim(want)
		next = &c
		return err
	})
	if err != nil {
		r.watch.Drop(want.Token)
		return false
	}
	if next == nil {
		r.watch.Drop(want.Token)
	}
	s.next = next
	r.report(settled, tally)
	return true
}

func anyLost(settled []settlement) bool {
	for _, one := range settled {
		if one.outcome == string(store.Lost) {
			return true
		}
	}
	return false
}
