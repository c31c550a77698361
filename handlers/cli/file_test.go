package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// shop is a file with one decided and carried out order, and a bench whose commands use it.
func shop(t *testing.T) (*bench, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := store.Open(t.Context(), path, store.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := store.Order{OrderID: "ORD-1", EventID: "EVT-1", CustomerID: "CUS-7", Amount: "21.00", Currency: "MXN", Category: "retail",
		Priority: "normal", Decision: "refund", LineItems: store.JSON(`[{"sku":"CF-ARA-500","quantity":12}]`)}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Record(store.Decision{
			Event: store.Event{EventID: "EVT-1", OrderID: "ORD-1", Body: []byte("{\"a\":\"<&>\",\n \"b\":\"\u202e\"}"), Digest: make([]byte, 32), Outcome: "decided"},
			Order: &o, Tickets: []store.NewTicket{{OrderID: "ORD-1", EffectType: "issue_refund", Payload: `{"amount":21.00}`, Key: "refund:ORD-1"}},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := db.Claim(t.Context(), store.ClaimRequest{Limit: 1, Lease: time.Minute, Holder: "0000000000000001"})
	if err != nil || len(claim.Tickets) != 1 {
		t.Fatalf("claim: %+v, %v", claim, err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.SettleLocal(claim.Token, claim.Tickets[:1], "refund")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return newBench("COMANDA_DB=" + path), path
}

func (b *bench) must(t *testing.T, args ...string) string {
	t.Helper()
	if code := b.run(args...); code != 0 || b.err.Len() > 0 {
		t.Fatalf("%q exits %d: %s", args, code, b.err.String())
	}
	return b.out.String()
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	if d.More() {
		t.Errorf("more than one document: %s", text)
	}
	return v
}

func TestCreditBook(t *testing.T) {
	b := newBench()
	path := filepath.Join(t.TempDir(), "new.db")
	at := func(args ...string) []string { return append(args, "--db", path) }
	if got := b.must(t, at("credit", "set", "CUS-7", "5000", "MXN")...); got != "CUS-7 has credit up to 5000.00 MXN\n" {
		t.Errorf("credit set says %q", got)
	}
	b.must(t, at("credit", "set", "CUS-7", "5.000", "JPY")...)
	b.must(t, at("credit", "set", "CUS-7", "4000.50", "MXN")...)
	set := decode[store.Credit](t, b.must(t, at("credit", "set", "a\u202eb<", "1", "KWD", "--json")...))
	if set.CustomerID != "a\u202eb<" || set.Limit != "1.000" || set.UpdatedAt == 0 || strings.Contains(b.out.String(), `\u003c`) {
		t.Errorf("credit set --json: %s", b.out.String())
	}
	if got := decode[store.Credit](t, b.must(t, at("credit", "get", "CUS-7", "MXN", "--json")...)); got.Limit != "4000.50" {
		t.Errorf("credit get: %+v", got)
	}
	if got := decode[[]store.Credit](t, b.must(t, at("credit", "get", "CUS-7", "--json")...)); len(got) != 2 || got[0].Limit != "5" {
		t.Errorf("credit get: %+v", got)
	}
	if got := decode[[]store.Credit](t, b.must(t, at("credit", "list", "--json")...)); len(got) != 3 {
		t.Errorf("credit list: %+v", got)
	}
	b.program.Terminal = true
	if got := b.must(t, at("credit", "list")...); !strings.HasPrefix(got, "customer") || !strings.Contains(got, `a\u202eb<`) || strings.Count(got, "\n") != 4 {
		t.Errorf("credit list:\n%s", got)
	}
	b.failed(t, exitFailed, "credit set", at("credit", "get", "CUS-8")...)
	b.failed(t, exitFailed, "USD", at("credit", "get", "CUS-7", "USD")...)
	log := b.must(t, at("sql", "SELECT who, action, subject FROM operator_log ORDER BY id LIMIT 1")...)
	if !strings.Contains(log, "cli ") || !strings.Contains(log, "credit set") || !strings.Contains(log, "CUS-7") {
		t.Errorf("the operator log says %s", log)
	}
}

func TestALongCreditBookIsListedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.db")
	db, err := store.Open(t.Context(), path, store.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		for i := range 2*page + 1 {
			c := store.Credit{CustomerID: "C" + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)), Currency: "MXN", Limit: "1.00"}
			if i >= 1000 {
				c.Currency = "USD"
			}
			if err := tx.SetCredit(c, "test"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := decode[[]store.Credit](t, newBench().must(t, "credit", "list", "--json", "--db", path)); len(got) != 2*page+1 {
		t.Errorf("%d limits instead of %d", len(got), 2*page+1)
	}
}

func TestStories(t *testing.T) {
	b, _ := shop(t)
	text := b.must(t, "order", "show", "ORD-1")
	for _, part := range []string{"order ORD-1: refund", "21.00 MXN", "12 × CF-ARA-500", "seq ", "event EVT-1 accepted", "  decided  ", "ledger", "effect", "Z  "} {
		if !strings.Contains(text, part) {
			t.Errorf("the story does not tell %q:\n%s", part, text)
		}
	}
	if lines := strings.Split(strings.TrimSpace(text), "\n"); lines[len(lines)-1] != "refund: 1 effect" {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	story := decode[struct {
		Order    *store.Order
		Decision string
		Events   []map[string]any
		Effects  []store.EffectRow
		Timeline []store.Moment
	}](t, b.must(t, "order", "show", "ORD-1", "--json"))
	if story.Order == nil || story.Decision != "refund" || len(story.Timeline) < 5 || len(story.Effects) != 1 || len(story.Events) != 1 {
		t.Errorf("order show --json: %+v", story)
	}
	b.failed(t, exitFailed, "ORD-2", "order", "show", "ORD-2")
	refund, inventory := "refund", "inventory"
	for want, story := range map[string]store.Story{
		"0 effects": {}, "refund: 0 effects": {Decision: &refund}, "inventory: 2 effects": {Decision: &inventory, Effects: []store.EffectRow{{EffectType: inventory}, {EffectType: inventory}}},
		"refund: 0 effects, inventory: 1 effect": {Decision: &refund, Effects: []store.EffectRow{{EffectType: inventory}}},
	} {
		if got := effectCount(story); got != want {
			t.Errorf("the last line is %q instead of %q", got, want)
		}
	}

	text = b.must(t, "events", "show", "EVT-1")
	if !strings.Contains(text, "event EVT-1: decided") || !strings.Contains(text, "\n  {\"a\":\"<&>\",\n") || !strings.Contains(text, "order ORD-1: refund") {
		t.Errorf("events show:\n%s", text)
	}
	event := decode[struct {
		Event   map[string]any
		Order   *store.Order
		Differs []string
	}](t, b.must(t, "events", "show", "EVT-1", "--json"))
	if event.Event["body"] != "{\"a\":\"<&>\",\n \"b\":\"\u202e\"}" || event.Order == nil || !strings.Contains(b.out.String(), "<&>") {
		t.Errorf("events show --json: %s", b.out.String())
	}
	b.program.Terminal = true
	if text := b.must(t, "events", "show", "EVT-1"); strings.Contains(text, "\u202e") {
		t.Error("a mark that turns the direction of writing reached the terminal")
	}
	b.failed(t, exitFailed, "EVT-2", "events", "show", "EVT-2")
}

func TestTickets(t *testing.T) {
	b, path := shop(t)
	inserts(t, path, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('ORD-2', 'inventory_sync', '{}', 'k2'), ('ORD-3', 'inventory_sync', '{}', 'k3')`)
	for args, ids := range map[string][]int64{
		"": {3, 2, 1}, "--status done": {1}, "--status dead": {}, "--effect-type inventory_sync": {3, 2}, "--order ORD-2": {2}, "--limit 2": {3, 2}, "--order ORD-2 --status done": {},
	} {
		got := decode[[]store.Ticket](t, b.must(t, append([]string{"tickets", "list", "--json"}, strings.Fields(args)...)...))
		if len(got) != len(ids) {
			t.Errorf("tickets list %s: %d tickets instead of %d", args, len(got), len(ids))
			continue
		}
		for i, id := range ids {
			if got[i].ID != id {
				t.Errorf("tickets list %s: ticket %d instead of %d", args, got[i].ID, id)
			}
		}
	}
	if text := b.must(t, "tickets", "list", "--limit", "2"); !strings.Contains(text, "older ones") || strings.Count(text, "\n") != 5 {
		t.Errorf("tickets list --limit 2:\n%s", text)
	}
	if text := b.must(t, "tickets", "list", "--status", "dead"); text != "no such tickets\n" {
		t.Errorf("an empty list: %q", text)
	}
	if text := b.must(t, "tickets", "show", "1"); !strings.Contains(text, "ticket 1: done") || !strings.Contains(text, "refund:ORD-1") {
		t.Errorf("tickets show:\n%s", text)
	}
	shown := decode[struct {
		Ticket   store.Ticket
		Attempts []store.Attempt
	}](t, b.must(t, "tickets", "show", "1", "--json"))
	if shown.Ticket.Key != "refund:ORD-1" || shown.Attempts == nil {
		t.Errorf("tickets show --json: %+v", shown)
	}
	b.failed(t, exitFailed, "9", "tickets", "show", "9")
	inserts(t, path, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1001)
		INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) SELECT 'ORD-4', 'inventory_sync', '{}', 'many' || i FROM n`)
	if got := decode[[]store.Ticket](t, b.must(t, "tickets", "list", "--json", "--limit", "1003")); len(got) != 1003 || got[1002].ID != 2 {
		t.Errorf("a long list has %d tickets", len(got))
	}
}

func inserts(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSQL(t *testing.T) {
	b, _ := shop(t)
	text := b.must(t, "sql", `SELECT 'a' || char(9) || char(27) AS "left", NULL AS n, 1.5 AS r, x'ff00' AS b, 7 AS i`)
	if want := "left     n     r    b        i\na\\t\\x1b  NULL  1.5  X'FF00'  7\n"; text != want {
		t.Errorf("sql:\n%s\ninstead of\n%s", text, want)
	}
	if text := b.must(t, "sql", "SELECT count(*) FROM external_effects_log WHERE order_id='ORD-1' AND effect_type='refund';"); text != "count(*)\n1\n" {
		t.Errorf("the measure: %q", text)
	}
	rows := b.must(t, "sql", "--json", `SELECT 9007199254740993 AS z, 1 AS a, 2 AS a, '<' AS lt, 9e999 AS inf, NULL AS n, x'ff' AS b UNION ALL SELECT 1,2,3,4,5,6,7`)
	if got := decode[[]map[string]any](t, rows); len(got) != 2 || got[0]["a"] != 1.0 || got[0]["a:2"] != 2.0 || got[0]["n"] != nil || got[0]["b"] != "X'FF'" {
		t.Errorf("sql --json: %s", rows)
	}
	if !strings.Contains(rows, "9007199254740993") || !strings.Contains(rows, `"<"`) || strings.Index(rows, `"z"`) > strings.Index(rows, `"a"`) {
		t.Errorf("sql --json: %s", rows)
	}
	if text := b.must(t, "sql", "--json", "SELECT 1 WHERE 0"); text != "[]\n" {
		t.Errorf("no row: %q", text)
	}
}

func TestSQLOnlyReads(t *testing.T) {
	b, path := shop(t)
	attached := filepath.Join(filepath.Dir(path), "attached.db")
	for _, query := range []string{
		"INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('k', 'o', 't', 'done')", "DELETE FROM outbox",
		"UPDATE outbox SET attempts = 0", "DROP TABLE outbox", "PRAGMA user_version = 77", "PRAGMA query_only = OFF; DELETE FROM outbox",
		"ATTACH '" + attached + "' AS x", "COMMIT; ATTACH '" + attached + "' AS x", "VACUUM INTO '" + attached + "'", "CREATE TABLE t (a)",
	} {
		b.failed(t, exitFailed, "", "sql", query)
	}
	if _, err := os.Stat(attached); err == nil {
		t.Error("a file was made")
	}
	b.failed(t, exitFailed, "syntax", "sql", "SELEKT 1")
	b.failed(t, exitFailed, "no such table", "sql", "SELECT * FROM nowhere")
	if text := b.must(t, "sql", "SELECT count(*) AS n FROM outbox"); text != "n\n1\n" {
		t.Errorf("afterwards: %q", text)
	}
}

func TestSQLIsInterrupted(t *testing.T) {
	b, _ := shop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	code := Run(ctx, []string{"sql", "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"}, b.program)
	if code != exitFailed || !strings.Contains(b.err.String(), "interrupted") {
		t.Errorf("exits %d: %s", code, b.err.String())
	}
}

func TestDoctor(t *testing.T) {
	b, path := shop(t)
	text := b.must(t, "doctor")
	for _, part := range []string{"SELECT count(*) FROM outbox WHERE status <> 'done';", "PRAGMA integrity_check", "ok       invariant: no effect twice", " 0 wrong, "} {
		if !strings.Contains(text, part) {
			t.Errorf("the report does not tell %q:\n%s", part, text)
		}
	}
	inserts(t, path, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('ORD-2', 'inventory_sync', '{}', 'k2')`)
	if text := b.must(t, "doctor"); !strings.Contains(text, "warning  tickets waiting: 1") || !strings.Contains(text, "`comanda relay --db ") {
		t.Errorf("a ticket that waits must be a warning and exit 0:\n%s", text)
	}
	inserts(t, path, `INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:ORD-1', 'refund', 'ORD-1')`)
	if code := b.run("doctor"); code != exitFailed || !strings.Contains(b.out.String(), "wrong    invariant: no effect twice: 1 row: refund:ORD-1 2") || !strings.Contains(b.err.String(), "no effect twice") {
		t.Errorf("an effect twice: exits %d: %s%s", code, b.err.String(), b.out.String())
	}
	if code := b.run("doctor", "--json"); code != exitFailed {
		t.Errorf("--json exits %d", code)
	}
	report := decode[struct {
		OK              bool
		Wrong, Warnings int
		Checks          []store.Check
	}](t, b.out.String())
	if report.OK || report.Wrong != 1 || report.Warnings == 0 || len(report.Checks) < 25 {
		t.Errorf("the report: %+v", report)
	}
}

func TestDoctorOfADamagedFile(t *testing.T) {
	b := newBench()
	path := filepath.Join(t.TempDir(), "junk.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("junk ", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.run("doctor", "--db", path); code != exitFailed || !strings.Contains(b.out.String(), "wrong    open") || !strings.HasPrefix(b.err.String(), "comanda: doctor found") {
		t.Errorf("exits %d: %s%s", code, b.err.String(), b.out.String())
	}
	b.failed(t, exitUsage, "junk.db", "order", "show", "ORD-1", "--db", path)
}

// Names, bodies and what a target said come from elsewhere: no listing lets them act on a terminal or look like
// another name, and as JSON they stay what they are.
func TestListingsObeyNobody(t *testing.T) {
	b, path := shop(t)
	b.program.Terminal = true
	quoted := "'" + strings.ReplaceAll(hostile, "'", "''") + "'"
	inserts(t, path,
		`INSERT INTO events (event_id, order_id, body, digest, outcome, received_at, source, webhook_id) VALUES (`+quoted+`, `+quoted+`, CAST(`+quoted+` AS BLOB), zeroblob(32), 'already_decided', 1, '', `+quoted+`)`,
		`INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, line_items)
			VALUES (`+quoted+`, `+quoted+`, `+quoted+`, '1.00', 'MXN', 'retail', 'normal', 1, 'inventory', 1, json_array(json_object('sku', `+quoted+`, 'quantity', 1)))`,
		`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, detail, processed_at) VALUES (`+quoted+`, 'inventory_sync', `+quoted+`, 'k'||`+quoted+`, 'dead', `+quoted+`, 1)`,
		`INSERT INTO credit_limits (customer_id, currency, limit_amount, updated_at) VALUES (`+quoted+`, 'MXN', '5.00', 1)`,
	)
	for _, args := range [][]string{
		{"order", "show", hostile}, {"receipt", hostile}, {"events", "show", hostile}, {"tickets", "list"}, {"tickets", "show", "2"}, {"credit", "list"},
		{"sql", "SELECT * FROM outbox"}, {"tickets", "retry", "2", "--reason", hostile}, {"targets", "list"}, {"doctor"},
	} {
		for _, format := range []string{"", "--json"} {
			if format != "" {
				args = append([]string{args[0]}, append(args[1:len(args):len(args)], format)...)
			}
			code := b.run(args...)
			shown := b.out.String() + b.err.String()
			if found := betrayed(shown); found != nil {
				t.Errorf("%q: %+q got through", args, found)
			}
			if strings.Contains(shown, "\nlevel=ERROR") {
				t.Errorf("%q: a line was forged:\n%s", args, shown)
			}
			if code != 0 && args[0] != "doctor" {
				t.Errorf("%q exits %d: %s", args, code, &b.err)
			}
			if format != "" && !json.Valid(b.out.Bytes()) {
				t.Errorf("%q: not JSON any more: %s", args, &b.out)
			}
		}
	}
	if list := decode[[]store.Ticket](t, b.must(t, "tickets", "list", "--json", "--order", hostile)); len(list) != 1 || list[0].AggregateID != hostile {
		t.Errorf("as JSON it reads otherwise: %+v", list)
	}
}
