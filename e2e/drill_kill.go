package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"comanda/store"
)

// How the storm of a drill is made up.
const (
	drillClients = 4
	drillPause   = 10 * time.Millisecond // of a client between two orders: a card should not be worn out
	anyTime      = "at any time"
)

// deaths are the points of an order's walk in the lab at which a server is killed, and how often it passes there
// before.
var (
	deaths     = []string{"triage.before_commit", "triage.after_commit", "relay.claimed", "effect.before_commit", "effect.after_commit", anyTime}
	deathsTime = []int{1, 2, 5, 13}
)

// killMatrix kills servers on the copy, at every point in turn, while clients send them orders, and then looks
// whether each acknowledged order is there with exactly its effects.
func (d *drill) killMatrix(ctx context.Context) (err error) {
	p := newProof(Config{Exe: d.Exe, JSON: true}, entry{name: "copy"}, d.dir)
	defer func() { p.end(ctx) }()
	s := newStorm(p, d.prefix)
	s.pause = drillPause
	if err := s.start(""); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	storming, cancel := context.WithTimeout(ctx, d.Time/2)
	defer cancel()
	var clients sync.WaitGroup
	seed := uint64(time.Now().UnixNano())
	for i := range drillClients {
		clients.Go(func() { s.send(storming, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	err = d.killInTurn(storming, s, rand.New(rand.NewPCG(seed, drillClients)))
	cancel()
	clients.Wait()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return d.judgeKills(ctx, s)
}

// killInTurn kills one server after the other until ctx ends. The last one lives.
func (d *drill) killInTurn(ctx context.Context, s *storm, r *rand.Rand) error {
	alive := context.WithoutCancel(ctx)
	for i := 0; ; i++ {
		point := deaths[i%len(deaths)]
		plan := ""
		if point != anyTime {
			plan = fmt.Sprintf("%s:%d", point, deathsTime[i/len(deaths)%len(deathsTime)])
		}
		if err := s.restart(alive, plan); err != nil {
			return err
		}
		patience := time.After(3 * time.Second) // a point that is not passed
		if point == anyTime {
			patience = time.After(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		select {
		case <-s.server.Load().gone: // it has killed itself
			d.r.KillsAt[point]++
		case <-patience:
			d.r.KillsAt[anyTime]++ // by restart
		case <-ctx.Done():
			d.r.KillsAt[anyTime]++
			d.r.Kills = sum(d.r.KillsAt)
			return s.restart(alive, "")
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// judgeKills waits until the drill's orders are carried out, ends the last server and looks at the closed copy.
func (d *drill) judgeKills(ctx context.Context, s *storm) error {
	drained := `SELECT EXISTS (SELECT 1 FROM outbox WHERE status IN ('pending', 'processing') AND aggregate_id` + among(d.prefix) + `)`
	if err := s.p.until(ctx, drained, "0"); err != nil {
		return err
	}
	if err := s.p.lookAway(); err != nil {
		return err
	}
	if err := s.p.endAll(ctx, s.server.Load()); err != nil {
		return err
	}
	db, err := store.Open(ctx, d.copied, store.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer db.Close()
	a, err := audit(ctx, db, d.prefix, s.acknowledged)
	if err != nil {
		return err
	}
	d.r.Orders, d.r.Again = d.r.Orders+a.orders, d.r.Again+s.resent
	d.count(a, "after the kills")
	for _, w := range s.wrong {
		d.r.find("after the kills: a wrong answer: %s", w)
	}
	var at []string
	for _, point := range slices.Sorted(maps.Keys(d.r.KillsAt)) {
		at = append(at, fmt.Sprintf("%s %d", point, d.r.KillsAt[point]))
	}
	d.progress("kills", wrap(fmt.Sprintf("%s; %s orders acknowledged, %s answers to orders that were sent again", strings.Join(at, ", "), thousands(a.orders), thousands(s.resent)), 14))
	return nil
}

// count adds what a checker found to the report.
func (d *drill) count(a account, where string) {
	d.r.Lost += len(a.lost)
	d.r.Doubled += len(a.doubled)
	d.r.Broken += len(a.broken) + len(a.strange)
	if !a.sound() {
		d.r.find("%s: %s", where, a)
	}
}
