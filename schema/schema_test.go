package schema

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// newFile makes a file with every step, as plain SQLite.
func newFile(t *testing.T) (db *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "comanda.db")
	db, err := sql.Open("sqlite", "file://"+path+"?_foreign_keys=ON&_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	steps, err := Steps()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if _, err := db.Exec(s.SQL); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
	}
	return db, path
}

func mustExec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// look reads the first column of an answer as text, its rows joined by spaces.
func look(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one any
		if err := rows.Scan(&one); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, fmt.Sprint(one))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(all, " ")
}

func want(t *testing.T, db *sql.DB, text, answer string) {
	t.Helper()
	if got := look(t, db, text); got != answer {
		t.Errorf("%s: got %q, want %q", text, got, answer)
	}
}

func TestStepsAreNumberedAndSummed(t *testing.T) {
	steps, err := Steps()
	if err != nil || len(steps) == 0 {
		t.Fatalf("Steps: %d, %v", len(steps), err)
	}
	for i, s := range steps {
		text, err := os.ReadFile(filepath.Join("steps", s.Name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if s.Version != i+1 || !strings.HasPrefix(s.Name, fmt.Sprintf("%04d_", i+1)) || s.SQL != string(text) || s.Checksum != hex.EncodeToString(sum[:]) {
			t.Errorf("step %d is %d %s %s", i+1, s.Version, s.Name, s.Checksum)
		}
	}
}

// SQLite 3.37 is what a shop's box may have: nothing newer stands in the schema, and every table is STRICT.
func TestSchemaKnowsOnlyOldSQLite(t *testing.T) {
	steps, err := Steps()
	if err != nil {
		t.Fatal(err)
	}
	newer := regexp.MustCompile(`(?i)->>|\bunixepoch\s*\(|\btimediff\s*\(|\bconcat(_ws)?\s*\(|'subsec|\bstring_agg\b|\bjsonb|\bjson_(pretty|error_position)\b|RIGHT JOIN|FULL (OUTER )?JOIN|IS (NOT )?DISTINCT|\bfilter\s*\(`)
	for _, s := range steps {
		if found := newer.FindString(s.SQL); found != "" {
			t.Errorf("%s uses %s, which SQLite 3.37 does not know", s.Name, found)
		}
	}
	db, _ := newFile(t)
	want(t, db, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'`, "")
}

// A good row of each table that has constraints, as column, value, column, value …
var good = map[string][]string{
	"ledger": {"effect_key", "'k'", "order_id", "'o'", "effect_type", "'refund'", "status", "'done'", "created_at", "1"},
	"outbox": {"aggregate_id", "'o'", "effect_type", "'issue_refund'", "payload", "'{}'", "idempotency_key", "'k'", "status", "'pending'",
		"attempts", "0", "created_at", "1", "processed_at", "NULL", "due_at", "0", "claim_token", "NULL", "lease_holder", "NULL", "lease_ms", "NULL",
		"failures", "0", "crashes", "0"},
	"external_effects_log": {"effect_key", "'k'", "effect_type", "'refund'", "order_id", "'o'", "occurred_at", "1"},
	"events":               {"event_id", "'e'", "order_id", "'o'", "body", "X'00'", "received_at", "1", "digest", "zeroblob(32)", "outcome", "'decided'"},
	"orders": {"order_id", "'o'", "event_id", "'e'", "customer_id", "'c'", "amount", "'1.00'", "currency", "'MXN'", "category", "''", "priority", "''",
		"credit_ok", "0", "decision", "'refund'", "decided_at", "1"},
	"credit_limits":  {"customer_id", "'c'", "currency", "'MXN'", "limit_amount", "'1.00'", "updated_at", "1"},
	"attempts":       {"ticket_id", "1", "claim_token", "'t'", "begun_at", "1", "ended_at", "2", "outcome", "'failed'"},
	"refused_bodies": {"received_at", "1", "problem", "'bad-json'", "detail", "''", "body", "X''", "body_bytes", "0"},
	"relays":         {"holder", "'h'", "pid", "1", "started_at", "1", "last_pass_at", "1"},
	"relay_state":    {"id", "2", "paused", "0"},
	"operator_log":   {"at", "1", "who", "'w'", "action", "'a'"},
	"sequence":       {"id", "2", "value", "0"},
	"clock":          {"id", "2"},
	"targets":        {"name", "'refund'", "mode", "'real'", "url", "'https://g'", "paused", "NULL", "paused_at", "NULL", "probe_at", "0", "hold_until", "0", "offline_since", "NULL"},
	"task_runs":      {"task", "'t'", "run_at", "1", "started_at", "1", "finished_at", "2", "outcome", "'done'"},
	"processes":      {"holder", "'h'", "pid", "1", "started_at", "1"},
	"unclean_stops":  {"found_at", "1", "checker", "'h'", "in_flight", "'[]'", "missing", "0"},
	"event_copies":   {"event_id", "'e'", "copies", "1", "first_at", "1", "last_at", "1", "seq", "1"},
	"ticket_counts":  {"effect_type", "'t'", "status", "'done'", "n", "1"},
	"alerts":         {"cause", "'review'", "since", "1", "told_at", "0", "times", "0"},
	"accounts":       {"name", "'ana'", "role", "'operate'", "password", "'$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'", "created_at", "1", "changed_at", "1"},
	"sessions": {"secret", "randomblob(32)", "account", "'ana'", "address", "'192.168.1.7'", "agent", "''", "begun_at", "1", "used_at", "1",
		"boot", "'b'", "born_ms", "1", "seen_ms", "1"},
	"tokens":      {"name", "'prometheus'", "role", "'view'", "secret", "zeroblob(32)", "created_at", "1", "used_at", "NULL"},
	"login_debts": {"kind", "'account'", "subject", "'ana'", "debt_ms", "1", "boot", "'b'", "asked_ms", "1", "told", "0"},
}

// insert is a good row of table with some columns set otherwise.
func insert(table string, changes ...string) string {
	var columns, values []string
	changed := map[string]string{}
	for i := 0; i < len(changes); i += 2 {
		changed[changes[i]] = changes[i+1]
	}
	row := good[table]
	for i := 0; i < len(row); i += 2 {
		value := row[i+1]
		if v, ok := changed[row[i]]; ok {
			value = v
			delete(changed, row[i])
		}
		columns, values = append(columns, row[i]), append(values, value)
	}
	for column, value := range changed {
		columns, values = append(columns, column), append(values, value)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(columns, ", "), strings.Join(values, ", "))
}

func TestGoodRowsAreTaken(t *testing.T) {
	db, _ := newFile(t)
	mustExec(t, db, insert("outbox"))
	mustExec(t, db, insert("accounts"))
	for table := range good {
		switch table {
		case "relay_state", "sequence", "clock", "outbox", "accounts": // they have their one row, or it was just put in
		default:
			mustExec(t, db, insert(table))
		}
	}
	mustExec(t, db, insert("outbox", "idempotency_key", "'k2'", "status", "'processing'", "claim_token", "'t'", "lease_holder", "'h'", "lease_ms", "1"))
	for i, status := range []string{"done", "dead", "discarded"} {
		mustExec(t, db, insert("outbox", "idempotency_key", fmt.Sprintf("'e%d'", i), "status", "'"+status+"'", "processed_at", "1"))
	}
	mustExec(t, db, insert("outbox", "idempotency_key", "'r'", "status", "'review'"))
	mustExec(t, db, insert("external_effects_log")) // its key is deliberately not unique
	mustExec(t, db, insert("attempts", "ended_at", "NULL", "outcome", "NULL"))
	mustExec(t, db, insert("orders", "order_id", "'o2'", "credit_ok", "1", "decision", "'inventory'"))
}
