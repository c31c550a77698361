package store

import (
	"path/filepath"
	"testing"
)

// The version changes with what others commit and not with what this process does.
func TestOthersVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	mine, other := open(t, path, Options{}), open(t, path, Options{})
	version := func() string {
		t.Helper()
		v, err := mine.OthersVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	touch := func(db *DB) {
		t.Helper()
		if err := db.Update(t.Context(), (*Tx).Touch); err != nil {
			t.Fatal(err)
		}
	}
	before := version()
	touch(mine)
	if version() != before {
		t.Error("it changes with what this process commits")
	}
	touch(other)
	if version() == before {
		t.Error("it does not change with what another commits")
	}
}
