package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"comanda/store"
)

// Ids may hold anything, and two ids never meet in one path.
func TestIDsInPaths(t *testing.T) {
	r := newRig(t)
	ids := []string{"a/b", "a%2Fb", "%", "100%", "%25", "a b+c", "a%2F/b", "é/😀", "..", ".", "//", "a?b#c", "A:B", "credit"}
	for i, id := range ids {
		r.post(body(fmt.Sprint("E", i), id, "1", oneLine)).wants(200, `"accepted"`)
	}
	for i, id := range ids {
		for _, escaped := range []string{url.PathEscape(id), escapeAll(id)} {
			var story struct {
				Order store.Order `json:"order"`
			}
			r.get("/api/orders/" + escaped).wants(200).into(&story)
			if story.Order.OrderID != id || story.Order.EventID != fmt.Sprint("E", i) {
				t.Errorf("%q answers order %q", escaped, story.Order.OrderID)
			}
		}
		if err := checkCredit(r, id); err != nil {
			t.Error(err)
		}
	}
	r.get("/api/orders/a/b").problem(404, "not-found")
	r.get("/api/orders/").problem(404, "not-found")
	r.get("/api/orders/nobody").problem(404, "not-found")
}

func escapeAll(id string) string {
	var b strings.Builder
	for i := range len(id) {
		fmt.Fprintf(&b, "%%%02X", id[i])
	}
	return b.String()
}

func checkCredit(r *rig, id string) error {
	path := "/api/customers/" + escapeAll(id) + "/credit"
	r.put(path, `{"limit":"7","currency":"JPY"}`).wants(200)
	var got struct {
		Items []store.Credit `json:"items"`
	}
	r.get(path).wants(200).into(&got)
	if len(got.Items) != 1 || got.Items[0].CustomerID != id || got.Items[0].Limit != "7" {
		return fmt.Errorf("credit of %q: %+v", id, got.Items)
	}
	return nil
}

func TestStory(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200)
	a := r.get("/api/orders/ORD-2041").wants(200, `"category":"coffee"`, `"priority":"normal"`, `"decision":"refund"`, `"timeline":[{"seq":`)
	var m map[string]json.RawMessage
	a.into(&m)
	for _, name := range []string{"order", "decision", "events", "tickets", "attempts", "ledger", "effects", "timeline"} {
		if _, has := m[name]; !has {
			t.Errorf("no %s in %s", name, a.body)
		}
	}
	if len(m) != 8 {
		t.Errorf("%d members", len(m))
	}
}

type rows struct {
	Items []map[string]any `json:"items"`
	Next  *string          `json:"next"`
}

// walk reads a list page by page and returns one column.
func (r *rig) walk(path, column string, limit int) []any {
	r.t.Helper()
	all := []any{}
	next := ""
	for range 100 {
		var p rows
		r.get(path + fmt.Sprintf("limit=%d&cursor=%s", limit, next)).wants(200).into(&p)
		if len(p.Items) > limit || p.Items == nil {
			r.t.Fatalf("%d items", len(p.Items))
		}
		for _, i := range p.Items {
			all = append(all, i[column])
		}
		if p.Next == nil {
			return all
		}
		next = *p.Next
	}
	r.t.Fatal("the list has no end")
	return nil
}

func TestLists(t *testing.T) {
	r := newRig(t)
	r.get("/api/orders").is(200, `{"items":[],"next":null}`)
	for _, path := range []string{"/api/tickets", "/api/ledger", "/api/effects", "/api/customers/C/credit"} {
		r.get(path).is(200, `{"items":[],"next":null}`)
	}
	for i := range 7 {
		r.post(body(fmt.Sprint("E", i), fmt.Sprintf("ORD-%d%d", i%2, i), "1", oneLine)).wants(200)
		r.exec(fmt.Sprintf(`INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('k%d', 'o', 'refund', 'done')`, 9-i))
		r.exec(fmt.Sprintf(`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('k%d', 'refund', 'o')`, i))
	}
	for _, limit := range []int{1, 2, 3, 7, 500} {
		for _, c := range []struct{ path, column, want string }{
			{"/api/orders?", "order_id", "[ORD-06 ORD-15 ORD-04 ORD-13 ORD-02 ORD-11 ORD-00]"},
			{"/api/orders?q=ORD-1&", "order_id", "[ORD-11 ORD-13 ORD-15]"},
			{"/api/orders?q=%25&", "order_id", "[]"},
			{"/api/tickets?", "id", "[7 6 5 4 3 2 1]"},
			{"/api/tickets?status=pending&effect_type=issue_refund&order_id=ORD-02&", "id", "[3]"},
			{"/api/tickets?status=done&", "id", "[]"},
			{"/api/ledger?", "effect_key", "[k3 k4 k5 k6 k7 k8 k9]"},
			{"/api/effects?", "effect_key", "[k6 k5 k4 k3 k2 k1 k0]"},
		} {
			if got := fmt.Sprint(r.walk(c.path, c.column, limit)); got != c.want {
				t.Errorf("%s limit %d: %s, want %s", c.path, limit, got, c.want)
			}
		}
	}
	var p rows
	r.get("/api/tickets?limit=1").wants(200).into(&p)
	for _, bad := range []string{"limit=0", "limit=501", "limit=x", "limit=-1", "cursor=!", "cursor=eHg", "cursor=" + *p.Next, "q=ORD&cursor=" + *p.Next, "q=%zz"} {
		r.get("/api/orders?"+bad).problem(400, "bad-request")
	}
	r.get("/api/tickets?status=nonsense").problem(400, "bad-request")
}

func TestTicket(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200)
	r.get("/api/tickets/1").wants(200, `{"id":1,"aggregate_id":"ORD-2041",`, `"attempts":0,`, `"history":[]}`)
	for _, id := range []string{"2", "x", "1.0", "99999999999999999999", "%31%2F"} {
		r.get("/api/tickets/"+id).problem(404, "not-found")
	}
	r.get("/api/tickets/%31").wants(200)
}

func TestRelay(t *testing.T) {
	var paused bool
	r := newRig(t, func(o *Options) {
		o.RunRelay = func(context.Context) (RelayRun, error) {
			if paused {
				return RelayRun{}, fmt.Errorf("run: %w", ErrPaused)
			}
			return RelayRun{Claimed: 2, Done: 2}, nil
		}
	})
	r.do("POST", "/api/relay/run", "").is(200, `{"claimed":2,"done":2,"retried":0,"dead":0,"review":0,"offline":0}`)
	paused = true
	if m := r.do("POST", "/api/relay/run", "").problem(409, "conflict"); m["state"] != "paused" {
		t.Errorf("state %v", m["state"])
	}
	r.do("POST", "/api/relay/pause", "").is(200, `{"paused":true}`)
	r.get("/api/stats").wants(200, `"relay":{"paused":true,"last_pass_ms_ago":null}`)
	r.get("/readyz").wants(200) // paused is ready
	r.do("POST", "/api/relay/resume", "").is(200, `{"paused":false}`)
	r.get("/api/stats").wants(200, `"relay":{"paused":false,`)
	if n := r.count(`SELECT count(*) FROM operator_log WHERE who = 'api 127.0.0.1' AND action LIKE 'relay %'`); n != 2 {
		t.Errorf("%d lines in the operator log, want 2", n)
	}
	newRig(t).do("POST", "/api/relay/run", "").problem(404, "not-found")
}

func TestStatsAndGraph(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.TargetNames = []string{"refund"}
		o.Graph = map[string][]map[string]string{"nodes": {{"id": "<b>", "kind": "table", "does": ""}}, "edges": {}, "resources": {}}
	})
	r.post(contractBody).wants(200)
	a := r.get("/api/stats").wants(200, `{"outbox":{"pending":1,"processing":0,"done":0,"dead":0,"review":0,"discarded":0},"oldest_pending_ms":`,
		`"duplicate_effects":0,"database_bytes":`, `"wal_bytes":`, `"targets":{"refund":{"mode":"lab","state":"up"}}`)
	var m map[string]any
	a.into(&m)
	if len(m) != 7 || m["database_bytes"].(float64) < 4096 || m["wal_bytes"].(float64) == 0 {
		t.Errorf("stats %s", a.body)
	}
	r.get("/api/graph").is(200, `{"edges":[],"nodes":[{"does":"","id":"<b>","kind":"table"}],"resources":[]}`)
	r = newRig(t)
	r.get("/api/graph").problem(404, "not-found")
	r.get("/api/stats").wants(200, `"targets":{}`)
}

func TestHealth(t *testing.T) {
	var reasons, warnings []string
	r := newRig(t, func(o *Options) { o.Watch = func() (a, b []string) { return reasons, warnings } })
	r.get("/healthz").is(200, `{"ok":true}`)
	r.get("/readyz").is(200, `{"ready":true}`)
	warnings = []string{"96 % full"}
	r.get("/readyz").is(200, `{"ready":true,"warnings":["96 % full"]}`)
	reasons = []string{"the relay does not come round", "the file is damaged"}
	r.get("/readyz").is(503, `{"ready":false,"reason":"the relay does not come round; the file is damaged","warnings":["96 % full"]}`)
	r.get("/healthz").wants(200)
	reasons, warnings = nil, nil
	r.srv.space = func(string) (store.Space, error) { return store.Space{Free: leastFree - 1}, nil }
	r.get("/readyz").is(503, `{"ready":false,"reason":"the disk is full"}`)
	r.srv.space = func(string) (store.Space, error) { return store.Space{}, errors.New("unknown") }
	r.get("/readyz").wants(200)
	if a := r.do("HEAD", "/healthz", ""); a.status != 200 || a.body != "" {
		t.Errorf("HEAD: %d %q", a.status, a.body)
	}
}

func TestCreditAPI(t *testing.T) {
	r := newRig(t)
	const path = "/api/customers/CUS-7/credit"
	r.put(path, `{"limit":"5000","currency":"MXN"}`).wants(200, `{"customer_id":"CUS-7","currency":"MXN","limit":"5000.00","updated_at":`)
	r.put(path, `{"limit":90071992547409.93,"currency":"USD","note":{"limit":1}}`).wants(200, `"limit":"90071992547409.93"`)
	r.put(path, `{"currency":"MXN","limit":0}`).wants(200, `"limit":"0.00"`)
	r.get(path).wants(200, `{"items":[{"customer_id":"CUS-7","currency":"MXN","limit":"0.00",`, `"limit":"90071992547409.93"`, `"next":null}`)
	r.get("/api/customers/CUS/credit").is(200, `{"items":[],"next":null}`)
	for body, want := range map[string]string{
		``: "400 bad-json", `[]`: "400 bad-json", `{"limit":"1","currency":"MXN"} x`: "400 bad-json", `{"limit":"1","currency":"MXN"`: "400 bad-json",
		"{\"limit\":\"1\",\"currency\":\"MXN\",\"x\":\"\xff\"}": "400 bad-json",
		`{"limit":"1","limit":"2","currency":"MXN"}`:            "400 duplicate-key", `{"Limit":"1","currency":"MXN"}`: "400 duplicate-key",
		`{}`: "422 invalid-credit", `{"limit":"1"}`: "422 invalid-credit", `{"limit":"1","currency":"mxn"}`: "422 invalid-credit",
		`{"limit":"1.001","currency":"MXN"}`: "422 invalid-credit", `{"limit":-1,"currency":"MXN"}`: "422 invalid-credit",
		`{"limit":null,"currency":"MXN"}`: "422 invalid-credit", `{"limit":1e3,"currency":"MXN"}`: "422 invalid-credit",
		`{"limit":"1","currency":5}`: "422 invalid-credit", `{"limit":"1","currency":""}`: "422 invalid-credit",
	} {
		status, name := 0, ""
		if _, err := fmt.Sscan(want, &status, &name); err != nil {
			t.Fatal(err)
		}
		r.put(path, body).problem(status, name)
	}
	m := r.put(path, `{}`).problem(422, "invalid-credit")
	if len(m["errors"].([]any)) != 2 {
		t.Errorf("both faults at once: %v", m)
	}
	r.do("PUT", path, `{"limit":"1","currency":"MXN"}`, "Content-Type", "text/plain").problem(415, "not-json")
	r.put("/api/customers/%20/credit", `{"limit":"1","currency":"MXN"}`).problem(422, "invalid-credit")
	r.get("/api/customers/%0A/credit").problem(422, "invalid-credit")
	r.get("/api/customers//credit").problem(422, "invalid-credit")
	if n := r.count(`SELECT count(*) FROM operator_log WHERE action = 'credit set' AND who LIKE 'api %'`); n != 3 {
		t.Errorf("%d lines in the operator log, want 3", n)
	}
}
