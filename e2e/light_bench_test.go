package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// How long a server needs from its start to its first 200, after a clean stop and after SIGKILL, on a young file and on one
// of a million orders (fifty thousand with -short), and how much memory it has then and after a minute of nothing to do.
func BenchmarkStart(b *testing.B) {
	many, idle, starts := 1_000_000, time.Minute, 9
	if testing.Short() {
		many, idle, starts = 50_000, 4*time.Second, 3
	}
	for _, n := range []int{0, many} {
		p := onFile(b, builtProgram(b))
		if err := p.endAll(b.Context(), must(p.serve(""))(b)); err != nil {
			b.Fatal(err)
		}
		if n > 0 {
			putDone(b, p.file, n, 1)
		}
		for _, killed := range []bool{false, true} {
			b.Run(fmt.Sprintf("orders=%d,%s", n, map[bool]string{false: "stopped", true: "killed"}[killed]), func(b *testing.B) {
				var took []float64
				for range b.N {
					for i := range starts {
						s, ms := startAndAsk(b, p)
						took = append(took, ms)
						if a, err := p.client.order(b.Context(), s.url, orderBody(fmt.Sprint("EVT-", killed, b.N, i), fmt.Sprint("ORD-", killed, b.N, i), "CUS-9", "1.00", line{"S", 1})); err != nil || a.body.Status == "" {
							b.Fatalf("%s, %v", a, err)
						}
						end(b, p, s, killed)
					}
				}
				b.ReportMetric(median(took), "ms-to-200")
				b.ReportMetric(0, "ns/op")
			})
		}
		b.Run(fmt.Sprintf("orders=%d,idle", n), func(b *testing.B) {
			for range b.N {
				s, _ := startAndAsk(b, p)
				b.ReportMetric(residentMB(s.pid), "MB-at-start")
				wait(b.Context(), idle)
				b.ReportMetric(residentMB(s.pid), "MB-idle")
				end(b, p, s, false)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func startAndAsk(b *testing.B, p *proof) (s *child, ms float64) {
	b.Helper()
	began := time.Now()
	s = must(p.serve(""))(b)
	req := must(http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+"/readyz", nil))(b)
	res := must(http.DefaultTransport.RoundTrip(req))(b)
	took := time.Since(began)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatal(res.Status)
	}
	return s, took.Seconds() * 1000
}

func end(b *testing.B, p *proof, s *child, killed bool) {
	b.Helper()
	if killed {
		s.expectEnd()
		s.kill()
		<-s.gone
		p.client.close()
		return
	}
	if err := p.endAll(b.Context(), s); err != nil {
		b.Fatal(err)
	}
}

// residentMB is how much memory a process has now; 0 where the system does not say so.
func residentMB(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	var kb float64
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %f kB", &kb)
	}
	return kb / 1024
}

// How large the program is without its symbols, and what an order with three tickets takes on the disk, all in all and by
// table and index: once it is accepted, and once it is carried out.
func BenchmarkSize(b *testing.B) {
	stripped := filepath.Join(b.TempDir(), "comanda")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", stripped, "comanda").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.ReportMetric(float64(must(os.Stat(stripped))(b).Size())/(1<<20), "MB-stripped")
	n := 10_000
	if testing.Short() {
		n = 3_000
	}
	for range b.N {
		p := onFile(b, builtProgram(b))
		s := must(p.serve("", "--no-relay"))(b)
		if err := p.client.credit(b.Context(), s.url, "CUS-7", "999999999"); err != nil {
			b.Fatal(err)
		}
		before := pages(b, p.file)
		l := load{addr: strings.TrimPrefix(s.url, "http://"), request: orderRequest, wants: `"tickets":["inventory:`}
		if _, _, err := l.closed(b.Context(), 64, 0, n); err != nil {
			b.Fatal(err)
		}
		tellSizes(b, before, pages(b, p.file), n, "accepted")
		must(p.relay("relay", ""))(b)
		if err := p.untilDrained(b.Context()); err != nil {
			b.Fatal(err)
		}
		tellSizes(b, before, pages(b, p.file), n, "done")
	}
	b.ReportMetric(0, "ns/op")
}

// pages is how many bytes each table and index of a file takes, by dbstat.
func pages(b *testing.B, file string) map[string]int64 {
	b.Helper()
	o := must(openOutside(file))(b)
	defer o.close()
	bytes := map[string]int64{}
	for _, row := range must(o.query(b.Context(), `SELECT name, sum(pgsize) FROM dbstat GROUP BY name`))(b) {
		bytes[row[0].(string)] = row[1].(int64)
		bytes["B"] += row[1].(int64)
	}
	return bytes
}

func tellSizes(b *testing.B, before, after map[string]int64, n int, when string) {
	for name, size := range after {
		if each := float64(size-before[name]) / float64(n); each >= 1 {
			b.ReportMetric(each, name+"/order-"+when)
		}
	}
}
