package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// LeastFree is how many bytes the disk must have free; less is wrong, and a server is not ready.
const LeastFree = 16 << 20

// What a disk must offer beside.
const (
	fastestSync = 20 * time.Microsecond // no disk writes faster: what says so keeps it in memory
	largestWAL  = 128 << 20             // bytes; more means that somebody reads without an end
	syncsToTime = 5
	bytesToSync = 4096
)

func dirOf(path string) string { return filepath.Dir(path) }

func (db *DB) lookAtDisk(context.Context) []Check {
	return append(append(db.lookAtSpace(), db.lookAtBallast(), db.lookAtSync(), db.lookAtWAL()), db.lookAtModes()...)
}

func (db *DB) lookAtSpace() []Check {
	space, err := db.opt.Space(dirOf(db.path))
	if err != nil {
		return []Check{{Name: "disk", Level: LevelWarning, Answer: err.Error()}}
	}
	return []Check{judgeSpace(space), judgeFilesystem(space.Filesystem)}
}

func judgeSpace(s Space) Check {
	c := Check{Name: "disk space", Level: LevelOK, Answer: fmt.Sprintf("%d MiB free of %d MiB", s.Free>>20, s.Total>>20)}
	switch words := s.Words(); {
	case s.Free < LeastFree:
		c.Level, c.Detail = LevelWrong, "there is no room to take orders: free some space"
	case words != "":
		c.Level, c.Detail = LevelWarning, words
	}
	return c
}

func judgeFilesystem(kind string) Check {
	c := Check{Name: "filesystem", Level: LevelOK, Answer: kind}
	switch kind {
	case "FAT", "exFAT":
		c.Level, c.Detail = LevelWarning, "it has no journal: a power cut can damage it as a whole; put the file on ext4 or the like"
	case "FUSE":
		c.Level, c.Detail = LevelWarning, "a program provides it, and only that knows whether a sync reaches a disk; put the file on ext4 or the like"
	case "tmpfs":
		c.Level, c.Detail = LevelWarning, "it is kept in memory: a power cut forgets it; put the file on a disk"
	}
	return c
}

// lookAtSync measures how long the disk takes to say that something is on it: what every commit
// waits for.
func (db *DB) lookAtSync() Check {
	times, err := TimeSyncs(dirOf(db.path), syncsToTime)
	if err != nil {
		return Check{Name: "sync", Level: LevelWarning, Answer: "can't be measured: " + err.Error()}
	}
	return judgeSync(times[len(times)/2].Round(time.Microsecond))
}

func judgeSync(took time.Duration) Check {
	c := Check{Name: "sync", Level: LevelOK, Answer: took.String()}
	if TooFast(took) {
		c.Level, c.Detail = LevelWarning, "too fast to be true: the disk or the filesystem says that a write is safe before it is"
	}
	return c
}

// TooFast reports whether no disk could have put something on it in that time.
func TooFast(sync time.Duration) bool { return sync < fastestSync }

// TimeSyncs writes 4 KiB to a file of its own in dir, syncs it, and does so n times. It returns what the syncs took,
// the shortest first.
func TimeSyncs(dir string, n int) (times []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".comanda-sync-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	for range n {
		if _, err := f.Write(make([]byte, bytesToSync)); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times, nil
}

func (db *DB) lookAtWAL() Check {
	st, err := os.Stat(db.path + "-wal") // looked at, never opened
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Check{Name: "wal", Level: LevelWarning, Answer: err.Error()}
	}
	if err != nil {
		return judgeWAL(0)
	}
	return judgeWAL(st.Size())
}

func judgeWAL(size int64) Check {
	c := Check{Name: "wal", Level: LevelOK, Answer: fmt.Sprintf("%d KiB", size>>10)}
	if size > largestWAL {
		c.Level, c.Detail = LevelWarning, "it grows while somebody reads without an end: find the long query and stop it"
	}
	return c
}

// alive reports whether a holder still has its lock. A missing lock file is a dead holder.
func (db *DB) alive(holder string) (bool, error) {
	if strings.ContainsRune(holder, filepath.Separator) {
		return false, nil // not a name that we gave: nobody holds it
	}
	path := db.lockPath(holder)
	lock := flock.New(path, flock.SetFlag(os.O_RDWR)) // as a relay opens it; never made
	ok, err := lock.TryRLock()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if ok {
		err = lock.Unlock() // closes it, removes nothing
	}
	return !ok, err
}
