//go:build unix

package cli

import "syscall"

// descriptors is how many files and connections the process may have open; 0 when it can't be told.
func descriptors() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return uint64(r.Cur) //nolint:unconvert // an int64 on some systems
}
