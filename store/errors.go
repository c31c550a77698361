package store

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// Errors that callers tell apart with errors.Is. Anything else that a method returns is a fault of
// the file, the disk or the program.
var (
	// ErrBusy: another process held the file's write lock for longer than the busy timeout. Nothing was written.
	ErrBusy = errors.New("the file is held by another writer")
	// ErrFull: the disk has no room. Nothing was written.
	ErrFull = errors.New("the disk is full")
	// ErrUnknownOutcome: COMMIT itself failed. What was asked for may be on disk or not; ask again to find out.
	ErrUnknownOutcome = errors.New("the commit failed and its outcome is unknown")
	// ErrMoved: the file is not where it was opened; somebody removed, moved or replaced it. Nothing was written.
	ErrMoved = errors.New("the file was removed, moved or replaced while it was open")
	// ErrOtherSchema: another comanda has changed the file's schema since this one opened it. Nothing was written.
	ErrOtherSchema = errors.New("the file's schema was changed by another comanda while it was open")
	// ErrClosed: the DB was closed.
	ErrClosed = errors.New("the file is closed")
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrRefused: the file is not one that this program may touch. The text around it says why and what to do.
	ErrRefused = errors.New("refused")
)

// refusal is an ErrRefused whose text is a whole sentence for the operator.
type refusal struct{ sentence string }

func (r refusal) Error() string        { return r.sentence }
func (r refusal) Is(target error) bool { return target == ErrRefused }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// code returns the primary SQLite result code of err, or 0. Extended codes (517 is BUSY_SNAPSHOT)
// share their low byte with the primary one.
func code(err error) int { return extendedCode(err) & 0xFF }

func extendedCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	var d diskError
	if errors.As(err, &d) {
		return d.code
	}
	return 0
}

// diskError is an error of SQLite's way to the disk that no statement returned.
type diskError struct {
	what string
	code int
}

func (e diskError) Error() string {
	return fmt.Sprintf("%s: the disk answers with SQLite's error %d", e.what, e.code)
}

// translate puts the sentinel that fits in front of a driver error.
func translate(err error) error {
	switch code(err) {
	case sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case sqlitelib.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	if extendedCode(err) == sqlitelib.SQLITE_IOERR_SHMSIZE { // the -shm can't grow
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
