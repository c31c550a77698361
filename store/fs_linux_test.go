package store

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNetworkFilesystems(t *testing.T) {
	for magic, want := range map[int64]string{
		unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
		unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.CEPH_SUPER_MAGIC: "Ceph", unix.V9FS_MAGIC: "9P", unix.NCP_SUPER_MAGIC: "NCP",
		lustreMagic: "Lustre", gpfsMagic: "GPFS", beegfsMagic: "BeeGFS", vboxsfMagic: "VirtualBox's shared folders", vmhgfsMagic: "VMware's shared folders",
		unix.EXT4_SUPER_MAGIC: "", unix.XFS_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "", unix.TMPFS_MAGIC: "", unix.OVERLAYFS_SUPER_MAGIC: "",
		unix.MSDOS_SUPER_MAGIC: "", unix.F2FS_SUPER_MAGIC: "", 0: "",
		math.MinInt64 | unix.CIFS_SUPER_MAGIC: "SMB", int64(int32(-11317950)): "SMB", // 0xFF534D42 as a signed f_type of 32 bits
	} {
		if got := networkName(magic); got != want {
			t.Errorf("networkName(%#x) is %q, want %q", magic, got, want)
		}
	}
	dir := t.TempDir()
	if got := networkFilesystem(dir); got != "" {
		t.Skipf("the temporary directory lies on %s", got)
	}
	if s, err := SpaceUnder(dir); err != nil || s.Free == 0 {
		t.Errorf("SpaceUnder: %+v, %v", s, err)
	}
	if _, err := SpaceUnder(filepath.Join(dir, "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("SpaceUnder nothing: %v", err)
	}
}

func TestMountTable(t *testing.T) {
	table := parseMounts([]byte(strings.Join([]string{
		`22 1 254:0 / / rw,relatime - ext4 /dev/vda rw`,
		`30 22 0:44 / /home/shop/far rw,nosuid shared:5 - fuse.sshfs shop@nas:/orders rw,user_id=0`,
		`31 22 0:45 / /srv/with\040space rw - fuse.rclone remote: rw`,
		`32 22 0:46 / /srv/dav rw - fuse https://dav.example/files rw`,
		`33 22 8:17 / /media/stick rw - fuseblk /dev/sdb1 rw`,
		`34 22 0:47 / /srv/both rw shared:1 master:2 - fuse.mergerfs /a:/b rw`,
		`35 22 0:48 / /Users rw - virtiofs host rw`,
		`36 22 254:0 /home/comanda.db /data/comanda.db rw - ext4 /dev/vda rw`,
		`half a line`, ``,
	}, "\n")))
	for minor, want := range map[uint32]string{44: "sshfs", 45: "rclone", 46: "fuse", 47: "", 48: "", 99: ""} {
		if got := fuseName(table, 0, minor); got != want {
			t.Errorf("0:%d is the network's %q, want %q", minor, got, want)
		}
	}
	if len(table) != 8 || table[2].point != "/srv/with space" || fuseName(table, 8, 17) != "" {
		t.Errorf("the table reads %+v", table)
	}
}

// A file that is itself a mount point is refused under that name: its -wal would be another one than under its own
// name, and the two would write over each other.
func TestFileMountedAloneIsRefused(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	put(t, db, TicketIssueRefund, 1)
	point := filepath.Join(t.TempDir(), "a b.db")
	if err := os.WriteFile(point, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(path, point, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no mounts may be made here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(point, 0); err != nil {
			t.Error(err)
		}
	}()
	if _, err := Open(t.Context(), point, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "mounted as a single file") {
		t.Errorf("the mount point: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(point, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), link, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "mounted as a single file") {
		t.Errorf("a link to it: %v", err)
	}
	if got := folder(t, filepath.Dir(point)); len(got) != 1 {
		t.Errorf("the refusal left %d files", len(got))
	}
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Errorf("under its own name: %v", err)
	}
}
