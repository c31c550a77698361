package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	sqlitelib "modernc.org/sqlite/lib"
)

// This file is what differs between SQLite and another database: how a connection is opened and
// checked, how a write transaction begins, and the engine's version. The statements elsewhere use
// $1 binds and ON CONFLICT, which SQLite and PostgreSQL share.

// minVersion is the oldest SQLite that may be used: 3.51.3 fixed a WAL reset race that could
// corrupt a file under several writers (https://sqlite.org/releaselog/3_51_3.html).
const minVersion = "3.51.3"

// A write transaction takes the file's write lock at once: a deferred one that reads and then
// writes fails with SQLITE_BUSY_SNAPSHOT (517) whatever the busy timeout is.
const (
	sqlBeginWrite = `BEGIN IMMEDIATE`
	sqlBeginRead  = `BEGIN DEFERRED`
	sqlCommit     = `COMMIT`
	sqlRollback   = `ROLLBACK`
)

// cachePages is the page cache of one connection in KiB, negative as the pragma wants it.
const cacheKiB = -8000

// writerDSN opens path for the single writer. The validated keys are used where there is one, since
// an unknown value in a _pragma is silently something else. auto_vacuum is set on a fresh file only:
// on another one SQLite would take the write lock for it and wait for whoever holds that.
func writerDSN(path string, busy time.Duration, synchronous string, fresh bool) string {
	q := url.Values{}
	q.Set("mode", "rwc")
	q.Set("_busy_timeout", strconv.FormatInt(busy.Milliseconds(), 10))
	if fresh {
		q.Set("_auto_vacuum", "INCREMENTAL")
	}
	q.Set("_journal_mode", "WAL")
	q.Set("_synchronous", synchronous)
	q.Set("_foreign_keys", "ON")
	q.Set("_txlock", "immediate")
	q.Add("_pragma", fmt.Sprintf("cache_size(%d)", cacheKiB))
	q.Add("_pragma", "temp_store(2)")
	q.Add("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", walPages))
	q.Add("_pragma", fmt.Sprintf("journal_size_limit(%d)", walLong))
	return fileURI(path, q)
}

// readerDSN opens path for reading only: by the open mode and by query_only.
func readerDSN(path string, busy time.Duration) string {
	q := url.Values{}
	q.Set("mode", "ro")
	q.Set("_busy_timeout", strconv.FormatInt(busy.Milliseconds(), 10))
	q.Set("_query_only", "ON")
	q.Add("_pragma", fmt.Sprintf("cache_size(%d)", cacheKiB))
	q.Add("_pragma", "temp_store(2)")
	return fileURI(path, q)
}

// probeDSN is for a look at a file that may not be ours. A quiet file, one with nothing in a -wal, is
// read as it lies, without locks and without making a -wal beside it. Of another file that would be a
// look at a page that is being written, or not at all at what a killed program left in the -wal.
func probeDSN(path string, quiet bool) string {
	q := url.Values{"mode": {"ro"}, "_busy_timeout": {"5000"}}
	if quiet {
		q.Set("immutable", "1")
	}
	return fileURI(path, q)
}

func fileURI(path string, q url.Values) string {
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// wantPragmas are read back from the writer; a file or a driver that says otherwise is not used.
func wantPragmas(synchronous string) []pragma {
	sync := map[string]string{"OFF": "0", "NORMAL": "1", "FULL": "2", "EXTRA": "3"}[synchronous]
	return []pragma{
		{"journal_mode", "wal"}, {"synchronous", sync}, {"foreign_keys", "1"},
		{"auto_vacuum", "2"}, {"cache_size", strconv.Itoa(cacheKiB)}, {"temp_store", "2"},
		{"wal_autocheckpoint", strconv.Itoa(walPages)}, {"journal_size_limit", strconv.Itoa(walLong)},
	}
}

type pragma struct{ name, want string }

func checkPragmas(ctx context.Context, conn *sql.Conn, want []pragma) error {
	for _, p := range want {
		got, err := readPragma(ctx, conn, p.name)
		if err != nil {
			return err
		}
		if got != p.want {
			return refuse("the file's %s is %s where comanda needs %s: it was made or changed by another program; restore it from a backup or start with a new file", p.name, got, p.want)
		}
	}
	return nil
}

func readPragma(ctx context.Context, conn *sql.Conn, name string) (string, error) {
	var got string
	if err := conn.QueryRowContext(ctx, "PRAGMA "+name).Scan(&got); err != nil {
		return "", fmt.Errorf("read pragma %s: %w", name, err)
	}
	return got, nil
}

// EngineVersion is the version of the SQLite in this program.
const EngineVersion = sqlitelib.SQLITE_VERSION

func checkEngine(version string) error {
	if olderVersion(version, minVersion) {
		return refuse("this program was built with SQLite %s, which has a known fault in WAL mode; build it with %s or newer", version, minVersion)
	}
	return nil
}

// olderVersion compares dotted numbers; what can't be read counts as older.
func olderVersion(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range bs {
		n, err := 0, error(nil)
		if i < len(as) {
			n, err = strconv.Atoi(as[i])
		}
		m, _ := strconv.Atoi(bs[i])
		if err != nil || n < m {
			return true
		}
		if n > m {
			return false
		}
	}
	return false
}
