// Package crashdisk is a disk that loses what was not synced and fails when it is told to. It stands between SQLite
// and the real files as a VFS (https://sqlite.org/vfs.html): the files are real, and so is everything that is read.
// It takes down every operation that a power cut could undo; a Platter then says what a disk may hold after any of
// them. The idea is that of SQLite's own crash and I/O-error tests (https://sqlite.org/testing.html, 3.2 and 3.3).
//
// Tests and the drill use it; no file that a shop works on is ever opened through it.
package crashdisk

import (
	"slices"
	"sync"

	sqlitelib "modernc.org/sqlite/lib"
)

// Kind says what an operation does.
type Kind int

// The operations of a disk.
const (
	Create Kind = iota
	Open        // of a file that is there; asked of a Fault, not taken down
	Read        // likewise
	Write
	Truncate
	Sync       // what was written to the file is on the disk
	SyncFailed // and what a failed sync should have put there never will be: Linux drops it (https://lwn.net/Articles/752063/)
	SyncDir    // the names of all files are on the disk
	Delete
)

func (k Kind) String() string {
	return [...]string{"create", "open", "read", "write", "truncate", "sync", "failed sync", "sync of the directory", "delete"}[k]
}

// Op is one operation.
type Op struct {
	Kind   Kind
	File   string // base name
	Offset int64  // of a write or a read; the size of a truncate
	Data   []byte // what is written
}

// Verdict is what becomes of an operation. The zero value lets it be carried out.
type Verdict struct {
	Code  int32 // SQLite's result code: one of those below
	Short bool  // of a write: the first half is written before it fails
}

// What a disk may answer (https://sqlite.org/rescode.html).
const (
	Full          = sqlitelib.SQLITE_FULL
	ReadError     = sqlitelib.SQLITE_IOERR_READ
	WriteError    = sqlitelib.SQLITE_IOERR_WRITE
	SyncError     = sqlitelib.SQLITE_IOERR_FSYNC
	TruncateError = sqlitelib.SQLITE_IOERR_TRUNCATE
	DeleteError   = sqlitelib.SQLITE_IOERR_DELETE
	CantOpen      = sqlitelib.SQLITE_CANTOPEN
)

// A Fault is asked before each operation. It is called with the disk's lock held, from any goroutine.
type Fault func(Op) Verdict

// Disk is one such disk. It is safe for concurrent use.
type Disk struct {
	vfs string

	mu    sync.Mutex
	log   []Op
	fresh map[string]bool // files whose first sync also syncs the directory, as SQLite's own VFS does
	fault Fault
}

// New returns a disk. Its VFS stays registered for the life of the process.
func New() (*Disk, error) {
	d := &Disk{fresh: map[string]bool{}}
	name, err := register(d)
	d.vfs = name
	return d, err
}

// VFS is SQLite's name for the way to this disk.
func (d *Disk) VFS() string { return d.vfs }

// At is how many operations there were by now.
func (d *Disk) At() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// Log is all operations by now.
func (d *Disk) Log() []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// Reset forgets all operations but the first n.
func (d *Disk) Reset(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = slices.Clone(d.log[:n])
}

// Note takes down an operation.
func (d *Disk) Note(op Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, op)
}

// Break has f asked before each operation from now on; nil heals the disk.
func (d *Disk) Break(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

func (d *Disk) ask(op Op) Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == nil {
		return Verdict{}
	}
	return d.fault(op)
}

func (d *Disk) created(name string, syncsDir bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, Op{Kind: Create, File: name})
	d.fresh[name] = syncsDir
}

func (d *Disk) synced(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, Op{Kind: Sync, File: name})
	if d.fresh[name] {
		d.fresh[name] = false
		d.log = append(d.log, Op{Kind: SyncDir})
	}
}
