package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The requests of the kernel (linux/fuse.h) that an empty directory must answer.
const (
	fuseForget      = 2
	fuseGetattr     = 3
	fuseStatfs      = 17
	fuseInit        = 26
	fuseInterrupt   = 36
	fuseBatchForget = 42
	fuseLookup      = 1
)

// serveEmpty answers for a FUSE filesystem that is one empty directory, until it is unmounted.
func serveEmpty(fd int) {
	in := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, in)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		le := binary.NativeEndian
		var out []byte
		failed := int32(0)
		switch le.Uint32(in[4:]) {
		case fuseForget, fuseBatchForget, fuseInterrupt:
			continue // they have no answer
		case fuseInit:
			out = make([]byte, 64)
			le.PutUint32(out, 7)
			le.PutUint32(out[4:], 31)
			le.PutUint32(out[20:], 1<<16) // max_write
		case fuseGetattr:
			out = make([]byte, 104)
			le.PutUint64(out[16:], 1)                        // ino
			le.PutUint32(out[16+60:], syscall.S_IFDIR|0o755) // mode
			le.PutUint32(out[16+64:], 2)                     // nlink
		case fuseStatfs:
			out = make([]byte, 80)
			le.PutUint32(out[40:], 4096) // bsize
		case fuseLookup:
			failed = -int32(unix.ENOENT)
		default:
			failed = -int32(unix.ENOSYS)
		}
		answer := make([]byte, 16, 16+len(out))
		le.PutUint32(answer, uint32(16+len(out)))
		le.PutUint32(answer[4:], uint32(failed))
		copy(answer[8:], in[8:16]) // unique
		if _, err := unix.Write(fd, append(answer, out...)); err != nil && !errors.Is(err, unix.ENOENT) {
			return
		}
	}
}

// childFUSE mounts an empty FUSE filesystem of a kind at a directory, in a mount namespace of its own, tries to
// open a file there and through a link, and says what came of it.
func childFUSE(args []string, _ *bufio.Scanner, out io.Writer) error {
	kind, dir, link := args[0], args[1], args[2]
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("shop@nas:/orders", dir, kind, unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	}
	if err != nil {
		fmt.Fprintln(out, "unable:", err)
		return nil
	}
	go serveEmpty(fd)
	for _, path := range []string{filepath.Join(dir, "comanda.db"), link} {
		_, err := Open(context.Background(), path, Options{Readers: 1})
		fmt.Fprintln(out, errors.Is(err, ErrRefused), err)
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// A real mount that the kernel names as sshfs does is refused, also through a link that lies on a local disk.
func TestRealNetworkMountIsRefused(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(filepath.Join(dir, "comanda.db"), link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "fuse.sshfs", dir, link)
	cmd.Env = append(os.Environ(), childEnv+"=fuse")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	said, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || strings.HasPrefix(string(said), "unable") {
		t.Skipf("no mounts may be made here: %v %s", err, said)
	}
	if err != nil || strings.Count(string(said), "lies on a network filesystem (sshfs)") != 2 || strings.Count(string(said), "true ") != 2 {
		t.Errorf("%v\n%s", err, said)
	}
}
