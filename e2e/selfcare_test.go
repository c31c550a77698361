package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// A service manager hears that the program is ready, how it fares, again and again that it is well, and that it stops:
// of a server with a relay and without one, and of a relay alone. A process that stands still is not fed.
func TestServiceManagerHears(t *testing.T) {
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"serve", "--addr", "127.0.0.1:0", "--no-relay"}, {"relay"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "notify")
			socket := must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
			defer socket.Close()
			cmd := exec.Command(builtProgram(t), append(args, "--db", filepath.Join(dir, "t.db"))...)
			cmd.Env = append(scrubbed(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=300000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			hear(t, socket, "READY=1", "STATUS=nothing waits")
			hear(t, socket, "WATCHDOG=1")
			hear(t, socket, "WATCHDOG=1")
			signal := func(s syscall.Signal) {
				t.Helper()
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			for untilStopped := time.Now().Add(20 * time.Second); ; {
				_ = socket.SetReadDeadline(time.Now().Add(time.Second)) // ten meals
				if _, err := socket.Read(make([]byte, 100)); err != nil {
					break
				}
				if time.Now().After(untilStopped) {
					t.Fatal("it is fed though it stands still")
				}
			}
			signal(syscall.SIGCONT)
			hear(t, socket, "WATCHDOG=1")
			signal(syscall.SIGTERM)
			hear(t, socket, "STOPPING=1")
		})
	}
}

// hear waits until all of the messages have come, in any order and among others.
func hear(t *testing.T, socket *net.UnixConn, wanted ...string) {
	t.Helper()
	b := make([]byte, 1000)
	for deadline := time.Now().Add(20 * time.Second); len(wanted) > 0; {
		_ = socket.SetReadDeadline(deadline)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatalf("%q was not heard: %v", wanted, err)
		}
		wanted = slices.DeleteFunc(wanted, func(want string) bool { return want == string(b[:n]) })
	}
}
