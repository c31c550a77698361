package cli

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestConnectionsFitTheDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 2048, 20: 8, 128: 8, 256: 64, 1024: 448, 1 << 20: 2048, 1<<64 - 1: 2048} {
		if got := connections(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}

// A client beyond the last place waits, and gets in when another one goes; a listener that is closed lets
// nobody wait.
func TestListenerWaitsForAPlace(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{Listener: inner, places: make(chan struct{}, 1), closed: make(chan struct{})}
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 2 {
		first := <-accepted
		select {
		case <-accepted:
			t.Fatal("two have the one place")
		case <-time.After(20 * time.Millisecond):
		}
		first.Close()
		first.Close() // gives nothing back twice
	}
	<-accepted // stays
	l.Close()
	if err := <-ended; err == nil {
		t.Error("a closed listener accepts")
	}
}

// An address that this machine has not is told from one that somebody uses.
func TestMayListenSaysWhatToDo(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for addr, want := range map[string]string{used.Addr().String(): "stop what uses it", "203.0.113.9:0": "this machine has no such address"} { // RFC 5737
		if err := MayListen(addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
