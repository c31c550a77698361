package schema

import (
	"os/exec"
	"strings"
	"testing"
)

// What the counts must be at any time, as another client would count.
const (
	sqlCounted = `SELECT group_concat(effect_type || ' ' || status || ' ' || c, ', ') FROM (
		SELECT effect_type, status, count(*) AS c FROM outbox WHERE status NOT IN ('pending', 'processing') GROUP BY effect_type, status ORDER BY 1, 2)`
	sqlKept = `SELECT group_concat(effect_type || ' ' || status || ' ' || n, ', ') FROM (
		SELECT * FROM ticket_counts WHERE n <> 0 ORDER BY effect_type, status)`
)

// What people do to the outbox with any client; after each of them the counts are right.
var byHand = []string{
	insert("outbox", "id", "1"),
	insert("outbox", "id", "2", "idempotency_key", "'a'", "status", "'done'", "processed_at", "1"),
	insert("outbox", "id", "3", "idempotency_key", "'b'", "status", "'dead'", "processed_at", "1", "effect_type", "'x'"),
	insert("outbox", "id", "4", "idempotency_key", "'c'", "status", "'review'"),
	`UPDATE outbox SET status = 'done', processed_at = 1 WHERE id = 1`,
	`UPDATE outbox SET status = 'done', processed_at = 2 WHERE id = 1`, // done before
	`UPDATE outbox SET status = 'pending', processed_at = NULL WHERE status = 'dead'`,
	`UPDATE outbox SET status = 'discarded', processed_at = 1 WHERE id = 4`,
	`UPDATE outbox SET effect_type = 'y' WHERE id IN (1, 3)`,
	`UPDATE outbox SET id = 9 WHERE id = 1`,
	`UPDATE outbox SET seq = 5, detail = 'x', attempts = 7`,
	insert("outbox", "idempotency_key", "'a'") + ` ON CONFLICT (idempotency_key) DO NOTHING`,
	`DELETE FROM outbox WHERE idempotency_key = 'a'`,
	insert("outbox", "idempotency_key", "'a'"), // what was met above is gone meanwhile
	`UPDATE outbox SET status = 'done', processed_at = 1 WHERE idempotency_key = 'a'`,
	strings.Replace(insert("outbox", "idempotency_key", "'a'", "effect_type", "'z'"), "INSERT", "INSERT OR IGNORE", 1),
	`UPDATE outbox SET status = 'pending', processed_at = NULL WHERE idempotency_key = 'a'`,
	strings.Replace(insert("outbox", "idempotency_key", "'a'"), "INSERT", "REPLACE", 1),
	`UPDATE outbox SET status = 'done', processed_at = 1`,
	strings.Replace(insert("outbox", "idempotency_key", "'a'", "effect_type", "'z'"), "INSERT", "REPLACE", 1),                               // a done one goes by its key
	strings.Replace(insert("outbox", "id", "9", "idempotency_key", "'new'", "status", "'review'"), "INSERT", "INSERT OR REPLACE", 1),        // by its id
	strings.Replace(insert("outbox", "id", "9", "idempotency_key", "'b'", "status", "'dead'", "processed_at", "1"), "INSERT", "REPLACE", 1), // two at once
	insert("outbox", "idempotency_key", "'b'", "status", "'done'", "processed_at", "1") +
		` ON CONFLICT (idempotency_key) DO UPDATE SET status = 'done', effect_type = 'w'`,
	`UPDATE OR REPLACE outbox SET status = 'done', processed_at = 1`,
	`UPDATE OR IGNORE outbox SET status = 'pending', processed_at = NULL WHERE id = 9`,
	`DELETE FROM outbox`,
}

func TestCountsFollowTheOutbox(t *testing.T) {
	for _, recursive := range []string{"OFF", "ON"} {
		db, _ := newFile(t)
		mustExec(t, db, `PRAGMA recursive_triggers = `+recursive)
		for _, statement := range byHand {
			mustExec(t, db, statement)
			if kept, counted := look(t, db, sqlKept), look(t, db, sqlCounted); kept != counted {
				t.Fatalf("recursive triggers %s, after %s: kept %s, counted %s", recursive, statement, kept, counted)
			}
		}
	}
}

// The same from the system's own SQLite shell, however old that is.
func TestCountsFollowTheShell(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("there is no sqlite3 shell on this system")
	}
	_, path := newFile(t)
	script := ""
	for _, statement := range byHand {
		script += statement + ";\nSELECT CASE WHEN (" + sqlKept + ") IS NOT (" + sqlCounted + ") THEN 'wrong' END;\n"
	}
	cmd := exec.Command(shell, "-bail", path)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Fatalf("the shell said %v %s", err, out)
	}
}

// What goes the usual way is not counted before it ends, and leaves nothing behind.
func TestCountsLeaveTheRailAlone(t *testing.T) {
	db, _ := newFile(t)
	mustExec(t, db, insert("outbox"))
	mustExec(t, db, `UPDATE outbox SET status = 'processing', claim_token = 't', lease_holder = 'h', lease_ms = 1`)
	mustExec(t, db, `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL`)
	want(t, db, `SELECT count(*) FROM ticket_counts`, "0")
	want(t, db, `SELECT count(*) FROM ticket_replaced`, "0")
}

// Whoever gives what it makes done a new place in the sequence counts it, and nobody but that: the state that it was in,
// and every other end, is counted here.
func TestDoneWithAPlaceIsCountedByItsMaker(t *testing.T) {
	for _, c := range []struct{ from, want string }{
		{insert("outbox", "status", "'review'"), ""},
		{insert("outbox", "status", "'dead'", "processed_at", "1"), ""},
		{insert("outbox"), ""},
		{insert("outbox", "status", "'processing'", "claim_token", "'t'", "lease_holder", "'h'", "lease_ms", "1"), ""},
		{insert("outbox", "status", "'done'", "processed_at", "1"), "issue_refund done 1"},
	} {
		db, _ := newFile(t)
		mustExec(t, db, c.from)
		mustExec(t, db, `UPDATE outbox SET status = 'done', processed_at = 2, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, ended_seq = 7`)
		if kept := look(t, db, `SELECT coalesce((`+sqlKept+`), '')`); kept != c.want {
			t.Errorf("%s, made done: kept %q, want %q", c.from, kept, c.want)
		}
	}
	db, _ := newFile(t)
	mustExec(t, db, insert("outbox"))
	mustExec(t, db, `UPDATE outbox SET status = 'dead', processed_at = 2, ended_seq = 7`)
	want(t, db, sqlKept, "issue_refund dead 1")
}

// A ticket that is done is not swept away by an UPDATE of another.
func TestUpdateReplacesNoTicket(t *testing.T) {
	db, _ := newFile(t)
	mustExec(t, db, insert("outbox", "status", "'done'", "processed_at", "1"))
	mustExec(t, db, insert("outbox", "idempotency_key", "'other'"))
	for _, statement := range []string{`UPDATE OR REPLACE outbox SET idempotency_key = 'k'`, `UPDATE OR REPLACE outbox SET id = 1 WHERE id = 2`} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "another ticket has that id or key") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	want(t, db, sqlKept, "issue_refund done 1")
}
