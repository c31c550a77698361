package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"comanda/store"
)

// Nightly is when the file's own care is due: at 03:30 by the clock on the wall, when no shop is open and no zone
// that we know of changes its clocks.
func Nightly() cron.Schedule { return Daily(3, 30, time.Local) }

// Task is something that a file needs done now and then. Do says what came of it in a few words; an error that
// wraps store.ErrBusy is worth another try soon.
type Task struct {
	Name string
	Do   func(ctx context.Context) (outcome string, err error)
}

// FileTasks are what SQLite wants done for a file: its -wal emptied, its statistics brought up to date.
func FileTasks(db *store.DB) []Task {
	return []Task{
		{"checkpoint", func(ctx context.Context) (string, error) {
			done, err := db.Checkpoint(ctx)
			return fmt.Sprintf("wal %d KiB, now %d KiB", done.Before>>10, done.After>>10), err
		}},
		{"optimize", func(ctx context.Context) (string, error) {
			if db.Tight() {
				return "left out: the disk is nearly full", nil
			}
			return "done", db.Optimize(ctx)
		}},
	}
}

// Care runs tasks on a schedule of calendar times. What was run is kept in the file, so that of several processes
// one runs it, restarts change nothing, and a night that was missed is made up for once, however many were missed. It
// looks at the wall clock again and again and sleeps towards no time, so a clock that is set strands nothing.
type Care struct {
	DB       *store.DB
	Schedule cron.Schedule
	Tasks    []Task
	Log      *slog.Logger
	Now      func() time.Time // nil means time.Now
	Every    time.Duration    // between two looks; 0 means 20 s
	Settle   time.Duration    // before the first look, in which a start has other things to do
	Again    time.Duration    // between two tries of what was busy; 0 means 30 s
	Tries    int              // 0 means 20
}

func (c Care) withDefaults() Care {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Every == 0 {
		c.Every = 20 * time.Second
	}
	if c.Again == 0 {
		c.Again = 30 * time.Second
	}
	if c.Tries == 0 {
		c.Tries = 20
	}
	return c
}

// Run looks and runs what is due until ctx ends.
func (c Care) Run(ctx context.Context) {
	c = c.withDefaults()
	wait(ctx, c.Settle)
	for ctx.Err() == nil {
		for _, t := range c.Tasks {
			if err := guarded(func() { c.look(ctx, t) }); err != nil {
				c.Log.Error("task failed", "task", t.Name, "error", err)
			}
		}
		wait(ctx, c.Every)
	}
}

// look runs a task if its newest tick was run by nobody.
func (c Care) look(ctx context.Context, t Task) {
	now := c.Now()
	tick := lastTick(c.Schedule, now)
	if tick.IsZero() {
		return
	}
	mine, err := c.begin(ctx, t.Name, tick, now)
	if err != nil {
		if ctx.Err() == nil {
			c.Log.Warn("task not begun; the next look tries again", "task", t.Name, "error", err)
		}
		return
	}
	if !mine {
		return
	}
	began := time.Now()
	outcome, err := c.try(ctx, t)
	if ctx.Err() != nil && err != nil { // stopped, not failed: the next start runs it
		_ = c.write(ctx, func(tx *store.Tx) error { return tx.ForgetRun(t.Name, tick.UnixMilli()) })
		return
	}
	level := slog.LevelInfo
	if err != nil {
		level, outcome = slog.LevelWarn, store.TaskFailed+err.Error()
	}
	c.Log.Log(ctx, level, "task", "task", t.Name, "run_at", tick.Format(time.RFC3339), "outcome", outcome, "took", time.Since(began))
	if err := c.write(ctx, func(tx *store.Tx) error { return tx.EndTask(t.Name, tick.UnixMilli(), c.Now().UnixMilli(), outcome) }); err != nil {
		c.Log.Warn("what came of a task was not written down", "task", t.Name, "error", err)
	}
}

// begin looks before it writes: nearly every look finds nothing due.
func (c Care) begin(ctx context.Context, task string, tick, now time.Time) (mine bool, err error) {
	due := false
	err = c.DB.View(ctx, func(tx *store.Tx) error {
		last, found, err := tx.LastRun(task, now.UnixMilli())
		due = !found || tick.UnixMilli() > last
		return err
	})
	if err != nil || !due {
		return false, err
	}
	err = c.DB.Update(ctx, func(tx *store.Tx) (err error) {
		mine, err = tx.BeginTask(task, tick.UnixMilli(), now.UnixMilli())
		return err
	})
	return mine, err
}

func (c Care) try(ctx context.Context, t Task) (outcome string, err error) {
	for try := 1; ; try++ {
		if panicked := guarded(func() { outcome, err = t.Do(ctx) }); panicked != nil {
			return "", panicked
		}
		if !errors.Is(err, store.ErrBusy) || try == c.Tries || ctx.Err() != nil {
			return outcome, err
		}
		wait(ctx, c.Again)
	}
}

// write is for what must be written down though the process stops.
func (c Care) write(ctx context.Context, fn func(*store.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	return c.DB.Update(ctx, fn)
}

// lastTick is the newest time of a schedule up to now, or zero when there was none for more than a year.
func lastTick(s cron.Schedule, now time.Time) time.Time {
	const longest = 400 * 24 * time.Hour
	for back := time.Hour; back < longest; back *= 8 {
		at := s.Next(now.Add(-back))
		if at.IsZero() || at.After(now) {
			continue
		}
		for next := s.Next(at); !next.IsZero() && !next.After(now); next = s.Next(next) {
			at = next
		}
		return at
	}
	return time.Time{}
}
