package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// SpaceUnder says how full the filesystem of dir is, and what it is.
func SpaceUnder(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, err
	}
	size := uint64(st.Bsize)
	return Space{
		Free: st.Bavail * size, Total: st.Blocks * size, Filesystem: filesystemName(int64(st.Type)),
		Used: part(st.Blocks-st.Bfree, st.Bavail), UsedFiles: part(st.Files-st.Ffree, st.Ffree),
	}, nil
}

// filesystemName names the local filesystems that shops have; others by their number.
func filesystemName(fsType int64) string {
	switch uint32(fsType) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "tmpfs"
	case unix.MSDOS_SUPER_MAGIC:
		return "FAT"
	case unix.EXFAT_SUPER_MAGIC:
		return "exFAT"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	}
	return fmt.Sprintf("type 0x%x", uint32(fsType))
}

// ClockSynchronised asks the kernel whether something keeps the clock right.
func ClockSynchronised() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, err
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}
