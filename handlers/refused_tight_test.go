package handlers

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"comanda/store"
)

// With the disk nearly full no refused body is kept, and orders are taken; with room again both are.
func TestNoRefusedBodyOnATightDisk(t *testing.T) {
	used := 98
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), store.Options{Space: func(string) (store.Space, error) { return store.Space{Used: used}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := newKeeper(db, slog.New(slog.DiscardHandler), time.Now)
	defer k.close()
	look := func() {
		t.Helper()
		if _, err := db.LookAtSpace(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if err := k.keep(store.Refused{Problem: "bad-json"}); !errors.Is(err, errTight) {
		t.Errorf("kept: %v", err)
	}
	if err := db.Accept(t.Context(), (*store.Tx).Touch); err != nil {
		t.Errorf("an order is not taken: %v", err)
	}
	used = 50
	look()
	if err := k.keep(store.Refused{Problem: "bad-json"}); err != nil {
		t.Error(err)
	}
}
