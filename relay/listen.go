package relay

import (
	"context"
	"time"

	"comanda/store"
)

// listenEvery is how often a loop asks whether another process has changed the file.
const listenEvery = 50 * time.Millisecond

// listen rings when another process has put something on the rail that is due, so that a relay beside the process
// that takes the orders need not wait for its schedule. What others write without that rings nothing: two relays
// that note their passes would keep each other awake. What can't be asked now is left to the schedule.
func (l *Loop) listen(ctx context.Context, tick chan<- struct{}) {
	look := time.NewTicker(listenEvery)
	defer look.Stop()
	db := l.runner.opt.DB
	known, _ := db.OthersVersion(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		version, err := db.OthersVersion(ctx)
		if err != nil || version == known {
			continue
		}
		known = version
		l.pokeLanes() // each looks for itself, and only reads
		if l.runner.localDue(ctx) {
			offer(tick)
		}
	}
}

// localDue says whether a claim of local effects would find a ticket.
func (r *Runner) localDue(ctx context.Context) (due bool) {
	err := r.opt.DB.View(ctx, func(tx *store.Tx) (err error) {
		due, _, _, err = tx.Due(store.ClaimRequest{TargetOf: r.targetOf})
		return err
	})
	return due && err == nil
}
