package store

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The f_type values of statfs(2) that x/sys does not name (its own come from linux/magic.h): the first three
// from the projects' headers, as GNU coreutils lists them in src/stat.c, the others from the kernel's
// fs/vboxsf/super.c and open-vm-tools' vmhgfs.
const (
	lustreMagic = 0x0BD00BD0
	gpfsMagic   = 0x47504653
	beegfsMagic = 0x19830326
	vboxsfMagic = 0x786F4256
	vmhgfsMagic = 0xBACBACBC
)

// networkNames are the filesystems that lie on another machine, or on the other side of a virtual one. SQLite's
// locks and its shared -shm hold between processes of one kernel only (https://sqlite.org/wal.html, 2).
var networkNames = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.V9FS_MAGIC: "9P", unix.NCP_SUPER_MAGIC: "NCP", lustreMagic: "Lustre", gpfsMagic: "GPFS", beegfsMagic: "BeeGFS",
	vboxsfMagic: "VirtualBox's shared folders", vmhgfsMagic: "VMware's shared folders",
}

func networkName(fsType int64) string { return networkNames[uint32(fsType)] }

// networkFUSE are the programs that bring a filesystem from another machine in through FUSE, as the mount table
// names them after "fuse.". All others are taken for local; doctor says that there is FUSE.
var networkFUSE = map[string]bool{
	"sshfs": true, "rclone": true, "s3fs": true, "goofys": true, "gcsfuse": true, "mount-s3": true, "blobfuse": true, "blobfuse2": true,
	"davfs": true, "davfs2": true, "curlftpfs": true, "smbnetfs": true, "gvfsd-fuse": true, "kio-fuse": true,
	"glusterfs": true, "ceph-fuse": true, "ceph": true, "mfs": true, "juicefs": true, "seaweedfs": true, "nfs": true,
	"vmhgfs-fuse": true, "grpcfuse": true, "osxfs": true,
}

// networkFilesystem names the network filesystem that dir lies on, or returns "". What can't be told is none.
func networkFilesystem(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return ""
	}
	if fs.Type != unix.FUSE_SUPER_MAGIC {
		return networkName(int64(fs.Type))
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return ""
	}
	return fuseName(mounts(), unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
}

// fuseName names the program behind a FUSE filesystem if it is one of the network's.
func fuseName(table []mount, major, minor uint32) string {
	device := fmt.Sprintf("%d:%d", major, minor)
	for _, m := range table {
		if m.device != device {
			continue
		}
		program, _ := strings.CutPrefix(m.kind, "fuse.")
		if networkFUSE[program] || m.kind == "fuse" && strings.Contains(m.source, "://") {
			return program
		}
	}
	return ""
}

// mountedAlone reports whether the file itself is a mount point, as a container's single file is. Its -wal then lies in
// the directory around the mount point, which the other side does not see and which may go with the container.
func mountedAlone(path string) bool {
	for _, m := range mounts() {
		if m.point == path {
			return true
		}
	}
	return false
}

// mount is a line of the mount table.
type mount struct{ device, point, kind, source string }

// mounts is the mount table; nil where it can't be read.
func mounts() []mount {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseMounts(text)
}

// parseMounts reads proc_pid_mountinfo(5): "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG…] - TYPE SOURCE OPTIONS".
func parseMounts(text []byte) (table []mount) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 2 {
			continue
		}
		table = append(table, mount{fields[2], unescapeMount(fields[4]), kind[0], unescapeMount(kind[1])})
	}
	return table
}

// unescapeMount undoes the table's \040 for a space, and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
