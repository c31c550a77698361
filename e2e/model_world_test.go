package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing/synctest"
	"time"

	"comanda/effects"
	"comanda/handlers"
	"comanda/relay"
	"comanda/store"
)

// modelConfig is what a shop has set.
type modelConfig struct {
	batch   int
	targets map[string]modelTarget // those that are real
}

type modelTarget struct {
	keyTTL time.Duration
	lookup bool
}

// The ways in which a target may be made: it honours keys or not, and it can be asked or not.
var modelTargets = []modelTarget{{24 * time.Hour, false}, {24 * time.Hour, true}, {0, true}, {0, false}, {10 * time.Minute, false}, {10 * time.Minute, true}}

func drawConfig(luck *rand.Rand) modelConfig {
	c := modelConfig{batch: 2 + luck.IntN(5), targets: map[string]modelTarget{store.LedgerRefund: modelTargets[luck.IntN(len(modelTargets))]}}
	if luck.IntN(2) == 0 {
		c.targets[store.LedgerInventory] = modelTargets[luck.IntN(len(modelTargets))]
	}
	return c
}

func modelAddress(target string) string { return "https://" + target + ".example/do" }

// modelWorld is one machine with its shop's appliance, and what lies outside of it. Everything on the machine is
// the product: the file, the director, the relays with their effects. Time is that of a synctest bubble; only
// one thing moves at a time, so a run is told by its seed.
type modelWorld struct {
	ctx     context.Context
	conf    modelConfig
	m       *model
	gates   map[string]*modelGateway
	weather weather

	path     string
	lives    int // how many directories the file has lived in
	serve    *store.DB
	director *handlers.Director
	relays   []*modelRelay // alive
	named    int

	skew   time.Duration // of the wall clock
	boot   int
	bootAt time.Time

	mu     sync.Mutex // what relays and gateways share
	broken error      // the first thing that must not be
	trace  []string
	counts map[string]int
}

// modelRelay is one process that carries tickets out. It has a handle on the file of its own.
type modelRelay struct {
	w      *modelWorld
	name   string
	db     *store.DB
	holder *store.Holder
	runner *relay.Runner
	luck   map[string]*rand.Rand // of each target's answers

	dead    bool
	stopAt  string // where it is to stand still
	stops   chan *stand
	at      *stand // where it stands still; nil
	running bool
	stood   bool // it stood still in this pass
	done    chan error

	sure, maybe map[string]time.Time // tokens, and since when it has, or may have, seen them
	missed      map[string]int       // exchanges in a row that did not reach the target
	begun       string               // the key of the local ticket that it carries out
}

// stand is a process that stands still, as if by SIGSTOP, between two of its steps.
type stand struct {
	point string
	goOn  chan struct{}
}

// point is passed by a relay; it may stand still there.
func (r *modelRelay) point(name string) {
	r.w.mu.Lock()
	if r.stopAt != name || r.dead {
		r.w.mu.Unlock()
		return
	}
	r.stopAt = ""
	r.w.mu.Unlock()
	s := &stand{name, make(chan struct{})}
	r.stops <- s
	<-s.goOn
}

// stoppable is a real effect in whose middle a relay can stand still.
type stoppable struct {
	relay.Effect
	r *modelRelay
}

func (s stoppable) Carry(ctx context.Context, work store.Work) (store.Act, error) {
	act, err := s.Effect.Carry(ctx, work)
	if _, remote := s.r.w.conf.targets[s.Kind().KeyPrefix]; !remote {
		s.r.begun = work.EffectKey
		s.r.point("carry")
		s.r.begun = ""
	}
	return act, err
}

func (w *modelWorld) saw(state string) { w.counts[state]++ }

func (w *modelWorld) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *modelWorld) breaks(format string, args ...any) {
	if w.broken == nil {
		w.broken = fmt.Errorf(format, args...)
	}
}

func (w *modelWorld) wall() time.Time { return time.Now().Add(w.skew) }

func (w *modelWorld) bootClock() (string, int64) {
	return fmt.Sprintf("boot %d", w.boot), time.Since(w.bootAt).Milliseconds()
}

func (w *modelWorld) options() store.Options {
	return store.Options{Readers: 1, Synchronous: "OFF", Now: w.wall, Boot: w.bootClock} // kills are survived all the same
}

// start makes a machine on a copy of an empty file.
func startModel(ctx context.Context, dir, empty string, conf modelConfig, counts map[string]int) (*modelWorld, error) {
	w := &modelWorld{ctx: ctx, conf: conf, gates: map[string]*modelGateway{}, weather: calm, path: filepath.Join(dir, "0", "m.db"), bootAt: time.Now(), counts: counts}
	w.m = newModel(w)
	for name, t := range conf.targets {
		w.gates[name] = newModelGateway(w, name, t.keyTTL, t.lookup)
	}
	if err := os.Mkdir(filepath.Dir(w.path), 0o700); err != nil {
		return nil, err
	}
	if err := exec.Command("cp", empty, w.path).Run(); err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, w.startRelay()
}

// open starts the process that takes the orders.
func (w *modelWorld) open() (err error) {
	if w.serve, err = store.Open(w.ctx, w.path, w.options()); err != nil {
		return err
	}
	w.director = &handlers.Director{DB: w.serve}
	return w.serve.Update(w.ctx, func(tx *store.Tx) error {
		var marks []store.Mark
		for name := range w.conf.targets {
			marks = append(marks, store.Mark{Name: name, URL: modelAddress(name), Credential: "token"})
		}
		if _, err := tx.MarkTargets(marks, "start"); err != nil {
			return err
		}
		return tx.Touch()
	})
}

func (w *modelWorld) startRelay() (err error) {
	r := &modelRelay{w: w, name: fmt.Sprintf("relay %d", w.named), luck: map[string]*rand.Rand{}, stops: make(chan *stand), done: make(chan error, 1),
		sure: map[string]time.Time{}, maybe: map[string]time.Time{}, missed: map[string]int{}}
	w.named++
	if r.db, err = store.Open(w.ctx, w.path, w.options()); err != nil {
		return err
	}
	if r.holder, err = r.db.NewHolder(w.ctx, 1); err != nil {
		return err
	}
	carry := map[string]relay.Effect{}
	for _, e := range []relay.Effect{effects.IssueRefund{}, effects.InventorySync{}} {
		carry[e.Kind().TicketType] = stoppable{e, r}
	}
	remotes, err := r.remotes()
	if err != nil {
		return err
	}
	r.runner = relay.NewRunner(relay.Options{DB: r.db, Holder: r.holder, Effects: carry, Batch: w.conf.batch, Lease: modelLease, Workers: 1,
		Remotes: remotes, RetryBudget: modelBudget, Backoff: func(int64) time.Duration { return modelBackoff }, Crash: r.point})
	w.relays = append(w.relays, r)
	w.note("%s starts", r.name)
	return nil
}

func (r *modelRelay) remotes() (remotes []relay.Remote, err error) {
	err = r.db.View(r.w.ctx, func(tx *store.Tx) error {
		for _, name := range []string{store.LedgerInventory, store.LedgerRefund} {
			g := r.w.gates[name]
			if g == nil {
				continue
			}
			known, err := tx.Target(name)
			if err != nil {
				return err
			}
			if known.OfflineSince != nil {
				r.missed[name] = modelOffline
			}
			conf := effects.TargetConfig{Name: name, URL: modelAddress(name), Timeout: modelTimeout, Token: "token"}
			if g.lookup {
				conf.LookupURL = "https://" + name + ".example/done/{key}"
			}
			remotes = append(remotes, relay.Remote{Name: name, Address: modelAddress(name), Door: effects.NewTarget(conf, modelDoor{r, g}), Timeout: modelTimeout,
				KeyTTL: g.keyTTL, CanLookup: g.lookup, LookupGrace: modelGrace, Concurrency: 1, Credential: "token", Offline: known.OfflineSince != nil})
		}
		return nil
	})
	return remotes, err
}

// pass has a relay make one pass; it may stand still at stopAt.
func (w *modelWorld) pass(r *modelRelay, stopAt string, luck uint64) {
	for i, name := range []string{store.LedgerInventory, store.LedgerRefund} {
		r.luck[name] = rand.New(rand.NewPCG(luck, uint64(i)))
	}
	r.stopAt, r.running, r.stood = stopAt, true, false
	go func() {
		_, err := r.runner.RunOnce(w.ctx)
		r.done <- err
	}()
	w.follow(r)
}

// goOn lets a relay that stands still go on.
func (w *modelWorld) goOn(r *modelRelay) {
	s := r.at
	r.at = nil
	close(s.goOn)
	w.follow(r)
}

// follow waits until a relay stands still or its pass is over, and nothing else of it moves.
func (w *modelWorld) follow(r *modelRelay) {
	select {
	case r.at = <-r.stops:
		r.stood = true
		synctest.Wait()
		for w.sends(r) {
			time.Sleep(time.Second) // its other worker waits for an answer
			synctest.Wait()
		}
	case err := <-r.done:
		r.running, r.stopAt = false, ""
		if err != nil && !errors.Is(err, relay.ErrPaused) && !r.dead {
			w.breaks("a pass of %s failed: %v", r.name, err)
		}
		synctest.Wait()
	}
}

// sends reports whether a request of a relay is under way that does not stand still.
func (w *modelWorld) sends(r *modelRelay) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := 0
	for _, g := range w.gates {
		for _, l := range g.letters {
			if l.relay == r && !l.ended {
				open++
			}
		}
	}
	if r.at.point == "gateway.before" || r.at.point == "gateway.did" {
		open--
	}
	return open > 0
}

// end takes a relay off the list, dead or stopped.
func (w *modelWorld) end(r *modelRelay) {
	for i, one := range w.relays {
		if one == r {
			w.relays = append(w.relays[:i], w.relays[i+1:]...)
		}
	}
}

// die lets the goroutines of a relay whose file is closed run out.
func (w *modelWorld) die(r *modelRelay) {
	for r.running {
		if r.at != nil {
			w.goOn(r)
		} else {
			w.follow(r)
		}
	}
}

// kill ends one relay as SIGKILL would: nothing of it is written any more, its lock is let go, and its lock
// file stays as it was.
func (w *modelWorld) kill(r *modelRelay) error {
	lock := w.path + ".relay-" + r.holder.ID + ".lock"
	left, err := os.ReadFile(lock)
	if err != nil {
		return err
	}
	w.mu.Lock()
	r.dead = true
	w.mu.Unlock()
	w.m.died(r)
	err = errors.Join(r.db.Close(), r.holder.Close(), os.WriteFile(lock, left, 0o600))
	w.die(r)
	w.end(r)
	return err
}

// stopRelay ends a relay that is idle as SIGTERM would.
func (w *modelWorld) stopRelay(r *modelRelay) error {
	if !r.runner.Stop(time.Second) {
		return fmt.Errorf("%s did not stop", r.name)
	}
	w.end(r)
	return errors.Join(r.holder.Close(), r.db.Close())
}

// crash kills every process of the machine at once and starts the one that takes orders again. What the kernel
// had of the file at that moment is all that is left.
func (w *modelWorld) crash(reboot bool) error { return w.crashWith(reboot, func() {}) }

// crashWith is crash while something else stands still, which letGo has run out into the file that is left behind.
func (w *modelWorld) crashWith(reboot bool, letGo func()) error {
	old := filepath.Dir(w.path)
	w.lives++
	next := filepath.Join(filepath.Dir(old), fmt.Sprint(w.lives))
	if err := exec.Command("cp", "-r", old, next).Run(); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(next, "m.db-shm")) // an index that is made anew
	w.path = filepath.Join(next, "m.db")
	gone := w.serve
	w.mu.Lock()
	for _, r := range w.relays {
		r.dead = true
	}
	w.mu.Unlock()
	letGo()
	for len(w.relays) > 0 {
		r := w.relays[0]
		w.m.died(r)
		w.die(r)
		w.end(r)
		if err := errors.Join(r.holder.Close(), r.db.Close()); err != nil {
			return err
		}
	}
	if err := errors.Join(gone.Close(), os.RemoveAll(old)); err != nil {
		return err
	}
	if reboot {
		w.boot++
		w.bootAt = time.Now()
	}
	return w.open()
}

// close ends everything.
func (w *modelWorld) close() error {
	w.mu.Lock()
	for _, r := range w.relays {
		r.dead = true
	}
	w.mu.Unlock()
	var errs []error
	for len(w.relays) > 0 {
		r := w.relays[0]
		w.die(r)
		w.end(r)
		errs = append(errs, r.holder.Close(), r.db.Close())
	}
	return errors.Join(append(errs, w.serve.Close())...)
}
