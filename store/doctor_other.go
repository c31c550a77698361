//go:build !linux

package store

import "errors"

var errOnlyLinux = errors.New("this can only be told on Linux")

// SpaceUnder can only be told on Linux.
func SpaceUnder(string) (Space, error) { return Space{}, errOnlyLinux }

// clockSynchronised can only be told on Linux.
func clockSynchronised() (bool, error) { return false, errOnlyLinux }
