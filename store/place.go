package store

import (
	"fmt"
	"os"
)

// place is where the file and its -wal were when they were opened. SQLite goes on with what it has open though the
// names are gone or name something else: commits would be answered that nobody can ever find again.
type place struct{ file, wal os.FileInfo }

// names are the file's and those of what SQLite keeps beside it.
func (db *DB) names() []string { return []string{db.path, db.path + "-wal", db.path + "-shm"} }

// settleIn notes what lies at the path now that it is open.
func (db *DB) settleIn() error {
	file, err := os.Stat(db.path)
	if err != nil {
		return fmt.Errorf("look at the file that was just opened: %w", err)
	}
	db.place.file = file
	if wal, err := os.Stat(db.path + "-wal"); err == nil {
		db.place.wal = wal
	}
	return nil
}

// InPlace returns ErrMoved when the file, or its -wal, was removed, moved or replaced since it was opened. It
// looks at names and opens nothing.
func (db *DB) InPlace() error {
	if now, err := os.Stat(db.path); err != nil || !os.SameFile(now, db.place.file) {
		return fmt.Errorf("%w: %s", ErrMoved, db.path)
	}
	if wal := db.place.wal; wal != nil {
		if now, err := os.Stat(db.path + "-wal"); err != nil || !os.SameFile(now, wal) {
			return fmt.Errorf("%w: %s-wal", ErrMoved, db.path)
		}
	}
	return nil
}
