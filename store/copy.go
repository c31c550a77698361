package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"modernc.org/sqlite"
)

// pagesAtOnce is how many pages are copied before somebody may interrupt.
const pagesAtOnce = 1024

// Copy puts what the file at from holds at this moment into a new file at to, through SQLite's own backup
// (https://sqlite.org/backup.html). Others may go on writing to from meanwhile; it is opened for reading only, and
// what they commit in that time is not in the copy. It returns ErrRefused for what Open refuses. A copy that was not
// finished is removed.
func Copy(ctx context.Context, from, to string) (err error) {
	full, err := resolve(from, true)
	if err != nil {
		return err
	}
	if err := probe(ctx, full); err != nil {
		return unlessInterrupted(ctx, full, err)
	}
	mine, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // nobody else's to read
	if err != nil {
		return refuse("the copy can't be made: %v", err)
	}
	if err := mine.Close(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(unlessInterrupted(ctx, full, translate(err)), os.Remove(to))
		}
	}()
	before, quiet := rest(full)
	if err := copyOnce(ctx, full, to, quiet); err != nil {
		return err
	}
	if after, still := rest(full); quiet && (!still || after != before) { // somebody came in the meantime
		return copyOnce(ctx, full, to, false)
	}
	return nil
}

// stillness is how a file lies that nobody has open.
type stillness struct {
	size int64
	at   time.Time
}

// rest reports whether nobody has the file open: there is no -shm, nor anything in a -wal.
func rest(path string) (stillness, bool) {
	st, err := os.Stat(path)
	if err != nil {
		return stillness{}, false
	}
	_, shmErr := os.Stat(path + "-shm")
	wal, walErr := os.Stat(path + "-wal")
	quiet := errors.Is(shmErr, os.ErrNotExist) && (errors.Is(walErr, os.ErrNotExist) || walErr == nil && wal.Size() == 0)
	return stillness{st.Size(), st.ModTime()}, quiet
}

// copyOnce copies in one read transaction; a quiet file as it lies, without locks and without making a -wal beside it.
func copyOnce(ctx context.Context, from, to string, quiet bool) (err error) {
	pool, err := sql.Open(driverName, probeDSN(from, quiet))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, sqlBeginRead); err != nil { // one view for all pages: a writer would have the backup begin anew
		return err
	}
	if _, err := conn.ExecContext(ctx, `SELECT count(*) FROM sqlite_schema`); err != nil {
		return err
	}
	err = conn.Raw(func(driverConn any) error { return copyPages(ctx, driverConn, to) })
	_, rollback := conn.ExecContext(context.WithoutCancel(ctx), sqlRollback)
	return errors.Join(err, rollback)
}

func copyPages(ctx context.Context, driverConn any, to string) (err error) {
	source, ok := driverConn.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	})
	if !ok {
		return errors.New("the SQLite driver can't copy a file")
	}
	b, err := source.NewBackup(fileURI(to, nil))
	if err != nil {
		return fmt.Errorf("begin the copy: %w", err)
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, b.Finish())
		}
		if more, err = b.Step(pagesAtOnce); err != nil {
			return errors.Join(fmt.Errorf("copy pages: %w", err), b.Finish())
		}
	}
	return b.Finish()
}
