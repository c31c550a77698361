package relay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"comanda/store"
)

// Watchdog looks at what can't look after itself: the writer, the relay's loop and lanes, the disk. It asks
// nothing that could keep it waiting, so it answers though the file does not.
type Watchdog struct {
	DB   *store.DB
	Loop *Loop // nil without a relay
	Log  *slog.Logger
	// Feed is called again and again while nothing is wedged: what a service manager's watchdog waits for. nil
	// feeds nobody.
	Feed        func()
	WriterLimit time.Duration                      // how long the writer may be about one thing; 0 means 10 s
	Every       time.Duration                      // between two looks; 0 means 1 s
	Also        func() (wrong, warnings []Trouble) // what others have found out; nil nothing

	space atomic.Pointer[store.Space] // as the last look found it
	asked atomic.Pointer[time.Time]   // when the disk was asked that has not answered yet
}

// Trouble is one thing that the watchdog has seen.
type Trouble struct {
	store.Condition
	// Wedged: it will not come right by itself, and a new process may do better.
	Wedged bool
}

// writerLimit is longer than a card that cleans itself up takes for a write, and than a wait for the lock.
const writerLimit = 10 * time.Second

// Look says what is wrong now, and what is worth a look though nothing is wrong.
func (w *Watchdog) Look() (wrong, warnings []Trouble) {
	limit := w.WriterLimit
	if limit == 0 {
		limit = writerLimit
	}
	writer := w.DB.Writer()
	if writer.For > limit {
		cause := map[store.Doing]string{store.Locked: "file held", store.Working: "writer wedged", store.Syncing: "disk silent"}[writer.Doing]
		wrong = append(wrong, Trouble{store.Condition{Cause: cause, Detail: writer.String()}, writer.Doing != store.Locked})
	}
	if asked := w.asked.Load(); asked != nil && time.Since(*asked) > limit && writer.Doing != store.Syncing {
		wrong = append(wrong, Trouble{store.Condition{Cause: "disk silent",
			Detail: fmt.Sprintf("the disk has not answered for %s", time.Since(*asked).Round(time.Second))}, false})
	}
	if space := w.space.Load(); space != nil && space.Words() != "" {
		cause := "disk nearly full"
		if space.Used >= store.TooFull {
			cause = "disk too full"
		}
		warnings = append(warnings, Trouble{store.Condition{Cause: cause, Detail: space.Words()}, false})
	}
	if err := w.DB.NoBallast(); err != nil {
		warnings = append(warnings, Trouble{store.Condition{Cause: "no ballast", Detail: "no room is kept for a full disk: " + err.Error()}, false})
	}
	// A loop that waits for a file which can't be written now comes round by itself, and no new process would
	// come round sooner.
	waits := w.DB.LastCommit() != nil || writer.Doing == store.Locked
	if w.Loop != nil {
		for _, late := range w.Loop.late() {
			wrong = append(wrong, Trouble{store.Condition{Cause: "relay stalled", Detail: late}, !waits})
		}
		if again := w.Loop.beganAgain(); again != "" {
			warnings = append(warnings, Trouble{store.Condition{Cause: "relay panicked", Detail: again}, false})
		}
		for _, name := range w.Loop.runner.unaddressed() {
			warnings = append(warnings, Trouble{store.Condition{Cause: "target " + name + " without address",
				Detail: fmt.Sprintf("tickets wait for the target %s, which this file sends to for real, and this process has no address for it: start it with --%s-url", name, name)}, false})
		}
	}
	if w.Also != nil {
		alsoWrong, alsoWarnings := w.Also()
		wrong, warnings = append(wrong, alsoWrong...), append(warnings, alsoWarnings...)
	}
	return wrong, warnings
}

// Conditions is Look for Alerts.
func (w *Watchdog) Conditions() []store.Condition {
	var all []store.Condition
	wrong, warnings := w.Look()
	for _, t := range slices.Concat(wrong, warnings) {
		all = append(all, t.Condition)
	}
	return all
}

// Run logs what begins and what is over, and feeds, until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	every := w.Every
	if every == 0 {
		every = time.Second
	}
	go w.watchSpace(ctx, every) // a disk that does not answer keeps it alone
	told := map[string]bool{}
	for ctx.Err() == nil {
		wrong, warnings := w.Look()
		w.say(told, wrong, warnings)
		if w.Feed != nil && !slices.ContainsFunc(wrong, func(t Trouble) bool { return t.Wedged }) {
			w.Feed()
		}
		wait(ctx, every)
	}
}

// watchSpace asks the disk again and again how full it is.
func (w *Watchdog) watchSpace(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		now := time.Now()
		w.asked.Store(&now)
		if space, err := w.DB.LookAtSpace(); err == nil {
			w.space.Store(&space)
		}
		w.asked.Store(nil)
		wait(ctx, every)
	}
}

// say logs each cause once at its onset and once when it is over.
func (w *Watchdog) say(told map[string]bool, wrong, warnings []Trouble) {
	now := map[string]bool{}
	say := func(level slog.Level, all []Trouble) {
		for _, t := range all {
			if now[t.Cause] = true; !told[t.Cause] {
				w.Log.Log(context.Background(), level, "watchdog", "cause", t.Cause, "detail", t.Detail)
			}
		}
	}
	say(slog.LevelError, wrong)
	say(slog.LevelWarn, warnings)
	for cause := range told {
		if !now[cause] {
			w.Log.Info("watchdog: over", "cause", cause)
			delete(told, cause)
		}
	}
	for cause := range now {
		told[cause] = true
	}
}

// pulse is when something last gave a sign of life, on the monotonic clock.
type pulse struct {
	began time.Time
	last  atomic.Int64 // time since began
}

func newPulse() pulse { return pulse{began: time.Now()} }

func (p *pulse) beat() { p.last.Store(int64(time.Since(p.began))) }

// since is how long ago the last beat was, or its making if there was none.
func (p *pulse) since() time.Duration { return time.Since(p.began) - time.Duration(p.last.Load()) }

// falls remembers when something had to begin again.
type falls struct {
	mu    sync.Mutex
	times int
	last  time.Time
}

func (f *falls) note() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times++
	f.last = time.Now()
}

// recent is how often it was, if the last time was not longer ago than that.
func (f *falls) recent(within time.Duration) (times int, ago time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ago = time.Since(f.last)
	if f.times == 0 || ago > within {
		return 0, 0
	}
	return f.times, ago
}
