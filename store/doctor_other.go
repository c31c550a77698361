//go:build !linux

package store

import "errors"

var errOnlyLinux = errors.New("this can only be told on Linux")

// diskOf can only be told on Linux.
func diskOf(string) (free, total uint64, kind string, err error) { return 0, 0, "", errOnlyLinux }

// spaceOf can only be told on Linux.
func spaceOf(string) (Space, error) { return Space{}, errOnlyLinux }

// clockSynchronised can only be told on Linux.
func clockSynchronised() (bool, error) { return false, errOnlyLinux }
