package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"

	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A step that differs from this program's is noticed, whether somebody changed the program or the file.
func TestMigrateRefusesAChangedStep(t *testing.T) {
	for name, statement := range map[string]string{
		"another checksum": `UPDATE schema_steps SET checksum = 'oranges' WHERE version = 1`,
		"an upper case":    `UPDATE schema_steps SET checksum = upper(checksum)`,
		"none":             `DELETE FROM schema_steps`,
		"no table":         `DROP TABLE schema_steps`,
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			ours(statement)(t, path)
			before := folder(t, filepath.Dir(path))
			db, err := Open(t.Context(), path, Options{})
			if err == nil {
				db.Close()
				t.Fatal("a file with a changed step was opened")
			}
			if strings.Contains(statement, "UPDATE") && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "0001_core.sql in the file differs")) {
				t.Errorf("Open: %v, want ErrRefused and the step's name", err)
			}
			if after := folder(t, filepath.Dir(path)); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Error("the refused file was changed")
			}
		})
	}
}

// What the file says of its steps is what this program has.
func TestMigrateWritesDownItsSteps(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	for _, s := range steps(t) {
		wantNumber(t, db, 1, `SELECT count(*) FROM schema_steps WHERE version = $1 AND name = $2 AND checksum = $3 AND applied_at > 1700000000000`, s.Version, s.Name, s.Checksum)
	}
	put(t, db, TicketIssueRefund, 1)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantNumber(t, open(t, path, Options{}), 1, `SELECT count(*) FROM outbox`) // a second start changes nothing
}

// A step that fails, or a process that dies in it, leaves a file that the next start brings up to date.
func TestMigrateBeginsAnewAfterAFailure(t *testing.T) {
	path := newPath(t)
	made, err := Open(t.Context(), newPath(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	db := &DB{path: path, opt: Options{}.withDefaults()}
	w, err := db.openConn(t.Context(), writerDSN(path, db.opt.BusyTimeout, "FULL", true))
	if err != nil {
		t.Fatal(err)
	}
	bad := steps(t)[0]
	bad.SQL += "SELECT oranges;"
	if err := migrateStep(t.Context(), w.sql, bad, 1); err == nil || !strings.Contains(err.Error(), "oranges") {
		t.Errorf("a bad step: %v", err)
	}
	if err := db.closeConns(); err != nil {
		t.Fatal(err)
	}
	wantNumber(t, open(t, path, Options{}), int64(len(steps(t))), `SELECT count(*) FROM schema_steps`)
}

func TestOlderVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"3.51.3", "3.51.3", false}, {"3.51.2", "3.51.3", true}, {"3.51.10", "3.51.3", false}, {"3.54.1", "3.51.3", false},
		{"3.9.9", "3.51.3", true}, {"4.0.0", "3.51.3", false}, {"4", "3.51.3", false}, {"2", "3.51.3", true},
		{"3.51", "3.51.3", true}, {"3.51.3.1", "3.51.3", false}, {"3.52", "3.51.3", false},
		{"", "3.51.3", true}, {"new", "3.51.3", true}, {"3.x.9", "3.51.3", true}, {"3..9", "3.51.3", true},
	} {
		if got := olderVersion(c.a, c.b); got != c.want {
			t.Errorf("olderVersion(%q, %q) is %t", c.a, c.b, got)
		}
	}
}

func TestEngine(t *testing.T) {
	db := openNew(t)
	var runs string
	if err := db.writer.sql.QueryRowContext(t.Context(), `SELECT sqlite_version()`).Scan(&runs); err != nil || runs != EngineVersion || olderVersion(runs, minVersion) {
		t.Errorf("the engine is %q, %v; want %s, which is %s or newer", runs, err, EngineVersion, minVersion)
	}
	if err := checkEngine("3.51.2"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "3.51.2") {
		t.Errorf("an engine with the WAL fault: %v", err)
	}
}

// Two lists of parts never share a key: from every key its parts can be read back.
func TestKeyIsInjective(t *testing.T) {
	part := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune(":%253Aa ")), 0, 6, -1), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(part, 0, 3).Draw(t, "parts")
		key := Key("refund", parts...)
		words := strings.Split(key, ":")
		if words[0] != "refund" || len(words) != len(parts)+1 {
			t.Fatalf("%q has the key %q", parts, key)
		}
		for i, word := range words[1:] {
			if got, err := url.PathUnescape(word); err != nil || got != parts[i] {
				t.Fatalf("%q has the key %q, in which part %d reads %q, %v", parts, key, i, got, err)
			}
		}
	})
}

func TestKeys(t *testing.T) {
	for want, got := range map[string]string{
		"refund:ORD-2041":               Key("refund", "ORD-2041"),
		"inventory:ORD-2041:CF-ARA-500": Key("inventory", "ORD-2041", "CF-ARA-500"),
		"inventory:a%3Ab:%25c":          Key("inventory", "a:b", "%c"),
		"refund:ORD ":                   Key("refund", "ORD "),
		"refund":                        Key("refund"),
		"refund:":                       Key("refund", ""),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A SQLite file without a table may be somebody's: only one with our page layout is ours in the making.
func TestEmptyFileOfAnotherProgramIsRefused(t *testing.T) {
	for _, text := range []string{`PRAGMA journal_mode = WAL`, `CREATE TABLE x (a); DROP TABLE x`, `VACUUM; PRAGMA user_version = 0`} {
		path := filepath.Join(t.TempDir(), "e.db")
		pool, err := sql.Open(driverName, path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(text); err != nil {
			t.Fatal(err)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(before) == 0 {
			continue // nothing was written: a new file
		}
		if db, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", text, err)
			if err == nil {
				_ = db.Close()
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file was touched (%v)", text, err)
		}
	}
}
