package relay

import (
	"context"
	"errors"
	"time"

	"comanda/store"
)

// link is what a pass over the local effects leaves to the next one: the claim that was committed together with
// its settlement.
type link struct {
	next   *store.Claim
	looked time.Time // when void leases were last looked for
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
func (r *Runner) chain(ctx context.Context, beat func()) (more bool, err error) {
	defer r.endTurn()
	l := &link{}
	defer func() { r.drop(l.next) }() // of a pass that panicked; such a claim is void at once
	for {
		tally, err := r.passLocal(ctx, l)
		switch {
		case errors.Is(err, ErrPaused):
			return false, nil
		case err != nil:
			return false, err
		case tally.settled() == 0 && l.next == nil:
			return false, nil
		}
		beat()
		if l.next == nil {
			return true, nil
		}
	}
}

func (r *Runner) drop(claim *store.Claim) {
	if claim != nil {
		r.watch.Drop(claim.Token)
	}
}

// passLocal carries out and settles the claim that hangs on l, or one that it makes. With a link it may claim for
// the pass that follows too.
func (r *Runner) passLocal(ctx context.Context, l *link) (Tally, error) {
	claim, err := r.take(ctx, l)
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
	results, passed := r.carryAll(ctx, claim), passed{}
	if !r.mayChain(ctx, l, claim, results) || !r.settleAndClaim(claim, results, &tally, passed, l) {
		err = r.settle(claim, results, &tally, passed)
	}
	if err == nil && tally.settled() == 0 && ctx.Err() == nil {
		r.opt.Log.Warn("a claim came to nothing", "tickets", tally.Claimed, "lease", r.opt.Lease)
	}
	return tally, err
}

// take returns the claim to carry out, which this process has in hand from before it is committed.
func (r *Runner) take(ctx context.Context, l *link) (store.Claim, error) {
	if l != nil && l.next != nil {
		claim := *l.next
		l.next = nil
		return claim, nil
	}
	if l != nil {
		l.looked = time.Now()
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
func (r *Runner) mayChain(ctx context.Context, l *link, claim store.Claim, results []result) bool {
	if l == nil || ctx.Err() != nil || r.opt.Batch == 1 || len(claim.Tickets) < r.opt.Batch || r.wanted.Load() > 0 || time.Since(l.looked) > voidEvery {
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
func (r *Runner) settleAndClaim(claim store.Claim, results []result, tally *Tally, passed passed, l *link) bool {
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
	l.next = next
	r.report(settled, tally)
	return true
}

func anyLost(settled []settlement) bool {
	for _, s := range settled {
		if s.outcome == string(store.Lost) {
			return true
		}
	}
	return false
}
