package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Why the wall clock is not to be trusted, as it stands in events.clock_untrusted.
const (
	ClockUnsynchronised = "not synchronised"      // nothing keeps it right; it may still be
	ClockBeforeBuild    = "before the build"      // it can't be as early as that
	ClockBehindFile     = "before the newest row" // or the rows are from the future: one of both is wrong
)

// oldestBuild is a date that every build of this program is younger than, for one that does not know its own.
var oldestBuild = time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)

// doubtFor is how long an answer of ClockDoubt holds, as long as nobody sets the clock.
const doubtFor = time.Second

// ClockDoubt tells whether the wall clock is to be trusted, often and at little cost.
type ClockDoubt struct {
	db           *DB
	built        time.Time
	synchronised func() (bool, error)

	last atomic.Pointer[string]

	mu      sync.Mutex    // of whoever looks; the others take the last answer
	askedAt time.Time     // with its monotonic reading
	offset  time.Duration // of the wall clock from the monotonic one, then
	until   time.Time     // the newest row that the clock was once seen to stand before
}

// NewClockDoubt asks the kernel, the date of the build (the zero time where that is not known) and the file.
func NewClockDoubt(db *DB, built time.Time) *ClockDoubt {
	if built.Before(oldestBuild) {
		built = oldestBuild
	}
	return &ClockDoubt{db: db, built: built, synchronised: ClockSynchronised}
}

// processBegan is what the monotonic clock is counted from.
var processBegan = time.Now()

// Reason is why the clock is not to be trusted, or "". A clock that was behind the file is doubted until it
// has passed that row, though newer rows were written meanwhile: they carry its own wrong times. What can't be told
// is no reason.
func (c *ClockDoubt) Reason(ctx context.Context) string {
	if last := c.last.Load(); last == nil {
		c.mu.Lock()
	} else if !c.mu.TryLock() {
		return *last
	}
	defer c.mu.Unlock()
	now := c.db.opt.Now()
	offset := now.Sub(processBegan.Round(0)) - time.Since(processBegan)
	last := c.last.Load()
	if last != nil && time.Since(c.askedAt) < doubtFor && (offset-c.offset).Abs() < clockStep {
		return *last
	}
	reason := c.look(ctx, now)
	c.askedAt, c.offset = time.Now(), offset
	c.last.Store(&reason)
	return reason
}

// look asks those who know, the surest first.
func (c *ClockDoubt) look(ctx context.Context, now time.Time) string {
	if now.Before(c.built) {
		return ClockBeforeBuild
	}
	ctx, cancel := context.WithTimeout(ctx, doubtFor)
	defer cancel()
	_ = c.db.View(ctx, func(tx *Tx) error { // a file that can't be read gives no reason
		behind, err := tx.ClockBehind()
		if behind > 0 {
			c.until = now.Add(behind)
		}
		return err
	})
	if now.Before(c.until) {
		return ClockBehindFile
	}
	if ok, err := c.synchronised(); err == nil && !ok {
		return ClockUnsynchronised
	}
	return ""
}
