package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// stuck is a terminal that was stopped: it takes nothing until it is let go.
type stuck struct {
	open chan struct{}
	got  bytes.Buffer
}

func (s *stuck) Write(b []byte) (int, error) { <-s.open; return s.got.Write(b) }

func TestSinkKeepsOrder(t *testing.T) {
	var got, want bytes.Buffer
	s := NewSink(&got)
	for i := range 1000 {
		fmt.Fprintln(&want, i)
		fmt.Fprintln(s, i)
	}
	s.Close(time.Minute)
	if got.String() != want.String() {
		t.Errorf("%d bytes, want %d", got.Len(), want.Len())
	}
}

func TestSinkNeverWaits(t *testing.T) {
	w := &stuck{open: make(chan struct{})}
	s := NewSink(w)
	for i := range 3 * sinkLines { // would wait for ever
		fmt.Fprintln(s, i)
	}
	close(w.open)
	s.Close(time.Minute)
	if text := w.got.String(); !strings.HasPrefix(text, "0\n") || !strings.Contains(text, "lines of this log were dropped") {
		t.Errorf("%.200s", text)
	}
}

func TestSinkOfADeadTerminalEnds(t *testing.T) {
	s := NewSink(&stuck{open: make(chan struct{})})
	fmt.Fprintln(s, "bye")
	s.Close(time.Millisecond)
}

// What is still at work when the program ends may say something: it is heard by nobody, and breaks nothing.
func TestSinkAfterClose(t *testing.T) {
	var got bytes.Buffer
	s := NewSink(&got)
	s.Close(time.Minute)
	s.Close(time.Minute)
	if n, err := fmt.Fprintln(s, "late"); n != 5 || err != nil || got.Len() > 0 {
		t.Errorf("%d, %v, %q", n, err, got.String())
	}
}
