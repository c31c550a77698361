package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opened tells which files of a directory were opened since it began, by whom it can't.
type opened struct {
	t  *testing.T
	fd int
}

func watchOpenings(t *testing.T, dir string) opened {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skipf("no inotify here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	return opened{t, fd}
}

// since counts the openings by name since the last call.
func (o opened) since() map[string]int {
	o.t.Helper()
	count := map[string]int{}
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(o.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return count
		}
		if err != nil {
			o.t.Fatal(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			length := binary.NativeEndian.Uint32(rest[12:]) // after wd, mask and cookie
			name := string(bytes.TrimRight(rest[16:16+length], "\x00"))
			count[name]++
			rest = rest[16+length:]
		}
	}
}

// live is how many of the openings were of the database, its -wal or its -shm.
func live(count map[string]int, path string) int {
	base := filepath.Base(path)
	return count[base] + count[base+"-wal"] + count[base+"-shm"]
}

// locks are the locks of this process on a file, as the kernel lists them.
func locks(t *testing.T, path string) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Skipf("no /proc/locks here: %v", err)
	}
	want := fmt.Sprintf(" %d %02x:%02x:%d ", os.Getpid(), unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	return strings.Count(string(text), want)
}

// Whatever an open file is asked for, nothing opens the database, its -wal or its -shm again: all connections are
// there from the start. And after a second opening of the same file in this process, a refused one, an examination
// and a lease that is freed, SQLite's locks on it are what they were: a descriptor of anybody else's that was closed
// would have dropped them.
func TestNothingOpensAnOpenFile(t *testing.T) {
	path := newPath(t)
	watch := watchOpenings(t, filepath.Dir(path))
	db := open(t, path, Options{})
	before := [2]int{locks(t, path), locks(t, path+"-shm")}
	if before[0] == 0 || before[1] == 0 {
		t.Skipf("the kernel lists no locks of ours: %v", before)
	}
	watch.since()
	ctx := t.Context()
	put(t, db, TicketIssueRefund, 3)
	uses := map[string]func() error{
		"a doctor": func() error { _, err := db.Doctor(ctx); return err },
		"a query":  func() error { _, err := db.Query(ctx, `SELECT * FROM outbox`); return err },
		"a peek":   func() error { _, err := db.Peek(ctx, `PRAGMA integrity_check`); return err },
		"a claim": func() error {
			_, err := db.Claim(ctx, ClaimRequest{Limit: 2, Lease: time.Minute, Holder: "gone"})
			return err
		},
		"a relay": func() error {
			h, err := db.NewHolder(ctx, 1)
			if err != nil {
				return err
			}
			end, err := h.Begin(1)
			if err != nil {
				return err
			}
			end()
			void, err := db.NewWatch(h.ID).Void(ctx)
			if err != nil || len(void) == 0 {
				return fmt.Errorf("void: %v, %w", void, err)
			}
			return h.Close()
		},
		"a look at its place": db.InPlace,
		"the free space":      func() error { _, err := SpaceUnder(filepath.Dir(path)); return err },
		"the statistics":      func() error { return db.View(ctx, func(tx *Tx) error { _, err := tx.Counts(); return err }) },
	}
	for _, name := range []string{"a claim", "a doctor", "a query", "a peek", "a relay", "a look at its place", "the free space", "the statistics"} {
		if err := uses[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if count := watch.since(); live(count, path) != 0 {
			t.Errorf("%s opened %v", name, count)
		}
	}
	for name, use := range map[string]func() error{
		"a second opening": func() error { return open(t, path, Options{MustExist: true}).Close() },
		"an examination":   func() error { _, err := Examine(ctx, path, Options{Readers: 1}); return err },
		"a refused opening": func() error {
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := Open(cancelled, path, Options{}); err == nil {
				return errors.New("it was opened")
			}
			return nil
		},
		"another schema": func() error {
			if _, err := db.writer.sql.ExecContext(ctx, `PRAGMA user_version = 99`); err != nil {
				return err
			}
			_, refused := Open(ctx, path, Options{})
			_, err := db.writer.sql.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, db.version))
			if !errors.Is(refused, ErrRefused) {
				return fmt.Errorf("opened: %w", refused)
			}
			return err
		},
	} {
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := [2]int{locks(t, path), locks(t, path+"-shm")}; after[0] < 1 || after[1] < 1 {
			t.Errorf("%s changed the locks on the file and on its -shm from %v to %v", name, before, after)
		}
	}
	// That this would be seen: the very thing that nobody may do.
	if f, err := os.Open(path); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if after := locks(t, path); after != 0 {
		t.Errorf("a descriptor of the file was closed and %d locks on it are left: this test sees nothing", after)
	}
	if count := watch.since(); live(count, path) == 0 {
		t.Error("the file was opened and that was not seen")
	}
}
