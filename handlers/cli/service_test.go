package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"comanda/store"
)

// manager is a service manager's socket, and the variables by which it asks to be told.
func manager(t *testing.T, watchdogUS, pid string) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdogUS)
	t.Setenv("WATCHDOG_PID", pid)
	return socket
}

func heard(t *testing.T, socket *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 1000)
	_ = socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := socket.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// A service manager's socket hears each state as one datagram.
func TestServiceIsTold(t *testing.T) {
	socket := manager(t, "600000", strconv.Itoa(os.Getpid()))
	s := NewService()
	if s.Every() != 200*time.Millisecond {
		t.Errorf("fed every %v", s.Every())
	}
	s.Tell(ServiceReady)
	s.Feed()()
	s.Tell(ServiceStopping)
	for _, state := range []string{"READY=1", "WATCHDOG=1", "STOPPING=1"} {
		if got := heard(t, socket); got != state {
			t.Errorf("heard %q, want %q", got, state)
		}
	}
}

// Without a service manager nobody is told; one that does not watch this process is not fed.
func TestNoService(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	none := NewService()
	none.Tell(ServiceReady)
	none.Report(t.Context(), func(context.Context) string { t.Error("a line for nobody"); return "" })
	if none != nil || none.Feed() != nil || none.Every() != time.Second {
		t.Errorf("%+v", none)
	}
	for _, asks := range []struct{ us, pid string }{{"", ""}, {"often", ""}, {"600000", "1"}} {
		manager(t, asks.us, asks.pid)
		if s := NewService(); s == nil || s.Feed() != nil || s.Every() != time.Second {
			t.Errorf("%+v: %+v", asks, s)
		}
	}
}

// One that has gone away, or does not read what it is told, keeps nobody.
func TestServiceThatDoesNotListen(t *testing.T) {
	manager(t, "", "").Close()
	NewService().Tell(ServiceContent)

	manager(t, "", "")
	s, began := NewService(), time.Now()
	for last := time.Now(); time.Since(last) < tellFor/2; { // until its queue holds no more
		last = time.Now()
		s.Tell("STATUS=x")
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.Tell(ServiceStopping) })
	}
	all.Wait() // not one after the other
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("kept for %s", took)
	}
}

// The status is one line, told at once and again when it is another one.
func TestServiceStatus(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	line := func(want string, wrong ...string) {
		t.Helper()
		if got := ServiceLine(t.Context(), db, wrong); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	line("nothing waits")
	update := func(fn func(*store.Tx) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *store.Tx) error {
		_, err := tx.InsertTicket(store.NewTicket{OrderID: "ORD-1", EffectType: store.TicketIssueRefund, Payload: "{}", Key: "refund:ORD-1"})
		return err
	})
	line("1 ticket under way")
	update(func(tx *store.Tx) error { return tx.PauseTarget("refund", "ana", "") })
	update(func(tx *store.Tx) error { return tx.Offline("inventory", true) })
	update(func(tx *store.Tx) error { return tx.Pause(true, "ana") })
	line("1 ticket under way; the relay is paused; inventory is offline; refund is paused")
	line("the disk is silent; 1 ticket under way; the relay is paused; inventory is offline; refund is paused", "the disk is silent")
	for ms, want := range map[int64]string{59_999: "3 tickets under way", 60_000: "3 tickets under way, the oldest for 1 min", 7_200_000: "3 tickets under way, the oldest for 2 h"} {
		if got := waitingLine(3, ms); got != want {
			t.Errorf("%d ms: %q", ms, got)
		}
	}
}

func TestServiceHearsOfChangesAlone(t *testing.T) {
	socket := manager(t, "", "")
	ctx, cancel := context.WithCancel(t.Context())
	lines := []string{"one", "one", "two\nREADY=1", ""}
	NewService().report(ctx, time.Millisecond, func(context.Context) string {
		now := lines[0]
		if lines = lines[1:]; len(lines) == 0 {
			cancel()
		}
		return now
	})
	for _, want := range []string{"STATUS=one", `STATUS=two\nREADY=1`} {
		if got := heard(t, socket); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}
