package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// Spare workers are for a quick target alone.
func TestHands(t *testing.T) {
	const day = 24 * time.Hour
	h := newHands(Remote{Concurrency: 4, KeyTTL: day})
	take := func() (n int) {
		for h.another() {
			n++
		}
		return n
	}
	if n := take(); n != 4 {
		t.Errorf("%d workers before a target that has not answered yet", n)
	}
	h.quick.Store(true)
	if h.enough() {
		t.Error("nobody has a ticket in hand for the four that send, and it is enough")
	}
	if n := take(); n != 9 || h.used() != 13 {
		t.Errorf("%d spare workers, %d used", n, h.used())
	}
	h.free(1)
	if !h.enough() {
		t.Error("eight have a ticket in hand, and one free worker is claimed for")
	}
	h.free(1)
	if h.enough() {
		t.Error("two free workers are not claimed for")
	}
	h.quick.Store(false)
	if n := take(); n != 2 || h.used() != 13 {
		t.Errorf("%d workers, %d used: those that send come back first", n, h.used())
	}
	h.free(13)
	for _, r := range []Remote{{Concurrency: 1, KeyTTL: day}, {Concurrency: 4, KeyTTL: day, Rate: 20}, {Concurrency: 4}} {
		if n := newHands(r).most(); n != r.Concurrency {
			t.Errorf("%d workers for %+v", n, r)
		}
	}
	if n := newHands(Remote{Concurrency: 4, CanLookup: true}).most(); n != 13 {
		t.Errorf("%d workers for a target that can be asked", n)
	}
}

// However many are in hand before a quick target, no more are sent at once than it is to be given. Once it can't be
// reached any more, nothing else is begun.
func TestTicketsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		remote := remoteOf(g)
		remote.Concurrency = 4
		var now, most, down atomic.Int64
		g.set(func(_ context.Context, l store.Letter) store.Reply {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(10 * time.Millisecond)
			if down.Load() > 0 {
				down.Add(1)
				return notSent
			}
			return g.perform(l)
		})
		put(t, db, 200)
		r := remoteRunner(t, db, remote, func(o *Options) { o.RetryBase = time.Hour })
		schedule, _ := ParseSchedule("@every 10s")
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
		hands := int64(0)
		for range 100 {
			time.Sleep(time.Millisecond)
			hands = max(hands, counts(t, db).Processing)
		}
		if most.Load() != 4 || hands != 13 {
			t.Errorf("at most %d at once and %d in hand", most.Load(), hands)
		}
		down.Store(1)
		time.Sleep(time.Second)
		// So many failures in a row tell that it is out of reach, and a success that is written down late begins the count
		// anew; what was in hand before may have been begun.
		if c := counts(t, db); c.Processing != 0 || c.Done == 200 || down.Load() > 1+2*offlineAfter+12 {
			t.Errorf("%+v, %d sent to a target that was out of reach", c, down.Load()-1)
		}
		stop()
		loop.Wait()
	})
}

// What is in hand when the target goes out of reach is not begun: others try it, and the ticket goes back.
func TestNothingIsBegunOutOfReach(t *testing.T) {
	db, g := openRemote(t, "test"), newGateway()
	put(t, db, 1)
	l := remoteRunner(t, db, remoteOf(g)).lanes[0]
	for range offlineAfter {
		if !l.mayBegin(t.Context(), &job{}) {
			t.Error("nothing may be begun though the target may be within reach")
		}
		l.reach.saw(true, false)
	}
	if l.mayBegin(t.Context(), &job{}) {
		t.Error("a send may be begun though the target is out of reach")
	}
	if !l.mayBegin(t.Context(), &job{turn: 1}) {
		t.Error("the ticket whose turn it is may not try the target")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l.mayBegin(ended, &job{turn: 1}) {
		t.Error("a send may be begun though the time for it is over")
	}
}
