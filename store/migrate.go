package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	sqlitelib "modernc.org/sqlite/lib"

	"comanda/schema"
)

// probe looks at a file before anything is opened for writing. A file that does not exist or is
// empty will become ours; one that holds tables must carry our mark.
func probe(ctx context.Context, path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && st.Size() == 0 {
		return nil
	}
	if err != nil {
		return refuse("%s can't be read: %v", path, err)
	}
	m, err := markOf(ctx, path)
	if err != nil {
		if err = translate(err); errors.Is(err, ErrBusy) {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if code(err) == sqlitelib.SQLITE_CANTOPEN {
			return refuse("%s can't be opened (%v): run comanda as the user whose file it is, or let this one read and write it and its directory; it was not touched", path, err)
		}
		return refuse("%s is not a SQLite file that can be read (%v): give --db another path; it was not touched", path, err)
	}
	return m.check(path)
}

// markOf reads a file's mark as the next transaction would see it.
func markOf(ctx context.Context, path string) (mark, error) {
	wal, err := os.Stat(path + "-wal")
	m, err := readMark(ctx, probeDSN(path, err != nil || wal.Size() == 0))
	if err != nil { // perhaps another process began to write just now: look again, with its locks
		m, err = readMark(ctx, probeDSN(path, false))
	}
	if code(err) == sqlitelib.SQLITE_READONLY {
		m, err = markBesideJournal(ctx, path)
	}
	return m, err
}

// markBesideJournal looks at a file beside which lies a journal to be rolled back; ours have one only while they
// are made. If the power was cut then, perhaps not even the header is on the disk: SQLite rolls such a file
// back to what it was before, as it would for its own program.
func markBesideJournal(ctx context.Context, path string) (mark, error) {
	m, err := readMark(ctx, probeDSN(path, true))
	if code(err) != sqlitelib.SQLITE_NOTADB {
		return m, err
	}
	if m, err = readMark(ctx, fileURI(path, url.Values{"mode": {"rw"}, "_busy_timeout": {"5000"}})); err != nil {
		return m, err
	}
	if st, err := os.Stat(path); err == nil && st.Size() == 0 {
		m.vacuum = incremental // nothing was in it: it will be ours
	}
	return m, nil
}

// incremental is PRAGMA auto_vacuum's number for INCREMENTAL.
const incremental = 2

// mark is what a file says about whose it is.
type mark struct {
	app, version, tables int
	vacuum               int // auto_vacuum, which we set before anything else
}

const sqlMarkOf = `SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema), av.auto_vacuum
	FROM pragma_application_id AS a, pragma_user_version AS v, pragma_auto_vacuum AS av`

func readMark(ctx context.Context, dsn string) (m mark, err error) {
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		return m, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, sqlMarkOf).Scan(&m.app, &m.version, &m.tables, &m.vacuum)
	return m, err
}

// check refuses what is not ours. A file without anything in it is ours in the making if it has the
// page layout that we give a new file.
func (m mark) check(path string) error {
	if m == (mark{vacuum: incremental}) {
		return nil
	}
	return checkMark(path, m.app, m.version)
}

func checkMark(path string, app, version int) error {
	steps, err := schema.Steps()
	if err != nil {
		return err
	}
	if app != schema.ApplicationID {
		return refuse("%s is a SQLite file of another program (application_id %d): give --db another path; it was not touched", path, app)
	}
	if version > len(steps) {
		return refuse("%s was written by a newer comanda (schema %d, this one knows %d): use the newer program; it was not touched", path, version, len(steps))
	}
	return nil
}

// checkVersion returns ErrOtherSchema when a newer program has changed the file's schema under this one. It is
// asked inside each transaction, so none of this program's meets a schema that it does not know.
func (db *DB) checkVersion(tx *Tx) error {
	version := 0
	if _, err := tx.find(`PRAGMA user_version`, nil, &version); err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if version != db.version {
		return fmt.Errorf("%w: it was %d and is %d", ErrOtherSchema, db.version, version)
	}
	return nil
}

// migrate applies the steps that the file does not have yet and returns the last one's version. Each runs in its
// own BEGIN IMMEDIATE, inside which the version is read, so that of several processes exactly one applies it.
func migrate(ctx context.Context, conn *sql.Conn, now func() time.Time, may bool) (version int, err error) {
	steps, err := schema.Steps()
	if err != nil {
		return 0, err
	}
	if current, err := upToDate(ctx, conn, steps); err != nil || current {
		return len(steps), err
	}
	if !may {
		return 0, refuse("the file was made by an older comanda: start `comanda serve` once, which brings it up to date")
	}
	for _, step := range steps {
		if err := migrateStep(ctx, conn, step, now().UnixMilli()); err != nil {
			return 0, fmt.Errorf("schema step %s: %w", step.Name, err)
		}
	}
	return len(steps), nil
}

// upToDate spares a file that has every step the write lock: it can be read while another process
// holds that.
func upToDate(ctx context.Context, conn *sql.Conn, steps []schema.Step) (bool, error) {
	version, err := currentVersion(ctx, conn)
	if err != nil || version < len(steps) {
		return false, err
	}
	for _, step := range steps {
		if err := checkStep(ctx, conn, step); err != nil {
			return false, err
		}
	}
	return true, nil
}

func migrateStep(ctx context.Context, conn *sql.Conn, step schema.Step, now int64) (err error) {
	if _, err := conn.ExecContext(ctx, sqlBeginWrite); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // an interrupted statement would undo the others
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(ctx, sqlRollback)
		}
	}()
	version, err := currentVersion(ctx, conn)
	if err != nil {
		return err
	}
	if version >= step.Version {
		err = checkStep(ctx, conn, step)
	} else {
		err = applyStep(ctx, conn, step, now)
	}
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, sqlCommit)
	return err
}

// currentVersion reads the schema version and refuses a file that turned out to be somebody else's
// after all.
func currentVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var m mark
	if err := conn.QueryRowContext(ctx, sqlMarkOf).Scan(&m.app, &m.version, &m.tables, &m.vacuum); err != nil {
		return 0, err
	}
	return m.version, m.check("the file")
}

func checkStep(ctx context.Context, conn *sql.Conn, step schema.Step) error {
	var sum string
	err := conn.QueryRowContext(ctx, `SELECT checksum FROM schema_steps WHERE version = $1`, step.Version).Scan(&sum)
	if err != nil {
		return fmt.Errorf("read the step's checksum: %w", err)
	}
	if sum != step.Checksum {
		return refuse("schema step %s in the file differs from this program's: the file belongs to another build of comanda; use that one", step.Name)
	}
	return nil
}

func applyStep(ctx context.Context, conn *sql.Conn, step schema.Step, now int64) error {
	text := step.SQL
	if step.Version == 1 {
		text = `CREATE TABLE schema_steps (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;` +
			fmt.Sprintf("PRAGMA application_id = %d;", schema.ApplicationID) + text
	}
	text = mutateSchema(text)
	if _, err := conn.ExecContext(ctx, text); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", step.Version)); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, `INSERT INTO schema_steps (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)`,
		step.Version, step.Name, step.Checksum, now)
	return err
}
