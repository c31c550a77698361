package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"comanda/store"
)

// contractBody is the example of the contract, byte for byte.
const contractBody = `{"event_id":"EVT-1","order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN",
 "line_items":[{"sku":"CF-ARA-500","quantity":12}]}`

// rig is a server on a real file behind a real listener.
type rig struct {
	t    testing.TB
	db   *store.DB
	srv  *Server
	http *httptest.Server
	log  *syncBuffer
}

// syncBuffer is a log that requests write to at the same time.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := newClosedRig(t, change...)
	r.http = httptest.NewUnstartedServer(r.srv)
	r.http.Config = r.srv.HTTPServer()
	r.http.Start()
	t.Cleanup(r.http.Close)
	return r
}

// newClosedRig has no listener: requests go straight to the handler.
func newClosedRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "comanda.db"), store.Options{BusyTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{t: t, db: db, log: &syncBuffer{}}
	opt := Options{DB: db, Log: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&opt)
	}
	r.srv = New(opt)
	t.Cleanup(func() { _ = r.srv.Close() })
	return r
}

// reply is an answer with its body read.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// do sends a request and holds the answer against openapi.json; headers are name, value, name, value.
func (r *rig) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.http.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := r.http.Client().Do(req)
	if err != nil {
		r.t.Error(err)
		return reply{t: r.t}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Error(err)
	}
	a := reply{r.t, res.StatusCode, res.Header, string(b)}
	fitsOpenAPI(req, a)
	return a
}

func (r *rig) get(path string) reply { r.t.Helper(); return r.do("GET", path, "") }

func (r *rig) post(body string) reply {
	r.t.Helper()
	return r.do("POST", "/webhooks/orders", body, "Content-Type", "application/json")
}

func (r *rig) put(path, body string) reply {
	r.t.Helper()
	return r.do("PUT", path, body, "Content-Type", "application/json")
}

// wants checks the status and that the body holds each text.
func (a reply) wants(status int, texts ...string) reply {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d; body: %s", a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("body %s\nhas no %s", a.body, text)
		}
	}
	return a
}

// is checks the whole body, without its final newline.
func (a reply) is(status int, body string) {
	a.t.Helper()
	a.wants(status)
	if got := strings.TrimSuffix(a.body, "\n"); got != body {
		a.t.Fatalf("body\n%s\nwant\n%s", got, body)
	}
}

// problem checks that the answer is a problem document of this name and returns its members.
func (a reply) problem(status int, name string) map[string]any {
	a.t.Helper()
	a.wants(status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Fatalf("content type %q of %s", got, a.body)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	if m["type"] != "/problems/"+name || m["status"] != float64(status) || m["title"] == "" || m["title"] == nil || m["detail"] == "" {
		a.t.Fatalf("problem %s, want %s with title, status and detail", a.body, name)
	}
	if id := m["request_id"]; id == "" || id != a.header.Get("X-Request-Id") {
		a.t.Fatalf("request_id %v, header %q", id, a.header.Get("X-Request-Id"))
	}
	if (status == 503) != (a.header.Get("Retry-After") != "") {
		a.t.Fatalf("status %d with Retry-After %q", status, a.header.Get("Retry-After"))
	}
	return m
}

// into decodes the body.
func (a reply) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
}

// count runs a query that answers one number.
func (r *rig) count(query string, args ...any) int64 {
	r.t.Helper()
	a, err := r.db.Query(context.Background(), query, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.Rows[0][0].(int64)
}

// holds checks that the file has so many events, orders and tickets.
func (r *rig) holds(events, orders, tickets int64) {
	r.t.Helper()
	got := [3]int64{r.count(`SELECT count(*) FROM events`), r.count(`SELECT count(*) FROM orders`), r.count(`SELECT count(*) FROM outbox`)}
	if want := [3]int64{events, orders, tickets}; got != want {
		r.t.Fatalf("events, orders, tickets: %v, want %v", got, want)
	}
}

// body builds an event; lines is the JSON text of line_items.
func body(event, order, amount, lines string) string {
	return `{"event_id":` + text(event) + `,"order_id":` + text(order) + `,"customer_id":"CUS-7","amount":` + amount +
		`,"currency":"MXN","line_items":` + lines + `}`
}

const oneLine = `[{"sku":"CF-1","quantity":1}]`

func (r *rig) setCredit(limit string) {
	r.t.Helper()
	r.put("/api/customers/CUS-7/credit", `{"limit":"`+limit+`","currency":"MXN"}`).wants(200)
}

// sourceFunc is a credit source outside.
type sourceFunc func(ctx context.Context, q CreditQuestion) (Verdict, error)

func (f sourceFunc) Check(ctx context.Context, q CreditQuestion) (Verdict, error) { return f(ctx, q) }
