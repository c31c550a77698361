package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// storm is a server that is killed again and again while clients send it orders, and what it has promised them.
type storm struct {
	p      *proof
	prefix string        // of every order
	pause  time.Duration // of a client between two orders
	server atomic.Pointer[child]
	down   sync.RWMutex // held while the server is not there

	mu           sync.Mutex
	acknowledged map[string][]string // order → its tickets, as the first 200 named them
	resent       int
	unanswered   int
	wrong        []string
}

func newStorm(p *proof, prefix string) *storm {
	return &storm{p: p, prefix: prefix, acknowledged: map[string][]string{}}
}

// start starts a server, with a plan for its death or without.
func (s *storm) start(crash string, args ...string) error {
	server, err := s.p.serve(crash, args...)
	if server != nil {
		s.server.Store(server)
	}
	return err
}

// restart kills the server, if it has not died by itself, and starts the next one.
func (s *storm) restart(ctx context.Context, crash string, args ...string) error {
	s.down.Lock()
	defer s.down.Unlock()
	server := s.server.Load()
	server.kill()
	if err := server.waitKilled(ctx); err != nil {
		return err
	}
	return s.start(crash, args...)
}

// awaitServer returns when there is a server again.
func (s *storm) awaitServer() {
	s.down.RLock()
	defer s.down.RUnlock()
}

// poor and rich are the customers: nothing can be bought on the first one's credit, everything on the other's.
func (s *storm) poor() string { return s.prefix + "CUS-7" }
func (s *storm) rich() string { return s.prefix + "CUS-8" }

// open gives the rich customer credit.
func (s *storm) open(ctx context.Context) error {
	return s.p.client.credit(ctx, s.server.Load().url, s.rich(), "50000.00")
}

// send sends one order after the other, each until it is answered, and some of them again.
func (s *storm) send(ctx context.Context, client int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		order := fmt.Sprintf("%sORD-%d-%d", s.prefix, client, n)
		body := s.body(order, r)
		copies := 1 + r.IntN(3)/2
		var all sync.WaitGroup
		for range copies { // a double click: both on their way at once
			all.Go(func() { s.sendUntilAnswered(order, body) })
		}
		all.Wait()
		if r.IntN(5) == 0 {
			s.sendUntilAnswered(order, body)
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.pause):
		}
	}
}

// body is an order that ends in a refund, or one in whose lines a SKU stands twice.
func (s *storm) body(order string, r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return orderBody("EVT-"+order, order, s.poor(), "100.00", line{"CF-ARA-500", 1})
	}
	return orderBody("EVT-"+order, order, s.rich(), "100.00", line{"CF-ARA-500", 1 + r.IntN(9)}, line{"TE-CHM-100", 2}, line{"CF-ARA-500", 1})
}

// sendUntilAnswered gives up only when the server has not answered for as long as a proof waits.
func (s *storm) sendUntilAnswered(order, body string) {
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
		if err == nil { // it answers, and asks for a little time
			<-time.After(killingPause)
		}
		s.awaitServer()
	}
	s.note(func() { s.wrong = append(s.wrong, "no answer for "+order) })
}

func (s *storm) note(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *storm) acknowledge(order string, a answer) {
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
