package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPeekOnlyReads(t *testing.T) {
	db := patient(t)
	dir := filepath.Dir(db.Path())
	other := filepath.Join(t.TempDir(), "other.db")
	byHand(t, other, `CREATE TABLE t (a)`)
	for _, text := range []string{
		insertTicket, `DELETE FROM outbox`, `UPDATE relay_state SET paused = 1`, `WITH x AS (SELECT 1) DELETE FROM outbox`,
		`CREATE TABLE t (a)`, `CREATE TEMP TABLE t (a)`, `DROP TABLE outbox`, `REINDEX`, `ANALYZE`, `VACUUM`,
		`VACUUM INTO '` + filepath.Join(dir, "vacuumed.db") + `'`,
		`ATTACH '` + filepath.Join(dir, "attached.db") + `' AS x`, `ATTACH '` + other + `' AS x`,
		`PRAGMA user_version = 9`, `PRAGMA query_only = OFF`, `PRAGMA wal_checkpoint`, `PRAGMA wal_checkpoint(TRUNCATE)`,
		`PRAGMA journal_mode = DELETE`, `PRAGMA optimize`, `PRAGMA incremental_vacuum`, `PRAGMA writable_schema(1)`,
		`COMMIT`, `SAVEPOINT s`, `SELECT 1; SELECT 2`, `COMMIT; ATTACH '` + filepath.Join(dir, "attached.db") + `' AS x`,
		`/* ; */ SELECT ';'; -- that was one
		DELETE FROM outbox`,
	} {
		a, err := db.Peek(t.Context(), text)
		if strings.HasPrefix(text, "VACUUM") && err != nil { // SQLite's own refusal inside a transaction
			continue
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Errorf("beside the file, its -wal and -shm there are %v: %v", files, err)
	}
	if err := db.Update(t.Context(), func(tx *Tx) error { return tx.Log("test", "still writes", "", "") }); err != nil {
		t.Errorf("after it all: %v", err)
	}
}

func TestPeekReads(t *testing.T) {
	db := patient(t)
	byHand(t, db.Path(), insertTicket)
	for text, rows := range map[string]int{
		`SELECT * FROM outbox_v`: 1, `SELECT ';' AS "a;b", '--', 'it''s' ; -- the end`: 1, `SELECT 1 /* ; */ ; /* and */ `: 1,
		`WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT x FROM n`: 5,
		`SELECT * FROM json_each('[1,2,3]')`:                                                      3,
		`PRAGMA journal_mode`:                                                                     1, `PRAGMA integrity_check`: 1, `PRAGMA foreign_key_check(outbox)`: 0, `VALUES (1), (2)`: 2,
		`SELECT name FROM pragma_table_info('relay_state')`: 3, `SELECT name FROM sqlite_schema WHERE name = 'outbox'`: 1,
	} {
		a, err := db.Peek(t.Context(), text)
		if err != nil || len(a.Rows) != rows {
			t.Errorf("%s: %d rows instead of %d: %v", text, len(a.Rows), rows, err)
		}
	}
	if a, err := db.Peek(t.Context(), `EXPLAIN QUERY PLAN SELECT * FROM outbox`); err != nil || len(a.Rows) == 0 {
		t.Errorf("a query plan: %v", err)
	}
	for range 2 { // each reader, of which one was restricted
		if _, err := db.Query(t.Context(), `PRAGMA query_only = ON`); err != nil {
			t.Errorf("the reader afterwards: %v", err)
		}
	}
}

func TestPeekIsInterrupted(t *testing.T) {
	db := patient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := db.Peek(ctx, `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n`)
	if err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a query without an end came back after %s: %v", time.Since(began), err)
	}
	if a, err := db.Peek(t.Context(), `SELECT 1`); err != nil || len(a.Rows) != 1 {
		t.Errorf("the next query: %v", err)
	}
}
