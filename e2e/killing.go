package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"comanda/store"
)

// How the storm is made up in which servers are killed.
const (
	killingClients = 4
	killingPause   = 10 * time.Millisecond // of a client between two orders: a card should not be worn out
	anyTime        = "at any time"
)

// deaths are the points of an order's walk in the lab at which a server is killed, and how often it passes there
// before.
var (
	deaths     = []string{"triage.before_commit", "triage.after_commit", "relay.claimed", "effect.before_commit", "effect.after_commit", anyTime}
	deathsTime = []int{1, 2, 5, 13}
)

// killing kills servers on a file, at every point in turn, while clients send them orders.
type killing struct {
	*storm
	toll
	at map[string]int // point → kills
}

// killAll lets the storm loose on a proof's file for some time, and then looks whether each acknowledged order is there
// with exactly its effects.
func killAll(ctx context.Context, p *proof, prefix string, howLong time.Duration) (*killing, error) {
	k := &killing{storm: newStorm(p, prefix), toll: toll{class: "toll.kills"}, at: map[string]int{}}
	k.pause = killingPause
	if err := k.start(""); err != nil {
		return k, err
	}
	if err := k.open(ctx); err != nil {
		return k, err
	}
	storming, cancel := context.WithTimeout(ctx, howLong)
	defer cancel()
	var clients sync.WaitGroup
	seed := uint64(time.Now().UnixNano())
	for i := range killingClients {
		clients.Go(func() { k.send(storming, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	err := k.inTurn(storming, rand.New(rand.NewPCG(seed, killingClients)))
	cancel()
	clients.Wait()
	if err != nil || ctx.Err() != nil {
		return k, errors.Join(err, ctx.Err())
	}
	return k, k.judge(ctx)
}

// inTurn kills one server after the other until ctx ends. The last one lives.
func (k *killing) inTurn(ctx context.Context, r *rand.Rand) error {
	alive := context.WithoutCancel(ctx)
	for i := 0; ; i++ {
		point := deaths[i%len(deaths)]
		plan := ""
		if point != anyTime {
			plan = fmt.Sprintf("%s:%d", point, deathsTime[i/len(deaths)%len(deathsTime)])
		}
		if err := k.again(alive, plan); err != nil {
			return err
		}
		patience := time.After(3 * time.Second) // a point that is not passed
		if point == anyTime {
			patience = time.After(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		select {
		case <-k.server.Load().gone: // it has killed itself
			k.at[point]++
		case <-patience:
			k.at[anyTime]++ // by the next start
		case <-ctx.Done():
			k.at[anyTime]++
			k.tried++
			return k.again(alive, "")
		}
		k.tried++
	}
}

// again kills the server if it still lives, and times how long the next one takes until it listens.
func (k *killing) again(ctx context.Context, plan string) error {
	began := time.Now()
	err := k.restart(ctx, plan)
	if err == nil && k.server.Load().url != "" {
		k.recovered = append(k.recovered, time.Since(began))
	}
	return err
}

// where tells how many were killed at each point.
func (k *killing) where(in words) string {
	var at []string
	for _, point := range deaths {
		name := point
		if point == anyTime {
			name = in.text("kills.any-time")
		}
		at = append(at, fmt.Sprintf("%s %d", name, k.at[point]))
	}
	return strings.Join(at, ", ")
}

// judge waits until the storm's orders are carried out, ends the last server and looks at the closed file.
func (k *killing) judge(ctx context.Context) error {
	drained := `SELECT EXISTS (SELECT 1 FROM outbox WHERE status IN ('pending', 'processing') AND aggregate_id` + among(k.prefix) + `)`
	if err := k.p.until(ctx, drained, "0"); err != nil {
		return err
	}
	if err := k.p.lookAway(); err != nil {
		return err
	}
	if err := k.p.endAll(ctx, k.server.Load()); err != nil {
		return err
	}
	db, err := store.Open(ctx, k.p.file, store.Options{MustExist: true, ReadFor: examineFor})
	if err != nil {
		return err
	}
	defer db.Close()
	a, err := audit(ctx, db, k.prefix, k.acknowledged)
	if err != nil {
		return err
	}
	k.count(a, "after the kills")
	for _, w := range k.wrong {
		k.find("after the kills: a wrong answer: %s", w)
	}
	return nil
}
