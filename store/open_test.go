package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"comanda/schema"
)

// Four processes that start at once on a new file all get it, and the schema is applied once.
func TestFourProcessesMakeOneFile(t *testing.T) {
	all := []*child{}
	for range 4 {
		all = append(all, spawn(t, "open"))
	}
	for _, c := range all {
		c.hear()
	}
	for range 10 {
		path := newPath(t)
		for _, c := range all {
			c.say(path)
		}
		for _, c := range all {
			if got, want := c.hear(), []string{"steps", strconv.Itoa(len(steps(t)))}; !slices.Equal(got, want) {
				t.Fatalf("a process found %q, want %q", got, want)
			}
		}
		db := open(t, path, Options{})
		wantNumber(t, db, int64(len(steps(t))), `SELECT count(*) FROM schema_steps`)
		wantNumber(t, db, 1, `SELECT count(*) FROM relay_state`)
	}
}

// folder is what lies in a directory: names, and the bytes of regular files.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		found[e.Name()] = e.Type().String()
		if e.Type().IsRegular() {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			found[e.Name()] = string(text)
		}
		if strings.HasSuffix(e.Name(), "-shm") { // whoever looks makes the index of the -wal anew; it holds no data
			found[e.Name()] = "an index"
		}
	}
	return found
}

// foreign makes a file with plain SQLite statements.
func foreign(statements ...string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		db := raw(t, path)
		for _, s := range statements {
			mustExec(t, db, s)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// ours makes a comanda file and then changes it with plain SQLite statements.
func ours(statements ...string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if err := open(t, path, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		foreign(statements...)(t, path)
	}
}

// killed makes a file whose statements are all still in its -wal, as a killed program leaves it.
func killed(statements ...string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		db := raw(t, path+".live")
		mustExec(t, db, `PRAGMA journal_mode = WAL`)
		for _, s := range statements {
			mustExec(t, db, s)
		}
		for _, tail := range []string{"", "-wal", "-shm"} {
			text, err := os.ReadFile(path + ".live" + tail)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+tail, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(db.Close(), os.Remove(path+".live")); err != nil {
			t.Fatal(err)
		}
	}
}

var refusals = []struct {
	name string
	make func(*testing.T, string)
	says string // a part of the sentence
	opt  Options
}{
	{"another program's file", foreign(`CREATE TABLE a (b)`), "another program", Options{}},
	{"another program's mark", foreign(`PRAGMA application_id = 7`), "another program (application_id 7)", Options{}},
	{"another program's version", foreign(`PRAGMA user_version = 1`), "another program", Options{}},
	{"another program's WAL file", foreign(`PRAGMA journal_mode = WAL`, `CREATE TABLE a (b)`), "another program", Options{}},
	{"another program was killed", killed(`CREATE TABLE a (b)`), "another program", Options{}},
	{"a newer schema", ours(`PRAGMA user_version = 999`), "newer comanda (schema 999", Options{}},
	{"a newer program was killed", killed(`PRAGMA application_id = `+strconv.Itoa(schema.ApplicationID), `PRAGMA user_version = 999`), "newer comanda", Options{}},
	{"a changed auto_vacuum", ours(`PRAGMA auto_vacuum = NONE`, `VACUUM`), "auto_vacuum is 0 where comanda needs 2", Options{}},
	{"not SQLite", func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte(strings.Repeat("a list of oranges\n", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
	}, "not a SQLite file", Options{}},
	{"too short for SQLite", func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte("oranges"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, "not a SQLite file", Options{}},
	{"a directory", func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}, "not a regular file", Options{}},
	{"no file", func(*testing.T, string) {}, "there is no file", Options{MustExist: true}},
}

// What is not ours is refused with a sentence and stays byte for byte as it was, and so does its directory.
func TestRefusedFilesStayUntouched(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			path := newPath(t)
			c.make(t, path)
			before := folder(t, filepath.Dir(path))
			db, err := Open(t.Context(), path, c.opt)
			if err == nil {
				db.Close()
			}
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open: %v, want ErrRefused and %q", err, c.says)
			}
			after := folder(t, filepath.Dir(path))
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the directory was touched (-before +after):\n%.600s", diff)
			}
		})
	}
}

func TestRefusedPaths(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"":                               "give --db a path",
		":memory:":                       "give --db a path",
		filepath.Join(dir, "no", "a.db"): "does not exist: make it first",
		filepath.Join(dir, "file", "a"):  "can't be reached",
		loop:                             "can't be reached",
		"/dev/null":                      "not a regular file",
	} {
		_, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) {
			t.Errorf("Open(%q): %v, want ErrRefused and %q", path, err, says)
		}
	}
	if _, err := Open(t.Context(), newPath(t), Options{Synchronous: "FUL"}); !errors.Is(err, ErrRefused) {
		t.Errorf("Open with a sync mode that is none: %v, want ErrRefused", err)
	}
	if got := folder(t, dir); len(got) != 2 {
		t.Errorf("refused paths left %v", got)
	}
}

// Whatever name a process knows the file by, all agree on the lock files beside it.
func TestLinksLeadToTheSameLocks(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"data", "shop"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"shop/first.db":  "../data/comanda.db", // dangling until the first Open
		"shop/second.db": filepath.Join(dir, "data", "comanda.db"),
		"shop/dir":       "../data",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := filepath.EvalSymlinks(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	want = filepath.Join(want, "comanda.db")
	for _, name := range []string{"shop/first.db", "shop/second.db", "shop/dir/comanda.db", "data/../shop/dir/comanda.db", "data/comanda.db"} {
		db := open(t, filepath.Join(dir, name), Options{})
		if db.Path() != want || db.lockPath("h") != want+".relay-h.lock" {
			t.Errorf("%s leads to %s and %s, want %s", name, db.Path(), db.lockPath("h"), want)
		}
	}
}

func TestPathsMayHoldAnything(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "a%20b.db", "ñandú 🍊.db", "a&b=c;d.db", "'a\"b.db", "[a]*.db", "a+b.db", `a\b.db`} {
		path := filepath.Join(t.TempDir(), name)
		db := open(t, path, Options{})
		put(t, db, TicketIssueRefund, 1)
		h, err := db.NewHolder(t.Context(), 1)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		left := open(t, path, Options{MustExist: true})
		wantNumber(t, left, 1, `SELECT count(*) FROM outbox`)
		if err := errors.Join(h.Close(), left.Close(), db.Close()); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if got := folder(t, filepath.Dir(path)); len(got) != 1 || got[name] == "" {
			t.Errorf("%q made %d files", name, len(got))
		}
	}
}

func TestPragmasReadBack(t *testing.T) {
	for _, sync := range []string{"FULL", "NORMAL"} {
		db := open(t, newPath(t), Options{Synchronous: sync, Readers: 3})
		want := map[string]string{"journal_mode": "wal", "synchronous": map[string]string{"FULL": "2", "NORMAL": "1"}[sync],
			"foreign_keys": "1", "auto_vacuum": "2", "page_size": "4096", "busy_timeout": "0", "query_only": "0", "temp_store": "2",
			"application_id": strconv.Itoa(schema.ApplicationID), "user_version": strconv.Itoa(len(steps(t)))}
		for name, value := range want {
			if got, err := readPragma(t.Context(), db.writer.sql, name); err != nil || got != value {
				t.Errorf("the writer's %s is %q (%v), want %s", name, got, err, value)
			}
		}
		for range 3 {
			r := <-db.readers
			for name, value := range map[string]string{"query_only": "1", "busy_timeout": "5000", "journal_mode": "wal"} {
				if got, err := readPragma(t.Context(), r.sql, name); err != nil || got != value {
					t.Errorf("a reader's %s is %q (%v), want %s", name, got, err, value)
				}
			}
			db.readers <- r
		}
	}
}

func TestClose(t *testing.T) {
	path := newPath(t)
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, TicketIssueRefund, 1)
	const n = 64
	ends, gate := make(chan error), make(chan struct{})
	for range n { // from whatever goroutine, once or more often
		go func() { <-gate; ends <- db.Close() }()
	}
	close(gate)
	closed := 0
	for range n {
		switch err := <-ends; {
		case err == nil:
			closed++
		case !errors.Is(err, ErrClosed):
			t.Errorf("Close: %v", err)
		}
	}
	if closed != 1 {
		t.Errorf("%d of %d calls closed the file, want 1", closed, n)
	}
	if err := db.Update(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Update after Close: %v", err)
	}
	if err := db.View(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("View after Close: %v", err)
	}
	if _, err := db.Query(t.Context(), `SELECT 1`); !errors.Is(err, ErrClosed) {
		t.Errorf("Query after Close: %v", err)
	}
	if got := folder(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("a closed file leaves %d files, want 1: no -wal, no -shm", len(got))
	}
}

// Another writer does not keep a process from opening a file whose schema is up to date.
func TestOpenBesideABusyWriter(t *testing.T) {
	path := newPath(t)
	open(t, path, Options{})
	other := raw(t, path)
	mustExec(t, other, `BEGIN IMMEDIATE`)
	open(t, path, Options{BusyTimeout: time.Millisecond})
	mustExec(t, other, `ROLLBACK`)
}

// Who is interrupted while opening is told so, and not that the file is bad.
func TestInterruptedOpen(t *testing.T) {
	path := newPath(t)
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path, Options{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

// A file with two names is refused under both: each would have a -wal of its own.
func TestHardLinkIsRefused(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	other := path + ".other"
	if err := os.Link(path, other); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	if _, err := Open(t.Context(), other, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "2 names") {
		t.Errorf("the other name: %v", err)
	}
	if err := errors.Join(db.Close(), os.Remove(other)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Error(err)
	}
}
