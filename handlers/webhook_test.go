package handlers

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAcceptedThenDuplicate(t *testing.T) {
	r := newRig(t)
	const rest = `,"event_id":"EVT-1","order_id":"ORD-2041","credit_ok":false,"decision":"refund","tickets":["refund:ORD-2041"]}`
	r.post(contractBody).is(200, `{"status":"accepted"`+rest)
	r.post(contractBody).is(200, `{"status":"duplicate"`+rest)
	// Spelling, key order, white space, line order and unknown fields don't count.
	r.post(`{"line_items":[{"quantity":12.0,"sku":"CF-ARA-500"}],"x":[1],"currency":"MXN","amount":"2154",`+
		`"customer_id":"CUS-7","order_id":"ORD-2041","event_id":"EVT-\u0031"}`).is(200, `{"status":"duplicate"`+rest)
	r.holds(1, 1, 1)
	a, err := r.db.Query(context.Background(), `SELECT payload, idempotency_key, effect_type, aggregate_id, status FROM outbox`)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{`{"amount":2154.00,"currency":"MXN"}`, "refund:ORD-2041", "issue_refund", "ORD-2041", "pending"}
	for i, v := range want {
		if a.Rows[0][i] != v {
			t.Errorf("%s = %v, want %v", a.Columns[i], a.Rows[0][i], v)
		}
	}
	if r.count(`SELECT count(*) FROM events WHERE body = $1`, []byte(contractBody)) != 1 {
		t.Error("the event's body is not the raw bytes of its first copy")
	}
}

func TestWithCreditOneTicketPerSKU(t *testing.T) {
	r := newRig(t)
	r.setCredit("2154.00") // the amount itself is within the limit
	r.post(body("E", "a:b%c", "2154", `[{"sku":"A<&>:1","quantity":2},{"sku":"B","quantity":1},{"sku":"A<&>:1","quantity":1}]`)).is(200,
		`{"status":"accepted","event_id":"E","order_id":"a:b%c","credit_ok":true,"decision":"inventory",`+
			`"tickets":["inventory:a%3Ab%25c:A<&>%3A1","inventory:a%3Ab%25c:B"]}`)
	a, err := r.db.Query(context.Background(), `SELECT payload FROM outbox ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	if a.Rows[0][0] != `{"sku":"A<&>:1","quantity":3}` || a.Rows[1][0] != `{"sku":"B","quantity":1}` {
		t.Errorf("payloads %v", a.Rows)
	}
}

func TestAmountsStayExact(t *testing.T) {
	r := newRig(t)
	for order, amounts := range map[string][2]string{
		"9007199254740993": {`90071992547409.93`, "90071992547409.93"}, "3544790567247868102": {`"0.30"`, "0.30"},
		"exp": {`1.5e3`, "1500.00"}, "max": {`999999999999999.99`, "999999999999999.99"},
	} {
		r.post(body("E-"+order, order, amounts[0], oneLine)).wants(200)
		r.get("/api/orders/"+order).wants(200, `"amount":"`+amounts[1]+`"`, `"payload":"{\"amount\":`+amounts[1]+`,`)
	}
}

// Each line of the contract's table of refusals; none of them keeps anything but the refused body.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	big := strings.Repeat(" ", maxBody)
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		problem                 string
	}{
		{"no JSON", `{`, "application/json", 400, "bad-json"},
		{"empty", ``, "application/json", 400, "bad-json"},
		{"trailing data", contractBody + `{}`, "application/json", 400, "bad-json"},
		{"invalid UTF-8", "{\"event_id\":\"\xff\"}", "application/json", 400, "bad-json"},
		{"a key twice", `{"event_id":"A","event_id":"A"}`, "application/json", 400, "duplicate-key"},
		{"another case", `{"Event_ID":"A"}`, "application/json", 400, "duplicate-key"},
		{"too large", big + contractBody, "application/json", 413, "too-large"},
		{"no type", contractBody, "", 415, "not-json"},
		{"form", contractBody, "application/x-www-form-urlencoded", 415, "not-json"},
		{"+json", contractBody, "application/cloudevents+json", 415, "not-json"},
		{"event_id empty", body("", "O", "1", oneLine), "application/json", 422, "invalid-order"},
		{"event_id blank", body(" ", "O", "1", oneLine), "application/json", 422, "invalid-order"},
		{"event_id null", strings.Replace(contractBody, `"EVT-1"`, `null`, 1), "application/json", 422, "invalid-order"},
		{"event_id 0", strings.Replace(contractBody, `"EVT-1"`, `0`, 1), "application/json", 422, "invalid-order"},
		{"event_id 65 kB", body(strings.Repeat("x", 65<<10), "O", "1", oneLine), "application/json", 422, "invalid-order"},
		{"lone surrogate", strings.Replace(contractBody, `EVT-1`, `\ud800`, 1), "application/json", 422, "invalid-order"},
		{"1e400", body("E", "O", "1e400", oneLine), "application/json", 422, "invalid-order"},
		{"an array", `[]`, "application/json", 422, "invalid-order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do("POST", "/webhooks/orders", c.body, "Content-Type", c.contentType)
			m := a.problem(c.status, c.problem)
			if _, has := m["errors"]; has != (c.problem == "invalid-order") {
				t.Errorf("errors: %v in %s", has, a.body)
			}
		})
	}
	r.holds(0, 0, 0)
	m := r.post(body("", "O", "-1", `[{"sku":"S","quantity":"2"}]`)).problem(422, "invalid-order")
	if len(m["errors"].([]any)) != 3 {
		t.Errorf("three faults at once: %v", m["errors"])
	}
}

func TestRefusedReservesNothing(t *testing.T) {
	r := newRig(t)
	r.post(body("E", "O", "-1", oneLine)).problem(422, "invalid-order")
	r.post(body("E", "O", "1", oneLine)).wants(200, `"accepted"`)
}

func TestContentTypes(t *testing.T) {
	r := newRig(t)
	for _, good := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset", "application/json;"} {
		r.do("POST", "/webhooks/orders", contractBody, "Content-Type", good).wants(200)
	}
	r.do("POST", "/webhooks/orders", contractBody, "Content-Type", "application/json", "Content-Encoding", "identity").wants(200)
	for _, bad := range []string{"gzip", "identity, gzip", "br"} {
		r.do("POST", "/webhooks/orders", contractBody, "Content-Type", "application/json", "Content-Encoding", bad).problem(415, "not-json")
	}
}

// A sender that writes all of its body before it reads still sees the 413.
func TestLargeBodyIsReadAndDropped(t *testing.T) {
	r := newRig(t)
	r.post(strings.Repeat(" ", maxBody-len(contractBody)) + contractBody).wants(200)
	for _, size := range []int{maxBody + 1, dropBody - 1, dropBody, dropBody + 1} {
		conn, err := net.Dial("tcp", r.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		head := "POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
		if _, err := conn.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
		chunk := bytes.Repeat([]byte(" "), 1<<16)
		for left := size; left > 0; left -= len(chunk) {
			chunk = chunk[:min(left, len(chunk))]
			if err := writeChunk(conn, chunk); err != nil {
				t.Fatalf("%d bytes: the connection broke with %d to send: %v", size, left, err)
			}
		}
		if _, err := conn.Write([]byte("0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12)
		if _, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413") {
			t.Errorf("%d bytes: %q, %v", size, answer, err)
		}
		_ = conn.Close()
	}
}

// endless is a body without an end that counts what was read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) { e.read += len(p); return len(p), nil }
func (e *endless) Close() error               { return nil }

func TestNoMoreThanFourMiBAreRead(t *testing.T) {
	b := &endless{}
	r := httptest.NewRequest("POST", "/webhooks/orders", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Body = b
	kept, err := readJSON(r)
	if p := problemOf(err); p.Name != "too-large" || b.read != dropBody || len(kept) != maxBody+1 {
		t.Errorf("%v; %d bytes read, %d kept", p, b.read, len(kept))
	}
}

func writeChunk(conn net.Conn, b []byte) error {
	_, err := conn.Write([]byte(strings.ToLower(hex(len(b))) + "\r\n" + string(b) + "\r\n"))
	return err
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hex(n/16) + digits[n%16:n%16+1]
}

func TestNoHTMLEscaping(t *testing.T) {
	r := newRig(t)
	r.post(body("E<&>", "O<&>", "1", `[{"sku":"é<&>😀","quantity":1}]`)).wants(200, `"event_id":"E<&>"`, `"refund:O<&>"`)
	r.get("/api/orders?q=O%3C").wants(200, `"order_id":"O<&>"`, `é<&>😀`)
	r.get("/api/tickets").wants(200, `"refund:O<&>"`)
	r.get("/api/orders/O%3C&%3E").wants(200, `"event_id":"E<&>"`)
}

func TestRequestID(t *testing.T) {
	r := newRig(t)
	if got := r.do("GET", "/healthz", "", "X-Request-Id", "abc-1/2").header.Get("X-Request-Id"); got != "abc-1/2" {
		t.Errorf("a sane id came back as %q", got)
	}
	for _, bad := range []string{"", "a b", `a"b`, "é", strings.Repeat("x", 101)} {
		if got := r.do("GET", "/healthz", "", "X-Request-Id", bad).header.Get("X-Request-Id"); got == bad || got == "" {
			t.Errorf("id %q came back as %q", bad, got)
		}
	}
	r.post(contractBody).wants(200)
	for _, want := range []string{`"msg":"request"`, `"result":"accepted"`, `"event_id":"EVT-1"`, `"order_id":"ORD-2041"`, `"status":200`, `"path":"/webhooks/orders"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

func TestCrossOrigin(t *testing.T) {
	r := newRig(t)
	r.do("POST", "/webhooks/orders", contractBody, "Content-Type", "application/json", "Origin", "https://evil.example").problem(403, "cross-origin")
	r.do("POST", "/api/relay/pause", "", "Sec-Fetch-Site", "cross-site").problem(403, "cross-origin")
	r.do("PUT", "/api/customers/C/credit", `{}`, "Sec-Fetch-Site", "same-site").problem(403, "cross-origin")
	r.holds(0, 0, 0)
	r.do("POST", "/api/relay/pause", "", "Origin", r.http.URL).wants(200)
	r.do("GET", "/healthz", "", "Origin", "https://evil.example").wants(200)
	if r.srv.HTTPServer().Handler != http.Handler(r.srv) {
		t.Error("the server serves something else")
	}
}
