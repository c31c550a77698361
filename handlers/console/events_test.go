package console

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// listen opens a stream and passes its lines on; ended is closed when it is over.
func (s *shop) listen(after string) (lines chan string, ended chan struct{}) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "GET", s.http.URL+"/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != streamedType {
		s.Fatalf("stream: %v, %v", res, err)
	}
	lines, ended = make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		defer res.Body.Close()
		for text := bufio.NewScanner(res.Body); text.Scan(); {
			lines <- text.Text()
		}
	}()
	return lines, ended
}

// wait returns the next line that begins so.
func wait(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case line := <-lines:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-timeout:
			t.Fatalf("no line begins with %q", prefix)
		}
	}
}

// A stream tells what came, in this process or another one, names the orders, and ends at once with the server.
func TestEvents(t *testing.T) {
	s := newShop(t)
	other, err := store.Open(t.Context(), s.db.Path(), store.Options{Synchronous: "OFF"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lines, ended := s.listen("")
	wait(t, lines, ": hello")
	s.decide("ORD-1")
	if got := wait(t, lines, "data: "); !strings.Contains(got, `"ORD-1"`) {
		t.Errorf("after an order: %s", got)
	}
	if err := other.Update(t.Context(), func(tx *store.Tx) error { return tx.Pause(true, "another process") }); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, lines, "data: "); !strings.Contains(got, `"more":true`) {
		t.Errorf("after a pause by another process: %s", got)
	}
	missed, _ := s.listen("1")
	if got := wait(t, missed, "data: "); !strings.Contains(got, `"more":true`) {
		t.Errorf("to one that has missed something: %s", got)
	}
	second, _ := s.listen("")
	wait(t, second, ": hello")
	s.decide("ORD-2")
	if got := wait(t, second, "data: "); !strings.Contains(got, `"ORD-2"`) {
		t.Errorf("to one that came later: %s", got)
	}
	began := time.Now()
	s.console.EndStreams()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the stream goes on")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the stream ended after %s", took)
	}
}

// A stream goes on though a request and its answer may take less time than it does.
func TestStreamOutlivesTimeouts(t *testing.T) {
	const limit = 200 * time.Millisecond
	s := newShopWithin(t, limit)
	lines, _ := s.listen("")
	wait(t, lines, ": hello")
	began := time.Now()
	for i := 0; time.Since(began) < 3*limit; i++ {
		order := fmt.Sprintf("ORD-%d", i)
		s.decide(order)
		if got := wait(t, lines, "data: "); !strings.Contains(got, order) {
			t.Errorf("after %s: %s", order, got)
		}
	}
}

// A stream that came after a look is not open before the next one, whose changes it need not be told.
func TestHelloWaitsForALook(t *testing.T) {
	s := newShop(t)
	h := s.console.hub
	h.watching = true // this test looks
	opened := make(chan chan string, 1)
	go func() {
		lines, _ := s.listen("")
		opened <- lines
	}()
	for joined := false; !joined; {
		s.get("/orders") // takes longer than a hello
		h.mu.Lock()
		joined = len(h.listeners) == 1
		h.mu.Unlock()
	}
	s.get("/orders")
	select {
	case <-opened:
		t.Error("it is open before anybody has looked")
	default:
		h.tell(&store.Place{Seq: 7}, store.Changes{Seq: 7, More: true}, true)
		wait(t, <-opened, ": hello")
	}
}

// After Close nobody looks at the file any more, though a stream was open.
func TestCloseEndsTheLooking(t *testing.T) {
	s := newShop(t)
	lines, ended := s.listen("")
	wait(t, lines, ": hello")
	if err := s.console.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if _, ok := s.console.hub.listen(""); ok {
		t.Error("a closed console lets a stream in")
	}
}

// Beyond so many streams a page is told to do without.
func TestStreamsAreBounded(t *testing.T) {
	h := newHub(newShop(t).db, context.Background())
	defer h.end()
	for range mostStreams {
		if _, ok := h.listen(""); !ok {
			t.Fatal("refused too early")
		}
	}
	if _, ok := h.listen(""); ok {
		t.Error("one too many was let in")
	}
}
