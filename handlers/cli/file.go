package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"comanda/store"
)

// The commands read one thing after another, so that one reader is enough for most of them.
const readers = 2

// withFile opens the file that must exist, runs do, and closes the file.
func (s *session) withFile(path string, do func(*store.DB) error) error {
	return s.open(path, store.Options{Readers: readers, MustExist: true}, do)
}

func (s *session) open(path string, opt store.Options, do func(*store.DB) error) error {
	db, err := store.Open(s.ctx, path, opt)
	if err != nil {
		return err
	}
	err = do(db)
	if closeErr := db.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("close %s: %w", db.Path(), closeErr)
	}
	return err
}

// view reads from the file in one transaction. A row that is not there is told by sentence.
func (s *session) view(path, sentence string, do func(*store.Tx) error) error {
	return s.withFile(path, func(db *store.DB) error {
		err := db.View(s.ctx, do)
		if errors.Is(err, store.ErrNotFound) {
			return errors.New(sentence)
		}
		return err
	})
}

// update writes to the file that must exist, in one transaction. Who has begun it sees its end: Ctrl-C does not leave
// open whether it was done.
func (s *session) update(path string, do func(*store.Tx) error) error {
	return s.write(path, store.Options{Readers: readers, MustExist: true}, do)
}

// changed is the file that a command changed, in its own words.
type changed struct {
	path string // absolute
	made bool   // it was not there before
}

func (c changed) String() string {
	if c.made {
		return "in " + visible(c.path, true) + ", which is new: give --db if the server has another file"
	}
	return "in " + visible(c.path, true)
}

// makeOrUpdate is update for what may be done before the first start: it makes the file that is not there.
func (s *session) makeOrUpdate(path string, do func(*store.Tx) error) (changed, error) {
	_, before := os.Stat(path)
	err := s.write(path, store.Options{Readers: readers}, do)
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return changed{path, errors.Is(before, fs.ErrNotExist)}, err
}

func (s *session) write(path string, opt store.Options, do func(*store.Tx) error) error {
	return s.open(path, opt, func(db *store.DB) error { return db.Update(context.WithoutCancel(s.ctx), do) })
}

// who names the operator in the file's log.
func who() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "cli " + u.Username
	}
	return "cli uid " + strconv.Itoa(os.Getuid())
}
