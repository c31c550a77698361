package store

import "golang.org/x/sys/unix"

// networkFilesystem names the network filesystem that dir lies on, or returns "". The numbers are
// the f_type values of statfs(2).
func networkFilesystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return ""
	}
	return networkName(int64(st.Type))
}

func networkName(fsType int64) string {
	switch uint32(fsType) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "AFS"
	case unix.CODA_SUPER_MAGIC:
		return "Coda"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.V9FS_MAGIC:
		return "9P"
	case unix.NCP_SUPER_MAGIC:
		return "NCP"
	}
	return ""
}

// FreeBytes returns how many bytes a program may still write in dir.
func FreeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
