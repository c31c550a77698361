package relay

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"comanda/store"
)

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
