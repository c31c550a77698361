package schema

import (
	"fmt"
	"strings"
	"testing"
)

// impossible are the states that can't be stored, whoever writes them, and what refuses each.
var impossible = []struct {
	name, statement, by string
}{
	{"a ledger row without a key", insert("ledger", "effect_key", "''"), "ledger_key"},
	{"a ledger row with no key", insert("ledger", "effect_key", "NULL"), "NOT NULL"},
	{"a ledger row without an order", insert("ledger", "order_id", "''"), "ledger_order"},
	{"a ledger row without a type", insert("ledger", "effect_type", "''"), "ledger_effect_type"},
	{"a ledger row that is not done", insert("ledger", "status", "'pending'"), "ledger_status"},
	{"a ledger row that came about strangely", insert("ledger", "how", "'magic'"), "ledger_how"},
	{"one effect twice in the ledger", insert("ledger") + "; " + insert("ledger"), "UNIQUE constraint failed: ledger.effect_key"},

	{"a ticket without an order", insert("outbox", "aggregate_id", "''"), "outbox_aggregate"},
	{"a ticket without a type", insert("outbox", "effect_type", "''"), "outbox_effect_type"},
	{"a ticket without a payload", insert("outbox", "payload", "NULL"), "NOT NULL"},
	{"a ticket with a BLOB as payload", insert("outbox", "payload", "X'7B7D'"), "cannot store BLOB value in TEXT column outbox.payload"},
	{"a ticket without a key", insert("outbox", "idempotency_key", "''"), "outbox_key"},
	{"two tickets with one key", insert("outbox") + "; " + insert("outbox"), "UNIQUE constraint failed: outbox.idempotency_key"},
	{"a status that is none", insert("outbox", "status", "'DONE'"), "outbox_status"},
	{"fewer than no attempts", insert("outbox", "attempts", "-1"), "outbox_attempts"},
	{"fewer than no failures", insert("outbox", "failures", "-1"), "outbox_failures"},
	{"fewer than no crashes", insert("outbox", "crashes", "-1"), "outbox_crashes"},
	{"a due time before all times", insert("outbox", "due_at", "-1"), "outbox_due"},
	{"processing without a token", insert("outbox", "status", "'processing'", "lease_holder", "'h'", "lease_ms", "1"), "outbox_processing_is_claimed"},
	{"processing without a holder", insert("outbox", "status", "'processing'", "claim_token", "'t'", "lease_ms", "1"), "outbox_processing_has_holder"},
	{"processing without a lease", insert("outbox", "status", "'processing'", "claim_token", "'t'", "lease_holder", "'h'"), "outbox_processing_has_lease"},
	{"processing with an empty token", insert("outbox", "status", "'processing'", "claim_token", "''", "lease_holder", "'h'", "lease_ms", "1"), "outbox_token_not_empty"},
	{"processing for no time", insert("outbox", "status", "'processing'", "claim_token", "'t'", "lease_holder", "'h'", "lease_ms", "0"), "outbox_lease_positive"},
	{"processing that has ended", insert("outbox", "status", "'processing'", "claim_token", "'t'", "lease_holder", "'h'", "lease_ms", "1", "processed_at", "1"), "outbox_ended_has_time"},
	{"pending with a token", insert("outbox", "claim_token", "'t'"), "outbox_processing_is_claimed"},
	{"pending with a holder", insert("outbox", "lease_holder", "'h'"), "outbox_processing_has_holder"},
	{"pending with a lease", insert("outbox", "lease_ms", "1"), "outbox_processing_has_lease"},
	{"pending that has ended", insert("outbox", "processed_at", "1"), "outbox_ended_has_time"},
	{"in review and ended", insert("outbox", "status", "'review'", "processed_at", "1"), "outbox_ended_has_time"},
	{"done without a time", insert("outbox", "status", "'done'"), "outbox_ended_has_time"},
	{"dead without a time", insert("outbox", "status", "'dead'"), "outbox_ended_has_time"},
	{"discarded without a time", insert("outbox", "status", "'discarded'"), "outbox_ended_has_time"},
	{"done and claimed", insert("outbox", "status", "'done'", "processed_at", "1", "claim_token", "'t'"), "outbox_processing_is_claimed"},
	{"done by an update that knows nothing", insert("outbox") + "; UPDATE outbox SET status = 'done'", "outbox_ended_has_time"},

	{"an effect without a key", insert("external_effects_log", "effect_key", "''"), "effects_key"},
	{"an effect without a type", insert("external_effects_log", "effect_type", "''"), "effects_type"},
	{"an effect without an order", insert("external_effects_log", "order_id", "''"), "effects_order"},

	{"an event without an id", insert("events", "event_id", "''"), "events_id"},
	{"an event with too long an id", insert("events", "event_id", "printf('%101s', 'x')"), "events_id"},
	{"an event without an order", insert("events", "order_id", "''"), "events_order"},
	{"an event with half a digest", insert("events", "digest", "zeroblob(31)"), "events_digest"},
	{"an event with an outcome that is none", insert("events", "outcome", "'lost'"), "events_outcome"},
	{"an event from a source with too long a name", insert("events", "source", "printf('%21s', 'x')"), "events_source"},
	{"an event under too long an id of its sender", insert("events", "webhook_id", "printf('%101s', 'x')"), "events_webhook_id"},
	{"an event whose clock was doubted for no reason we know", insert("events", "clock_untrusted", "'maybe'"), "events_clock_untrusted"},
	{"one event twice", insert("events") + "; " + insert("events"), "UNIQUE constraint failed: events.event_id"},

	{"an order without an id", insert("orders", "order_id", "''"), "orders_id"},
	{"an order with too long an id", insert("orders", "order_id", "printf('%101s', 'x')"), "orders_id"},
	{"an order without an amount", insert("orders", "amount", "''"), "orders_amount"},
	{"an order in half a currency", insert("orders", "currency", "'MX'"), "orders_currency"},
	{"an order with some credit", insert("orders", "credit_ok", "2", "decision", "'inventory'"), "orders_credit_ok"},
	{"an order decided otherwise", insert("orders", "decision", "'both'"), "orders_decision"},
	{"a refund with credit", insert("orders", "credit_ok", "1"), "orders_decision_follows_credit"},
	{"a delivery without credit", insert("orders", "decision", "'inventory'"), "orders_decision_follows_credit"},
	{"an order decided twice", insert("orders") + "; " + insert("orders", "event_id", "'e2'"), "UNIQUE constraint failed: orders.order_id"},

	{"a limit for nobody", insert("credit_limits", "customer_id", "''"), "credit_customer"},
	{"a limit in half a currency", insert("credit_limits", "currency", "'MX'"), "credit_currency"},
	{"a limit of nothing", insert("credit_limits", "limit_amount", "''"), "credit_limit"},
	{"two limits for one pair", insert("credit_limits") + "; " + insert("credit_limits"), "UNIQUE constraint failed: credit_limits.customer_id"},

	{"a count of what has not come to rest", insert("ticket_counts", "status", "'pending'"), "ticket_counts_status"},
	{"no copy at all", insert("event_copies", "copies", "0"), "event_copies_some"},

	{"an attempt without a token", insert("outbox") + "; " + insert("attempts", "claim_token", "''"), "attempts_token"},
	{"an attempt with an empty outcome", insert("outbox") + "; " + insert("attempts", "outcome", "''"), "attempts_outcome"},
	{"an attempt that ended without an outcome", insert("outbox") + "; " + insert("attempts", "outcome", "NULL"), "attempts_end_has_outcome"},
	{"an attempt with an outcome that did not end", insert("outbox") + "; " + insert("attempts", "ended_at", "NULL"), "attempts_end_has_outcome"},
	{"an attempt at no ticket", insert("attempts", "ticket_id", "7"), "FOREIGN KEY"},
	{"a refused body that is too long", insert("refused_bodies", "body", "zeroblob(4097)"), "refused_body_bounded"},
	{"a second state of the relays", insert("relay_state"), "relay_state_one_row"},
	{"half paused", "UPDATE relay_state SET paused = 2", "relay_state_paused"},
	{"a second sequence", insert("sequence"), "sequence_one_row"},
	{"a second clock", insert("clock"), "clock_one_row"},
	{"a sequence below zero", "UPDATE sequence SET value = -1", "sequence_grows"},

	{"a target without a name", insert("targets", "name", "''"), "targets_name"},
	{"a target in no world", insert("targets", "mode", "'test'"), "targets_mode"},
	{"a target paused by nobody", insert("targets", "paused", "'somebody'", "paused_at", "1"), "targets_paused"},
	{"a target paused without a time", insert("targets", "paused", "'operator'"), "targets_paused_has_time"},
	{"fewer than no lookups", insert("outbox", "lookups", "-1"), "outbox_lookups"},
	{"another key than the one that was sent", insert("outbox", "wire_key", "'k'", "wire_body", "X'00'") + "; UPDATE outbox SET wire_key = 'l'", "what was sent once can not be changed"},
	{"another body than the one that was sent", insert("outbox", "wire_key", "'k'", "wire_body", "X'00'") + "; UPDATE outbox SET wire_body = X'01'", "what was sent once can not be changed"},
	{"another effect under the key that was sent", insert("outbox", "wire_key", "'k'", "wire_body", "X'00'") + "; UPDATE outbox SET idempotency_key = 'l'", "what was sent once can not be changed"},
	{"an attempt of another kind", insert("outbox") + "; " + insert("attempts", "kind", "'guess'"), "attempts_kind"},
	{"an order half taken back", insert("orders", "compensating", "2"), "orders_compensating"},
	{"an alert for no cause", insert("alerts", "cause", "''"), "alerts_cause"},
	{"an alert told fewer than no times", insert("alerts", "times", "-1"), "alerts_times"},

	{"a run of no task", insert("task_runs", "task", "''"), "task_runs_task"},
	{"a run that came to nothing at all", insert("task_runs", "outcome", "''"), "task_runs_outcome"},
	{"a run that ended without an outcome", insert("task_runs", "outcome", "NULL"), "task_runs_end_has_outcome"},
	{"a run with an outcome that did not end", insert("task_runs", "finished_at", "NULL"), "task_runs_end_has_outcome"},
	{"one task twice at one tick", insert("task_runs") + "; " + insert("task_runs"), "UNIQUE constraint failed: task_runs.task, task_runs.run_at"},
	{"an unclean stop that nobody looks at", insert("unclean_stops", "checker", "''"), "unclean_stops_checker"},
	{"an unclean stop that lacks less than nothing", insert("unclean_stops", "missing", "-1"), "unclean_stops_missing"},
	{"an unclean stop that lost less than nothing", insert("unclean_stops", "lost", "-1"), "unclean_stops_lost"},
	{"an unclean stop contradicted less than never", insert("unclean_stops", "contradicts", "-1"), "unclean_stops_contradicts"},
	{"an unclean stop with tickets that are no list", insert("unclean_stops", "in_flight", "'['"), "unclean_stops_in_flight"},
	{"a look after an unclean stop without a report", insert("unclean_stops", "checked_at", "1"), "unclean_stops_check_has_report"},
	{"a report of a look that nobody took", insert("unclean_stops", "report", "'fine'"), "unclean_stops_check_has_report"},

	{"an account without a name", insert("accounts", "name", "''"), "accounts_name"},
	{"an account that may do anything", insert("accounts", "role", "'root'"), "accounts_role"},
	{"a password as it is", insert("accounts", "password", "'correct horse'"), "accounts_password"},
	{"one account twice", insert("accounts") + "; " + insert("accounts"), "UNIQUE constraint failed: accounts.name"},
	{"a session of half a key", insert("accounts") + "; " + insert("sessions", "secret", "zeroblob(16)"), "sessions_secret"},
	{"a session of nobody", insert("sessions"), "FOREIGN KEY"},
	{"a session from too long an address", insert("accounts") + "; " + insert("sessions", "address", "printf('%101s', 'x')"), "sessions_address"},
	{"a session by too long a browser", insert("accounts") + "; " + insert("sessions", "agent", "printf('%201s', 'x')"), "sessions_agent"},
	{"a session at no time", insert("accounts") + "; " + insert("sessions", "boot", "''"), "sessions_boot"},
	{"two sessions of one key", insert("accounts") + "; INSERT INTO sessions SELECT 1, zeroblob(32), 'ana', '', '', 1, 1, 'b', 1, 1 UNION ALL SELECT 2, zeroblob(32), 'ana', '', '', 1, 1, 'b', 1, 1",
		"UNIQUE constraint failed: sessions.secret"},
	{"a token without a name", insert("tokens", "name", "''"), "tokens_name"},
	{"a token that may do anything", insert("tokens", "role", "'root'"), "tokens_role"},
	{"a token of half a key", insert("tokens", "secret", "zeroblob(16)"), "tokens_secret"},
	{"two tokens of one key", insert("tokens") + "; " + insert("tokens", "name", "'other'"), "UNIQUE constraint failed: tokens.secret"},
	{"a debt of neither", insert("login_debts", "kind", "'planet'"), "login_debts_kind"},
	{"a debt of nobody", insert("login_debts", "subject", "''"), "login_debts_subject"},
	{"a debt of nothing", insert("login_debts", "debt_ms", "0"), "login_debts_some"},
	{"a debt at no time", insert("login_debts", "boot", "''"), "login_debts_boot"},
	{"a debt half told", insert("login_debts", "told", "2"), "login_debts_told"},

	{"another history", insert("operator_log") + "; UPDATE operator_log SET who = 'nobody'", "operator_log is append-only"},
	{"a shorter history", insert("operator_log") + "; DELETE FROM operator_log", "operator_log is append-only"},
}

// An impossible state can't be stored, and what refuses it says its name.
func TestImpossibleStatesAreRefused(t *testing.T) {
	for _, c := range impossible {
		t.Run(c.name, func(t *testing.T) {
			db, _ := newFile(t)
			before, last, two := strings.Cut(c.statement, "; ")
			if two {
				mustExec(t, db, before)
			} else {
				last = before
			}
			if _, err := db.Exec(last); err == nil || !strings.Contains(err.Error(), c.by) {
				t.Errorf("%s\ngot %v, want a refusal by %s", last, err, c.by)
			}
		})
	}
}

// Every named constraint of the schema has refused something in the table above.
func TestEachConstraintIsShown(t *testing.T) {
	steps, err := Steps()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{"outbox_key_once": true, "task_runs_once": true, "sessions_secret_once": true, "tokens_secret_once": true} // SQLite names a UNIQUE by its columns
	for _, c := range impossible {
		shown[c.by] = true
	}
	for _, s := range steps {
		words := strings.Fields(s.SQL)
		for i, w := range words {
			if w == "CONSTRAINT" && !shown[words[i+1]] {
				t.Errorf("%s: no test shows what %s refuses", s.Name, words[i+1])
			}
		}
	}
}

// Every column that holds a time, or a length of time, by its name.
const sqlTimeColumns = `SELECT l.name || '.' || c.name || '.' || c.type || '.' || c."notnull" || '.' || l.strict FROM pragma_table_list AS l, pragma_table_info(l.name) AS c
	WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite_%'
	AND (c.name = 'at' OR c.name = 'since' OR c.name LIKE '%\_at' ESCAPE '\' OR c.name LIKE '%\_since' ESCAPE '\' OR c.name LIKE '%\_until' ESCAPE '\' OR c.name LIKE '%\_ms' ESCAPE '\')`

// A time is a whole number: no text of a date, no fraction, and nothing missing where there must be one. The columns
// are read from the schema, so a new one is held to this too.
func TestTimesAreWholeNumbers(t *testing.T) {
	db, _ := newFile(t)
	columns := strings.Fields(look(t, db, sqlTimeColumns))
	if len(columns) < 30 {
		t.Fatalf("only %d columns: %v", len(columns), columns)
	}
	oneRow := map[string]bool{"relay_state": true, "sequence": true, "clock": true}
	for _, c := range columns {
		p := strings.Split(c, ".")
		table, column, kind, notNull, strict := p[0], p[1], p[2], p[3] == "1", p[4] == "1"
		if kind != "INTEGER" || !strict {
			t.Errorf("%s.%s is %s, strict %t", table, column, kind, strict)
		}
		if good[table] == nil {
			t.Errorf("%s: this test knows no good row of it", table)
			continue
		}
		bad := []string{"1.5", "1796000000000.25", "'now'", "'2026-12-02T10:00:00Z'", "datetime('now')", "''", "'1.5'", "X'31'", "9e18 * 10"}
		if notNull {
			bad = append(bad, "NULL")
		}
		for _, value := range bad {
			text := insert(table, column, value)
			if oneRow[table] {
				text = fmt.Sprintf("UPDATE %s SET %s = %s", table, column, value)
			}
			_, err := db.Exec(text)
			if err == nil {
				t.Errorf("taken: %s", text)
			} else if !strings.Contains(err.Error(), "cannot store") && !strings.Contains(err.Error(), "NOT NULL") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
