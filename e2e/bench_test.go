package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Orders with three tickets through HTTP against a real server process, each on disk (synchronous=FULL) before it is
// answered, by senders that have one under way each. "/bare" is the part that it reaches of a server that decodes the
// same orders, keeps nothing and answers the same; both are measured in turns, and medians of the rounds are told.
// Orders per fsync are counted by the server itself: every commit that wrote is one, those of its own start among them.
func BenchmarkOrders(b *testing.B) {
	bare := beside(b, "bare")
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
	b.Run("steady=2000,draining", func(b *testing.B) {
		for range b.N {
			s := newUnderLoad(b, bare)
			s.steady(b, 2000)
			s.tell(b)
		}
	})
	b.Run("steady=2000,checkpointing", func(b *testing.B) {
		for range b.N {
			s := newUnderLoad(b, bare, "--no-relay")
			end := keepCheckpointing(b, s.p.file)
			s.steady(b, 2000)
			end()
			s.tell(b)
		}
	})
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

// keepCheckpointing has another client of the file copy the -wal into it, again and again, until end.
func keepCheckpointing(b *testing.B, file string) (end func()) {
	b.Helper()
	o := must(openOutside(file))(b)
	ctx, cancel := context.WithCancel(b.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if _, err := o.exec(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
		if err := o.close(); err != nil {
			b.Error(err)
		}
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
