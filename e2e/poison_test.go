package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Payloads that somebody, or a disk, has spoilt.
var spoilt = map[string]string{
	"bytes that are no text": `CAST(X'FFFE00C3' AS TEXT)`,
	"cut short":              `'{"amount":2154.00,"curr'`,
	"a zero byte in it":      `'{"amount":2154.00' || char(0) || ',"currency":"MXN"}'`,
	"nothing":                `''`,
	"not an object":          `'[1,2,3]'`,
	"two objects":            `'{"amount":1.00,"currency":"MXN"}{}'`,
	"no number":              `'{"amount":"much","currency":"MXN"}'`,
	"deep":                   `replace(hex(zeroblob(20000)), '00', '[')`,
}

// A ticket whose payload can't be read is set aside at its first try, whatever is in it, with the reason, and can be
// looked at; those before and after it are carried out.
func TestSpoiltTicketsAreSetAside(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay"))(t)
	for i := range 20 {
		order := fmt.Sprintf("ORD-%d", i)
		if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-"+order, order, "CUS-7", "2154.00", line{"A", 1})))(t); a.code != http.StatusOK {
			t.Fatal(a)
		}
	}
	id := 0
	for what, payload := range spoilt {
		id += 2
		o := must(openOutside(p.file))(t)
		must(o.exec(t.Context(), fmt.Sprintf("UPDATE outbox SET payload = %s WHERE id = %d", payload, id)))(t)
		if err := o.close(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	r := must(p.relay("relay", ""))(t)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := len(spoilt)
	for query, want := range map[string]string{
		`SELECT count(*) FROM outbox WHERE status = 'done'`:                                                                  fmt.Sprint(20 - n),
		`SELECT count(*) FROM external_effects_log`:                                                                          fmt.Sprint(20 - n),
		`SELECT count(*) FROM outbox WHERE status = 'review' AND attempts = 1 AND detail LIKE 'undecodable payload: %'`:      fmt.Sprint(n),
		`SELECT count(*) FROM attempts JOIN outbox ON outbox.id = ticket_id WHERE outcome = 'undecodable' AND attempts = 1;`: fmt.Sprint(n),
	} {
		if got := must(p.query(t.Context(), query))(t); got != want {
			t.Errorf("%s: %s, want %s; %s", query, got, want, must(p.query(t.Context(), `SELECT id, status, attempts, detail FROM outbox WHERE status <> 'done'`))(t))
		}
	}
	stdout, stderr, code := run(t, nil, p.exe, "tickets", "list", "--status", "review", "--json", "--db", p.file)
	if code != 0 || strings.Count(stdout, `"id"`) != n {
		t.Errorf("tickets list exits %d: %s%s", code, stdout, stderr)
	}
	for i := range n {
		if a := said(t, must(http.Get(fmt.Sprintf("%s/api/tickets/%d", s.url, 2*i+2)))(t)); !strings.HasPrefix(a, "200") {
			t.Errorf("a spoilt ticket is shown as %.200s", a)
		}
	}
	if stdout, _, code := run(t, nil, p.exe, "doctor", "--db", p.file); code != 0 || !strings.Contains(stdout, fmt.Sprintf("tickets in review: %d", n)) {
		t.Errorf("doctor exits %d:\n%s", code, stdout)
	}
	if err := p.endAll(t.Context(), r, s); err != nil {
		t.Error(err)
	}
}
