package store

import (
	"context"
	"errors"
	"testing"
)

// Who asks while another does waits, and no longer than he wants to.
func TestInvariantsOneAtATime(t *testing.T) {
	db := openNew(t)
	db.asking <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.AskInvariants(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while another asks: %v", err)
	}
	<-db.asking
	if _, err := db.AskInvariants(t.Context()); err != nil {
		t.Error(err)
	}
}
