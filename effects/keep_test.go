package effects

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// keepsOpen is a gateway that lets its connections stand and answers what say makes of each request, which is the
// n-th of all.
type keepsOpen struct {
	*evil
	connections, closed atomic.Int64 // closed by the other side
}

func newKeepsOpen(t *testing.T, say func(n int64, req *http.Request) string) *keepsOpen {
	t.Helper()
	k := &keepsOpen{}
	k.evil = rawGateway(t, func(c net.Conn, e *evil) {
		k.connections.Add(1)
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				k.closed.Add(1)
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if _, err := io.WriteString(c, say(e.requests.Add(1), req)); err != nil {
				return
			}
		}
	})
	return k
}

func (k *keepsOpen) target(keep int) *Target {
	return NewTarget(TargetConfig{URL: k.url, LookupURL: k.url + "?key={key}", Timeout: time.Second, Keep: keep}, nil)
}

func whole(status int, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n" + body
}

func done(int64, *http.Request) string { return whole(200, `{"id":"rf_1"}`) }

func letter(key string) store.Letter { return store.Letter{Key: key, Body: []byte("{}")} }

// Letters share connections only where that was asked for; a lookup shares one with nobody.
func TestConnectionsAreKept(t *testing.T) {
	for keep, want := range map[int]int64{0: 3, 1: 1} {
		k := newKeepsOpen(t, done)
		target := k.target(keep)
		for _, key := range []string{"a", "b", "c"} {
			if r := target.Send(t.Context(), letter(key)); r.Evidence != store.Happened {
				t.Errorf("%+v", r)
			}
		}
		if n := k.connections.Load(); n != want {
			t.Errorf("keep %d: %d connections, want %d", keep, n, want)
		}
		for range 2 {
			if f := target.Lookup(t.Context(), "a"); f.Knowledge != store.Found {
				t.Errorf("%+v", f)
			}
		}
		if n := k.connections.Load(); n != want+2 {
			t.Errorf("keep %d: two lookups made %d connections", keep, n-want)
		}
	}
}

// What is kept is closed after a second, before a server would.
func TestIdleConnectionsAreClosedFirst(t *testing.T) {
	k := newKeepsOpen(t, done)
	began := time.Now()
	if r := k.target(1).Send(t.Context(), letter("a")); r.Evidence != store.Happened {
		t.Errorf("%+v", r)
	}
	for deadline := time.Now().Add(30 * time.Second); k.closed.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection that nobody uses stays open")
		}
	}
	if took := time.Since(began); took < idleLetters {
		t.Errorf("closed after %s", took)
	}
}

// After anything but a plain success nothing is sent on a connection that stood then.
func TestTroubleEndsKeptConnections(t *testing.T) {
	for name, answer := range map[string]string{
		"500":                whole(500, `{"message":"down"}`),
		"refusal":            whole(422, `{"message":"no such card"}`),
		"429":                whole(429, `{}`),
		"200 with an error":  whole(200, `{"error":"declined"}`),
		"200 that is a page": whole(200, `<html>log in</html>`),
		"no body":            whole(204, ""),
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeepsOpen(t, func(n int64, req *http.Request) string {
				if n == 2 {
					return answer
				}
				return done(n, req)
			})
			target := k.target(4)
			for i, key := range []string{"a", "b", "c", "d"} {
				if r := target.Send(t.Context(), letter(key)); (r.Evidence == store.Happened) != (i != 1) {
					t.Errorf("%s: %+v", key, r)
				}
			}
			if n := k.connections.Load(); n != 2 {
				t.Errorf("%d connections, want one before the trouble and one after it", n)
			}
		})
	}
}

// A target that answers a letter twice: the second answer comes after the next letter has left, and says whose it is.
func TestAnswerToAnotherLetter(t *testing.T) {
	named := func(status int, key string) string {
		return whole(status, `{"id":"rf_`+key+`"}`, "Idempotency-Key: "+key)
	}
	k := newKeepsOpen(t, func(n int64, req *http.Request) string {
		key := req.Header.Get("Idempotency-Key")
		if n == 2 {
			return named(200, "a") + named(422, key)
		}
		return named(200, key)
	})
	target := k.target(1)
	for i, want := range []store.Reply{
		{Evidence: store.Happened, Receipt: "rf_a"},
		{Evidence: store.Unknown},
		{Evidence: store.Happened, Receipt: "rf_c"},
	} {
		r := target.Send(t.Context(), letter(string(rune('a'+i))))
		if r.Evidence != want.Evidence || r.Receipt != want.Receipt {
			t.Errorf("letter %d: %+v, want %+v", i, r, want)
		}
	}
	if n := k.connections.Load(); n != 2 {
		t.Errorf("%d connections, want a fresh one after the answer that was not ours", n)
	}
}

// What comes after its time is over is nobody's answer.
func TestLateAnswer(t *testing.T) {
	late := make(chan struct{})
	e := rawGateway(t, func(c net.Conn, _ *evil) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if req.Header.Get("Idempotency-Key") == "b" {
				<-late
			}
			_, _ = io.WriteString(c, whole(200, `{"id":"rf_`+req.Header.Get("Idempotency-Key")+`"}`))
		}
	})
	target := NewTarget(TargetConfig{URL: e.url, Timeout: time.Second, Keep: 1}, nil)
	for i, key := range []string{"a", "b", "c", "d"} {
		r := target.Send(t.Context(), letter(key))
		if key == "b" && r.Evidence == store.Unknown {
			close(late)
			continue
		}
		if r.Evidence != store.Happened || r.Receipt != "rf_"+key {
			t.Errorf("letter %d: %+v", i, r)
		}
	}
}

// On a connection of its own an answer may name its key in whatever form.
func TestKeyInAnotherForm(t *testing.T) {
	k := newKeepsOpen(t, func(int64, *http.Request) string { return whole(200, `{"id":"rf_1"}`, "Idempotency-Key: 5d41402a") })
	for _, key := range []string{"a", "b"} {
		if r := k.target(0).Send(t.Context(), letter(key)); r.Evidence != store.Happened {
			t.Errorf("%+v", r)
		}
	}
}
