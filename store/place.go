package store

import (
	"errors"
	"fmt"
	"os"
)

// place is where the file, its -wal and its -shm were when they were opened. SQLite goes on with what it has open
// though the names are gone or name something else: commits would be answered that nobody can ever find again,
// and whoever opens the names beside us shares no lock with us.
type place struct{ file, wal, shm os.FileInfo }

// names are the file's and those of what SQLite keeps beside it.
func (db *DB) names() []string { return []string{db.path, db.path + "-wal", db.path + "-shm"} }

// settleIn notes what lies at the names now that they are open. A file that was there before must still be the
// same: then it is the one that was opened.
func (db *DB) settleIn() error {
	file, err := os.Stat(db.path)
	if err != nil {
		return fmt.Errorf("look at the file that was just opened: %w", err)
	}
	if db.place.file != nil && !os.SameFile(file, db.place.file) {
		return fmt.Errorf("%w: %s", ErrMoved, db.path)
	}
	db.place.file = file
	if wal, err := os.Stat(db.path + "-wal"); err == nil {
		db.place.wal = wal
	}
	if shm, err := os.Stat(db.path + "-shm"); err == nil {
		db.place.shm = shm
	}
	return nil
}

// InPlace returns ErrMoved when the file, its -wal or its -shm was removed, moved or replaced since it was
// opened. It looks at names and opens nothing.
func (db *DB) InPlace() error {
	names := db.names()
	for i, was := range []os.FileInfo{db.place.file, db.place.wal, db.place.shm} {
		if was != nil && !isAt(names[i], was) {
			return fmt.Errorf("%w: %s", ErrMoved, names[i])
		}
	}
	return nil
}

func isAt(name string, was os.FileInfo) bool {
	now, err := os.Stat(name)
	return err == nil && os.SameFile(now, was)
}

// mayClose returns ErrMoved when closing the last connection would do harm: SQLite writes the -wal that it has open
// back into the file and removes the -wal and the -shm by name. It looks whether the file itself has moved, not
// whether they have, and so it writes over what another process has promised since. A -wal that is missing, or that
// nobody has written to since, is no reason: what was promised is then in the one that is open, and only this brings
// it into the file.
func (db *DB) mayClose() error {
	err := db.InPlace()
	if err == nil || db.place.file == nil { // never opened
		return nil
	}
	if db.place.shm == nil || !isAt(db.path, db.place.file) || !isAt(db.path+"-shm", db.place.shm) {
		return err
	}
	if st, statErr := os.Stat(db.path + "-wal"); errors.Is(statErr, os.ErrNotExist) || statErr == nil && st.Size() == 0 {
		return nil
	}
	return err
}
