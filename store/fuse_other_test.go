//go:build !linux

package store

import (
	"bufio"
	"errors"
	"io"
)

// childFUSE can only be played on Linux.
func childFUSE([]string, *bufio.Scanner, io.Writer) error { return errors.New("not on Linux") }
