//go:build !linux

package store

import "errors"

var errOnlyLinux = errors.New("this can only be told on Linux")

// SpaceUnder can only be told on Linux.
func SpaceUnder(string) (Space, error) { return Space{}, errOnlyLinux }

// ClockSynchronised can only be told on Linux.
func ClockSynchronised() (bool, error) { return false, errOnlyLinux }
