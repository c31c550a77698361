package store

import (
	"testing"
	"time"
)

// What others commit is signalled, and what this process does is not.
func TestListen(t *testing.T) {
	path := newPath(t)
	mine, other := open(t, path, Options{}), open(t, path, Options{})
	changed, err := mine.Listen(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	touch := func(db *DB) {
		t.Helper()
		if err := db.Update(t.Context(), (*Tx).Touch); err != nil {
			t.Fatal(err)
		}
	}
	<-changed // the first look knows of nothing before it
	touch(mine)
	mine.Still(mine.lookAtOthers)
	select {
	case <-changed:
		t.Error("what this process commits is signalled")
	default:
	}
	touch(other)
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("what another commits is not signalled")
	}
}
