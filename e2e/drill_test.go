package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// knocks is a target's address that counts who comes to it.
func knocks(t *testing.T) (url string, came *atomic.Int64) {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	came = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/refunds", came
}

// drillOn runs a drill with an environment that points to a real target.
func drillOn(t *testing.T, exe, file string, env []string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(exe, append([]string{"drill", "--db", file}, args...)...)
	cmd.Env = append(scrubbed(), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// A drill on a shop's file whose refunds go out for real, with one that waits and with settings that name the target:
// nobody comes to the target, and the file is as it was.
func TestDrill(t *testing.T) {
	t.Parallel()
	url, came := knocks(t)
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay", "--refund-url", url, "--refund-key-ttl", "24h"))(t)
	must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "1", line{"SKU", 1})))(t)
	if err := p.endAll(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	before := must(os.ReadFile(p.file))(t)
	out, err := drillOn(t, p.exe, p.file, []string{"COMANDA_REFUND_URL=" + url, "COMANDA_REFUND_KEY_TTL=24h", "COMANDA_ALERT_URL=" + url, "COMANDA_DB=" + p.file}, "--time", "4s")
	t.Log("\n" + out)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`\n\d+ kills · [\d,]+ power cuts · 0 lost · 0 doubled · this disk syncs in [\d.]+ (µs|ms|s) \(p99 [\d.]+ (µs|ms|s)\)`).MatchString(out) {
		t.Error("the last line does not say what came of it")
	}
	if n := came.Load(); n > 0 {
		t.Errorf("%d connections came to the target", n)
	}
	if after := must(os.ReadFile(p.file))(t); string(after) != string(before) {
		t.Error("the drill changed the file")
	}
	nothingLeft(t, p.file)
}

func nothingLeft(t *testing.T, file string) {
	t.Helper()
	for _, e := range must(os.ReadDir(filepath.Dir(file)))(t) {
		if e.Name() != filepath.Base(file) && e.Name() != filepath.Base(file)+".ballast" {
			t.Errorf("%s is left beside the file", e.Name())
		}
	}
}

// While a shop works, a drill beside it changes nothing: orders are taken, and none of the drill's is among them.
func TestDrillBesideAShop(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	done := make(chan error, 1)
	var report DrillReport
	go func() {
		out, err := drillOn(t, p.exe, p.file, nil, "--time", "3s", "--json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &report)
		}
		done <- err
	}()
	orders := 0
	for running := true; running; orders++ {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Millisecond):
		}
		order := fmt.Sprint("ORD-", orders)
		if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-"+order, order, "CUS-7", "1", line{"SKU", 1})))(t); a.code != 200 {
			t.Fatal(a)
		}
	}
	if report.Bytes < 100<<10 { // an empty file of ours has 188 KiB, most of them in the -wal while a shop works
		t.Errorf("the copy has %d bytes", report.Bytes)
	}
	if report.Kills == 0 || report.Cuts == 0 || report.Lost+report.Doubled > 0 {
		t.Errorf("the drill says %+v", report)
	}
	p.ask(t.Context(), `SELECT count(*), count(*) FILTER (WHERE order_id LIKE 'ORD-%') FROM orders`, fmt.Sprintf("%d | %[1]d", orders))
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	if !p.ok() {
		t.Error(failed(Result{Steps: p.steps}))
	}
	if err := errorsOf(p.lookAway(), p.endAll(t.Context(), s)); err != nil {
		t.Error(err)
	}
	nothingLeft(t, p.file)
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// A drill of a program that does not sync its commits finds that acknowledged orders are lost, and fails.
func TestDrillFindsALoss(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtMutant(t))
	s := must(p.serve(""))(t)
	if err := p.endAll(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	out, err := drillOn(t, p.exe, p.file, []string{"COMANDA_WITHOUT=full-sync"}, "--time", "4s", "--json")
	var report DrillReport
	if e := json.NewDecoder(strings.NewReader(out)).Decode(&report); e != nil {
		t.Fatalf("%v: %s", e, out)
	}
	if err == nil || report.Lost == 0 || len(report.Found) == 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// A drill that is interrupted leaves nothing behind, and says so.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	if err := p.endAll(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command(p.exe, "drill", "--db", p.file, "--time", "1m")
	cmd.Env, cmd.Stderr = scrubbed(), &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // wherever it is then
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "interrupted; the file was not touched") {
		t.Errorf("%v: %s", err, out.String())
	}
	nothingLeft(t, p.file)
}

// What can't be drilled is told at once.
func TestDrillRefuses(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	if err := os.WriteFile(other, []byte("not a database, by far too short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, args, want string }{
		{filepath.Join(dir, "none.db"), "--time 2s", "there is no file"},
		{other, "--time 2s", "not a SQLite file"},
		{other, "--time 1s", "--time 1s is not between 2s and 24h"},
		{other, "--time 2s --dir /nowhere/at/all", "no directory for the copy can be made in /nowhere/at/all"},
	} {
		if out, err := drillOn(t, builtProgram(t), c.file, nil, strings.Fields(c.args)...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("drill of %s with %s: %v: %s", c.file, c.args, err, out)
		}
	}
}

// A report says in one line what a shop owner wants to know, with a mark on figures that mean nothing.
func TestDrillLine(t *testing.T) {
	r := DrillReport{Kills: 312, Cuts: 4120, Sync: SyncReport{Median: 4100 * time.Microsecond, P99: 31 * time.Millisecond}}
	if got, want := r.String(), "312 kills · 4,120 power cuts · 0 lost · 0 doubled · this disk syncs in 4.1 ms (p99 31 ms)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r.Volatile, r.Corrupt, r.Lost = true, 1, 2
	if got, want := r.String(), "312 kills · 4,120 power cuts · 2 lost · 0 doubled · 1 damaged · 0 in part · this disk syncs in 4.1 ms (p99 31 ms) · on tmpfs"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r.held() {
		t.Error("a drill that has lost something held")
	}
	if s := syncReport([]time.Duration{time.Microsecond, 2 * time.Microsecond, time.Millisecond}); !s.TooFast || s.P99 != 2*time.Microsecond {
		t.Errorf("%+v", s)
	}
}
