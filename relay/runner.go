package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"comanda/store"
)

// Effect carries out the tickets of one type. It is run again, with the same key, whenever nobody
// knows whether it was carried out.
type Effect interface {
	Kind() store.Kind
	// Carry carries out one ticket. It returns an error that wraps store.ErrUndecodable for a payload
	// that can't be read, and any other error for a try that is worth repeating.
	Carry(ctx context.Context, w store.Work) (store.Act, error)
}

// Tally counts what one claim came to.
type Tally struct{ Claimed, Done, Retried, Dead, Review, Offline int }

// ErrPaused is returned by RunOnce while the relays of the file are paused.
var ErrPaused = errors.New("the relay is paused")

// Options are the settings of a Runner. DB, Effects and Holder are required.
type Options struct {
	DB      *store.DB
	Holder  *store.Holder
	Effects map[string]Effect  // by ticket type
	Batch   int                // tickets a claim; 0 means 100
	Lease   time.Duration      // 0 means 2 minutes
	Workers int                // tickets carried out at once; 0 means 4
	Crash   func(point string) // the crash points of proofs; nil does nothing. With it one claim is in hand at a time
	Log     *slog.Logger       // nil discards
	Observe Observer           // its funcs may be nil

	Listen time.Duration // between two looks for what other processes commit, as ListenEvery; 0 leaves that to the schedule

	Remotes     []Remote      // the targets that have an address; the effects of others are local
	RetryBase   time.Duration // 0 means 5 s
	RetryMax    time.Duration // 0 means 6 h
	RetryBudget int           // failed tries before a person is asked; 0 means 12
	Compensate  bool          // a rejected line takes its whole order back
	Backoff     func(failures int64) time.Duration
}

func (o Options) withDefaults() Options {
	if o.Batch == 0 {
		o.Batch = 100
	}
	if o.Lease == 0 {
		o.Lease = 2 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Crash == nil {
		o.Crash = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Observe = o.Observe.withDefaults()
	if o.RetryBase == 0 {
		o.RetryBase = 5 * time.Second
	}
	if o.RetryMax == 0 {
		o.RetryMax = 6 * time.Hour
	}
	if o.RetryBudget == 0 {
		o.RetryBudget = 12
	}
	if o.Backoff == nil {
		o.Backoff = backoff(o.RetryBase, o.RetryMax)
	}
	return o
}

// backoff tells how long a failed try waits: full jitter under a doubling ceiling, as in
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
func backoff(base, most time.Duration) func(failures int64) time.Duration {
	return func(failures int64) time.Duration {
		ceiling := base
		for range min(failures, 62) {
			if ceiling >= most/2 {
				ceiling = most
				break
			}
			ceiling *= 2
		}
		return rand.N(min(ceiling, most)) + time.Millisecond
	}
}

// Runner makes passes: over the local effects one at a time, and over each target outside in its lane.
type Runner struct {
	opt       Options
	watch     *store.Watch
	turn      chan struct{}            // held by the local pass that runs
	wanted    atomic.Int32             // who waits for the turn
	carrying  chan struct{}            // held by the local pass that carries out
	strands   int                      // in which a drain goes on
	lanes     []*lane                  // one for each target outside
	targetOf  map[string]string        // the target of each effect type
	elsewhere atomic.Pointer[[]string] // targets of other processes, see unaddressed
}

// NewRunner returns a Runner. It starts nothing.
func NewRunner(opt Options) *Runner {
	strands := 2
	if opt.Crash != nil { // a proof says what a kill at its point leaves
		strands = 1
	}
	opt = opt.withDefaults()
	r := &Runner{opt: opt, watch: opt.DB.NewWatch(opt.Holder.ID), turn: make(chan struct{}, 1),
		carrying: make(chan struct{}, 1), strands: strands, targetOf: map[string]string{}}
	for kind, effect := range opt.Effects {
		r.targetOf[kind] = effect.Kind().KeyPrefix
	}
	for _, remote := range opt.Remotes {
		r.lanes = append(r.lanes, newLane(r, remote))
	}
	return r
}

// RunOnce claims at most one batch, local effects first, carries it out and settles it before it returns.
// When ctx ends it begins no further ticket and gives back what it had not begun.
func (r *Runner) RunOnce(ctx context.Context) (Tally, error) {
	sum := &tallies{}
	local, err := r.runLocal(ctx)
	if err != nil {
		return local, err
	}
	sum.add(local)
	var under sync.WaitGroup
	limit := r.opt.Batch - local.Claimed
	for _, l := range r.lanes {
		n, passErr := l.pass(ctx, limit, sum, &under)
		limit -= n
		if passErr != nil {
			err = passErr
		}
	}
	under.Wait()
	return sum.total(), err
}

// runLocal is RunOnce for the effects that are not real in this file.
func (r *Runner) runLocal(ctx context.Context) (Tally, error) {
	if err := r.takeTurn(ctx); err != nil {
		return Tally{}, err
	}
	defer r.endTurn()
	return r.passLocal(ctx, nil)
}

// settled is how many of the claimed tickets came to something. None, and it makes no sense to claim again
// at once: the lease is too short, or the lock file can't be written.
func (t Tally) settled() int { return t.Done + t.Retried + t.Dead + t.Review + t.Offline }

// sayElsewhere keeps for the watchdog, which tells it, which targets tickets wait for that this process has no
// address for.
func (r *Runner) sayElsewhere(targets []string) {
	targets = slices.DeleteFunc(slices.Clone(targets), func(name string) bool {
		return slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.remote.Name == name })
	})
	r.elsewhere.Store(&targets)
}

// unaddressed are the targets that tickets wait for and this process has no address for.
func (r *Runner) unaddressed() []string {
	if targets := r.elsewhere.Load(); targets != nil {
		return *targets
	}
	return nil
}

// Stop waits for what is under way and lets nothing else begin. False means that it did not end in time.
func (r *Runner) Stop(within time.Duration) bool {
	giveUp := time.Now().Add(within)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if r.takeTurn(ctx) != nil {
		return false
	}
	for _, l := range r.lanes {
		if !l.stopWithin(time.Until(giveUp)) {
			return false
		}
	}
	return true
}

func (r *Runner) claim(ctx context.Context, want store.ClaimRequest) (claim store.Claim, err error) {
	void, err := r.watch.Void(ctx)
	if err != nil {
		return claim, err
	}
	freed := false
	defer func() { r.watch.Done(void, freed) }() // whatever happens: a dead holder's lock is not ours to keep
	want = r.asHolder(want)
	want.Void = void
	claim, err = r.opt.DB.Claim(ctx, want)
	freed = err == nil
	if claim.Freed > 0 {
		r.opt.Log.Info("leases freed", "tickets", claim.Freed, "parked", claim.Parked)
	}
	return claim, err
}

func (r *Runner) asHolder(want store.ClaimRequest) store.ClaimRequest {
	want.Lease, want.Holder, want.TargetOf = r.opt.Lease, r.opt.Holder.ID, r.targetOf
	return want
}

// settle writes down what came of a claim, all of it in one transaction. If that fails for one
// ticket's sake each is settled alone, so that the others are not held up by it.
func (r *Runner) settle(claim store.Claim, results []result, tally *Tally, passed passed) error {
	err := r.settleSome(claim, results, tally, passed)
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	if len(results) == 1 || waitsForOthers(err) {
		return fmt.Errorf("settle %d tickets: %w", len(results), err)
	}
	var errs []error
	for i := range results {
		errs = append(errs, r.settleSome(claim, results[i:i+1], tally, passed))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("settle tickets one by one: %w", err)
	}
	return nil
}

// waitsForOthers tells a file that can't be written now from a ticket that can't be settled.
func waitsForOthers(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnknownOutcome) || store.IsDiskFault(err)
}

// settleSome tries for a while if the file can't be written now; then the next pass takes the tickets up
// again. A settlement that was committed after all finds its token
// gone and changes nothing; it is told as lost, since nobody can say whose it was.
func (r *Runner) settleSome(claim store.Claim, results []result, tally *Tally, passed passed) error {
	giveUp := time.Now().Add(settleFor)
	for {
		var settled []settlement
		err := r.opt.DB.Update(context.Background(), func(tx *store.Tx) (err error) {
			settled, err = r.write(tx, claim.Token, results, passed)
			return err
		})
		if err == nil {
			r.report(settled, tally)
			return nil
		}
		if !waitsForOthers(err) || time.Now().After(giveUp) || claim.Left() <= 0 {
			return err
		}
		time.Sleep(settleAgain)
	}
}

// How often and how long a settlement is tried that the file does not take.
const (
	settleAgain   = 200 * time.Millisecond
	settleSlowest = 5 * time.Second
	settleFor     = 2 * time.Second
)

// passed are the tickets that have passed their crash point: a commit may be tried again, the crash point counts tickets.
type passed map[int64]bool

// settlement is one ticket's end of a pass.
type settlement struct {
	result
	outcome string // done, already_done, retried, review, released, lost
}

func (r *Runner) write(tx *store.Tx, token string, results []result, passed passed) ([]settlement, error) {
	settled := make([]settlement, 0, len(results))
	did, err := settleLocal(tx, token, results)
	if err != nil {
		return nil, err
	}
	var release []int64
	for _, res := range results {
		outcome, err := r.writeOne(tx, token, res, did)
		if err != nil {
			return nil, err
		}
		if outcome == released {
			release = append(release, res.ticket.ID)
		}
		settled = append(settled, settlement{res, outcome})
		if isDone(outcome) && !passed[res.ticket.ID] {
			passed[res.ticket.ID] = true
			r.opt.Crash("effect.before_commit")
		}
	}
	if len(release) == 0 {
		return settled, nil
	}
	_, err = tx.Release(token, release)
	return settled, err
}

// settleLocal carries out and settles, set by set, what the effects have let through.
func settleLocal(tx *store.Tx, token string, results []result) (map[int64]store.Settled, error) {
	sets := map[string][]store.Ticket{}
	for _, res := range results {
		if res.through() {
			sets[res.kind.LedgerType] = append(sets[res.kind.LedgerType], res.ticket)
		}
	}
	did := make(map[int64]store.Settled, len(results))
	for _, ledgerType := range slices.Sorted(maps.Keys(sets)) {
		settled, err := tx.SettleLocal(token, sets[ledgerType], ledgerType)
		if err != nil {
			return nil, err
		}
		maps.Copy(did, settled)
	}
	return did, nil
}

// What a settlement can be beside store.Settled.
const (
	retried  = "retried"
	review   = "review"
	released = "released"
	dead     = "dead"

	offlineOutcome = "offline" // back on the rail, and nothing charged
)

func (r *Runner) writeOne(tx *store.Tx, token string, res result, did map[int64]store.Settled) (string, error) {
	switch {
	case res.through():
		return string(did[res.ticket.ID]), nil
	case !res.begun:
		return released, nil
	case res.park != "":
		ok, err := tx.Review(token, res.ticket.ID, res.park, res.err.Error())
		return orLost(ok, review), err
	case res.err != nil && res.ticket.Failures+1 >= int64(r.opt.RetryBudget):
		ok, err := tx.Review(token, res.ticket.ID, "gave up", fmt.Sprintf("failed %d times, last: %v", r.opt.RetryBudget, res.err))
		return orLost(ok, review), err
	default:
		ok, err := tx.Retry(token, res.ticket.ID, r.opt.Backoff(res.ticket.Failures).Milliseconds(), res.err.Error())
		return orLost(ok, retried), err
	}
}

func isDone(outcome string) bool {
	return outcome == string(store.Done) || outcome == string(store.AlreadyDone)
}

func orLost(ok bool, outcome string) string {
	if ok {
		return outcome
	}
	return string(store.Lost)
}

// report counts and logs what is committed, one line a ticket.
func (r *Runner) report(settled []settlement, tally *Tally) {
	for _, s := range settled {
		r.opt.Observe.Turn(r.turnOf(s.ticket.EffectType), s.outcome, time.Since(s.began))
		level := slog.LevelInfo
		switch s.outcome {
		case string(store.Done), string(store.AlreadyDone):
			tally.Done++
			r.opt.Crash("effect.after_commit")
		case retried:
			tally.Retried++
			level = slog.LevelWarn
		case review:
			tally.Review++
			level = slog.LevelError
		}
		attrs := []slog.Attr{slog.Int64("id", s.ticket.ID), slog.String("order_id", s.ticket.AggregateID), slog.String("effect", s.ticket.EffectType),
			slog.String("key", s.ticket.Key), slog.Int64("attempt", s.ticket.Attempts), slog.String("outcome", s.outcome), slog.Duration("took", s.took)}
		if s.err != nil {
			attrs = append(attrs, slog.String("error", s.err.Error()))
		}
		r.opt.Log.LogAttrs(context.Background(), level, "ticket", attrs...)
	}
}
