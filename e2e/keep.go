package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// notDrained is the subdirectory for files in which tickets still wait.
const notDrained = "not-drained"

// roomToKeep refuses to write over files, before anything runs.
func roomToKeep(dir string, chosen []entry) error {
	if dir == "" {
		return nil
	}
	for _, e := range chosen {
		for _, path := range []string{filepath.Join(dir, e.name+".db"), filepath.Join(dir, notDrained, e.name+".db")} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is there already: remove it or give --keep another directory", path)
			}
		}
	}
	return nil
}

// keep copies a proof's closed file to where it was asked for. The last to close it has written its
// -wal back and removed it, so the one file is all there is.
func keep(dir, name, file string, drained bool) error {
	if dir == "" {
		return nil
	}
	if !drained {
		dir = filepath.Join(dir, notDrained)
	}
	if st, err := os.Stat(file + "-wal"); err == nil && st.Size() > 0 {
		return fmt.Errorf("proof %s left a -wal that was not written back into %s", name, file)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory to keep files in: %w", err)
	}
	to := filepath.Join(dir, name+".db")
	if err := copyFile(file, to); err != nil {
		return fmt.Errorf("keep %s: %w", to, err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from) // closed by every process that had it: no locks of ours are on it
	if errors.Is(err, os.ErrNotExist) {
		return nil // the proof failed before there was a file
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
