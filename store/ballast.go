package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The ballast is a file beside the database, PATH.ballast, that holds nothing but room. When the disk is full it is
// given up: emptied, so that what was accepted can be finished in the room that it had, while orders are refused.
// When there is room again it is filled again, and orders are taken. That it is not whole is how every process on
// the file knows that the disk is short of room; nothing else has to be remembered or told.
const (
	ballastBytes = 8 << 20   // its size; but
	ballastShare = 16        // not more than this part of the filesystem,
	leastBallast = 256 << 10 // and none where that is less
	// roomForBallast is how many times its size must be free before it is filled again.
	roomForBallast = 2
	// lookForRoom is how often it is tried, by whoever asks.
	lookForRoom = time.Second
)

type ballast struct {
	path string
	size int64 // 0: none is kept

	allocate func(*os.File, int64) error

	mu     sync.Mutex // held by whoever fills it
	looked time.Time
	// why it can't be filled though there is room: none is kept as long as that lasts, and nothing is refused
	trouble atomic.Pointer[error]
}

func ballastPath(file string) string { return file + ".ballast" }

// errNoRoom is an ErrFull without a write that failed: the ballast is given up.
var errNoRoom = fmt.Errorf("%w: what room there is is kept for what was accepted", ErrFull)

// Room returns ErrFull while the disk is short of room for what is new. It fills the ballast when there is room
// again, so that somebody who asks now and then is all that it takes. Without Options.Ballast it returns nil, and so
// it does where there is room and the ballast can't be filled all the same (NoBallast).
func (db *DB) Room() error {
	b := &db.ballast
	if b.whole() {
		return nil
	}
	if !b.mu.TryLock() {
		return b.refusal()
	}
	defer b.mu.Unlock()
	if !b.looked.IsZero() && time.Since(b.looked) < lookForRoom {
		return b.refusal()
	}
	b.looked = time.Now()
	if err := b.fill(); isFull(err) {
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	return nil
}

// refusal is what stands in the way of something new while the ballast is not whole.
func (b *ballast) refusal() error {
	if b.givenUp() {
		return errNoRoom
	}
	return nil
}

// NoBallast is why no ballast is kept though there is room for one, or nil.
func (db *DB) NoBallast() error {
	b := &db.ballast
	if err := b.trouble.Load(); err != nil && !b.whole() {
		return fmt.Errorf("%s can't be made or filled: %w", b.path, *err)
	}
	return nil
}

// Accept is Update for what is new and may be refused: with the disk short of room it returns ErrFull, and leaves
// what room there is to the end of what was accepted before.
func (db *DB) Accept(ctx context.Context, fn func(*Tx) error) error {
	if err := db.Room(); err != nil {
		return err
	}
	return db.Update(ctx, func(tx *Tx) error {
		if !tx.roomy && db.ballast.givenUp() { // meanwhile
			return errNoRoom
		}
		tx.roomy = true
		return fn(tx)
	})
}

// keepBallast begins to keep one beside an open file. Where there is none to be had (a small disk, a directory
// that takes no file) the file is used without.
func (db *DB) keepBallast() {
	b := &db.ballast
	b.path, b.size, b.allocate = ballastPath(db.path), ballastFor(db.path), db.opt.allocate
	if !b.whole() {
		_ = b.fill() // Room tries again
	}
}

// ballastFor is the size of a file's ballast in bytes; 0 where the disk is too small for one.
func ballastFor(file string) int64 {
	space, err := SpaceUnder(dirOf(file))
	if err != nil {
		return 0
	}
	if size := min(ballastBytes, int64(space.Total/ballastShare)); size >= leastBallast {
		return size
	}
	return 0
}

// whole reports whether the ballast holds what it should. Something else in its place is none: the file is used
// without.
func (b *ballast) whole() bool {
	return b.size == 0 || notAFile(b.path) || ballastHeld(b.path) >= b.size
}

// givenUp reports whether the ballast is not whole because the disk is short of room.
func (b *ballast) givenUp() bool { return !b.whole() && b.trouble.Load() == nil }

// notAFile reports whether something lies at path that is no file of its own: what has another name too may be
// somebody's data.
func notAFile(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && !ofItsOwn(st)
}

func ofItsOwn(st os.FileInfo) bool { return st.Mode().IsRegular() && links(st) == 1 }

// ballastHeld is how much room the file at path holds; what is no file of ours holds none.
func ballastHeld(path string) int64 {
	st, err := os.Lstat(path)
	if err != nil || !ofItsOwn(st) {
		return 0
	}
	return allocated(st)
}

// fill makes the ballast whole if there is room for that and as much again, and notes what else is in the way.
func (b *ballast) fill() error {
	err := b.reserve()
	if err != nil && !isFull(err) {
		b.trouble.Store(&err)
	} else {
		b.trouble.Store(nil)
	}
	return err
}

func (b *ballast) reserve() (err error) {
	space, err := SpaceUnder(dirOf(b.path))
	if err != nil {
		return err
	}
	if int64(space.Free)+ballastHeld(b.path) < roomForBallast*b.size {
		return syscall.ENOSPC
	}
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = emptyBallast(b.path) // half a ballast is no use to anybody
		}
	}()
	if st, err := f.Stat(); err != nil || !ofItsOwn(st) {
		return errors.Join(fs.ErrInvalid, err)
	}
	return errors.Join(b.allocate(f, b.size), f.Sync())
}

// emptyBallast gives it up: that needs no room, not even for a name.
func emptyBallast(path string) error {
	if st, err := os.Lstat(path); err != nil || !ofItsOwn(st) {
		return errors.Join(fs.ErrInvalid, err)
	}
	return os.Truncate(path, 0)
}

// giveUp empties the ballast, if there is any of it, and reports whether that made room.
func (b *ballast) giveUp() bool {
	return b.size > 0 && ballastHeld(b.path) > 0 && emptyBallast(b.path) == nil
}

// makeRoom is what a write comes to that met a full disk. It gives the ballast up and makes the WAL's own room
// free, and reports whether it makes sense to try once more. Only the writer calls it.
func (db *DB) makeRoom(err error) bool {
	if !isFull(err) || errors.Is(err, errNoRoom) {
		return false
	}
	gave := db.ballast.giveUp()
	_, _ = db.writer.sql.ExecContext(context.Background(), sqlWriteBack) // then the WAL begins anew
	return gave
}

func isFull(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// orFull is err as an ErrFull where it says so in the system's words.
func orFull(err error) error {
	if isFull(err) && !errors.Is(err, ErrFull) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// lookAtBallast says for Doctor how the ballast of a file is.
func (db *DB) lookAtBallast() Check {
	path, want := ballastPath(db.path), ballastFor(db.path)
	if notAFile(path) {
		return Check{Name: "ballast", Level: LevelWarning, Answer: "none: " + path + " is not a file of its own",
			Detail: "remove it; until then, when the disk is full, what was accepted waits until there is room"}
	}
	if err := db.NoBallast(); err != nil {
		return Check{Name: "ballast", Level: LevelWarning, Answer: "none: " + err.Error(),
			Detail: "orders are taken; when the disk is full, what was accepted waits until there is room"}
	}
	held := ballastHeld(path)
	space, err := db.opt.Space(dirOf(path))
	return judgeBallast(held, want, exists(path), err == nil && int64(space.Free)+held >= roomForBallast*want)
}

func judgeBallast(held, want int64, there, room bool) Check {
	c := Check{Name: "ballast", Level: LevelOK, Answer: fmt.Sprintf("%d KiB held for a full disk", held>>10)}
	switch {
	case want == 0:
		c.Level, c.Answer = LevelWarning, "none: this disk is too small, or its size can't be told"
		c.Detail = "when it is full, what was accepted waits until there is room"
	case !there:
		c.Answer = "none yet: `comanda serve` makes one"
	case held < want && room:
		c.Level, c.Answer = LevelWarning, fmt.Sprintf("not filled: %d of %d KiB, though there is room", held>>10, want>>10)
		c.Detail = "a server fills it with the next order; if this stays so it can't: see that its user may write the file, or remove it. Orders are taken meanwhile"
	case held < want:
		c.Level, c.Answer = LevelWrong, fmt.Sprintf("given up: %d of %d KiB", held>>10, want>>10)
		c.Detail = fmt.Sprintf("the disk was full; orders are refused until %d KiB are free, then it is filled again by itself", roomForBallast*want>>10)
	}
	return c
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
