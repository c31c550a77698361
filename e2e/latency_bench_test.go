package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	latencyOrders = 200
	latencyPause  = 20 * time.Millisecond // the box is idle before each order
)

// How long after its 200 the effect of one order is on disk, on a box that does nothing else: with the relay in the
// server's process, and in one of its own. What another client sees is looked at every half millisecond.
func BenchmarkLatency(b *testing.B) {
	for _, apart := range []bool{false, true} {
		name := map[bool]string{false: "one-process", true: "relay-apart"}[apart]
		b.Run(name, func(b *testing.B) {
			p := onFile(b, builtProgram(b))
			var args []string
			if apart {
				args = []string{"--no-relay"}
			}
			s := must(p.serve("", args...))(b)
			if apart {
				must(p.relay("relay", ""))(b)
			}
			o := must(openOutside(p.file))(b)
			defer o.close()
			var took []time.Duration
			orders := latencyOrders
			if testing.Short() {
				orders = 50
			}
			for range b.N {
				for range orders {
					took = append(took, oneEffect(b, p, s.url, o, len(took)))
				}
			}
			slices.Sort(took)
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// oneEffect is how long after its 200 an order's effect can be seen.
func oneEffect(b *testing.B, p *proof, url string, o *outside, n int) time.Duration {
	b.Helper()
	time.Sleep(latencyPause)
	order := fmt.Sprintf("ORD-%d", n)
	a, err := p.client.order(b.Context(), url, orderBody(fmt.Sprintf("EVT-%d", n), order, "CUS-7", "2154.00", line{"CF-ARA-500", 12}))
	if err != nil || a.body.Status != "accepted" {
		b.Fatalf("order %s: %s, %v", order, a, err)
	}
	accepted := time.Now()
	for len(must(o.query(b.Context(), `SELECT 1 FROM external_effects_log WHERE order_id = $1`, order))(b)) == 0 {
		if time.Since(accepted) > time.Minute {
			b.Fatalf("order %s: no effect within a minute", order)
		}
		time.Sleep(500 * time.Microsecond)
	}
	return time.Since(accepted)
}

// What a server and a relay in a process of its own take of one core while nothing happens, as Linux counts it.
func BenchmarkIdle(b *testing.B) {
	idle := 20 * time.Second
	if testing.Short() {
		idle = 5 * time.Second
	}
	p := onFile(b, builtProgram(b))
	var children []*child
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"relay"}} { // with their standard schedule
		c := command{exe: p.exe, dir: p.dir, name: args[0], args: append(args, "--db", p.file, "--log-format", "json")}
		children = append(children, must(c.start())(b))
	}
	if _, err := cpuTicks(children[0].pid); err != nil {
		b.Skip("nothing here tells what a process has used")
	}
	wait(b.Context(), time.Second) // the start is not what is measured
	var before []int64
	for _, c := range children {
		before = append(before, must(cpuTicks(c.pid))(b))
	}
	wait(b.Context(), idle)
	for i, c := range children {
		const tick = 10 * time.Millisecond // USER_HZ is 100 (proc_pid_stat(5))
		used := time.Duration(must(cpuTicks(c.pid))(b)-before[i]) * tick
		b.ReportMetric(100*used.Seconds()/idle.Seconds(), "%core-"+c.name)
	}
	b.ReportMetric(0, "ns/op")
	if err := p.endAll(b.Context(), children...); err != nil {
		b.Fatal(err)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// cpuTicks is the time that a process has used, in ticks of user and system mode.
func cpuTicks(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:]) // the name may hold anything
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err
}
