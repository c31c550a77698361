//go:build !linux

package store

// networkFilesystem can only be told on Linux.
func networkFilesystem(string) string { return "" }

// mountedAlone can only be told on Linux.
func mountedAlone(string) bool { return false }
