package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"modernc.org/libc"
	sqlitelib "modernc.org/sqlite/lib"
)

// What a killed process leaves in the -wal is read by the next one from the page cache, and that is no proof that
// it is on the disk: a sync may have been missing, or may have failed, and what a failed sync should have written
// no later one writes (https://lwn.net/Articles/752063/). A transaction there that is not on the disk is a gap
// behind which a power cut takes everything away. So whoever opens a file writes what is in the -wal once more,
// byte for byte, and syncs it, before anything is read from it for others or added to it
// (TestFailedSyncThenKillThenPowerLoss).

// rewriteChunk is how many bytes are written again under one hold of the write lock; SQLite's VFS takes less than
// 128 KiB at a time.
const rewriteChunk = 64 << 10

// rewriteWAL does that. While it holds the write lock nobody changes the bytes that it writes back. Somebody who
// holds that lock for all the time that we wait is a living writer, who did this when he came.
func (db *DB) rewriteWAL(ctx context.Context) (err error) {
	if st, err := os.Stat(db.path + "-wal"); err != nil || st.Size() == 0 {
		return nil // nothing was left
	}
	wal, err := openWAL(db.path, db.opt.VFS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, wal.close()) }()
	for at := int64(0); ; at += rewriteChunk {
		if _, err := db.writer.sql.ExecContext(ctx, sqlBeginWrite); err != nil {
			if err = translate(err); errors.Is(err, ErrBusy) {
				return wal.sync()
			}
			return err
		}
		more, err := wal.rewrite(at, rewriteChunk)
		if _, e := db.writer.sql.ExecContext(context.WithoutCancel(ctx), sqlRollback); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		if !more {
			return wal.sync()
		}
	}
}

// walFile is the -wal of a file, opened by SQLite's own VFS beside the connections that use it.
type walFile struct {
	tls         *libc.TLS
	file, name  uintptr
	buf         uintptr
	methods     *sqlitelib.Tsqlite3_io_methods
	description string
}

func openWAL(path, vfsName string) (*walFile, error) {
	w := &walFile{tls: libc.NewTLS(), description: path + "-wal"}
	zVFS := uintptr(0)
	if vfsName != "" {
		z, err := libc.CString(vfsName)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		defer libc.Xfree(w.tls, z)
		zVFS = z
	}
	vfs := sqlitelib.Xsqlite3_vfs_find(w.tls, zVFS)
	if vfs == 0 {
		return nil, errors.Join(fmt.Errorf("SQLite knows no VFS %q", vfsName), w.close())
	}
	v := inC[sqlitelib.Tsqlite3_vfs](vfs)
	w.file = libc.Xcalloc(w.tls, 1, libc.Tsize_t(v.FszOsFile))
	w.buf = libc.Xcalloc(w.tls, 1, rewriteChunk)
	name, err := libc.CString(w.description)
	w.name = name
	if err != nil || w.file == 0 || w.buf == 0 {
		return nil, errors.Join(errors.New("no memory"), err, w.close())
	}
	open := callable[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](v.FxOpen)
	rc := open(w.tls, vfs, w.name, w.file, sqlitelib.SQLITE_OPEN_WAL|sqlitelib.SQLITE_OPEN_READWRITE, 0)
	if rc == sqlitelib.SQLITE_OK {
		w.methods = inC[sqlitelib.Tsqlite3_io_methods](inC[sqlitelib.Tsqlite3_file](w.file).FpMethods)
	}
	if err := w.fault("open", rc); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// rewrite writes at most n bytes from offset at on once more. False means that there was an end.
func (w *walFile) rewrite(at, n int64) (more bool, err error) {
	var size int64
	sizeOf := callable[func(*libc.TLS, uintptr, uintptr) int32](w.methods.FxFileSize)
	if err := w.fault("measure", sizeOf(w.tls, w.file, w.buf)); err != nil {
		return false, err
	}
	if size = *inC[int64](w.buf); size <= at {
		return false, nil
	}
	n = min(n, size-at)
	type move = func(*libc.TLS, uintptr, uintptr, int32, sqlitelib.Tsqlite3_int64) int32
	if err := w.fault("read", callable[move](w.methods.FxRead)(w.tls, w.file, w.buf, int32(n), at)); err != nil {
		return false, err
	}
	err = w.fault("write", callable[move](w.methods.FxWrite)(w.tls, w.file, w.buf, int32(n), at))
	return at+n < size, err
}

func (w *walFile) sync() error {
	sync := callable[func(*libc.TLS, uintptr, int32) int32](w.methods.FxSync)
	return w.fault("sync", sync(w.tls, w.file, sqlitelib.SQLITE_SYNC_NORMAL))
}

func (w *walFile) close() (err error) {
	if w.methods != nil {
		err = w.fault("close", callable[func(*libc.TLS, uintptr) int32](w.methods.FxClose)(w.tls, w.file))
	}
	for _, p := range []uintptr{w.file, w.name, w.buf} {
		if p != 0 {
			libc.Xfree(w.tls, p)
		}
	}
	w.tls.Close()
	return err
}

func (w *walFile) fault(what string, rc int32) error {
	if rc == sqlitelib.SQLITE_OK {
		return nil
	}
	return translate(diskError{fmt.Sprintf("%s %s", what, w.description), int(rc)})
}

// inC is what lies at an address of SQLite's, which is C that was translated to Go.
func inC[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// callable is a function pointer of SQLite's.
func callable[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{p})) }
