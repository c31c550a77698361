package store

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"comanda/store/crashdisk"
)

// Only who asks for a ballast makes one: it holds room, for its owner alone, and a look at the file leaves it alone.
func TestBallastIsMade(t *testing.T) {
	path := newPath(t)
	open(t, path, Options{})
	open(t, path, Options{MustExist: true})
	if exists(ballastPath(path)) {
		t.Error("made by somebody who did not ask for it")
	}
	db := open(t, path, Options{Ballast: true})
	st, err := os.Stat(ballastPath(path))
	if err != nil || st.Mode().Perm() != 0o600 || st.Size() != ballastBytes || allocated(st) < ballastBytes {
		t.Errorf("the ballast: %v, %v", st, err)
	}
	if err := db.Accept(t.Context(), credit("a")); err != nil {
		t.Error(err)
	}
	if c := db.lookAtBallast(); c.Level != LevelOK {
		t.Errorf("doctor: %+v", c)
	}
}

// A write that meets a full disk gives the ballast up and is tried once more. Every process on the file sees that,
// and refuses what is new until one of them has filled it again; what is not new goes on.
func TestBallastIsGivenUp(t *testing.T) {
	disk := newDisk(t)
	path := newPath(t)
	db := open(t, path, Options{Ballast: true, VFS: disk.VFS()})
	other := open(t, path, Options{Ballast: true})
	wrong := ailment{kind: crashdisk.Write, verdict: crashdisk.Verdict{Code: crashdisk.Full}, nth: 1}
	size := db.ballast.size
	for _, d := range []*DB{db, other} {
		d.ballast.size = 1 << 60 // more than there is room for: it is not filled again
	}
	if err := os.Truncate(ballastPath(path), 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*DB{db, other} {
		if err := d.Accept(t.Context(), credit("new")); !errors.Is(err, ErrFull) {
			t.Errorf("something new while the disk is short of room: %v, want ErrFull", err)
		}
		update(t, d, credit("old"))
		if err := d.LastCommit(); err != nil {
			t.Errorf("LastCommit: %v: the commits are good", err)
		}
	}
	for _, d := range []*DB{db, other} {
		d.ballast.size = size
	}
	if err := other.Accept(t.Context(), credit("new")); err != nil && !errors.Is(err, ErrFull) {
		t.Error(err) // it may have looked a moment ago
	}
	waitFor(t, "the ballast to be filled", func() bool { return other.Room() == nil })
	if err := db.Accept(t.Context(), credit("new")); err != nil {
		t.Errorf("filled again by another process: %v", err)
	}

	fault, struck := wrong.fault() // COMMIT is what writes: its outcome is unknown, the next one has room
	disk.Break(fault)
	err := db.Update(t.Context(), credit("full"))
	if !*struck || err != nil && !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a write on a full disk: %v", err)
	}
	if ballastHeld(ballastPath(path)) != 0 {
		t.Error("the ballast is still there")
	}
	update(t, db, credit("full"))
	if c := db.lookAtBallast(); c.Level != LevelWarning || strings.Contains(c.Detail, "refused") { // there is room
		t.Errorf("doctor: %+v", c)
	}
	db.opt.Space = func(string) (Space, error) { return Space{Total: 1 << 40}, nil }
	if c := db.lookAtBallast(); c.Level != LevelWrong || !strings.Contains(c.Detail, "orders are refused") {
		t.Errorf("doctor on a full disk: %+v", c)
	}
}

// A ballast that can't be filled though there is room refuses nobody, neither at once nor after a restart: the file
// is used without, and that is said. When what was in the way is gone it is filled again.
func TestBallastThatCanNotBeFilled(t *testing.T) {
	path := newPath(t)
	var refuses atomic.Bool
	opt := Options{Ballast: true, allocate: func(f *os.File, size int64) error {
		if refuses.Load() {
			return os.ErrPermission
		}
		return allocate(f, size)
	}}
	first := open(t, path, opt)
	refuses.Store(true)
	if err := os.Truncate(ballastPath(path), 0); err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]*DB{"at once": first, "after a restart": open(t, path, opt)} {
		for range 2 {
			if err := errors.Join(db.Room(), db.Accept(t.Context(), credit("a"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := db.NoBallast(); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s it says %v", name, err)
		}
		if c := db.lookAtBallast(); c.Level != LevelWarning || !strings.Contains(c.Answer, "permission denied") || strings.Contains(c.Detail, "refused") {
			t.Errorf("%s doctor: %+v", name, c)
		}
	}
	if c := open(t, path, Options{MustExist: true}).lookAtBallast(); c.Level != LevelWarning || strings.Contains(c.Detail, "refused") {
		t.Errorf("another's doctor: %+v", c)
	}
	refuses.Store(false)
	waitFor(t, "the ballast to be filled", func() bool { return first.Room() == nil && ballastHeld(ballastPath(path)) >= ballastBytes })
	if err := first.NoBallast(); err != nil {
		t.Error(err)
	}
}

// What is no file of ours is neither filled nor emptied, and the file is used without a ballast.
func TestWhatIsNoBallast(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, at, elsewhere string) error{
		"a directory":     func(_ *testing.T, at, _ string) error { return os.Mkdir(at, 0o700) },
		"a symbolic link": func(_ *testing.T, at, elsewhere string) error { return os.Symlink(elsewhere, at) },
		"a hard link":     func(_ *testing.T, at, elsewhere string) error { return os.Link(elsewhere, at) },
	} {
		t.Run(name, func(t *testing.T) {
			path, elsewhere := newPath(t), newPath(t)
			if err := errors.Join(os.WriteFile(elsewhere, []byte("mine"), 0o600), put(t, ballastPath(path), elsewhere)); err != nil {
				t.Fatal(err)
			}
			db := open(t, path, Options{Ballast: true})
			accepts := func() {
				t.Helper()
				if err := errors.Join(db.Accept(t.Context(), credit("a")), db.Room()); err != nil {
					t.Error(err)
				}
				if c := checkNamed(t, db, "ballast"); c.Level != LevelWarning || !strings.Contains(c.Answer, "is not a file") {
					t.Errorf("doctor: %+v", c)
				}
			}
			accepts()
			other := open(t, newPath(t), Options{Ballast: true}) // and put there while it is open
			if err := errors.Join(os.Remove(ballastPath(other.Path())), put(t, ballastPath(other.Path()), elsewhere)); err != nil {
				t.Fatal(err)
			}
			db = other
			accepts()
			db.makeRoom(ErrFull)
			if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "mine" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// What a relay notes about the tickets in its hands has room from the start.
func TestNotesHaveRoomFromTheStart(t *testing.T) {
	h, err := openNew(t).NewHolder(t.Context(), 300)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(h.path); err != nil || allocated(st) < 300*slotWidth {
		t.Errorf("a new lock file: %v, %v", st, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestJudgeBallast(t *testing.T) {
	for _, c := range []struct {
		held, want  int64
		there, room bool
		level       Level
	}{
		{8 << 20, 8 << 20, true, false, LevelOK}, {0, 8 << 20, false, false, LevelOK}, {0, 8 << 20, true, false, LevelWrong},
		{4 << 20, 8 << 20, true, false, LevelWrong}, {0, 0, false, false, LevelWarning}, {9 << 20, 8 << 20, true, false, LevelOK},
		{4 << 20, 8 << 20, true, true, LevelWarning},
	} {
		if got := judgeBallast(c.held, c.want, c.there, c.room); got.Level != c.level {
			t.Errorf("%d of %d, there %t: %s, want %s", c.held, c.want, c.there, got.Level, c.level)
		}
	}
}
