package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const sqlReports = `SELECT substr(report, 17) FROM unclean_stops WHERE checked_at IS NOT NULL`

// A server that is killed with a ticket in hand says at the next start what became of it, once.
func TestRestartAfterAKillIsReported(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve("relay.claimed:1"))(t)
	s.expectEnd()
	// The relay may claim, and die, before the answer is out.
	_, _ = p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "12.00", line{"A", 1}))
	if err := s.waitKilled(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = must(p.serve(""))(t)
	if err := p.until(t.Context(), sqlReports, "after an unclean stop · in flight 1, resumed · acknowledged lost 0 (checked)"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a clean stop, and a start that has nothing to say
		if err := s.endGently(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = must(p.serve(""))(t)
	}
	if n := must(p.query(t.Context(), `SELECT count(*) FROM unclean_stops`))(t); n != "1" {
		t.Errorf("%s unclean stops are known, want one", n)
	}
	if n := must(p.query(t.Context(), `SELECT count(*) FROM processes`))(t); n != "1" {
		t.Errorf("%s processes are known, want the one that runs", n)
	}
}

// A service manager hears that the server is ready, again and again that it is well, and that it stops.
func TestServiceManagerHears(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	socket := must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	defer socket.Close()
	cmd := exec.Command(builtProgram(t), "serve", "--db", filepath.Join(dir, "t.db"), "--addr", "127.0.0.1:0")
	cmd.Env = append(scrubbed(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=300000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	hear := func(want string) {
		t.Helper()
		heard := make([]byte, 100)
		for deadline := time.Now().Add(20 * time.Second); ; {
			_ = socket.SetReadDeadline(deadline)
			n, err := socket.Read(heard)
			if err != nil {
				t.Fatalf("%s was not heard: %v", want, err)
			}
			if string(heard[:n]) == want {
				return
			}
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	hear("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
}
