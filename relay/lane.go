package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"comanda/store"
)

// lane carries out the tickets of one target outside, apart from every other: what waits for one target
// never hides what another could take. Tickets are claimed for free workers only, so none queues while its lease runs
// but for some before a quick target (hands).
type lane struct {
	remote   Remote
	r        *Runner
	log      *slog.Logger
	reach    *reach
	pace     *rate.Limiter
	hands    *hands
	openings joint[*opening] // whose turn it is
	founds   joint[*found]   // what was sent
	poke     chan struct{}   // something may have become due
	halted   atomic.Value    // why nothing may be sent, as the last look found
	pulse    pulse           // a beat for each pass that ended well
	setbacks setbacks
	soon     atomic.Int64 // how long until something becomes due, as the last look found; 0 unknown
}

func newLane(r *Runner, remote Remote) *lane {
	remote = remote.withDefaults()
	l := &lane{
		remote: remote, r: r, log: r.opt.Log.With("target", remote.Name),
		reach: newReach(r.opt.RetryBase, r.opt.RetryMax, remote.Offline),
		pace:  rate.NewLimiter(rate.Inf, 1),
		hands: newHands(remote),
		poke:  make(chan struct{}, 1),
		pulse: newPulse(),
	}
	l.setbacks.log = l.log
	l.openings.update, l.openings.write = l.update, l.open
	l.founds.update, l.founds.write = l.writeEvidence, l.writeFound
	if remote.Rate > 0 {
		l.pace.SetLimit(rate.Limit(remote.Rate))
	}
	return l
}

// lookEvery is how soon a lane sees what another process did: a pause, a resume, a ticket.
const lookEvery = time.Second

// run works until ctx ends, then waits for what is under way.
func (l *lane) run(ctx context.Context) {
	l.pulse.beat()
	look := time.NewTimer(0)
	defer look.Stop()
	for ctx.Err() == nil {
		var pass sync.WaitGroup
		claimed, err := l.pass(ctx, l.r.opt.Batch, &tallies{}, &pass)
		switch {
		case ctx.Err() != nil:
		case err != nil && !errors.Is(err, ErrPaused):
			l.setbacks.failed(err)
		default:
			l.setbacks.passed()
		}
		if err == nil {
			l.pulse.beat()
		}
		if claimed > 0 && err == nil {
			continue
		}
		look.Reset(l.nextLook())
		select {
		case <-ctx.Done():
		case <-l.poke:
		case <-look.C:
		}
	}
	l.hands.takeAll()
	l.hands.free(l.hands.most())
}

// limit is how long the lane may take to come round: it waits for a free worker, who may wait for a send and a
// lookup, and for the target's pace.
func (l *lane) limit() time.Duration {
	limit := leastLimit + 2*l.remote.Timeout
	if l.remote.Rate > 0 {
		limit += time.Duration(float64(time.Second) / l.remote.Rate)
	}
	return limit
}

// nextLook is how long to wait for the next look: until a wait or the time between two probes is over, and not
// longer than lookEvery.
func (l *lane) nextLook() time.Duration {
	if wait := l.setbacks.wait(); wait > 0 {
		return wait
	}
	in := time.Duration(l.soon.Load())
	if offline, _, probe := l.reach.state(); offline {
		in = probe
	}
	if in <= 0 || in > lookEvery {
		return lookEvery
	}
	return in + time.Millisecond
}

// stopWithin takes every worker away for good; false means that somebody is still at work.
func (l *lane) stopWithin(d time.Duration) bool {
	over := time.After(d)
	for range l.hands.most() {
		if !l.hands.take(over) {
			return false
		}
	}
	return true
}

// pass claims tickets for the workers that are free, at most limit, and sets them to work; under counts
// them until they are done. It waits for the first free worker, and for the target's pace.
func (l *lane) pass(ctx context.Context, limit int, sum *tallies, under *sync.WaitGroup) (claimed int, err error) {
	if l.hands.enough() {
		return 0, nil
	}
	turn, ready, err := l.ready(ctx)
	if err != nil || !ready {
		return 0, err
	}
	workers := l.workers(ctx, limit, turn)
	if workers == 0 {
		return 0, ctx.Err()
	}
	idle := workers
	defer func() { l.hands.free(idle) }()
	token := store.NewToken()
	l.r.watch.Take(token)
	claim, err := l.r.claim(ctx, store.ClaimRequest{Limit: workers, Token: token, Target: l.remote.Name, Address: l.remote.Address, Turn: turn})
	n := len(claim.Tickets)
	if n == 0 || err != nil {
		l.r.watch.Drop(token)
		return 0, err
	}
	idle -= n
	sum.add(Tally{Claimed: n})
	l.r.opt.Crash("relay.claimed")
	l.set(ctx, claim, turn, sum, under)
	return n, nil
}

// set puts each ticket of a claim into the hands of a worker.
func (l *lane) set(ctx context.Context, claim store.Claim, turn int, sum *tallies, under *sync.WaitGroup) {
	sends, cancel := l.r.graceful(ctx, claim)
	var left sync.WaitGroup
	for _, t := range claim.Tickets {
		left.Add(1)
		under.Go(func() {
			defer left.Done()
			defer offer(l.poke) // a worker is free, and its ticket may wait again
			defer l.hands.free(1)
			sum.add(l.carry(sends, job{claim: claim, ticket: t, turn: turn}))
		})
	}
	under.Go(func() {
		left.Wait()
		cancel()
		l.r.watch.Drop(claim.Token)
	})
}

// ready says whether a claim makes sense now, and whose turn it is if the target is out of reach. It reads
// and never writes: a lane looks once a second.
func (l *lane) ready(ctx context.Context) (turn int, ready bool, err error) {
	offline, turn, in := l.reach.state()
	if offline && in > 0 {
		return 0, false, nil
	}
	err = l.r.opt.DB.View(ctx, func(tx *store.Tx) (err error) {
		var in int64
		var halted string
		ready, in, halted, err = tx.Due(store.ClaimRequest{Target: l.remote.Name, Address: l.remote.Address, TargetOf: l.r.targetOf})
		l.soon.Store(int64(time.Duration(in) * time.Millisecond))
		l.sayHalted(halted)
		return err
	})
	return turn, ready, err
}

// sayHalted tells once why this process sends nothing to the target any more.
func (l *lane) sayHalted(why string) {
	if before, _ := l.halted.Swap(why).(string); before == why {
		return
	}
	switch why {
	case "address":
		l.log.Error("another process was started with another address for this target; this one sends nothing there any more", "address", l.remote.Address)
	case "real":
		l.log.Error("this target was made local; its effects are simulated in this file from now on")
	}
}

// workers takes as many free workers as the pace allows now, at least one.
func (l *lane) workers(ctx context.Context, limit, turn int) (n int) {
	if limit < 1 || !l.hands.next(ctx) {
		return 0
	}
	if turn > 0 && !l.mayProbe() || l.pace.Wait(ctx) != nil {
		l.hands.free(1)
		return 0
	}
	for n = 1; n < limit && turn == 0 && l.hands.another(); n++ {
		if !l.pace.Allow() {
			l.hands.free(1)
			return n
		}
	}
	return n
}

// mayProbe makes sure, with one worker in hand, that no other probe is under way or has just ended.
func (l *lane) mayProbe() bool {
	_, _, in := l.reach.state()
	return l.hands.used() == 1 && in == 0
}

// mayBegin says whether a ticket may be begun now: the target has not gone out of reach since the claim, which others try.
func (l *lane) mayBegin(ctx context.Context, j *job) bool {
	offline, _, _ := l.reach.state()
	return ctx.Err() == nil && (!offline || j.turn > 0)
}

// sendOne sends a letter once fewer are under way than there may be.
func (l *lane) sendOne(ctx context.Context, letter store.Letter) store.Reply {
	select {
	case l.hands.sends <- struct{}{}:
		defer func() { <-l.hands.sends }()
	case <-ctx.Done(): // nothing will be sent
	}
	began := time.Now()
	reply := l.remote.Door.Send(ctx, letter)
	took := time.Since(began)
	l.hands.quick.Store(took < quickSend && reply.Evidence == store.Happened)
	l.r.opt.Observe.Sent(l.remote.Name, "send", string(reply.Evidence), took)
	return reply
}

// tallies sums up what the workers of a pass came to.
type tallies struct {
	mu  sync.Mutex
	sum Tally
}

func (t *tallies) add(o Tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Claimed += o.Claimed
	t.sum.Done += o.Done
	t.sum.Retried += o.Retried
	t.sum.Dead += o.Dead
	t.sum.Review += o.Review
	t.sum.Offline += o.Offline
}

func (t *tallies) total() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum
}
