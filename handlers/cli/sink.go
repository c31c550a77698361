package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Sink is a stream for what a long-running command says. Writing to it never waits: a terminal that was stopped
// with Ctrl-S, or a pipe that nobody reads, must not hold up orders. What does not fit is dropped, and counted.
type Sink struct {
	lines   chan []byte
	dropped atomic.Int64
	done    chan struct{}

	mu     sync.RWMutex
	closed bool
}

// sinkLines is how much may wait, in writes.
const sinkLines = 4096

// NewSink returns a Sink that passes everything on to w in order. Close it.
func NewSink(w io.Writer) *Sink {
	s := &Sink{lines: make(chan []byte, sinkLines), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			_, _ = w.Write(line) // a reader that has gone loses only what it would have read
			if n := s.dropped.Swap(0); n > 0 {
				_, _ = fmt.Fprintf(w, "comanda: %d lines of this log were dropped: nobody read it\n", n)
			}
		}
	}()
	return s
}

// Write takes a copy and returns at once. It never fails; after Close nothing is taken.
func (s *Sink) Write(b []byte) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return len(b), nil
	}
	select {
	case s.lines <- append([]byte{}, b...):
	default:
		s.dropped.Add(1)
	}
	return len(b), nil
}

// Close waits until everything is written, at most that long.
func (s *Sink) Close(within time.Duration) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.lines)
	}
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(within):
	}
}
