package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// MostBytes is how large a file may be.
const MostBytes = 16 << 10

// every is how often a file is read again.
const every = time.Second

// File is a file whose text is in force.
type File struct {
	path string
	flag string
	take func(text []byte) error
	text []byte                 // that take took last
	told atomic.Pointer[string] // why what it holds now is not in force; nil when it is
}

// Open reads a file and has take bring its text into force, now and whenever it changes. flag names the setting in what
// is said. The error says what to do; so must those of take, without a word of the text.
func Open(flag, path string, take func(text []byte) error) (*File, error) {
	f := &File{flag: flag, path: path, take: take}
	text, err := Read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := take(text); err != nil {
		return nil, fmt.Errorf("%s names %s: %w", flag, path, err)
	}
	f.text = text
	return f, nil
}

// Read takes plain files only: a pipe could be read but once, and might hold up whoever waits for it. What is too
// large is not even opened: it might be a database.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, Unread(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file: put the secrets into one, so that it can be read again when it changes", path)
	}
	if info.Size() > MostBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes, and no file of secrets is", path, MostBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Unread(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MostBytes))
	if err != nil {
		return nil, Unread(err)
	}
	return text, nil
}

// Unread does not repeat the file's name: it may be the secret itself, given in place of its file.
func Unread(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("the file of secrets can't be read (%w): it must name a file that holds the secret and that this user may read", err)
}

// Watch reads the file again each second until ctx ends. What can't be read or used changes nothing and is said once.
func (f *File) Watch(ctx context.Context, log *slog.Logger) {
	f.WarnIfOpen(log)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Reread(log)
		}
	}
}

// Reread brings the file's text into force if it has changed.
func (f *File) Reread(log *slog.Logger) {
	text, err := Read(f.path)
	if err == nil && bytes.Equal(text, f.text) {
		if f.told.Swap(nil) != nil {
			log.Info("the file of secrets can be read again and is as before", "setting", f.flag)
		}
		return
	}
	if err == nil {
		err = f.take(text)
	}
	if err != nil {
		if why := err.Error(); f.why() != why {
			f.told.Store(&why)
			log.Warn("the secrets were not read again; those of before stay in force", "setting", f.flag, "error", err)
		}
		return
	}
	f.text = text
	f.told.Store(nil)
	log.Info("the secrets have changed and are in force", "setting", f.flag)
	f.WarnIfOpen(log)
}

func (f *File) why() string {
	if told := f.told.Load(); told != nil {
		return *told
	}
	return ""
}

// Trouble says in a sentence that what the file holds now is not in force, and why; "" when it is.
func (f *File) Trouble() string {
	if why := f.why(); why != "" {
		return fmt.Sprintf("the secrets of %s were not read again (%s); those of before stay in force", f.flag, why)
	}
	return ""
}

// WarnIfOpen does not refuse: what mounts secrets into a container often makes them readable.
func (f *File) WarnIfOpen(log *slog.Logger) {
	if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may read the secrets: chmod 600 the file", "setting", f.flag, "file", f.path, "mode", info.Mode().Perm().String())
	}
}
