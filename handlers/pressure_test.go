package handlers

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Large bodies that arrive together are refused with 503 once they hold too much, a common order passes
// beside them, and all room comes back.
func TestBodiesAreBounded(t *testing.T) {
	r := newRig(t)
	const large = 24 // MiB on their way at once, of 16 that may be
	addr := strings.TrimPrefix(r.http.URL, "http://")
	open := make([]net.Conn, large)
	for i := range open {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open[i] = c
		fmt.Fprintf(c, "POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", maxBody)
	}
	if n := r.srv.bodyBytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted of bodies that were only announced", n)
	}
	var sent sync.WaitGroup
	for _, c := range open {
		sent.Go(func() { _, _ = c.Write(bytes.Repeat([]byte(" "), maxBody-1)) }) // and the last byte never
	}
	sent.Wait()
	await(t, "the room to be used up", func() bool { return r.srv.bodyBytes.Load() > mostBodies })
	r.post(contractBody).wants(200)
	big := body("EVT-B", "ORD-B", "1", oneLine) + strings.Repeat(" ", 64<<10)
	if m := r.post(big).problem(503, "not-now"); m["reason"] != "busy" {
		t.Errorf("reason %v", m["reason"])
	}
	for _, c := range open {
		c.Close()
	}
	await(t, "the room to come back", func() bool { return r.srv.bodyBytes.Load() == 0 })
	r.post(big).wants(200)
	r.holds(2, 2, 2)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// zeros is n bytes of zeros, never held.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func packed(t *testing.T, pack func(io.Writer) io.WriteCloser, plain io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pack(&b)
	if _, err := io.Copy(w, plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is made to hurt a reader is refused with a problem in the 400s, takes no memory to speak of, and
// leaves nothing behind but a few bytes of refused bodies.
func TestHostileBodies(t *testing.T) {
	r := newRig(t)
	zip := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	bomb := bytes.Repeat(packed(t, zip, io.LimitReader(zeros{}, 16<<20)), 64) // a megabyte that stands for a gigabyte
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `"%x":1,`, i)
	}
	cases := []struct {
		name, encoding string
		body           io.Reader
		status         int
	}{
		{"10,000 arrays deep", "", strings.NewReader(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), 400},
		{"10,000 objects deep", "", strings.NewReader(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)), 400},
		{"deep inside an order", "", strings.NewReader(strings.TrimSuffix(contractBody, "}") + `,"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}"), 400},
		{"a gzip bomb", "gzip", bytes.NewReader(bomb), 415},
		{"a gzip bomb in a gzip bomb", "gzip, gzip", bytes.NewReader(packed(t, zip, bytes.NewReader(bomb))), 415},
		{"a deflate bomb", "deflate", bytes.NewReader(packed(t, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, io.LimitReader(zeros{}, 64<<20))), 415},
		{"a gzip bomb that does not say so", "", bytes.NewReader(bomb[:512<<10]), 400},
		{"3 MB", "", strings.NewReader(strings.Repeat(" ", 3<<20)), 413},
		{"10 MB", "", strings.NewReader(strings.Repeat(" ", 10<<20)), 413},
		{"100,000 keys", "", strings.NewReader("{" + many.String() + `"z":1}`), 422},
		{"a huge exponent", "", strings.NewReader(body("E", "O", "1e999999999", oneLine)), 422},
		{"a huge negative exponent", "", strings.NewReader(body("E", "O", "1e-999999999", oneLine)), 422},
		{"an exponent of a million digits", "", strings.NewReader(body("E", "O", "1e"+strings.Repeat("9", 1_000_000), oneLine)), 422},
		{"a number of a million digits", "", strings.NewReader(body("E", "O", strings.Repeat("9", 1_000_000), oneLine)), 422},
		{"a huge quantity", "", strings.NewReader(body("E", "O", "1", `[{"sku":"S","quantity":1e999999999}]`)), 422},
		{"an id of a million letters", "", strings.NewReader(body("E", strings.Repeat("O", 1_000_000), "1", oneLine)), 422},
		{"100,000 lines", "", strings.NewReader(body("E", "O", "1", "["+strings.TrimSuffix(strings.Repeat("{},", 100_000), ",")+"]")), 422},
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, c := range cases {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.http.URL+"/webhooks/orders", c.body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if c.encoding != "" {
			req.Header.Set("Content-Encoding", c.encoding)
		}
		req.ContentLength = int64(c.body.(interface{ Len() int }).Len())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			if c.name != "10 MB" { // larger than what is dropped: the connection may end before the answer is read
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %.200s, want %d", c.name, res.StatusCode, text, c.status)
		}
		if len(text) > 64<<10 {
			t.Errorf("%s: the answer has %d bytes", c.name, len(text))
		}
	}
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapSys) - int64(before.HeapSys)
	t.Logf("%d bodies; the heap grew by %d MiB", len(cases), grown>>20)
	if grown > 128<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	r.holds(0, 0, 0)
	r.post(contractBody).wants(200)
	_ = r.srv.Close()
	if n := r.count(`SELECT coalesce(max(length(body)), 0) FROM refused_bodies`); n > 4096 {
		t.Errorf("%d bytes of a refused body were kept", n)
	}
}

// A body that is announced without a length and never ends is cut off, and answered.
func TestEndlessBody(t *testing.T) {
	r := newRig(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", r.http.URL+"/webhooks/orders", io.LimitReader(zeros{}, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err == nil { // else the connection was closed while we still wrote
		defer res.Body.Close()
		if res.StatusCode != 413 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	r.post(contractBody).wants(200)
}

// slowHeads are what a slow client begins with before it sends a byte now and then: nothing, headers without an end,
// an announced body, one whose length nobody says.
var slowHeads = []string{
	"",
	"POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nX-Slow: ",
	"POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
	"POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n{",
}

// drip sends a byte now and then until the server hangs up, which it reports.
func drip(c net.Conn, head string, within time.Duration) bool {
	_, _ = io.WriteString(c, head)
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = io.Copy(io.Discard, c) }()
	for deadline := time.After(within); ; {
		select {
		case <-gone:
			return true
		case <-deadline:
			return false
		case <-time.After(100 * time.Millisecond):
			_, _ = io.WriteString(c, " ")
		}
	}
}

// Five hundred clients that send a byte now and then hold up nobody, and are cut off. The timeouts are shorter here
// than they are; an order that had to wait until a slow client is gone would take as long as the shortest.
func TestSlowClients(t *testing.T) {
	r := newClosedRig(t)
	h := r.srv.HTTPServer()
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 || h.MaxHeaderBytes <= 0 {
		t.Errorf("without a limit: %+v", h)
	}
	h.ReadHeaderTimeout, h.ReadTimeout = 3*time.Second, 4*time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close(); <-served })
	const slow, orders = 500, 200
	var all sync.WaitGroup
	var cut atomic.Int64
	for i := range slow {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all.Go(func() {
			if drip(c, slowHeads[i%len(slowHeads)], 30*time.Second) {
				cut.Add(1)
			}
		})
	}
	client := &http.Client{Timeout: 20 * time.Second}
	var took []time.Duration
	for n := range orders { // while all of them are there
		began := time.Now()
		res, err := client.Post("http://"+l.Addr().String()+"/webhooks/orders", "application/json",
			strings.NewReader(body(fmt.Sprintf("E%d", n), fmt.Sprintf("O%d", n), "1", oneLine)))
		if err != nil {
			t.Fatalf("an order beside the slow ones: %v", err)
		}
		if res.Body.Close(); res.StatusCode == 200 {
			took = append(took, time.Since(began))
		}
	}
	all.Wait()
	if len(took) == 0 {
		t.Fatal("no order was taken")
	}
	slices.Sort(took)
	p99 := took[(len(took)-1)*99/100]
	t.Logf("%d of %d orders taken beside %d slow clients, p99 %s; %d of the slow were cut off", len(took), orders, slow, p99.Round(time.Millisecond), cut.Load())
	if len(took) != orders || cut.Load() != slow {
		t.Error("want all of them taken, and all of the others cut off")
	}
	if p99 >= h.ReadHeaderTimeout {
		t.Errorf("orders waited for the slow ones: p99 %s", p99)
	}
	await(t, "no request to be under way", func() bool { return r.srv.inFlight.Load() == 0 })
}

// Elsewhere than at the senders' door too, what is too large is refused early, with an answer, and nothing is done.
func TestOversizedElsewhere(t *testing.T) {
	r := newRig(t)
	huge := strings.Repeat("a", 80<<10)
	for _, c := range [][2]string{{"GET", "/api/orders"}, {"GET", "/healthz"}, {"POST", "/api/relay/pause"}, {"PUT", "/api/customers/CUS-7/credit"}, {"GET", "/nowhere"}} {
		for _, header := range []string{"Cookie", "Authorization", "X-Request-Id", "Origin", "X-" + huge[:70<<10]} {
			if got := r.do(c[0], c[1], "{}", header, huge); got.status != 431 {
				t.Errorf("%s %s with 80 KiB of %.20s: %d", c[0], c[1], header, got.status)
			}
		}
		if got := r.do(c[0], c[1]+"?q="+huge, "{}"); got.status != 431 {
			t.Errorf("%s %s with 80 KiB of query: %d", c[0], c[1], got.status)
		}
	}
	large := `{"limit":"5.00","currency":"MXN","reason":"` + strings.Repeat("a", 3<<20) + `"}`
	for _, c := range [][2]string{{"PUT", "/api/customers/CUS-7/credit"}, {"POST", "/api/tickets/retry"}, {"POST", "/api/tickets/1/discard"}, {"POST", "/api/targets/refund/pause"}} {
		if got := r.do(c[0], c[1], large, "Content-Type", "application/json"); got.status != 413 && got.status != 404 {
			t.Errorf("%s %s with 3 MiB: %d %.200s", c[0], c[1], got.status, got.body)
		}
	}
	if n := r.count(`SELECT (SELECT count(*) FROM credit_limits) + (SELECT count(*) FROM operator_log)`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	r.post(contractBody).wants(200)
}
