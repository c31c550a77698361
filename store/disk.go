package store

import (
	sqlitelib "modernc.org/sqlite/lib"
)

// IsDiskFault reports whether err says that the disk or the file, not the program, is at fault: an
// I/O error, a file that can't be opened, is read-only or is damaged. ErrFull and ErrBusy have names
// of their own.
func IsDiskFault(err error) bool {
	switch code(err) {
	case sqlitelib.SQLITE_IOERR, sqlitelib.SQLITE_CANTOPEN, sqlitelib.SQLITE_READONLY, sqlitelib.SQLITE_CORRUPT,
		sqlitelib.SQLITE_NOTADB, sqlitelib.SQLITE_PROTOCOL, sqlitelib.SQLITE_NOLFS:
		return true
	}
	return false
}
