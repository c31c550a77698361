package relay

import (
	"context"
	"fmt"
	"time"

	"comanda/store"
)

// awakeLook is how soon after its sleep a machine finds out what was over meanwhile.
const awakeLook = 500 * time.Millisecond

// errSlept is why a context ended whose time was over while the machine slept.
var errSlept = fmt.Errorf("the machine slept: %w", context.DeadlineExceeded)

// within is context.WithTimeout on the clock that goes on while the machine sleeps; Go's timers stand still then.
func within(parent context.Context, d time.Duration, boot store.BootClock) (context.Context, context.CancelFunc) {
	timed, over := context.WithTimeout(parent, d)
	ctx, cancel := context.WithCancelCause(timed)
	if name, began := boot(); name != "" && d > awakeLook {
		go func() {
			look := time.NewTicker(awakeLook)
			defer look.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-look.C:
				}
				if _, now := boot(); now-began >= d.Milliseconds() {
					cancel(errSlept)
				}
			}
		}()
	}
	return ctx, func() { cancel(context.Canceled); over() }
}
