package cli

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A service manager's socket hears each state as one datagram.
func TestServiceIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s := NewService([]string{"A=B", "NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=600000"})
	if s == nil || s.Every() != 200*time.Millisecond {
		t.Fatalf("%+v", s)
	}
	heard := make([]byte, 100)
	for _, state := range []string{ServiceReady, ServiceContent, ServiceStopping} {
		s.Tell(state)
		_ = socket.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := socket.Read(heard); err != nil || string(heard[:n]) != state {
			t.Errorf("heard %q %v, want %q", heard[:n], err, state)
		}
	}
}

// Without a service manager nobody is told, and one that has gone away keeps nobody.
func TestNoService(t *testing.T) {
	for _, environ := range [][]string{nil, {"NOTIFY_SOCKET="}, {"NOTIFY_SOCKET=/nowhere/at/all"}, {"WATCHDOG_USEC=60000000"}} {
		s := NewService(environ)
		if s != nil {
			t.Errorf("%q: somebody is told", environ)
		}
		s.Tell(ServiceReady)
		if s.Every() != time.Second {
			t.Errorf("every %v", s.Every())
		}
	}
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	s := NewService([]string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=often"})
	socket.Close()
	s.Tell(ServiceContent)
}
