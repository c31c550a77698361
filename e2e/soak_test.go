package e2e

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"comanda/store"
)

// How the soak is made up.
const (
	soakTime    = 15 * time.Second
	soakClients = 8
)

// soak is a storm in which a relay of its own is killed too.
type soak struct {
	*storm
	relay *child
	kills int
}

// Whatever is killed, and however often an order is sent again: each acknowledged order is there with
// exactly its effects. Lost 0, doubled 0.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soak{storm: newStorm(onFile(t, builtProgram(t)), "")}
	if err := s.start("", "--lease", "2s"); err != nil {
		t.Fatal(err)
	}
	s.startRelay(t)
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soakTime)
	defer cancel()
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() { s.send(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	s.killAgainAndAgain(ctx, t, rand.New(rand.NewPCG(seed, soakClients)))
	clients.Wait()
	if err := s.p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.p.endAll(t.Context(), s.relay, s.server.Load()); err != nil {
		t.Error(err)
	}
	s.judge(t)
}

func (s *soak) startRelay(t *testing.T) {
	t.Helper()
	s.relay = must(s.p.relay("relay", "", "--lease", "2s", "--batch", "7"))(t)
}

// killAgainAndAgain kills one of the two at random moments and starts it again, until ctx ends.
func (s *soak) killAgainAndAgain(ctx context.Context, t *testing.T, r *rand.Rand) {
	t.Helper()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+r.IntN(200)) * time.Millisecond):
		}
		s.kills++
		if r.IntN(2) == 0 {
			if err := s.restart(t.Context(), "", "--lease", "2s"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s.relay.kill()
		if err := s.relay.waitKilled(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.startRelay(t)
	}
}

// judge looks at the closed file.
func (s *soak) judge(t *testing.T) {
	t.Helper()
	db := must(store.Open(t.Context(), s.p.file, store.Options{MustExist: true}))(t)
	defer db.Close()
	a := must(audit(t.Context(), db, s.prefix, s.acknowledged))(t)
	t.Logf("%d kills; %d answers to orders sent again, %d sends without an answer; %s", s.kills, s.resent, s.unanswered, a)
	if !a.ok() || len(s.wrong) > 0 {
		t.Errorf("wrong answers: %q; the file: %s", s.wrong, a)
	}
	if a.orders < 50 || s.kills < 10 {
		t.Errorf("too little happened for this to say anything: %d orders, %d kills", a.orders, s.kills)
	}
	if locks := must(filepath.Glob(s.p.file + ".relay-*"))(t); len(locks) > 0 {
		t.Errorf("lock files of dead relays are left: %q", locks)
	}
}
