package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server dies with a thousand tickets on the rail and a hundred of them claimed: the next one goes on long before
// the lease would have ended, and carries all of them out once.
func TestThousandWaitAfterAKill(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second
	p := onFile(t, builtProgram(t))
	if err := p.endAll(t.Context(), must(p.serve("", "--no-relay"))(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.byHand(t.Context(), `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
SELECT 'ORD-' || i, 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-' || i FROM n`, 1000); err != nil {
		t.Fatal(err)
	}
	doomed, err := p.serve("relay.claimed", "--lease", lease.String())
	if doomed == nil {
		t.Fatal(err)
	}
	if err := doomed.waitKilled(t.Context()); err != nil { // perhaps before it listened
		t.Fatal(err)
	}
	if got := must(p.query(t.Context(), `SELECT count(*), sum(status = 'processing') FROM outbox WHERE status <> 'done'`))(t); got != "1000 | 100" {
		t.Fatalf("after the kill: %s", got)
	}
	began := time.Now()
	again := must(p.serve("", "--lease", lease.String()))(t)
	if err := p.until(t.Context(), `SELECT count(*) > 0 FROM external_effects_log`, "1"); err != nil {
		t.Fatal(err)
	}
	first := time.Since(began)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the first went out %v after the start, all thousand after %v; the lease was %v", first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), lease)
	if first > lease { // the promise is lease + 2 s; a dead holder's lease is not waited for
		t.Errorf("the first went out after %v", first)
	}
	if got := must(p.query(t.Context(), `SELECT count(*), count(DISTINCT effect_key) FROM external_effects_log`))(t); got != "1000 | 1000" {
		t.Errorf("effects: %s", got)
	}
	if err := p.endAll(t.Context(), again); err != nil {
		t.Error(err)
	}
}

// slowGateway answers a refund once it is let go; came tells that one has arrived.
func slowGateway(t *testing.T) (url string, came <-chan string, let chan<- struct{}) {
	arrived, mayAnswer := make(chan string, 10), make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server hear of a client that goes away
		arrived <- r.Header.Get("Idempotency-Key")
		select {
		case <-mayAnswer:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":"rf_1","status":"succeeded"}`)
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, arrived, mayAnswer
}

// A server that is asked to end while a refund is on its way waits for the answer; asked twice it ends at once, and
// the ticket stays as it was claimed: the next start sends it again under the same key.
func TestEndWhileSending(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	url, came, let := slowGateway(t)
	gateway := []string{"--refund-url", url, "--refund-timeout", "20s", "--lease", "60s"}
	key := func() string {
		t.Helper()
		select {
		case k := <-came:
			return k
		case <-time.After(patience):
			t.Fatal("nothing was sent")
			return ""
		}
	}
	order := func(s *child, id string) {
		t.Helper()
		if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-"+id, id, "CUS-7", "5", line{"A", 1})))(t); a.code != http.StatusOK {
			t.Fatal(a)
		}
		p.client.close()
	}
	row := func(id string) string {
		t.Helper()
		return must(p.query(t.Context(), `SELECT status, attempts, failures, (SELECT count(*) FROM attempts WHERE ticket_id = outbox.id AND outcome = 'done')
			FROM outbox WHERE aggregate_id = '`+id+`'`))(t)
	}

	s := must(p.serve("", gateway...))(t)
	order(s, "ORD-1")
	key()
	stopping := s.watch(`"msg":"stopped"`)
	s.expectEnd()
	s.terminate()
	let <- struct{}{}
	if err := s.waitGone(t.Context()); err != nil || s.killed || s.code != 0 {
		t.Errorf("asked to end, it ended with %d (%v)", s.code, err)
	}
	must(s.await(t.Context(), stopping, "its end"))(t)
	if got := row("ORD-1"); got != "done | 1 | 0 | 1" {
		t.Errorf("answered while it was ending: %s", got)
	}

	s = must(p.serve("", gateway...))(t)
	order(s, "ORD-2")
	sent := key()
	s.expectEnd()
	began := time.Now()
	s.terminate()
	if err := awaitRefused(t.Context(), s.url); err != nil { // it has heard of the first
		t.Fatal(err)
	}
	if got := row("ORD-2"); got != "processing | 1 | 0 | 0" {
		t.Errorf("while it ends: %s", got)
	}
	s.terminate()
	if err := s.waitGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("asked twice it ended after %v", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > 5*time.Second { // the drain is longer
		t.Errorf("asked twice it took %v to end", took)
	}
	if got := row("ORD-2"); got != "processing | 1 | 0 | 0" {
		t.Errorf("left as %s, want it claimed", got)
	}

	s = must(p.serve("", gateway...))(t)
	if again := key(); again != sent {
		t.Errorf("sent as %q, then as %q", sent, again)
	}
	let <- struct{}{}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := row("ORD-2"); got != "done | 2 | 0 | 1" {
		t.Errorf("in the end: %s", got)
	}
	if err := p.endAll(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// awaitRefused waits until nobody listens any more.
func awaitRefused(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
		if err != nil {
			return err
		}
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil
		}
		_ = res.Body.Close()
		time.Sleep(10 * time.Millisecond)
	}
}

// Another process holds the file for longer than anybody waits for it: the server promises nothing, says so, stays,
// and goes on by itself when the file is free.
func TestFileHeldByAnother(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	o := must(openOutside(p.file))(t)
	defer o.close()
	must(o.exec(t.Context(), `BEGIN EXCLUSIVE`))(t)
	a := must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t)
	if a.code != http.StatusServiceUnavailable || a.retryAfter == "" || !strings.Contains(a.text, "busy") {
		t.Errorf("an order while the file is held: %s, Retry-After %q", a, a.retryAfter)
	}
	if a := must(p.client.do(t.Context(), http.MethodGet, s.url+"/readyz", ""))(t); a.code != http.StatusServiceUnavailable || !strings.Contains(a.text, `"reason":"`) {
		t.Errorf("/readyz: %s", a)
	}
	if a := must(p.client.do(t.Context(), http.MethodGet, s.url+"/healthz", ""))(t); a.code != http.StatusOK {
		t.Errorf("/healthz: %s", a)
	}
	must(o.exec(t.Context(), `ROLLBACK`))(t)
	if a := must(p.client.do(t.Context(), http.MethodGet, s.url+"/readyz", ""))(t); a.code != http.StatusOK {
		t.Errorf("/readyz when the file is free: %s", a)
	}
	if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t); a.code != http.StatusOK || a.body.Status != "accepted" {
		t.Errorf("the same order again: %s", a)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.endAll(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// A clock that stands before the file's last row is said once at the start, and holds nothing up.
func TestClockBehindTheFileIsSaid(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	if err := p.endAll(t.Context(), must(p.serve("", "--no-relay"))(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.byHand(t.Context(), fmt.Sprintf(`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, created_at)
VALUES ('ORD-1', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-1', %d)`, time.Now().Add(56*365*24*time.Hour).UnixMilli()), 1); err != nil {
		t.Fatal(err)
	}
	s := must(p.serve(""))(t)
	if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-2", "ORD-2", "CUS-7", "5", line{"A", 1})))(t); a.code != http.StatusOK {
		t.Errorf("%s", a)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	log := strings.Join(s.tail, "\n")
	s.mu.Unlock()
	if strings.Count(log, "the clock stands before the last row of the file") != 1 || !strings.Contains(log, `"behind":"490`) {
		t.Errorf("%s", log)
	}
	if doctor, _, code := run(t, nil, builtProgram(t), "doctor", "--db", p.file); code != 0 || !strings.Contains(doctor, "the clock stands 490") {
		t.Errorf("doctor exits %d: %s", code, doctor)
	}
}

// Pages that listen do not hold up a stop: their streams end with the server.
func TestStreamsEndWithTheServer(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	for range 5 {
		res := must(http.Get(s.url + "/events"))(t)
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s %v", res.Status, res.Header)
		}
	}
	began := time.Now()
	if err := s.endGently(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("with five streams open a stop took %s", took)
	}
}
