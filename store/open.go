package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver named driverName
)

const driverName = "sqlite"

// Options are the settings of an open file. The zero value is usable.
type Options struct {
	// Readers is the number of read connections; 0 means one for each CPU, at least 4.
	Readers int
	// BusyTimeout is how long a write waits for another process; 0 means 5 s.
	BusyTimeout time.Duration
	// ReadFor is how long one read may last; 0 means 5 s.
	ReadFor time.Duration
	// GroupMax is the most members that share one commit; 0 means 128.
	GroupMax int
	// Synchronous is FULL unless a proof wants to show what NORMAL loses.
	Synchronous string
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
	// Boot is the clock by which the age of a send is told; nil means the machine's own.
	Boot BootClock
	// Space says how full the disk of a directory is; nil asks the disk.
	Space func(dir string) (Space, error)
	// MustExist refuses to make a new file, or to bring an older one up to date: what only looks at a
	// file leaves it as it is.
	MustExist bool
	// VFS is SQLite's name of another way to the disk, for what cuts the power (package crashdisk); empty means its own.
	VFS string

	// Committed is told of each commit that wrote or failed, by the one writer: how many members shared it, how long the
	// COMMIT itself took, its fsync included, and its error. It must be quick. nil tells nobody.
	Committed func(members int, took time.Duration, err error)

	// Ballast keeps a file of room beside this one, for the end of what was accepted on a full disk (Room, Accept).
	Ballast bool

	allocate func(*os.File, int64) error // reserves room for the ballast; nil asks the filesystem
	trusting bool                        // takes what is in the page cache for what is on the disk: the negative control of a test
}

func (o Options) withDefaults() Options {
	if o.Readers == 0 {
		o.Readers = max(4, runtime.NumCPU())
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.ReadFor == 0 {
		o.ReadFor = readFor
	}
	if o.GroupMax == 0 {
		o.GroupMax = 128
	}
	if o.Synchronous == "" {
		o.Synchronous = "FULL"
		if !withFullSync {
			o.Synchronous = "NORMAL"
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Space == nil {
		o.Space = SpaceUnder
	}
	if o.allocate == nil {
		o.allocate = allocate
	}
	if o.Boot == nil {
		o.Boot = bootClock
	}
	return o
}

func (o Options) otherVFS() string {
	if o.VFS == "" {
		return ""
	}
	return "&vfs=" + o.VFS
}

// DB is one open comanda file. It is safe for concurrent use.
type DB struct {
	path    string // absolute, symbolic links resolved
	opt     Options
	pools   []*sql.DB
	conns   []*conn // taken out of the pools: a pool does not close what is out
	writer  *conn
	readers chan *conn
	reads   reads
	asking  chan struct{} // who asks the invariants holds it

	queue   chan *member
	under   atomic.Int64 // calls of Update that have not returned
	errands chan *errand
	others  listening
	once    sync.Once // closes closing
	closing chan struct{}
	stopped chan struct{}
	wake    chan struct{}
	health  health
	stage   stage
	witness atomic.Pointer[Holder] // whose lock file says what was answered for
	tight   atomic.Bool            // the disk is so full that what can be done without is not done
	place   place
	version int // of the schema, as long as this program may use the file
	ballast ballast
}

// Open opens or makes the file at path and brings its schema up to date. Several processes may do
// so at once. It returns ErrRefused for a file that is not ours, is newer than this program, or
// lies on a network filesystem; such a file is not touched.
func Open(ctx context.Context, path string, opt Options) (*DB, error) {
	opt = opt.withDefaults()
	full, err := resolve(path, opt.MustExist)
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, full); err != nil {
		return nil, unlessInterrupted(ctx, full, err)
	}
	db, err := openOnce(ctx, full, opt)
	if opt.Ballast && isFull(err) && emptyBallast(ballastPath(full)) == nil {
		db, err = openOnce(ctx, full, opt)
	}
	if err != nil {
		return nil, err
	}
	if opt.Ballast {
		db.keepBallast()
	}
	return db, nil
}

func openOnce(ctx context.Context, full string, opt Options) (*DB, error) {
	db := &DB{
		path: full, opt: opt,
		readers: make(chan *conn, opt.Readers),
		queue:   make(chan *member, 1024),
		errands: make(chan *errand),
		others:  listening{look: make(chan struct{}), changed: make(chan struct{}, 1)},
		closing: make(chan struct{}), stopped: make(chan struct{}), asking: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), stage: stage{born: time.Now()},
	}
	if err := db.connect(ctx); err != nil {
		return nil, errors.Join(unlessInterrupted(ctx, full, err), db.closeConns())
	}
	go db.commitLoop()
	return db, nil
}

// unlessInterrupted keeps what an interruption broke from passing for a fault of the file.
func unlessInterrupted(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted while opening %s: %w", path, ctx.Err())
	}
	return err
}

// Path returns the file's absolute path with symbolic links resolved.
func (db *DB) Path() string { return db.path }

// resolve makes path absolute and follows links, so that every process agrees on what lies beside
// the file: SQLite's own -wal and our lock files.
func resolve(path string, mustExist bool) (string, error) {
	if path == "" || path == ":memory:" {
		return "", refuse("comanda keeps its orders in a file: give --db a path")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", refuse("the path %q can't be made absolute: %v", path, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	switch {
	case err == nil:
		abs = real
	case errors.Is(err, os.ErrNotExist) && !mustExist:
		dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
		if err != nil {
			return "", refuse("the directory %s does not exist: make it first", filepath.Dir(abs))
		}
		if target, err := os.Readlink(abs); err == nil { // a link to where the file will be
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return resolve(target, mustExist)
		}
		abs = filepath.Join(dir, filepath.Base(abs))
	case errors.Is(err, os.ErrNotExist):
		return "", refuse("there is no file %s: start `comanda serve` once or give --db another path", abs)
	default:
		return "", refuse("%s can't be reached: %v", abs, err)
	}
	st, err := os.Stat(abs)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return "", refuse("%s is not a regular file: give --db the path of a file", abs)
	case err == nil && links(st) > 1:
		return "", refuse("%s has %d names (hard links): two programs that open it under different ones would each write a -wal of their own, and orders would be lost; remove the other name", abs, links(st))
	case err == nil && mountedAlone(abs):
		return "", refuse("%s is mounted as a single file: its -wal would lie outside of the mount, where nobody else finds it; mount its directory instead", abs)
	case err == nil && mustExist && empty(st, abs):
		return "", refuse("the file %s is empty: start `comanda serve` once or give --db another path", abs)
	}
	if name := networkFilesystem(filepath.Dir(abs)); name != "" {
		return "", refuse("%s lies on a network filesystem (%s), where SQLite's locks can't be trusted and orders would be lost: put the file on a local disk", abs, name)
	}
	return abs, nil
}

// empty reports whether there is nothing in a file, nor in the -wal beside it.
func empty(st os.FileInfo, path string) bool {
	wal, err := os.Stat(path + "-wal")
	return st.Size() == 0 && (err != nil || wal.Size() == 0)
}

// connect opens the writer, brings the schema up to date, and opens the readers.
func (db *DB) connect(ctx context.Context) error {
	if err := checkEngine(EngineVersion); err != nil {
		return err
	}
	w, err := db.openWriter(ctx)
	if err != nil {
		return db.openError(err)
	}
	db.writer = w
	if !db.opt.MustExist && !db.opt.trusting {
		if err := db.rewriteWAL(ctx); err != nil {
			return fmt.Errorf("make sure of what an earlier process left behind: %w", translate(err))
		}
	}
	if db.version, err = migrate(ctx, w.sql, db.opt.Now, !db.opt.MustExist); err != nil {
		return fmt.Errorf("bring %s up to date: %w", db.path, translate(err))
	}
	if err := checkPragmas(ctx, w.sql, wantPragmas(db.opt.Synchronous)); err != nil {
		return err
	}
	if _, err := w.sql.ExecContext(ctx, `PRAGMA busy_timeout = 0`); err != nil { // from here on begin waits by itself
		return fmt.Errorf("set the busy timeout: %w", err)
	}
	for range db.opt.Readers {
		r, err := db.openConn(ctx, readerDSN(db.path, db.opt.BusyTimeout)+db.opt.otherVFS())
		if err != nil {
			return db.openError(err)
		}
		if err := checkPragmas(ctx, r.sql, []pragma{{"query_only", "1"}, {"journal_mode", "wal"}}); err != nil {
			return err
		}
		db.readers <- r
	}
	return db.settleIn()
}

// openWriter opens the writer's connection, and makes the file if there is none.
func (db *DB) openWriter(ctx context.Context) (w *conn, err error) {
	st, missing := os.Stat(db.path)
	fresh := missing != nil || st.Size() == 0
	dsn := writerDSN(db.path, db.opt.BusyTimeout, db.opt.Synchronous, fresh) + db.opt.otherVFS()
	if missing == nil {
		db.place.file = st
		return db.openConn(ctx, dsn)
	}
	like, err := newModel(db.path)
	if err != nil {
		return nil, err
	}
	w, err = db.openConn(ctx, dsn+like.dsn())
	return w, errors.Join(err, like.remove())
}

func (db *DB) openError(err error) error {
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) {
		return fmt.Errorf("open %s: %w", db.path, err)
	}
	return refuse("%s can't be opened: %v: check that the file and its directory can be written", db.path, err)
}

// openConn opens one connection of its own. Turning a new file to WAL does not wait for another
// process that does the same, so being busy is tried again until the busy timeout has passed.
func (db *DB) openConn(ctx context.Context, dsn string) (*conn, error) {
	pool, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	pool.SetMaxIdleConns(1)
	db.pools = append(db.pools, pool)
	deadline := time.Now().Add(2 * db.opt.BusyTimeout)
	for {
		c, err := pool.Conn(ctx)
		if err == nil {
			own := &conn{sql: c, prepared: map[string]*sql.Stmt{}}
			db.conns = append(db.conns, own)
			return own, own.findHandle()
		}
		err = translate(err)
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Close waits for the writes that were handed in, then closes the readers and last the writer: the
// last connection to leave writes the WAL back into the file and removes it. It returns ErrMoved, and leaves
// everything as it lies, when that would harm what lies at the file's names now.
func (db *DB) Close() error {
	first := false
	db.once.Do(func() { first = true; close(db.closing) })
	if !first {
		return ErrClosed
	}
	<-db.stopped
	for range db.opt.Readers {
		<-db.readers // a running View still has its connection
	}
	return db.closeConns()
}

func (db *DB) closeConns() error {
	if err := db.mayClose(); err != nil {
		return fmt.Errorf("%w; nothing was written back into it: what was promised last may be in its -wal alone, so keep the two together", err) // the kernel closes what is open
	}
	var errs []error
	for _, c := range db.conns {
		errs = append(errs, c.close())
	}
	for i := len(db.pools) - 1; i >= 0; i-- { // the writer was opened first
		errs = append(errs, db.pools[i].Close())
	}
	return errors.Join(errs...)
}
