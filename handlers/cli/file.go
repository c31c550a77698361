package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
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

// who names the operator in the file's log.
func who() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "cli " + u.Username
	}
	return "cli uid " + strconv.Itoa(os.Getuid())
}
