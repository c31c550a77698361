//go:build unix

package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlitelib "modernc.org/sqlite/lib"
)

// crashDisk stands between SQLite and the real disk and takes down every operation that a power cut could undo. It
// is a VFS beside SQLite's own ("vfs=crashdisk"): the files are real, and so is everything that is read.
//
// The idea is that of SQLite's own crash tests (https://sqlite.org/testing.html, 3.2).
type crashDisk struct {
	mu    sync.Mutex
	log   []diskOp
	files map[uintptr]string // open file → its name
	dirs  map[string]bool    // a file whose first sync also syncs the directory
}

type opKind int

const (
	opCreate opKind = iota
	opWrite
	opTruncate
	opSync    // the file's content is on disk
	opSyncDir // and so are the names
	opDelete
)

type diskOp struct {
	kind   opKind
	file   string
	offset int64 // of a write; the size of a truncate
	data   []byte
}

// at is how many operations there were by now.
func (d *crashDisk) at() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

func (d *crashDisk) note(op diskOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, op)
}

// theDisk is the one that the VFS reports to; tests with it run one after the other.
var (
	theDisk     = &crashDisk{}
	crashVFS    sync.Once
	unixVFS     uintptr
	methodsOf   = map[uintptr]uintptr{} // SQLite's table of methods → ours
	methodsLock sync.Mutex
)

const crashVFSName = "crashdisk"

// useCrashDisk has every file that is opened with vfs=crashdisk report to d.
func useCrashDisk(t *testing.T, d *crashDisk) {
	t.Helper()
	crashVFS.Do(registerCrashVFS)
	d.files, d.dirs = map[uintptr]string{}, map[string]bool{}
	theDisk = d
}

func registerCrashVFS() {
	tls := libc.NewTLS() // never closed: the VFS stays
	unixVFS = sqlitelib.Xsqlite3_vfs_find(tls, 0)
	size := unsafe.Sizeof(sqlitelib.Tsqlite3_vfs{})
	ours := libc.Xmalloc(tls, libc.Tsize_t(size))
	vfs := at[sqlitelib.Tsqlite3_vfs](ours)
	*vfs = *at[sqlitelib.Tsqlite3_vfs](unixVFS)
	name, _ := libc.CString(crashVFSName)
	vfs.FzName, vfs.FpNext = name, 0
	vfs.FxOpen = pointerTo(crashOpen)
	vfs.FxDelete = pointerTo(crashDelete)
	if rc := sqlitelib.Xsqlite3_vfs_register(tls, ours, 0); rc != sqlitelib.SQLITE_OK {
		panic(fmt.Sprintf("register the VFS: %d", rc))
	}
}

// at is what lies at an address of the translated C.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointerTo is a function as the translated C holds it.
func pointerTo(f any) uintptr { return (*[2]uintptr)(unsafe.Pointer(&f))[1] }

// call turns such a pointer back.
func call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{p})) }

type (
	openFunc   = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	deleteFunc = func(*libc.TLS, uintptr, uintptr, int32) int32
	writeFunc  = func(*libc.TLS, uintptr, uintptr, int32, sqlitelib.Tsqlite3_int64) int32
	sizeFunc   = func(*libc.TLS, uintptr, sqlitelib.Tsqlite3_int64) int32
	syncFunc   = func(*libc.TLS, uintptr, int32) int32
)

func crashOpen(tls *libc.TLS, _, zName, pFile uintptr, flags int32, pOut uintptr) int32 {
	name := filepath.Base(libc.GoString(zName))
	existed := exists(tls, zName)
	rc := call[openFunc](at[sqlitelib.Tsqlite3_vfs](unixVFS).FxOpen)(tls, unixVFS, zName, pFile, flags, pOut)
	file := at[sqlitelib.Tsqlite3_file](pFile)
	if rc != sqlitelib.SQLITE_OK || file.FpMethods == 0 || zName == 0 {
		return rc
	}
	file.FpMethods = ourMethods(tls, file.FpMethods)
	d := theDisk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[pFile] = name
	if !existed {
		d.log = append(d.log, diskOp{kind: opCreate, file: name})
		d.dirs[name] = flags&(sqlitelib.SQLITE_OPEN_WAL|sqlitelib.SQLITE_OPEN_MAIN_JOURNAL) != 0
	}
	return rc
}

func exists(tls *libc.TLS, zName uintptr) bool {
	var out int32
	access := call[func(*libc.TLS, uintptr, uintptr, int32, uintptr) int32](at[sqlitelib.Tsqlite3_vfs](unixVFS).FxAccess)
	p := libc.Xmalloc(tls, 4)
	defer libc.Xfree(tls, p)
	access(tls, unixVFS, zName, sqlitelib.SQLITE_ACCESS_EXISTS, p)
	out = *at[int32](p)
	return out != 0
}

// ourMethods is a copy of SQLite's table in which writing, truncating and syncing are ours.
func ourMethods(tls *libc.TLS, theirs uintptr) uintptr {
	methodsLock.Lock()
	defer methodsLock.Unlock()
	if ours := methodsOf[theirs]; ours != 0 {
		return ours
	}
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlitelib.Tsqlite3_io_methods{})))
	m := at[sqlitelib.Tsqlite3_io_methods](ours)
	*m = *at[sqlitelib.Tsqlite3_io_methods](theirs)
	write, truncate, sync := call[writeFunc](m.FxWrite), call[sizeFunc](m.FxTruncate), call[syncFunc](m.FxSync)
	keep(write, truncate, sync)
	m.FxWrite = pointerTo(keep(func(tls *libc.TLS, f, buf uintptr, n int32, offset sqlitelib.Tsqlite3_int64) int32 {
		rc := write(tls, f, buf, n, offset)
		if rc == sqlitelib.SQLITE_OK {
			theDisk.noteFile(f, diskOp{kind: opWrite, offset: offset, data: append([]byte{}, unsafe.Slice(at[byte](buf), n)...)})
		}
		return rc
	})[0])
	m.FxTruncate = pointerTo(keep(func(tls *libc.TLS, f uintptr, size sqlitelib.Tsqlite3_int64) int32 {
		rc := truncate(tls, f, size)
		if rc == sqlitelib.SQLITE_OK {
			theDisk.noteFile(f, diskOp{kind: opTruncate, offset: size})
		}
		return rc
	})[0])
	m.FxSync = pointerTo(keep(func(tls *libc.TLS, f uintptr, flags int32) int32 {
		rc := sync(tls, f, flags)
		if rc == sqlitelib.SQLITE_OK {
			theDisk.noteSync(f)
		}
		return rc
	})[0])
	methodsOf[theirs] = ours
	return ours
}

// kept holds on to functions of which only C knows.
var kept []any

func keep(fs ...any) []any {
	kept = append(kept, fs...)
	return fs
}

func (d *crashDisk) noteFile(f uintptr, op diskOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if op.file = d.files[f]; op.file != "" {
		d.log = append(d.log, op)
	}
}

func (d *crashDisk) noteSync(f uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := d.files[f]
	if name == "" {
		return
	}
	d.log = append(d.log, diskOp{kind: opSync, file: name})
	if d.dirs[name] { // as SQLite's own VFS does after it has made a journal or a WAL
		d.dirs[name] = false
		d.log = append(d.log, diskOp{kind: opSyncDir})
	}
}

func crashDelete(tls *libc.TLS, _, zName uintptr, dirSync int32) int32 {
	name := filepath.Base(libc.GoString(zName))
	rc := call[deleteFunc](at[sqlitelib.Tsqlite3_vfs](unixVFS).FxDelete)(tls, unixVFS, zName, dirSync)
	if rc == sqlitelib.SQLITE_OK {
		theDisk.note(diskOp{kind: opDelete, file: name})
		if dirSync != 0 {
			theDisk.note(diskOp{kind: opSyncDir})
		}
	}
	return rc
}

// A content is what a file holds.
type content []byte

func (c content) apply(op diskOp) content {
	switch op.kind {
	case opWrite:
		if need := int(op.offset) + len(op.data); need > len(c) {
			c = append(c, make([]byte, need-len(c))...)
		}
		copy(c[op.offset:], op.data)
	case opTruncate:
		c = append(c, make([]byte, max(0, int(op.offset)-len(c)))...)[:op.offset]
	}
	return c
}

// platter is the disk after a number of operations: what is surely on it, and what may be.
type platter struct {
	safe    map[string]content  // content of the files whose names are surely there
	pending map[string][]diskOp // not synced yet
	fresh   map[string]bool     // files whose name is not surely there
	gone    map[string]bool     // files whose name is not surely gone
	order   []string            // names, as they came
}

func newPlatter() *platter {
	return &platter{map[string]content{}, map[string][]diskOp{}, map[string]bool{}, map[string]bool{}, nil}
}

func (p *platter) do(op diskOp) {
	switch op.kind {
	case opCreate:
		if _, known := p.safe[op.file]; !known {
			p.order = append(p.order, op.file)
		}
		p.safe[op.file], p.fresh[op.file], p.gone[op.file] = content{}, true, false
		p.pending[op.file] = nil
	case opWrite, opTruncate:
		p.pending[op.file] = append(p.pending[op.file], op)
	case opSync:
		for _, w := range p.pending[op.file] {
			p.safe[op.file] = p.safe[op.file].apply(w)
		}
		p.pending[op.file] = nil
	case opDelete:
		p.gone[op.file] = true
	case opSyncDir:
		for name, gone := range p.gone {
			if gone {
				delete(p.safe, name)
				p.pending[name] = nil
			}
		}
		p.fresh, p.gone = map[string]bool{}, map[string]bool{}
	}
}

// A powerCut says what a power cut leaves of what was not synced.
type powerCut struct {
	name string
	// keeps says for a pending write to a file, sector by sector, whether it is there.
	keeps func(r *rand.Rand) func(file string) bool
	names func(r *rand.Rand) bool // whether a name that is not surely there is there
	torn  bool                    // keeps is asked for each sector instead of each write
}

var cuts = []powerCut{
	{"nothing unsynced is there", func(*rand.Rand) func(string) bool { return func(string) bool { return false } }, func(*rand.Rand) bool { return false }, false},
	{"everything is there", func(*rand.Rand) func(string) bool { return func(string) bool { return true } }, func(*rand.Rand) bool { return true }, false},
	{"some sectors are there", func(r *rand.Rand) func(string) bool { return func(string) bool { return r.IntN(2) == 0 } }, func(r *rand.Rand) bool { return true }, true},
	{"one file's writes are there and another's not", func(r *rand.Rand) func(string) bool {
		side := map[string]bool{}
		return func(file string) bool {
			if _, known := side[file]; !known {
				side[file] = r.IntN(2) == 0
			}
			return side[file]
		}
	}, func(r *rand.Rand) bool { return true }, false},
	{"names are undone", func(r *rand.Rand) func(string) bool { return func(string) bool { return r.IntN(2) == 0 } }, func(r *rand.Rand) bool { return r.IntN(2) == 0 }, true},
}

const sector = 512

// image is what is on the disk after the cut.
func (p *platter) image(c powerCut, r *rand.Rand) map[string]content {
	left := map[string]content{}
	keeps := c.keeps(r)
	for _, name := range p.order {
		safe, there := p.safe[name]
		if !there || p.fresh[name] && !c.names(r) || p.gone[name] && c.names(r) {
			continue
		}
		body := append(content{}, safe...)
		for _, op := range p.pending[name] {
			body = body.applySome(op, c.torn, func() bool { return keeps(name) })
		}
		left[name] = body
	}
	return left
}

func (c content) applySome(op diskOp, torn bool, keep func() bool) content {
	if !torn || op.kind == opTruncate {
		if keep() {
			return c.apply(op)
		}
		return c
	}
	for from := 0; from < len(op.data); {
		to := min(len(op.data), from+sector-int((op.offset+int64(from))%sector))
		if keep() {
			c = c.apply(diskOp{kind: opWrite, offset: op.offset + int64(from), data: op.data[from:to]})
		}
		from = to
	}
	return c
}
