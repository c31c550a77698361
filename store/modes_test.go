package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// childModes makes a file under the umask that it is given, with a ticket and a relay's lock in it, and
// says so; at the next line it goes.
func childModes(args []string, in *bufio.Scanner, out io.Writer) error {
	umask, err := strconv.ParseInt(args[1], 8, 32)
	if err != nil {
		return err
	}
	syscall.Umask(int(umask))
	ctx := context.Background()
	db, err := Open(ctx, args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	h, err := db.NewHolder(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := h.Begin(1); err != nil {
		return err
	}
	if err := db.Update(ctx, (*Tx).Touch); err != nil {
		return err
	}
	fmt.Fprintln(out, "made")
	in.Scan()
	if err := h.Close(); err != nil {
		return err
	}
	return db.Close()
}

// Whatever the umask is, nobody but the owner can read what the program writes.
func TestFilesArePrivate(t *testing.T) {
	for _, umask := range []string{"0", "022", "077", "0277"} {
		t.Run(umask, func(t *testing.T) {
			for _, name := range []string{"D/comanda.db", "D/a b+c%20&d.db", "R&D/comanda.db", "R&vfs=unix-none&mode=memory/comanda.db"} {
				top := t.TempDir()
				dir := filepath.Join(top, filepath.Dir(name))
				if err := errors.Join(os.Mkdir(filepath.Join(top, "R"), 0o755), os.Mkdir(dir, 0o700)); err != nil { // R: what a path that is cut at a sign names
					t.Fatal(err)
				}
				name = filepath.Base(name)
				c := spawn(t, "modes", filepath.Join(dir, name), umask)
				c.hear()
				seen := 0
				for name, mode := range modes(t, dir) {
					seen++
					want := private
					if strings.HasSuffix(name, lockSuffix) && umask == "0277" {
						continue // a relay can't write in it, and says so
					}
					if mode != want {
						t.Errorf("%s is %04o, want %04o", name, mode, want)
					}
				}
				if seen != 4 {
					t.Errorf("there are %d files, want the file, its -wal, its -shm and a relay's lock: %v", seen, modes(t, dir))
				}
				c.say("go")
			}
		})
	}
}

// A file that is there keeps the mode that somebody gave it, and what lies beside it has the same.
func TestModesAreKept(t *testing.T) {
	path := newPath(t)
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	open(t, path, Options{})
	for name, mode := range modes(t, filepath.Dir(path)) {
		if mode != 0o640 {
			t.Errorf("%s is %04o, want 0640", name, mode)
		}
	}
}

// What is wider than it need be is told, and stays as it is.
func TestDoctorSeesWideModes(t *testing.T) {
	db := openNew(t)
	dir := filepath.Dir(db.Path())
	set := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	set(dir, 0o700)
	for _, name := range []string{"files' modes", "directory's mode"} {
		if c := checkNamed(t, db, name); c.Level != LevelOK {
			t.Errorf("a file of our own in a private directory: %+v", c)
		}
	}
	set(db.Path()+"-wal", 0o644)
	if c := checkNamed(t, db, "files' modes"); c.Level != LevelWarning || !strings.Contains(c.Answer, "comanda.db-wal") || strings.Contains(c.Answer, "shm") {
		t.Errorf("a -wal that all can read: %+v", c)
	}
	h, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := os.WriteFile(ballastPath(db.Path()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{db.lockPath(h.ID), ballastPath(db.Path())} {
		set(path, 0o640)
		if c := checkNamed(t, db, "files' modes"); c.Level != LevelWarning || !strings.Contains(c.Answer, filepath.Base(path)) {
			t.Errorf("%s that a group can read: %+v", path, c)
		}
		set(path, 0o600)
	}
	for mode, says := range map[fs.FileMode]string{
		0o755: "look around", 0o710: "look around", 0o777: "replace", 0o770: "replace", 0o777 | fs.ModeSticky: "look around",
	} {
		set(dir, mode)
		if c := checkNamed(t, db, "directory's mode"); c.Level != LevelWarning || !strings.Contains(c.Detail, says) {
			t.Errorf("a directory of mode %v: %+v", mode, c)
		}
	}
	if st, err := os.Stat(db.Path() + "-wal"); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("the doctor changed a mode: %v, %v", st.Mode(), err)
	}
}

func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = info.Mode().Perm()
	}
	return found
}
