package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// The writer is stuck in a transaction and the last commit has failed: readiness asks for a commit that can't
// come back, and says so all the same, however often it is asked; it is green again when the writer goes on.
func TestReadinessAnswersThoughTheWriterIsStuck(t *testing.T) {
	r := newRig(t)
	r.srv.looks.wait = 300 * time.Millisecond
	if err := r.db.Update(t.Context(), func(*store.Tx) error { return store.ErrFull }); !errors.Is(err, store.ErrFull) {
		t.Fatal(err) // from now on readiness probes
	}
	stuck, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.db.Update(context.Background(), func(*store.Tx) error { close(stuck); <-release; return nil })
	}()
	<-stuck
	for range 3 {
		began := time.Now()
		r.get("/readyz").wants(503, `"ready":false`, "a transaction has not come to its end")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("readiness took %v", took)
		}
	}
	r.get("/healthz").wants(200)
	close(release)
	<-ended
	for deadline := time.Now().Add(10 * time.Second); r.get("/readyz").status != 200; { // a look from before may still be under way
		if time.Now().After(deadline) {
			t.Fatal("it stays red")
		}
	}
}

// A look that never comes back keeps nobody, and only one is under way.
func TestLookThatNeverEnds(t *testing.T) {
	l := looks{wait: 50 * time.Millisecond}
	release, looked := make(chan struct{}), make(chan struct{}, 10)
	defer close(release)
	state := store.WriterState{Doing: store.Syncing, For: 12 * time.Second}
	for range 3 {
		if got := l.ask(func() string { looked <- struct{}{}; <-release; return "" }, func() store.WriterState { return state }); got != "the disk has not answered a write for 12s" {
			t.Errorf("said %q", got)
		}
	}
	state = store.WriterState{}
	if got := l.ask(nil, func() store.WriterState { return state }); !strings.HasPrefix(got, "the disk has not answered for ") {
		t.Errorf("said %q", got)
	}
	if len(looked) != 1 {
		t.Errorf("%d looks are under way, want one", len(looked))
	}
}
