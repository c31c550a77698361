package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// How the soak is made up.
const (
	soakTime    = 15 * time.Second
	soakClients = 8
)

// soak is a server and a relay that are killed again and again while clients send orders.
type soak struct {
	p      *proof
	server atomic.Pointer[child]
	relay  *child
	kills  int
	down   sync.RWMutex // held while the server is not there

	mu           sync.Mutex
	acknowledged map[string][]string // order → its tickets, as the first 200 named them
	resent       int
	unanswered   int
	wrong        []string
}

// Whatever is killed, and however often an order is sent again: each acknowledged order is there with
// exactly its effects. Lost 0, doubled 0.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soak{p: onFile(t, builtProgram(t)), acknowledged: map[string][]string{}}
	s.startServer(t)
	s.startRelay(t)
	if err := s.p.client.credit(t.Context(), s.server.Load().url, "CUS-8", "50000.00"); err != nil {
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

func (s *soak) startServer(t *testing.T) {
	t.Helper()
	s.server.Store(must(s.p.serve("", "--lease", "2s"))(t))
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
			s.killServer(t)
			continue
		}
		s.relay.kill()
		if err := s.relay.waitKilled(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.startRelay(t)
	}
}

func (s *soak) killServer(t *testing.T) {
	t.Helper()
	s.down.Lock()
	defer s.down.Unlock()
	server := s.server.Load()
	server.kill()
	if err := server.waitKilled(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.startServer(t)
}

// awaitServer returns when there is a server again.
func (s *soak) awaitServer() {
	s.down.RLock()
	defer s.down.RUnlock()
}

// send sends one order after the other, each until it is answered, and some of them again.
func (s *soak) send(ctx context.Context, client int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		order := fmt.Sprintf("ORD-%d-%d", client, n)
		body := orderBody("EVT-"+order, order, "CUS-7", "100.00", line{"CF-ARA-500", 1})
		if r.IntN(2) == 0 {
			body = orderBody("EVT-"+order, order, "CUS-8", "100.00", line{"CF-ARA-500", 1 + r.IntN(9)}, line{"TE-CHM-100", 2}, line{"CF-ARA-500", 1})
		}
		copies := 1 + r.IntN(3)/2
		var all sync.WaitGroup
		for range copies { // a double click: both on their way at once
			all.Go(func() { s.sendUntilAnswered(order, body) })
		}
		all.Wait()
		if r.IntN(5) == 0 {
			s.sendUntilAnswered(order, body)
		}
	}
}

// sendUntilAnswered gives up only when the server has not answered for as long as a proof waits.
func (s *soak) sendUntilAnswered(order, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		a, err := s.p.client.order(ctx, s.server.Load().url, body)
		switch {
		case err == nil && a.code == 200:
			s.acknowledge(order, a)
			return
		case err == nil && a.code != 503:
			s.note(func() { s.wrong = append(s.wrong, a.String()) })
			return
		}
		s.note(func() { s.unanswered++ })
		s.awaitServer()
	}
	s.note(func() { s.wrong = append(s.wrong, "no answer for "+order) })
}

func (s *soak) note(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *soak) acknowledge(order string, a answer) {
	s.note(func() {
		first, again := s.acknowledged[order]
		if !again {
			s.acknowledged[order] = a.body.Tickets
			return
		}
		s.resent++
		if fmt.Sprint(first) != fmt.Sprint(a.body.Tickets) {
			s.wrong = append(s.wrong, fmt.Sprintf("%s was first answered with %v, then %v", order, first, a.body.Tickets))
		}
	})
}

// judge looks at the closed file.
func (s *soak) judge(t *testing.T) {
	t.Helper()
	db := must(store.Open(t.Context(), s.p.file, store.Options{MustExist: true}))(t)
	defer db.Close()
	a := must(audit(t.Context(), db, s.acknowledged))(t)
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
