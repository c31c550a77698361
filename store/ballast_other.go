//go:build !linux

package store

import "os"

const noFollow = 0

// allocate is never come to: without SpaceUnder no ballast is kept.
func allocate(*os.File, int64) error { return errOnlyLinux }

func allocated(os.FileInfo) int64 { return 0 }
