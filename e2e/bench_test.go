package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// Orders with three tickets through HTTP against a real server process, each on disk (synchronous=FULL) before it is
// answered, by senders that have one under way each. "/bare" is the part that it reaches of a server that decodes the
// same orders, keeps nothing and answers the same; both are measured in turns, and medians of the rounds are told.
// Orders per fsync are counted by the server itself: every commit that wrote is one, those of its own start among them.
func BenchmarkOrders(b *testing.B) {
	bare := bareServer(b)
	for _, connections := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			for range b.N {
				s := newUnderLoad(b, bare, "--no-relay")
				s.closed(b, connections, max(2000, min(10_000, connections*400)))
				s.tell(b)
			}
		})
	}
	for _, rate := range []int{2000, 5000} {
		b.Run(fmt.Sprintf("steady=%d", rate), func(b *testing.B) {
			for range b.N {
				s := newUnderLoad(b, bare, "--no-relay")
				s.steady(b, rate)
				s.tell(b)
			}
		})
	}
	b.Run("connections=64,draining", func(b *testing.B) {
		for range b.N {
			s := newUnderLoad(b, bare)
			s.closed(b, 64, 10_000)
			s.tell(b)
		}
	})
}

// underLoad is a server under load, and the bare one beside it.
type underLoad struct {
	p          *proof
	server     *child
	load, bare load
	sent       int // orders so far
	took       []took
	rates      []float64 // orders a second, by round
	parts      []float64 // of the bare one's
}

func newUnderLoad(b *testing.B, bare string, args ...string) *underLoad {
	b.Helper()
	s := &underLoad{p: onFile(b, builtProgram(b))}
	s.server = must(s.p.serve("", args...))(b)
	if err := s.p.client.credit(b.Context(), s.server.url, "CUS-7", "999999999"); err != nil {
		b.Fatal(err)
	}
	s.load = load{addr: strings.TrimPrefix(s.server.url, "http://"), request: orderRequest, wants: `"tickets":["inventory:`}
	s.bare = load{addr: bare, request: orderRequest, wants: s.load.wants}
	return s
}

// rounds are how often each is measured.
func rounds() int {
	if testing.Short() {
		return 1
	}
	return 5
}

func (s *underLoad) closed(b *testing.B, connections, n int) {
	b.Helper()
	for range rounds() {
		t, spent, err := s.load.closed(b.Context(), connections, s.sent, s.sent+n)
		if err != nil {
			b.Fatal(err)
		}
		_, besides, err := s.bare.closed(b.Context(), connections, s.sent, s.sent+n)
		if err != nil {
			b.Fatal(err)
		}
		s.note(n, t, spent)
		s.parts = append(s.parts, besides.Seconds()/spent.Seconds())
	}
}

// steady sends for two seconds at a rate that does not care for the answers.
func (s *underLoad) steady(b *testing.B, rate int) {
	b.Helper()
	for range rounds() {
		t, spent, err := s.load.open(b.Context(), 256, s.sent, s.sent+2*rate, float64(rate))
		if err != nil {
			b.Fatal(err)
		}
		s.note(2*rate, t, spent)
	}
}

func (s *underLoad) note(n int, t took, spent time.Duration) {
	s.sent += n
	s.took = append(s.took, t)
	s.rates = append(s.rates, float64(n)/spent.Seconds())
}

// tell reports the medians of the rounds, and what the whole cost.
func (s *underLoad) tell(b *testing.B) {
	b.Helper()
	written, resident := cost(s.server.pid)
	commits := endAndCount(b, s.p, s.server)
	if len(s.parts) > 0 {
		b.ReportMetric(median(s.parts), "/bare")
	}
	var half, most []float64
	for _, t := range s.took {
		half, most = append(half, t.at(0.5)), append(most, t.at(0.99))
	}
	b.ReportMetric(median(s.rates), "orders/s")
	b.ReportMetric(median(half), "p50-ms")
	b.ReportMetric(median(most), "p99-ms")
	b.ReportMetric(float64(s.sent)/float64(commits), "orders/fsync")
	if resident > 0 {
		b.ReportMetric(float64(written)/float64(s.sent), "written-B/order")
		b.ReportMetric(float64(resident)/(1<<20), "most-MB")
	}
	b.ReportMetric(0, "ns/op")
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// cost is what a process has written to the disk and the most memory that it had, in bytes; 0 where the system does not
// say so.
func cost(pid int) (written, resident int64) {
	io, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(io) + string(status)) {
		_, _ = fmt.Sscanf(line, "write_bytes: %d", &written)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &resident)
	}
	return written, resident << 10
}

// endAndCount ends a server and returns how often it says that it has committed.
func endAndCount(b *testing.B, p *proof, s *child) int64 {
	b.Helper()
	line := s.watch(`"msg":"stopped"`)
	if err := p.endAll(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	var l struct{ Commits int64 }
	if err := json.Unmarshal([]byte(must(s.await(b.Context(), line, "its end"))(b)), &l); err != nil || l.Commits == 0 {
		b.Fatalf("commits of %s: %v", s.name, err)
	}
	return l.Commits
}

// Tickets a second that one relay process drains from 60,000, with its standard settings: a log line a
// ticket is written, and read on the same two cores.
func BenchmarkDrain(b *testing.B) {
	var took time.Duration
	for range b.N {
		p := onFile(b, builtProgram(b))
		if err := p.endAll(b.Context(), must(p.serve("", "--no-relay"))(b)); err != nil {
			b.Fatal(err)
		}
		if err := putBurst(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		r := must(p.relay("relay", ""))(b)
		if err := p.untilDrained(b.Context()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
		if err := p.endAll(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*burst)/took.Seconds(), "tickets/s")
}

const (
	claimRounds = 101
	claimBatch  = 100
)

// A claim of 100 tickets costs the same with a million done ones as with none: both files are
// measured in turns, and the medians are told.
func BenchmarkClaim(b *testing.B) {
	var dbs []*store.DB
	done := []int{0, 1_000_000}
	for _, n := range done {
		dbs = append(dbs, claimFile(b, n))
	}
	took := make([][]time.Duration, len(dbs))
	for range claimRounds {
		for i, db := range dbs {
			began := time.Now()
			c, err := db.Claim(b.Context(), store.ClaimRequest{Limit: claimBatch, Lease: time.Hour, Holder: "bench"})
			took[i] = append(took[i], time.Since(began))
			if err != nil || len(c.Tickets) != claimBatch {
				b.Fatalf("claimed %d tickets, %v", len(c.Tickets), err)
			}
			giveBack(b, db, c)
		}
	}
	for i, n := range done {
		slices.Sort(took[i])
		b.ReportMetric(ms(took[i][claimRounds/2]), fmt.Sprintf("ms/claim-with-%d-done", n))
	}
	b.ReportMetric(0, "ns/op")
}

// giveBack makes the claimed tickets pending again, so that every round finds the same.
func giveBack(b *testing.B, db *store.DB, c store.Claim) {
	b.Helper()
	var ids []int64
	for _, t := range c.Tickets {
		ids = append(ids, t.ID)
	}
	err := db.Update(b.Context(), func(tx *store.Tx) error {
		_, err := tx.Release(c.Token, ids)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// claimFile makes a file with so many done tickets, older than the pending ones.
func claimFile(b *testing.B, done int) *store.DB {
	b.Helper()
	path := filepath.Join(b.TempDir(), "claim.db")
	db := must(store.Open(b.Context(), path, store.Options{Readers: 1}))(b)
	b.Cleanup(func() { _ = db.Close() })
	o := must(openOutside(path))(b)
	defer o.close()
	const fill = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at, seq)
SELECT 'ORD-' || i, iif(i % 2, 'issue_refund', 'inventory_sync'), '{"amount":1,"currency":"MXN"}', $2 || i, $2, iif($2 = 'done', 1, NULL), 1
FROM n WHERE i <= $1`
	if done > 0 {
		must(o.exec(b.Context(), fill, done, "done"))(b)
	}
	must(o.exec(b.Context(), fill, 20*claimBatch, "pending"))(b)
	return db
}
