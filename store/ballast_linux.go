package store

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow has an open fail at a symbolic link.
const noFollow = unix.O_NOFOLLOW

// allocate makes f hold size bytes of the disk. Where the filesystem can't reserve them they are written, at random:
// a filesystem that compresses would keep nothing else.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	_, err = io.CopyN(io.NewOffsetWriter(f, 0), rand.Reader, size)
	return err
}

// allocated is how many bytes of the disk a file holds.
func allocated(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return 0
}
