package crashdisk

import (
	"fmt"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlitelib "modernc.org/sqlite/lib"
)

// This file is the shim itself: a copy of SQLite's own VFS, and of the table of methods of each file that it opens,
// in which some functions are ours. The library is C that was translated to Go, so a function pointer of C is the
// address of a Go closure, and memory that C holds on to has to be C's own.

// open says of each open file to which disk it belongs. SQLite hands its methods nothing but the file's address.
var (
	open      sync.Map // uintptr of the file → *handle
	tables    = map[uintptr]uintptr{}
	tableLock sync.Mutex
	kept      []any // functions of which only C knows
	number    int
)

type handle struct {
	disk *Disk
	name string
}

type (
	openFunc   = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	accessFunc = func(*libc.TLS, uintptr, uintptr, int32, uintptr) int32
	deleteFunc = func(*libc.TLS, uintptr, uintptr, int32) int32
	closeFunc  = func(*libc.TLS, uintptr) int32
	moveFunc   = func(*libc.TLS, uintptr, uintptr, int32, sqlitelib.Tsqlite3_int64) int32 // xRead and xWrite
	sizeFunc   = func(*libc.TLS, uintptr, sqlitelib.Tsqlite3_int64) int32
	syncFunc   = func(*libc.TLS, uintptr, int32) int32
)

// at is what lies at an address of C.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointerTo is a function as C holds it, for good.
func pointerTo(f any) uintptr {
	kept = append(kept, f)
	return (*[2]uintptr)(unsafe.Pointer(&f))[1]
}

// function turns such a pointer back.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{p})) }

// register makes a VFS that reports to d and returns its name.
func register(d *Disk) (string, error) {
	tableLock.Lock()
	defer tableLock.Unlock()
	tls := libc.NewTLS() // never closed: the VFS stays
	theirs := sqlitelib.Xsqlite3_vfs_find(tls, 0)
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlitelib.Tsqlite3_vfs{})))
	number++
	name := fmt.Sprintf("crashdisk%d", number)
	zName, err := libc.CString(name)
	if err != nil || ours == 0 {
		return "", fmt.Errorf("register a VFS: no memory: %v", err)
	}
	vfs := at[sqlitelib.Tsqlite3_vfs](ours)
	*vfs = *at[sqlitelib.Tsqlite3_vfs](theirs)
	vfs.FzName, vfs.FpNext = zName, 0
	vfs.FxOpen = pointerTo(d.xOpen(theirs))
	vfs.FxDelete = pointerTo(d.xDelete(theirs))
	if rc := sqlitelib.Xsqlite3_vfs_register(tls, ours, 0); rc != sqlitelib.SQLITE_OK {
		return "", fmt.Errorf("register a VFS: SQLite answers %d", rc)
	}
	return name, nil
}

func (d *Disk) xOpen(theirs uintptr) openFunc {
	vfs := at[sqlitelib.Tsqlite3_vfs](theirs)
	openIt, access := function[openFunc](vfs.FxOpen), function[accessFunc](vfs.FxAccess)
	return func(tls *libc.TLS, _, zName, pFile uintptr, flags int32, pOut uintptr) int32 {
		if zName == 0 { // a temporary file, gone with the process anyway
			return openIt(tls, theirs, zName, pFile, flags, pOut)
		}
		name := filepath.Base(libc.GoString(zName))
		fresh, kind := !exists(tls, access, theirs, zName), Open
		if fresh {
			kind = Create
		}
		if v := d.ask(Op{Kind: kind, File: name}); v.Code != 0 {
			at[sqlitelib.Tsqlite3_file](pFile).FpMethods = 0
			return v.Code
		}
		rc := openIt(tls, theirs, zName, pFile, flags, pOut)
		file := at[sqlitelib.Tsqlite3_file](pFile)
		if rc != sqlitelib.SQLITE_OK || file.FpMethods == 0 {
			return rc
		}
		file.FpMethods = methods(tls, file.FpMethods)
		open.Store(pFile, &handle{d, name})
		if fresh {
			d.created(name, flags&(sqlitelib.SQLITE_OPEN_WAL|sqlitelib.SQLITE_OPEN_MAIN_JOURNAL) != 0)
		}
		return rc
	}
}

func exists(tls *libc.TLS, access accessFunc, vfs, zName uintptr) bool {
	p := libc.Xmalloc(tls, 4)
	defer libc.Xfree(tls, p)
	*at[int32](p) = 0
	access(tls, vfs, zName, sqlitelib.SQLITE_ACCESS_EXISTS, p)
	return *at[int32](p) != 0
}

func (d *Disk) xDelete(theirs uintptr) deleteFunc {
	remove := function[deleteFunc](at[sqlitelib.Tsqlite3_vfs](theirs).FxDelete)
	return func(tls *libc.TLS, _, zName uintptr, dirSync int32) int32 {
		op := Op{Kind: Delete, File: filepath.Base(libc.GoString(zName))}
		if v := d.ask(op); v.Code != 0 {
			return v.Code
		}
		rc := remove(tls, theirs, zName, dirSync)
		if rc == sqlitelib.SQLITE_OK {
			d.Note(op)
			if dirSync != 0 {
				d.Note(Op{Kind: SyncDir})
			}
		}
		return rc
	}
}

// methods is a copy of SQLite's table for an open file in which reading, writing, truncating, syncing and closing
// are ours.
func methods(tls *libc.TLS, theirs uintptr) uintptr {
	tableLock.Lock()
	defer tableLock.Unlock()
	if ours := tables[theirs]; ours != 0 {
		return ours
	}
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlitelib.Tsqlite3_io_methods{})))
	m := at[sqlitelib.Tsqlite3_io_methods](ours)
	*m = *at[sqlitelib.Tsqlite3_io_methods](theirs)
	m.FxRead = pointerTo(ourRead(function[moveFunc](m.FxRead)))
	m.FxWrite = pointerTo(ourWrite(function[moveFunc](m.FxWrite)))
	m.FxTruncate = pointerTo(ourTruncate(function[sizeFunc](m.FxTruncate)))
	m.FxSync = pointerTo(ourSync(function[syncFunc](m.FxSync)))
	m.FxClose = pointerTo(ourClose(function[closeFunc](m.FxClose)))
	tables[theirs] = ours
	return ours
}

func handleOf(file uintptr) *handle {
	h, _ := open.Load(file)
	return h.(*handle)
}

func ourRead(theirs moveFunc) moveFunc {
	return func(tls *libc.TLS, f, buf uintptr, n int32, offset sqlitelib.Tsqlite3_int64) int32 {
		h := handleOf(f)
		if v := h.disk.ask(Op{Kind: Read, File: h.name, Offset: offset}); v.Code != 0 {
			return v.Code
		}
		return theirs(tls, f, buf, n, offset)
	}
}

func ourWrite(theirs moveFunc) moveFunc {
	return func(tls *libc.TLS, f, buf uintptr, n int32, offset sqlitelib.Tsqlite3_int64) int32 {
		h := handleOf(f)
		op := Op{Kind: Write, File: h.name, Offset: offset, Data: append([]byte{}, unsafe.Slice(at[byte](buf), n)...)}
		v := h.disk.ask(op)
		if v.Code != 0 && !v.Short {
			return v.Code
		}
		if v.Code != 0 {
			op.Data = op.Data[:n/2]
		}
		rc := theirs(tls, f, buf, int32(len(op.Data)), offset)
		if rc != sqlitelib.SQLITE_OK {
			return rc
		}
		h.disk.Note(op)
		return v.Code
	}
}

func ourTruncate(theirs sizeFunc) sizeFunc {
	return func(tls *libc.TLS, f uintptr, size sqlitelib.Tsqlite3_int64) int32 {
		h := handleOf(f)
		op := Op{Kind: Truncate, File: h.name, Offset: size}
		if v := h.disk.ask(op); v.Code != 0 {
			return v.Code
		}
		rc := theirs(tls, f, size)
		if rc == sqlitelib.SQLITE_OK {
			h.disk.Note(op)
		}
		return rc
	}
}

func ourSync(theirs syncFunc) syncFunc {
	return func(tls *libc.TLS, f uintptr, flags int32) int32 {
		h := handleOf(f)
		if v := h.disk.ask(Op{Kind: Sync, File: h.name}); v.Code != 0 {
			h.disk.Note(Op{Kind: SyncFailed, File: h.name})
			return v.Code
		}
		rc := theirs(tls, f, flags)
		if rc == sqlitelib.SQLITE_OK {
			h.disk.synced(h.name)
		}
		return rc
	}
}

func ourClose(theirs closeFunc) closeFunc {
	return func(tls *libc.TLS, f uintptr) int32 {
		open.Delete(f)
		return theirs(tls, f)
	}
}
