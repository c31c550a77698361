package relay

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"comanda/store"
)

// longestLook is how long an alarm sleeps at most between two looks at the clocks: Go's timers stand still
// while the machine sleeps, and know nothing of a clock that is set.
const longestLook = 10 * time.Second

// alarm tells when a schedule is due: when the wall clock shows the time, or when as much time has passed as was
// still missing when it was set, whichever comes first. So a clock that is set back holds nothing up, and one
// that is set forward by a year is worth one tick.
type alarm struct {
	schedule cron.Schedule
	next     time.Time     // on the wall clock; zero when the schedule is over
	up       time.Duration // the same on the clock that nobody sets
}

// set looks for the first time after from, as the wall clock shows wall.
func (a *alarm) set(from, wall time.Time, up time.Duration) {
	a.next = a.schedule.Next(from)
	a.up = up + a.next.Sub(wall)
}

// due takes in one look at the clocks, and sets itself anew when it is due.
func (a *alarm) due(wall time.Time, up time.Duration) bool {
	wall = wall.Round(0) // what it shows, not what Go has counted
	if a.next.IsZero() || wall.Before(a.next) && up < a.up {
		return false
	}
	from := wall
	if period := a.schedule.Next(a.next).Sub(a.next); wall.Before(a.next) && a.next.Sub(wall) < period {
		from = a.next // the clock was set back a little: this tick is not to come twice
	}
	a.set(from, wall, up)
	return true
}

// in is how long to sleep before the next look.
func (a *alarm) in(wall time.Time, up time.Duration) time.Duration {
	if a.next.IsZero() {
		return longestLook
	}
	return max(time.Millisecond, min(a.next.Sub(wall.Round(0)), a.up-up, longestLook))
}

// ring offers a tick whenever the schedule is due, until ctx ends. uptime goes on while the machine sleeps.
func ring(ctx context.Context, schedule cron.Schedule, uptime func() time.Duration, tick chan<- struct{}) {
	a := &alarm{schedule: schedule}
	now := time.Now().Round(0)
	a.set(now, now, uptime())
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if a.due(time.Now(), uptime()) {
			offer(tick)
		}
		look.Reset(a.in(time.Now(), uptime()))
	}
}

// uptime is the time since boot, or where that can't be told the time that Go has counted.
func uptime(boot store.BootClock) func() time.Duration {
	began := time.Now()
	return func() time.Duration {
		if name, ms := boot(); name != "" {
			return time.Duration(ms) * time.Millisecond
		}
		return time.Since(began)
	}
}
