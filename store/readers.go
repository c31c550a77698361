package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"modernc.org/libc"
	sqlitelib "modernc.org/sqlite/lib"
)

// readFor is how long one read may last. SQLite can't begin its -wal anew while somebody reads an older
// state of the file, so a reader without an end would let it grow without an end.
const readFor = 5 * time.Second

// ErrTooLong: a read took longer than a read may, or than it may while the -wal has to be emptied. The text
// around it is a sentence for whoever asked.
var ErrTooLong = errors.New("the question took too long")

// tooLong is an ErrTooLong whose text is a whole sentence.
type tooLong struct {
	limit time.Duration
	why   string
}

func (t tooLong) Error() string {
	return fmt.Sprintf("the question took longer than %g s%s: ask for less at once", t.limit.Seconds(), t.why)
}
func (t tooLong) Is(target error) bool { return target == ErrTooLong }

// read is a reader's turn: a connection of the pool in a transaction that ends with ctx, whatever is being
// computed or waited for (TestReadsEnd).
type read struct {
	conn    *conn
	ctx     context.Context // no statement begins after it
	cancel  context.CancelCauseFunc
	release context.CancelFunc
	unhook  func() bool
	cut     chan struct{} // closed when the transaction was ended before its reader was done
	began   time.Time
	endless bool
}

// beginRead waits for a reader, which ctx bounds, and begins a transaction that ends when within does, and
// after limit; 0 is no limit, for examinations that read the whole file.
func (db *DB) beginRead(ctx, within context.Context, limit time.Duration) (*read, error) {
	r := &read{cut: make(chan struct{}), endless: limit == 0, release: func() {}}
	select {
	case r.conn = <-db.readers:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-db.closing:
		return nil, ErrClosed
	}
	r.began = time.Now()
	why := ""
	if limit > walHurry && db.walBytes() >= walLong { // perhaps another process waits for this one's reads
		limit, why = walHurry, walWhy
	}
	r.ctx, r.cancel = context.WithCancelCause(within)
	if limit > 0 {
		r.ctx, r.release = context.WithTimeoutCause(r.ctx, limit, tooLong{limit, why})
	}
	if err := r.conn.exec(context.Background(), sqlBeginRead); err != nil {
		r.cancel(nil)
		r.release()
		db.readers <- r.conn
		return nil, fmt.Errorf("begin to read: %w", translate(err))
	}
	r.unhook = context.AfterFunc(r.ctx, r.cutShort)
	db.reads.add(r)
	return r, nil
}

// cutShort ends the transaction under whoever reads.
func (r *read) cutShort() {
	defer close(r.cut)
	r.conn.interrupt()
	for r.conn.rollback() != nil { // hit by the interrupt itself, while rows are being closed
		time.Sleep(time.Millisecond)
	}
}

// rollback ends the transaction, if there still is one.
func (c *conn) rollback() error {
	err := c.exec(context.Background(), sqlRollback)
	if code(err) == sqlitelib.SQLITE_INTERRUPT {
		return err
	}
	return nil
}

// endRead gives the reader back. An error that came of the end of its time becomes the reason for that.
func (db *DB) endRead(r *read, err error) error {
	db.reads.remove(r)
	cut := !r.unhook()
	if cut {
		<-r.cut // an interrupt must never reach whoever reads next
	} else {
		_ = r.conn.rollback() // nothing was written
	}
	if err != nil && (cut || errors.Is(err, r.ctx.Err())) { // whose time is over is not always cut short yet
		err = context.Cause(r.ctx)
	}
	r.cancel(nil)
	r.release()
	db.readers <- r.conn
	return err
}

// reads are the turns that last.
type reads struct {
	mu  sync.Mutex
	now map[*read]struct{}
}

func (s *reads) add(r *read) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[*read]struct{}{}
	}
	s.now[r] = struct{}{}
}

func (s *reads) remove(r *read) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, r)
}

// endless reports whether one of them has no limit.
func (s *reads) endless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.now {
		if r.endless {
			return true
		}
	}
	return false
}

// hurry cuts short those that have lasted for longer than limit.
func (s *reads) hurry(limit time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.now {
		if !r.endless && time.Since(r.began) > limit {
			r.cancel(tooLong{limit, why})
		}
	}
}

// findHandle finds SQLite's own name of the connection. The driver lets a context interrupt a query's first
// step alone, and has nothing to interrupt the others with.
func (c *conn) findHandle() error {
	return c.sql.Raw(func(driverConn any) error {
		v := reflect.Indirect(reflect.ValueOf(driverConn))
		if v.Kind() == reflect.Struct {
			v = v.FieldByName("db")
		}
		if !v.IsValid() || v.Kind() != reflect.Uintptr || v.Uint() == 0 {
			return errors.New("the SQLite driver's queries can't be interrupted")
		}
		c.handle = uintptr(v.Uint())
		return nil
	})
}

// interrupt ends the statements that run on the connection, and is nothing to those that begin later.
func (c *conn) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlitelib.Xsqlite3_interrupt(tls, c.handle)
}
