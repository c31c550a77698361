package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// Loop calls a Runner: at once, at every tick of the schedule, and after commits that put tickets on
// the rail, in this process or another. Each time it drains until nothing is due.
type Loop struct {
	runner   *Runner
	schedule cron.Schedule
	log      *slog.Logger
	pulse    pulse
	period   time.Duration
	falls    falls
	setbacks setbacks
}

// ParseSchedule reads a cron expression or descriptor ("@every 10s"). The parser panics on some
// input that it can't read; that is an error here.
func ParseSchedule(spec string) (s cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("schedule %q can't be read", spec)
		}
	}()
	if s, err = cron.ParseStandard(spec); err != nil {
		return nil, fmt.Errorf("schedule %q can't be read: %w", spec, err)
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(strings.TrimSpace(every)); err == nil && d <= 0 {
			return nil, fmt.Errorf("schedule %q does not go forward", spec)
		}
	}
	if s.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("schedule %q never comes round", spec)
	}
	return onTheWall(s), nil
}

// NewLoop returns a Loop. It starts nothing.
func NewLoop(r *Runner, schedule cron.Schedule) *Loop {
	return &Loop{runner: r, schedule: schedule, log: r.opt.Log, pulse: newPulse(), period: period(schedule), setbacks: setbacks{log: r.opt.Log}}
}

// period is the longest time between two of the coming ticks of a schedule.
func period(schedule cron.Schedule) time.Duration {
	const ticks = 200 // enough for a night, or a weekend, in a schedule of office hours
	last := time.Now()
	var longest time.Duration
	for range ticks {
		next := schedule.Next(last)
		if next.IsZero() {
			break
		}
		longest, last = max(longest, next.Sub(last)), next
	}
	return longest
}

// limit is how long the loop may take to come round.
func (l *Loop) limit() time.Duration { return max(3*l.period, leastLimit) }

// leastLimit is what a loop, or a lane, is given at least.
const leastLimit = 30 * time.Second

// late says what has not come round within its limit. A lane that waits for answers within their time is not late.
func (l *Loop) late() (late []string) {
	over := func(what string, since, limit time.Duration) {
		if since > limit {
			late = append(late, fmt.Sprintf("%s has not come round for %s, which is longer than %s", what, since.Round(time.Second), limit.Round(time.Second)))
		}
	}
	over("the relay's loop", l.pulse.since(), l.limit())
	for _, lane := range l.runner.lanes {
		over("the lane of target "+lane.remote.Name, lane.pulse.since(), lane.limit())
	}
	return late
}

// fallsTold is how long a panic is worth telling after the relay goes on.
const fallsTold = 10 * time.Minute

// beganAgain tells of a loop or lane that broke off and was begun again, or "".
func (l *Loop) beganAgain() string {
	times, ago := l.falls.recent(fallsTold)
	if times == 0 {
		return ""
	}
	return fmt.Sprintf("the relay broke off and was begun again, %s ago at the last (%d since the start): the log says why", ago.Round(time.Second), times)
}

// Run works until ctx ends, then finishes or gives back what is in hand and returns nil. A panic is
// logged and the loop begins again.
func (l *Loop) Run(ctx context.Context) error {
	tick := make(chan struct{}, 1)
	lanes := l.runLanes(ctx)
	lanes.Go(func() { ring(ctx, l.schedule, uptime(l.runner.opt.DB.Boot), tick) })
	if l.runner.opt.Listen > 0 {
		lanes.Go(func() { l.listen(ctx, tick) })
	}
	defer lanes.Wait()
	for ctx.Err() == nil {
		if err := l.rounds(ctx, tick); err != nil {
			l.falls.note()
			l.log.Error("relay begins again", "error", err)
			offer(tick)
			wait(ctx, time.Second)
		}
	}
	return nil
}

// runLanes sets every lane to work, and again after a panic.
func (l *Loop) runLanes(ctx context.Context) *sync.WaitGroup {
	var lanes sync.WaitGroup
	for _, lane := range l.runner.lanes {
		lanes.Go(func() {
			for ctx.Err() == nil {
				if err := guarded(func() { lane.run(ctx) }); err != nil {
					l.falls.note()
					lane.log.Error("lane begins again", "error", err)
					wait(ctx, time.Second)
				}
			}
		})
	}
	return &lanes
}

// guarded runs a piece of work in a goroutine of its own. It returns an error if that panicked, or ended without
// coming to its end.
func guarded(run func()) error {
	ended := make(chan error, 1)
	go func() {
		err := errors.New("the relay's goroutine ended")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in the relay: %v\n%s", p, debug.Stack())
			}
			ended <- err
		}()
		run()
		err = nil
	}()
	return <-ended
}

// pokeLanes has every lane look at once.
func (l *Loop) pokeLanes() {
	for _, lane := range l.runner.lanes {
		offer(lane.poke)
	}
}

func offer(tick chan<- struct{}) {
	select {
	case tick <- struct{}{}:
	default: // one is waiting already
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// rounds drains, waits, drains … until ctx ends. It returns an error only for a panic.
func (l *Loop) rounds(ctx context.Context, tick <-chan struct{}) (err error) {
	return guarded(func() {
		for {
			l.pokeLanes()
			switch err := l.runner.drain(ctx, l.pulse.beat); {
			case err == nil:
				l.setbacks.passed()
				l.pulse.beat()
			case ctx.Err() == nil:
				l.setbacks.failed(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick:
			case <-l.runner.opt.DB.Wake():
			case <-l.setbacks.again():
			}
		}
	})
}
