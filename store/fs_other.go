//go:build !linux

package store

import "errors"

// networkFilesystem can only be told on Linux.
func networkFilesystem(string) string { return "" }

// mountedAlone can only be told on Linux.
func mountedAlone(string) bool { return false }

// FreeBytes can only be told on Linux.
func FreeBytes(string) (uint64, error) {
	return 0, errors.New("free space can't be read on this system")
}
