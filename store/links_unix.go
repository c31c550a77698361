//go:build unix

package store

import (
	"os"
	"syscall"
)

// links is how many names a file has. SQLite knows a file by one of them
// (https://sqlite.org/howtocorrupt.html, 2.5).
func links(st os.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}
