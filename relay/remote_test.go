package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"comanda/store"
)

func TestPlan(t *testing.T) {
	day := 24 * time.Hour.Milliseconds()
	for _, c := range []struct {
		name   string
		ttl    time.Duration
		lookup bool
		failed int64
		past   store.Past
		want   string
	}{
		{"never sent", 0, false, 0, store.Past{}, stepSend},
		{"in the ledger", 0, false, 0, store.Past{InLedger: true, Unknown: 1}, stepRemember},
		{"unknown and fresh", 24 * time.Hour, false, 1, store.Past{Unknown: 1, FirstMS: day/2 - 1}, stepSend},
		{"unknown and older than half the time of its key", 24 * time.Hour, false, 1, store.Past{Unknown: 1, FirstMS: day / 2}, stepPark},
		{"the same with a lookup", 24 * time.Hour, true, 1, store.Past{Unknown: 1, FirstMS: day / 2}, stepLookup},
		{"of an age that can't be proven", 24 * time.Hour, false, 1, store.Past{Unknown: 1, Expired: true}, stepPark},
		{"the same with a lookup", 24 * time.Hour, true, 1, store.Past{Unknown: 1, Expired: true}, stepLookup},
		{"unknown where keys are not honoured", 0, false, 1, store.Past{Unknown: 1}, stepPark},
		{"the same with a lookup", 0, true, 1, store.Past{Unknown: 1}, stepLookup},
		{"unknown at another address", 24 * time.Hour, true, 1, store.Past{Unknown: 1, Elsewhere: "https://old.example"}, stepPark},
		{"budget spent", 24 * time.Hour, false, 12, store.Past{Unknown: 1}, stepPark},
		{"budget spent with a lookup", 24 * time.Hour, true, 12, store.Past{Unknown: 1}, stepLookup},
		{"budget spent, nothing unknown", 24 * time.Hour, true, 12, store.Past{}, stepSend},
	} {
		r := Remote{KeyTTL: c.ttl, CanLookup: c.lookup}
		got := r.plan(store.Ticket{Failures: c.failed}, c.past, 12)
		if got.do != c.want || got.do == stepPark && got.why == "" {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	known, unsure, proven := store.Past{}, store.Past{Unknown: 1, Proven: true}, store.Past{Proven: true}
	html404 := noPlace
	html404.Unreachable = true
	later := vague
	later.RetryAfter = 3 * time.Hour
	for _, c := range []struct {
		name    string
		reply   store.Reply
		past    store.Past
		offline bool
		want    verdict
	}{
		{"done", store.Reply{Evidence: store.Happened}, known, false, verdict{outcome: "done", do: doRemember, proves: true}},
		{"done after an unknown one", store.Reply{Evidence: store.Happened}, unsure, false, verdict{outcome: "done", do: doRemember, proves: true}},
		{"not sent", notSent, known, false, verdict{outcome: "not sent", do: doRequeue, requeue: store.Requeue{WaitMS: 60_000}}},
		{"not sent, offline", notSent, known, true, verdict{outcome: "not sent", do: doRequeue}},
		{"429", store.Reply{Evidence: store.NotYet}, known, false, verdict{outcome: "not yet", do: doRequeue, hold: time.Minute}},
		{"429 with a wait", store.Reply{Evidence: store.NotYet, RetryAfter: 20 * time.Hour}, unsure, false, verdict{outcome: "not yet", do: doRequeue, hold: 20 * time.Hour}},
		{"rejected", rejected, known, false, verdict{outcome: "rejected", do: doBury}},
		{"rejected after an unknown one", rejected, unsure, false, verdict{outcome: "unknown", do: doRequeue, requeue: store.Requeue{WaitMS: 60_000, Failures: 1}}},
		{"401", denied, unsure, false, verdict{outcome: "denied", do: doRequeue, pause: "401: who are you"}},
		{"404 at an address that never answered", noPlace, known, false, verdict{outcome: "no place", do: doRequeue, pause: "404"}},
		{"404 at one that did", noPlace, proven, false, verdict{outcome: "rejected", do: doBury}},
		{"the same after an unknown one", noPlace, unsure, false, verdict{outcome: "unknown", do: doRequeue, requeue: store.Requeue{WaitMS: 60_000, Failures: 1}}},
		{"404 in HTML at one that did", html404, proven, false, verdict{outcome: "unknown", do: doRequeue, requeue: store.Requeue{WaitMS: 60_000, Failures: 1}}},
		{"409", vague, known, false, verdict{outcome: "unknown", do: doRequeue, requeue: store.Requeue{WaitMS: 60_000, Failures: 1}}},
		{"503 with a wait", later, known, false, verdict{outcome: "unknown", do: doRequeue, requeue: store.Requeue{WaitMS: 3 * 3600_000, Failures: 1}}},
		{"503 with a wait, offline", later, known, true, verdict{outcome: "unknown", do: doRequeue, hold: 3 * time.Hour}},
		{"time-out, offline", timedOut, known, true, verdict{outcome: "unknown", do: doRequeue}},
	} {
		got := Remote{KeyTTL: time.Hour}.judge(c.past, c.reply, time.Minute, c.offline)
		got.detail, got.requeue.Detail = "", ""
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if got := (Remote{}).judge(known, timedOut, time.Minute, false); got.do != doPark {
		t.Errorf("an unknown answer of a target that honours no keys: %+v, want review", got)
	}
	if got := (Remote{CanLookup: true}).judge(known, timedOut, time.Minute, false); got.do != doRequeue {
		t.Errorf("the same where it can be asked: %+v, want another look", got)
	}
}

func TestRemoteSuccess(t *testing.T) {
	db, g := openRemote(t, "test"), newGateway()
	put(t, db, 3)
	r := remoteRunner(t, db, remoteOf(g))
	for i := range 3 {
		if got, want := runOnce(t, r), (Tally{Claimed: 1, Done: 1}); got != want {
			t.Fatalf("pass %d: %+v, want %+v", i, got, want)
		}
	}
	if diff := cmp.Diff([]string{"test:O-1", "test:O-2", "test:O-3"}, g.sent); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
	if effectsOf(t, db, "1=1") != 0 {
		t.Error("an effect of a real target was simulated")
	}
	got := ticket(t, db, 1)
	if got.Status != "done" || got.WireKey == nil || *got.WireKey != "test:O-1" {
		t.Errorf("ticket %+v", got)
	}
	if diff := cmp.Diff([]string{"send done"}, attempts(t, db, 1)); diff != "" {
		t.Error(diff)
	}
	a, err := db.Query(t.Context(), `SELECT how, effect_type FROM ledger WHERE effect_key = 'test:O-1'`)
	if err != nil || len(a.Rows) != 1 || a.Rows[0][0] != "remote" || a.Rows[0][1] != "test" {
		t.Errorf("ledger %v, %v", a.Rows, err)
	}
	if target(t, db).Proven != gatewayAddress {
		t.Errorf("the address was not noted as one that answers: %+v", target(t, db))
	}
}

// What the ledger knows already, because a person put it there, is not sent.
func TestLedgerIsReadBeforeASend(t *testing.T) {
	db, g := openRemote(t, "test"), newGateway()
	put(t, db, 1)
	outside(t, db, `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('test:O-1', 'O-1', 'test', 'done')`)
	if got, want := runOnce(t, remoteRunner(t, db, remoteOf(g))), (Tally{Claimed: 1, Done: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if sent, _, _ := g.seen(); sent != 0 {
		t.Errorf("%d sends of what is in the ledger", sent)
	}
}

// A file that once sent out for real is not simulated by a process without the address.
func TestRealTargetIsNotSimulated(t *testing.T) {
	db := openRemote(t, "test")
	put(t, db, 2)
	if got := runOnce(t, newRunner(t, db, nil)); got != (Tally{}) {
		t.Errorf("a process without the address claimed %+v", got)
	}
	if n := effectsOf(t, db, "1=1"); n != 0 || counts(t, db).Pending != 2 {
		t.Errorf("%d simulated effects; %+v", n, counts(t, db))
	}
}

func TestRejectedIsDead(t *testing.T) {
	db, g := openRemote(t, "test"), newGateway()
	put(t, db, 1)
	g.set(always(rejected))
	if got, want := runOnce(t, remoteRunner(t, db, remoteOf(g))), (Tally{Claimed: 1, Dead: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ticket(t, db, 1); got.Status != "dead" || got.Detail != rejected.Detail {
		t.Errorf("%+v", got)
	}
}

// "Already refunded" after a time-out is no rejection: the first try may have been the one.
func TestRejectedAfterAnUnknownTryIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 1)
		r := remoteRunner(t, db, remoteOf(g))
		g.set(func(_ context.Context, l store.Letter) store.Reply { g.perform(l); return timedOut })
		runOnce(t, r)
		g.set(always(rejected))
		time.Sleep(2 * time.Minute)
		runOnce(t, r)
		if got := ticket(t, db, 1); got.Status != "pending" {
			t.Fatalf("%+v", got)
		}
		g.set(nil)
		time.Sleep(2 * time.Minute)
		runOnce(t, r)
		if diff := cmp.Diff([]string{"send unknown", "send unknown", "send done"}, attempts(t, db, 1)); diff != "" {
			t.Error(diff)
		}
		if _, _, did := g.seen(); did["test:O-1"] != 1 || ticket(t, db, 1).Status != "done" {
			t.Errorf("did %v; %+v", did, ticket(t, db, 1))
		}
	})
}

// The key's window: within half of it the same letter goes again, after it nothing goes blindly.
func TestKeyExpires(t *testing.T) {
	for _, c := range []struct {
		name     string
		lookup   bool
		did      bool // the time-out came after the target had done it
		known    bool // another effect is known to be done there
		want     string
		wantDid  int
		attempts []string
	}{
		{"no lookup", false, true, true, "review", 1, []string{"send unknown"}},
		{"found", true, true, true, "done", 1, []string{"send unknown", "lookup found"}},
		{"absent, and the lookup is tested", true, false, true, "done", 1, []string{"send unknown", "lookup absent", "send done"}},
		{"absent, and nothing to test the lookup with", true, false, false, "review", 0, []string{"send unknown", "lookup unclear"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, g := openRemote(t, "test"), newGateway()
				remote := remoteOf(g)
				remote.CanLookup, remote.LookupGrace = c.lookup, time.Minute
				r := remoteRunner(t, db, remote)
				put(t, db, 2)
				if c.known {
					runOnce(t, r)
				} else {
					setTicket(t, db, `status = 'discarded', processed_at = 1`, 1)
				}
				g.set(func(_ context.Context, l store.Letter) store.Reply {
					if c.did {
						g.perform(l)
					}
					return timedOut
				})
				runOnce(t, r)
				g.set(nil)
				time.Sleep(12*time.Hour + time.Minute) // half of the time-to-live has passed since the row
				runOnce(t, r)
				if got := ticket(t, db, 2); got.Status != c.want {
					t.Errorf("%s, want %s: %s", got.Status, c.want, got.Detail)
				}
				if diff := cmp.Diff(c.attempts, attempts(t, db, 2)); diff != "" {
					t.Error(diff)
				}
				if _, _, did := g.seen(); did["test:O-2"] != c.wantDid {
					t.Errorf("did %v", did)
				}
			})
		})
	}
}

// A lookup that answers 404 to everything finds nothing that is done either, and proves nothing.
func TestMistypedLookupIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		remote := remoteOf(g)
		remote.CanLookup, remote.KeyTTL = true, 0
		g.lookup = func(context.Context, string) store.Finding {
			return store.Finding{Knowledge: store.Absent, Status: 404}
		}
		r := remoteRunner(t, db, remote)
		put(t, db, 2)
		runOnce(t, r)
		g.set(func(_ context.Context, l store.Letter) store.Reply { g.perform(l); return timedOut })
		runOnce(t, r)
		time.Sleep(time.Hour)
		runOnce(t, r)
		if got := ticket(t, db, 2); got.Status != "review" {
			t.Errorf("%+v", got)
		}
		if _, asked, did := g.seen(); asked != 2 || did["test:O-2"] != 1 {
			t.Errorf("asked %d times, did %v", asked, did)
		}
	})
}

// "Not there" is believed only when the target has had its grace to know.
func TestLookupGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		remote := remoteOf(g)
		remote.CanLookup, remote.KeyTTL, remote.LookupGrace = true, 0, 10*time.Minute
		r := remoteRunner(t, db, remote)
		put(t, db, 2)
		runOnce(t, r)
		g.set(always(timedOut))
		runOnce(t, r)
		g.set(nil)
		time.Sleep(time.Minute + time.Second)
		runOnce(t, r)
		if sent, asked, _ := g.seen(); sent != 2 || asked != 1 {
			t.Fatalf("within the grace: %d sends, %d lookups", sent, asked)
		}
		time.Sleep(10 * time.Minute)
		runOnce(t, r)
		if got := ticket(t, db, 2); got.Status != "done" {
			t.Errorf("after the grace: %+v", got)
		}
		if diff := cmp.Diff([]string{"send unknown", "lookup absent", "lookup absent", "send done"}, attempts(t, db, 2)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLookupThatCannotBeAskedIsLeftToAPersonAfterFiveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		remote := remoteOf(g)
		remote.CanLookup, remote.KeyTTL = true, 0
		g.lookup = func(context.Context, string) store.Finding {
			return store.Finding{Knowledge: store.CouldNotAsk, Status: 429, Detail: "429"}
		}
		r := remoteRunner(t, db, remote)
		put(t, db, 1)
		g.set(always(vague))
		for range 7 {
			runOnce(t, r)
			time.Sleep(time.Hour)
		}
		if got := ticket(t, db, 1); got.Status != "review" {
			t.Errorf("%+v", got)
		}
		if sent, asked, _ := g.seen(); sent != 1 || asked != 5 {
			t.Errorf("%d sends, %d lookups", sent, asked)
		}
	})
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		r := remoteRunner(t, db, remoteOf(g), func(o *Options) { o.RetryBudget = 3 })
		put(t, db, 1)
		g.set(always(vague))
		for range 6 {
			runOnce(t, r)
			time.Sleep(2 * time.Minute)
		}
		if got := ticket(t, db, 1); got.Status != "review" || got.Failures != 4 {
			t.Errorf("%+v", got)
		}
		if sent, _, _ := g.seen(); sent != 3 {
			t.Errorf("%d sends, want 3", sent)
		}
	})
}

// A target that does not let us in is paused: one request, not one for each ticket. Then one an hour.
func TestDeniedPausesTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 500)
		r := remoteRunner(t, db, remoteOf(g))
		g.set(always(denied))
		for range 50 {
			runOnce(t, r)
		}
		if sent, _, _ := g.seen(); sent != 1 {
			t.Fatalf("%d requests, want one", sent)
		}
		if got := target(t, db); got.State(0) != "paused" || counts(t, db).Pending != 500 {
			t.Fatalf("%+v, %+v", got, counts(t, db))
		}
		time.Sleep(time.Hour + time.Second)
		for range 50 {
			runOnce(t, r)
		}
		if sent, _, _ := g.seen(); sent != 2 {
			t.Fatalf("%d requests after an hour, want one more", sent)
		}
		g.set(nil)
		time.Sleep(time.Hour + time.Second)
		for range 50 {
			runOnce(t, r)
		}
		if got := target(t, db); got.Paused != nil || counts(t, db).Done != 50 {
			t.Errorf("%+v, %+v", got, counts(t, db))
		}
	})
}

func TestOperatorsPauseIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 2)
		r := remoteRunner(t, db, remoteOf(g))
		act := func(fn func(*store.Tx) error) {
			if err := db.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		act(func(tx *store.Tx) error { return tx.PauseTarget("test", "test", "stocktaking") })
		time.Sleep(100 * time.Hour)
		runOnce(t, r)
		if sent, _, _ := g.seen(); sent != 0 {
			t.Fatal("sent while paused by an operator")
		}
		act(func(tx *store.Tx) error { return tx.ResumeTarget("test", "test") })
		runOnce(t, r)
		if sent, _, _ := g.seen(); sent != 1 {
			t.Error("not sent after it was resumed")
		}
	})
}

// "Not yet" is about the caller: it holds the whole target, and costs nobody anything.
func TestNotYetHoldsTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 5)
		r := remoteRunner(t, db, remoteOf(g))
		g.set(always(store.Reply{Evidence: store.NotYet, Status: 429, RetryAfter: 20 * time.Hour}))
		for range 5 {
			runOnce(t, r)
		}
		time.Sleep(20*time.Hour - time.Second)
		runOnce(t, r)
		if sent, _, _ := g.seen(); sent != 1 {
			t.Fatalf("%d sends while the target is held", sent)
		}
		g.set(nil)
		time.Sleep(2 * time.Second)
		for range 5 {
			runOnce(t, r)
		}
		if c := counts(t, db); c.Done != 5 || ticket(t, db, 1).Failures != 0 {
			t.Errorf("%+v, %+v", c, ticket(t, db, 1))
		}
	})
}

// A worker that lost its lease: its success is written all the same, and no second effect follows.
func TestLateSuccessAfterALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 1)
		hang := make(chan struct{})
		g.set(func(_ context.Context, l store.Letter) store.Reply { <-hang; return g.perform(l) })
		one := remoteRunner(t, db, remoteOf(g))
		var under sync.WaitGroup
		under.Go(func() { runOnce(t, one) })
		synctest.Wait()
		two := remoteRunner(t, db, remoteOf(g))
		runOnce(t, two) // sees the token for the first time
		time.Sleep(3 * time.Minute)
		g.set(always(timedOut))
		if got, want := runOnce(t, two), (Tally{Claimed: 1, Retried: 1}); got != want {
			t.Fatalf("the second one: %+v, want %+v", got, want)
		}
		close(hang)
		under.Wait()
		if got := ticket(t, db, 1); got.Status != "done" {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour)
		runOnce(t, two)
		sent, _, did := g.seen()
		if sent != 2 || did["test:O-1"] != 1 {
			t.Errorf("%d sends, did %v", sent, did)
		}
		if diff := cmp.Diff([]string{"send done", "send unknown"}, attempts(t, db, 1)); diff != "" {
			t.Error(diff)
		}
	})
}

// Three days without a network: nothing dies, nothing is charged, one ticket knocks now and then, and on its
// return everything goes out in order at the target's pace.
func TestThreeDaysOffline(t *testing.T) {
	for name, reply := range map[string]store.Reply{"not sent": notSent, "bytes out": timedOut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const orders = 3000
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
				time.Sleep(72 * time.Hour)
				sent, asked, _ := g.seen()
				if c := counts(t, db); c.Dead+c.Review != 0 || c.Done != 1 || c.Pending+c.Processing != orders-1 {
					t.Fatalf("after three days: %+v", c)
				}
				if knocks := sent + asked; knocks < 72*59 || knocks > 72*62 {
					t.Errorf("%d tries in three days, want about one a minute", knocks)
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
				for counts(t, db).Done < orders && time.Since(back) < time.Hour {
					time.Sleep(time.Second)
				}
				took := time.Since(back)
				if c := counts(t, db); c.Done != orders {
					t.Fatalf("after the return: %+v", c)
				}
				if least := orders / 20 * time.Second; took < least-2*time.Minute || took > least+3*time.Minute {
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

// What can't be read is parked, and the others go out.
func TestRemotePoisonIsParked(t *testing.T) {
	db, g := openRemote(t, "test"), newGateway()
	put(t, db, 2)
	setTicket(t, db, `payload = 'poison'`, 1)
	r := remoteRunner(t, db, remoteOf(g))
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Review: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Done: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	g.set(func(context.Context, store.Letter) store.Reply { panic("a defect") })
	put(t, db, 3)
	if got, want := runOnce(t, r), (Tally{Claimed: 1, Review: 1}); got != want {
		t.Errorf("a panic: %+v, want %+v", got, want)
	}
}

// Being stopped is not failing: the send is unknown, and nothing is charged for it.
func TestStopWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 1)
		g.set(func(ctx context.Context, _ store.Letter) store.Reply { <-ctx.Done(); return timedOut })
		ctx, stop := context.WithCancel(t.Context())
		r := remoteRunner(t, db, remoteOf(g))
		var under sync.WaitGroup
		under.Go(func() { _, _ = r.RunOnce(ctx) })
		synctest.Wait()
		stop()
		under.Wait()
		got := ticket(t, db, 1)
		if got.Status != "pending" || got.Failures != 0 || got.DueAt != 0 {
			t.Errorf("%+v", got)
		}
		if !slices.Equal(attempts(t, db, 1), []string{"send unknown"}) {
			t.Errorf("%v", attempts(t, db, 1))
		}
	})
}
