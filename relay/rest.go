package relay

import (
	"context"
	"runtime/debug"
	"time"

	"comanda/store"
)

// When Rest looks, and how many commits between two looks are little to do; the schedule alone makes some.
const (
	restAfterStart = 3 * time.Second
	restEvery      = 30 * time.Second
	restBelow      = 50
)

// Rest gives back to the system what a start and a rush have left in the heap, once there is little to do, until ctx
// ends: Go by itself keeps it for the next rush, and begins to collect only at 8 MB.
func Rest(ctx context.Context, db *store.DB) {
	look := time.NewTimer(restAfterStart)
	defer look.Stop()
	for before, rested := db.Commits(), false; ; look.Reset(restEvery) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := db.Commits()
		idle := now-before < restBelow
		if idle && !rested {
			debug.FreeOSMemory()
		}
		before, rested = now, idle
	}
}
