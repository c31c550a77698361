package store

import (
	"errors"
	"os"
	"testing"
)

// Nothing is promised into a file that nobody can find again.
func TestMovedFileTakesNothing(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, path string) error{
		"removed":     func(_ *testing.T, path string) error { return os.Remove(path) },
		"moved":       func(_ *testing.T, path string) error { return os.Rename(path, path+".old") },
		"wal removed": func(_ *testing.T, path string) error { return os.Remove(path + "-wal") },
		"replaced": func(t *testing.T, path string) error {
			other := open(t, newPath(t), Options{})
			put(t, other, TicketIssueRefund, 1)
			if err := other.Close(); err != nil {
				return err
			}
			return os.Rename(other.Path(), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := open(t, path, Options{}).Close(); err != nil {
				t.Fatal(err)
			}
			db := open(t, path, Options{}) // one that was there before: its -wal is made by looking
			if err := db.InPlace(); err != nil {
				t.Fatal(err)
			}
			if err := move(t, path); err != nil {
				t.Fatal(err)
			}
			write := func(tx *Tx) error {
				_, err := tx.InsertTicket(NewTicket{OrderID: "O", EffectType: "test", Payload: "{}", Key: "k"})
				return err
			}
			if err := db.Update(t.Context(), write); !errors.Is(err, ErrMoved) {
				t.Errorf("an update: %v", err)
			}
			if err := db.InPlace(); !errors.Is(err, ErrMoved) || db.LastCommit() == nil {
				t.Errorf("in place: %v; last commit: %v", err, db.LastCommit())
			}
		})
	}
}
