package relay

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"comanda/store"
)

// gateway is the far side of a Door: what it was sent, what it did, and how it answers.
type gateway struct {
	mu     sync.Mutex
	answer func(ctx context.Context, l store.Letter) store.Reply   // nil does it and says so
	lookup func(ctx context.Context, key string) (f store.Finding) // nil tells the truth

	sent  []string       // keys, in the order in which they came
	did   map[string]int // how often each key was carried out
	body  map[string]string
	asked []string
	at    []time.Time // of the sends
}

func newGateway() *gateway { return &gateway{did: map[string]int{}, body: map[string]string{}} }

func (g *gateway) Letter(w store.Work, ledgerType string) (store.Letter, error) {
	if w.Payload == "poison" {
		return store.Letter{}, store.ErrUndecodable
	}
	return store.Letter{Key: w.EffectKey, Body: []byte(ledgerType + " " + w.Payload)}, nil
}

func (g *gateway) Send(ctx context.Context, l store.Letter) store.Reply {
	g.mu.Lock()
	answer := g.answer
	g.sent, g.at = append(g.sent, l.Key), append(g.at, time.Now())
	if was, ok := g.body[l.Key]; ok && was != string(l.Body) {
		panic("another body under the same key: " + l.Key)
	}
	g.body[l.Key] = string(l.Body)
	g.mu.Unlock()
	if answer == nil {
		return g.perform(l)
	}
	return answer(ctx, l)
}

// perform does the effect, once a key, as a target that honours keys.
func (g *gateway) perform(l store.Letter) store.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.did[l.Key] == 0 {
		g.did[l.Key]++
	}
	return store.Reply{Evidence: store.Happened, Status: 200, Receipt: "rf_" + l.Key, Detail: "200 OK"}
}

func (g *gateway) Lookup(ctx context.Context, key string) store.Finding {
	if key == "" {
		panic("asked for no key at all: a list of everything would be taken for an answer")
	}
	g.mu.Lock()
	g.asked = append(g.asked, key)
	lookup, did := g.lookup, g.did[key]
	g.mu.Unlock()
	switch {
	case lookup != nil:
		return lookup(ctx, key)
	case did > 0:
		return store.Finding{Knowledge: store.Found, Status: 200, Receipt: "rf_" + key, Detail: "found"}
	}
	return store.Finding{Knowledge: store.Absent, Status: 404, Detail: "not found"}
}

func (g *gateway) set(answer func(context.Context, store.Letter) store.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = answer
}

func (g *gateway) seen() (sent, asked int, did map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sent), len(g.asked), maps.Clone(g.did)
}

func (g *gateway) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent, g.asked, g.at = nil, nil, nil
}

// Replies that do nothing and always come out the same.
var (
	notSent  = store.Reply{Evidence: store.NotSent, Detail: "connection refused", Unreachable: true}
	timedOut = store.Reply{Evidence: store.Unknown, Detail: "no answer in time", Unreachable: true}
	vague    = store.Reply{Evidence: store.Unknown, Status: 409, Detail: "409"}
	rejected = store.Reply{Evidence: store.Rejected, Status: 422, Detail: "422: no such card"}
	denied   = store.Reply{Evidence: store.Denied, Status: 401, Detail: "401: who are you"}
	noPlace  = store.Reply{Evidence: store.NoPlace, Status: 404, Detail: "404"}
)

func always(r store.Reply) func(context.Context, store.Letter) store.Reply {
	return func(context.Context, store.Letter) store.Reply { return r }
}

const gatewayAddress = "https://gateway.example/refunds"

// remoteOf is a target of the tests, patient and fast.
func remoteOf(g *gateway) Remote {
	return Remote{Name: "test", Address: gatewayAddress, Door: g, Timeout: 20 * time.Second, KeyTTL: 24 * time.Hour, Concurrency: 1, Credential: "token"}
}

// fakeBoot is a machine that was started when the test's clock began.
func fakeBoot() (string, int64) { return "this boot", time.Now().UnixMilli() }

// openRemote opens a file in which the targets are real.
func openRemote(t *testing.T, targets ...string) *store.DB {
	t.Helper()
	return openRemoteBy(t, fakeBoot, targets...)
}

// openRemoteBy is openRemote with another clock since boot.
func openRemoteBy(t *testing.T, boot store.BootClock, targets ...string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{Boot: boot, Readers: 4, Synchronous: "OFF"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	markReal(t, db, targets...)
	return db
}

func markReal(t *testing.T, db *store.DB, targets ...string) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		var marks []store.Mark
		for _, name := range targets {
			marks = append(marks, store.Mark{Name: name, URL: gatewayAddress, Credential: "token"})
		}
		_, err := tx.MarkTargets(marks, "test")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// remoteRunner is a runner whose effects of type test go to the remote. Its backoffs are a minute.
func remoteRunner(t *testing.T, db *store.DB, remote Remote, change ...func(*Options)) *Runner {
	t.Helper()
	return newRunner(t, db, nil, append([]func(*Options){func(o *Options) {
		o.Remotes = []Remote{remote}
		o.Backoff = func(int64) time.Duration { return time.Minute }
		o.Log = slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	}}, change...)...)
}

// testLog shows what the relay says when a test fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func attempts(t *testing.T, db *store.DB, id int64) (all []string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Attempts(id)
		all = nil
		for _, a := range rows {
			outcome := "open"
			if a.Outcome != nil {
				outcome = *a.Outcome
			}
			all = append(all, a.Kind+" "+outcome)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func target(t *testing.T, db *store.DB) (got store.Target) {
	t.Helper()
	err := db.View(t.Context(), func(tx *store.Tx) (err error) {
		got, err = tx.Target("test")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
