package relay

import (
	"context"
	"time"

	"comanda/store"
)

// ListenEvery is how often a relay asks whether another process has changed the file, where the system does not tell
// of writes: often enough that a ticket of another process is begun within 100 ms.
const ListenEvery = 75 * time.Millisecond

// listen rings when another process has put something on the rail that is due, so that a relay beside the process
// that takes the orders need not wait for its schedule. What others write without that rings nothing: two relays
// that note their passes would keep each other awake.
func (l *Loop) listen(ctx context.Context, tick chan<- struct{}) {
	changed, err := l.runner.opt.DB.Listen(ctx, l.runner.opt.Listen)
	if err != nil {
		return // the file is closed, or the loop has ended
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
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
