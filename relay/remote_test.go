package relay

import (
	"context"
	"database/sql"
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
		{"sent when the target was said to honour keys for an hour", 24 * time.Hour, false, 1, store.Past{Unknown: 1, KeyTTL: 3600_000, FirstMS: 1800_000}, stepPark},
		{"sent when it was said to honour none", 24 * time.Hour, false, 1, store.Past{Unknown: 1, KeyTTL: -1}, stepPark},
		{"a time-out that does not fit into the time of the key", 30 * time.Second, false, 1, store.Past{Unknown: 1, FirstMS: 11_000}, stepPark},
		{"one that does", 30 * time.Second, false, 1, store.Past{Unknown: 1, FirstMS: 9_000}, stepSend},
		{"refused the second time, and it can be asked", 24 * time.Hour, true, 2, store.Past{Unknown: 2, LastStatus: 409}, stepLookup},
		{"refused the second time, and it can't", 24 * time.Hour, false, 2, store.Past{Unknown: 2, LastStatus: 409}, stepSend},
		{"timed out the second time", 24 * time.Hour, true, 2, store.Past{Unknown: 2, LastStatus: 408}, stepSend},
		{"budget spent", 24 * time.Hour, false, 12, store.Past{Unknown: 1}, stepPark},
		{"budget spent with a lookup", 24 * time.Hour, true, 12, store.Past{Unknown: 1}, stepLookup},
		{"budget spent, nothing unknown", 24 * time.Hour, true, 12, store.Past{}, stepSend},
	} {
		r := Remote{KeyTTL: c.ttl, CanLookup: c.lookup, Timeout: 20 * time.Second}
		if c.past.KeyTTL == 0 {
			c.past.KeyTTL = day
		}
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
	r := newRunner(t, db, nil)
	if got := runOnce(t, r); got != (Tally{}) {
		t.Errorf("a process without the address claimed %+v", got)
	}
	schedule, err := ParseSchedule("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	dog := &Watchdog{DB: db, Loop: NewLoop(r, schedule)}
	if wrong, warnings := dog.Look(); len(wrong) != 0 || len(warnings) != 1 || warnings[0].Cause != "target test without address" {
		t.Errorf("the watchdog says %+v, %+v", wrong, warnings)
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

// A target that was made local: what may have happened outside is not simulated, what surely did not is.
func TestMadeLocalAfterAnUnknownSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 2)
		r := remoteRunner(t, db, remoteOf(g))
		g.set(always(timedOut))
		runOnce(t, r)
		g.set(always(notSent))
		runOnce(t, r)
		err := db.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.TargetLocal("test", "me"); return err })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, want := runOnce(t, newRunner(t, db, nil)), (Tally{Claimed: 2, Done: 1, Review: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		err = db.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.ByHand(1, store.HandAct{Do: store.ActRetry, SendAgain: true, Who: "me"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		runOnce(t, newRunner(t, db, nil)) // "send again" does not make a simulation of it
		if n := effectsOf(t, db, "effect_key = 'test:O-1'"); n != 0 || ticket(t, db, 1).Status != "review" {
			t.Errorf("%d simulated, %+v", n, ticket(t, db, 1))
		}
	})
}

// A pause that another process set holds at once, and its end is seen within a second.
func TestPauseFromAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		other, err := store.Open(t.Context(), db.Path(), store.Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		act := func(fn func(*store.Tx) error) {
			t.Helper()
			if err := other.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		act(func(tx *store.Tx) error { return tx.PauseTarget("test", "me", "stocktaking") })
		schedule, err := ParseSchedule("@every 1h")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		r := remoteRunner(t, db, remoteOf(g))
		loop.Go(func() { _ = NewLoop(r, schedule).Run(ctx) })
		put(t, db, 1)
		time.Sleep(time.Minute)
		if sent, _, _ := g.seen(); sent != 0 {
			t.Error("sent while another process had paused the target")
		}
		act(func(tx *store.Tx) error { return tx.ResumeTarget("test", "me") })
		time.Sleep(time.Second + 10*time.Millisecond)
		if sent, _, _ := g.seen(); sent != 1 {
			t.Errorf("%d sends a second after it was resumed", sent)
		}
		stop()
		loop.Wait()
	})
}

// What a send found out is written down though another program holds the file for a minute.
func TestEvidenceOutlastsAHeldFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, g := openRemote(t, "test"), newGateway()
		put(t, db, 1)
		other, err := sql.Open("sqlite", "file:"+db.Path()+"?_busy_timeout=5000")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		other.SetMaxOpenConns(1)
		remote := remoteOf(g)
		remote.KeyTTL = 0 // what is not written down would be left to a person
		var free sync.WaitGroup
		g.set(func(_ context.Context, l store.Letter) store.Reply {
			if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
				t.Error(err)
			}
			free.Go(func() {
				time.Sleep(time.Minute)
				if _, err := other.Exec(`ROLLBACK`); err != nil {
					t.Error(err)
				}
			})
			return g.perform(l)
		})
		if got, want := runOnce(t, remoteRunner(t, db, remote)), (Tally{Claimed: 1, Done: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		free.Wait()
		if diff := cmp.Diff([]string{"send done"}, attempts(t, db, 1)); diff != "" {
			t.Error(diff)
		}
	})
}
