package schema

import (
	"database/sql"
	"testing"
)

// A row that is put on the rail, claimed, done or taken into the ledger builds no table in passing, as SQLite does for
// a list of more than two in an IN.
func TestRowsAreCheckedWithoutLists(t *testing.T) {
	db, _ := newFile(t)
	for _, statement := range []string{
		insert("events"), insert("orders"), insert("outbox"), insert("ledger"), insert("external_effects_log"),
		`UPDATE outbox SET status = 'processing', claim_token = 'x', lease_holder = 'y', lease_ms = 1 WHERE id = 1`,
		`UPDATE outbox SET status = 'done', processed_at = 1, claim_token = NULL, lease_holder = NULL, lease_ms = NULL WHERE id = 1`,
	} {
		if n := count(opcodes(t, db, statement), "OpenEphemeral"); n > 0 {
			t.Errorf("%s builds %d tables in passing", statement, n)
		}
	}
	if count(opcodes(t, db, `SELECT 1 WHERE 'a' IN ('b', 'c', 'd') OR random() IN (1, 2, 3)`), "OpenEphemeral") == 0 {
		t.Error("SQLite builds no table for a list: this test sees nothing")
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// opcodes is what SQLite runs for a statement, without the programs of its triggers: those begin at 0 again.
func opcodes(t *testing.T, db *sql.DB, statement string) (all []string) {
	t.Helper()
	rows, err := db.Query(`EXPLAIN ` + statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	for rows.Next() {
		var addr int
		var opcode string
		var p [6]any
		if err := rows.Scan(&addr, &opcode, &p[0], &p[1], &p[2], &p[3], &p[4], &p[5]); err != nil {
			t.Fatal(err)
		}
		if addr == 0 && len(all) > 0 {
			break
		}
		all = append(all, opcode)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
