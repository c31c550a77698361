package relay

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// Three days without a network: nothing dies, nothing is charged, one ticket knocks now and then, and on its
// return everything goes out in order at the target's pace.
func TestThreeDaysOffline(t *testing.T) {
	for name, reply := range map[string]store.Reply{"not sent": notSent, "bytes out": timedOut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				orders, hours := 3000, 72
				if testing.Short() { // under the race detector
					orders, hours = 600, 6
				}
				db, g := openRemote(t, "test"), newGateway()
				put(t, db, 1)
				runOnce(t, remoteRunner(t, db, remoteOf(g))) // by which a lookup can be tested
				remote := remoteOf(g)
				remote.Rate, remote.Concurrency, remote.CanLookup = 20, 4, true
				g.set(always(reply))
				g.lookup = func(context.Context, string) store.Finding {
					return store.Finding{Knowledge: store.CouldNotAsk, Detail: "no route", Unreachable: true}
				}
				r := remoteRunner(t, db, remote, func(o *Options) { o.Backoff = nil })
				schedule, err := ParseSchedule("@every 10m")
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var loop sync.WaitGroup
				loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
				put(t, db, orders) // all but the first are new
				time.Sleep(time.Duration(hours) * time.Hour)
				sent, asked, _ := g.seen()
				if c := counts(t, db); c.Dead+c.Review != 0 || c.Done != 1 || c.Pending+c.Processing != int64(orders-1) {
					t.Fatalf("after %d hours: %+v", hours, c)
				}
				if knocks := sent + asked; knocks < hours*59 || knocks > hours*62 {
					t.Errorf("%d tries in %d hours, want about one a minute", knocks, hours)
				}
				if got := target(t, db); got.OfflineSince == nil {
					t.Errorf("the file does not say that the target is offline: %+v", got)
				}
				g.set(nil)
				g.mu.Lock()
				g.lookup = nil
				g.mu.Unlock()
				g.forget()
				back := time.Now()
				for counts(t, db).Done < int64(orders) && time.Since(back) < time.Hour {
					time.Sleep(time.Second)
				}
				took := time.Since(back)
				if c := counts(t, db); c.Done != int64(orders) {
					t.Fatalf("after the return: %+v", c)
				}
				if least := time.Duration(orders/20) * time.Second; took < least-2*time.Minute || took > least+3*time.Minute {
					t.Errorf("the return took %v, want about %v and a probe", took, least)
				}
				checkOrder(t, g, orders)
				stop()
				loop.Wait()
			})
		})
	}
}

// checkOrder: each key was sent once, by id but for what workers side by side and the tickets that knocked
// may change.
func checkOrder(t *testing.T, g *gateway, orders int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	place := map[string]int{}
	for i, key := range g.sent {
		if _, twice := place[key]; twice {
			t.Errorf("%s was sent twice", key)
		}
		place[key] = i
	}
	for id := 12; id+10 <= orders; id++ {
		if place[fmt.Sprintf("test:O-%d", id)] > place[fmt.Sprintf("test:O-%d", id+10)] {
			t.Fatalf("O-%d went out after O-%d", id, id+10)
		}
	}
	for key, n := range g.did {
		if n != 1 {
			t.Errorf("%s happened %d times", key, n)
		}
	}
}

// A dead gateway never blocks the warehouse.
func TestTargetsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, dead, fine := openRemote(t, "test", "other"), newGateway(), newGateway()
		dead.set(func(ctx context.Context, _ store.Letter) store.Reply { <-ctx.Done(); return timedOut })
		other := remoteOf(fine)
		other.Name = "other"
		r := remoteRunner(t, db, remoteOf(dead), func(o *Options) {
			o.Remotes = append(o.Remotes, other)
			o.Effects["other"] = effect{"other", nil}
		})
		put(t, db, 200)
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			for i := range 100 {
				order := fmt.Sprintf("W-%d", i)
				if _, err := tx.InsertTicket(store.NewTicket{OrderID: order, EffectType: "other", Payload: "{}", Key: "other:" + order}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		schedule, _ := ParseSchedule("@every 10s")
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
		time.Sleep(15 * time.Second) // less than the dead one's time-out
		if sent, _, _ := fine.seen(); sent != 100 {
			t.Errorf("%d of 100 went to the target that is fine", sent)
		}
		stop()
		loop.Wait()
	})
}

// No more sends at once than the target is to be given, and none waits with a claim in hand.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		remote := remoteOf(g)
		remote.Concurrency = 3
		var mu sync.Mutex
		now, most := 0, 0
		g.set(func(_ context.Context, l store.Letter) store.Reply {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return g.perform(l)
		})
		put(t, db, 30)
		r := remoteRunner(t, db, remote)
		schedule, _ := ParseSchedule("@every 10s")
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
		for range 9 {
			time.Sleep(time.Second)
			if c := counts(t, db); c.Processing > 3 {
				t.Errorf("%d claimed for 3 workers", c.Processing)
			}
		}
		time.Sleep(10 * time.Second)
		if c := counts(t, db); c.Done != 30 || most != 3 {
			t.Errorf("%+v, at most %d at once", c, most)
		}
		stop()
		loop.Wait()
	})
}

// One ticket that the target can't bear does not hold the others: three try in turn.
func TestPoisonTicketDoesNotHoldTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 10)
		g.set(func(_ context.Context, l store.Letter) store.Reply {
			if l.Key == "test:O-1" {
				return store.Reply{Evidence: store.Unknown, Status: 500, Detail: "500", Unreachable: true}
			}
			return g.perform(l)
		})
		r := remoteRunner(t, db, remoteOf(g))
		r.lanes[0].reach.offline = true
		schedule, _ := ParseSchedule("@every 10s")
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
		time.Sleep(3 * time.Minute)
		if c := counts(t, db); c.Done != 9 {
			t.Errorf("%+v", c)
		}
		stop()
		loop.Wait()
	})
}
