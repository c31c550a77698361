package schema

import (
	"database/sql"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lesson are the lesson's own INSERTs, without PostgreSQL's ::jsonb and with its example for the
// braces of the workflow tool.
var lesson = []string{
	`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
	 VALUES ('ORD-2041', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-2041', 'pending')
	 ON CONFLICT (idempotency_key) DO NOTHING`,
	`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:ORD-2041', 'refund', 'ORD-2041')`,
	`INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('refund:ORD-2041', 'ORD-2041', 'refund', 'done')
	 ON CONFLICT (effect_key) DO NOTHING`,
	`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
	 VALUES ('ORD-2042', 'inventory_sync', '{"sku":"CF-ARA-500","quantity":12}', 'inventory:ORD-2042:CF-ARA-500', 'pending')
	 ON CONFLICT (idempotency_key) DO NOTHING`,
}

// checkLesson looks at what the lesson's INSERTs, each run twice, have left.
func checkLesson(t *testing.T, db *sql.DB, began time.Time) {
	t.Helper()
	want(t, db, `SELECT count(*) FROM outbox`, "2")
	want(t, db, `SELECT count(*) FROM ledger WHERE how = 'by hand'`, "1")
	want(t, db, `SELECT count(*) FROM external_effects_log`, "2") // not unique: the instrument shows a duplicate
	want(t, db, `SELECT payload FROM outbox WHERE id = 1`, `{"amount":2154.00,"currency":"MXN"}`)
	want(t, db, `SELECT count(*) FROM outbox WHERE status = 'pending' AND attempts = 0 AND due_at = 0 AND processed_at IS NULL AND claim_token IS NULL`, "2")
	// One sequence over all tables, in the order in which the rows came, with nothing wasted on duplicates.
	want(t, db, `SELECT kind FROM (SELECT 'ticket' AS kind, seq FROM outbox UNION ALL SELECT 'effect', seq FROM external_effects_log
		UNION ALL SELECT 'ledger', seq FROM ledger) ORDER BY seq`, "ticket effect ledger ticket effect")
	want(t, db, `SELECT value FROM sequence`, "5")
	for _, column := range []string{"created_at FROM outbox", "created_at FROM ledger", "occurred_at FROM external_effects_log"} {
		for _, text := range strings.Fields(look(t, db, "SELECT "+column)) {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil || ms < began.UnixMilli()-2 || ms > time.Now().UnixMilli()+2 {
				t.Errorf("%s is %s, want milliseconds of now", column, text)
			}
		}
	}
}

func TestLessonInserts(t *testing.T) {
	db, _ := newFile(t)
	began := time.Now()
	for range 2 {
		for _, statement := range lesson {
			mustExec(t, db, statement)
		}
	}
	checkLesson(t, db, began)
}

// The same from the system's own SQLite shell, however old that is.
func TestLessonInsertsFromTheShell(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3 shell on this system")
	}
	db, path := newFile(t)
	mustExec(t, db, `PRAGMA journal_mode = WAL`)
	began := time.Now()
	script := strings.Join(lesson, ";\n") + ";\n"
	cmd := exec.Command(shell, "-bail", path)
	cmd.Stdin = strings.NewReader(script + script)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("the shell said %v %s", err, out)
	}
	checkLesson(t, db, began)
	out, err := exec.Command(shell, "-bail", path, "SELECT count(*) FROM outbox_v JOIN ledger_v ON effect_key = idempotency_key;").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "1" {
		t.Errorf("the shell reads the views as %q, %v", got, err)
	}
}

// The views show times as ISO text, and the same rows otherwise.
func TestViewsShowISO(t *testing.T) {
	db, _ := newFile(t)
	const ms, iso = "1796119200123", "2026-12-01T10:00:00.123Z"
	at := time.UnixMilli(1796119200123).UTC().Format("2006-01-02T15:04:05.000Z")
	if at != iso {
		t.Fatalf("%s ms is %s", ms, at)
	}
	mustExec(t, db, insert("outbox", "created_at", ms, "processed_at", ms, "claimed_at", ms, "status", "'done'"))
	mustExec(t, db, insert("ledger", "created_at", ms))
	mustExec(t, db, insert("external_effects_log", "occurred_at", ms))
	mustExec(t, db, insert("events", "received_at", ms, "body", "CAST('{\"ñ\":1}' AS BLOB)"))
	mustExec(t, db, insert("orders", "decided_at", ms))
	for _, column := range []string{"created_at FROM outbox_v", "processed_at FROM outbox_v", "claimed_at FROM outbox_v", "created_at FROM ledger_v",
		"occurred_at FROM external_effects_log_v", "received_at FROM events_v", "decided_at FROM orders_v"} {
		want(t, db, "SELECT "+column, iso)
	}
	want(t, db, `SELECT body FROM events_v`, `{"ñ":1}`)
	mustExec(t, db, insert("outbox", "idempotency_key", "'waits'"))
	want(t, db, `SELECT count(*) FROM outbox_v WHERE processed_at IS NULL AND claimed_at IS NULL`, "1")
	mustExec(t, db, insert("ledger", "effect_key", "'old'", "created_at", "-1"))
	want(t, db, `SELECT created_at FROM ledger_v WHERE effect_key = 'old'`, "1969-12-31T23:59:59.999Z")
}

// The contract's promised columns are there, and whatever stands beside them has a default.
func TestPromisedColumns(t *testing.T) {
	db, _ := newFile(t)
	for table, columns := range map[string]string{
		"ledger":               "effect_key order_id effect_type status created_at how",
		"outbox":               "id aggregate_id effect_type payload idempotency_key status attempts created_at processed_at",
		"external_effects_log": "id effect_key effect_type order_id occurred_at",
		"events":               "event_id order_id body received_at",
		"orders":               "order_id event_id customer_id amount currency category priority credit_ok decision decided_at",
	} {
		promised := strings.Fields(columns)
		there := strings.Fields(look(t, db, `SELECT name FROM pragma_table_info('`+table+`')`))
		if got := strings.Join(there[:min(len(there), len(promised))], " "); table != "ledger" && got != columns {
			t.Errorf("%s begins with the columns %s, want %s", table, got, columns)
		}
		needed := look(t, db, `SELECT name FROM pragma_table_info('`+table+`') WHERE "notnull" AND dflt_value IS NULL AND NOT pk`)
		for _, name := range strings.Fields(needed) {
			if !strings.Contains(" "+columns+" ", " "+name+" ") {
				t.Errorf("%s.%s is not promised and has no default", table, name)
			}
		}
		for _, name := range promised {
			want(t, db, `SELECT count(*) FROM pragma_table_info('`+table+`') WHERE name = '`+name+`'`, "1")
		}
	}
	mustExec(t, db, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('O', 'issue_refund', '{}', 'once')`)
	mustExec(t, db, `DELETE FROM outbox`)
	mustExec(t, db, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('O', 'issue_refund', '{}', 'once')`)
	want(t, db, `SELECT id FROM outbox`, "2") // AUTOINCREMENT: an id is never given twice
}
