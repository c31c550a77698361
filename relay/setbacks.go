package relay

import (
	"log/slog"
	"time"
)

// setbacks are passes that keep failing, mostly for the file's or its disk's sake. It is said once, not at every
// try, and the tries come less and less often; whatever the schedule, the end of it is found within longestSetback.
type setbacks struct {
	log      *slog.Logger
	failures int
	since    time.Time
	said     string
}

const longestSetback = 10 * time.Second

// failed takes down a pass that failed.
func (t *setbacks) failed(err error) {
	if t.failures++; t.failures == 1 {
		t.since = time.Now()
	}
	if text := err.Error(); text != t.said && t.failures <= 3 { // not what it says in turns
		t.said = text
		t.log.Warn("pass failed; it is tried again, and this is said once", "error", err)
		return
	}
	t.log.Debug("pass failed", "error", err, "failures", t.failures)
}

// passed takes down a pass that did not fail.
func (t *setbacks) passed() {
	if t.failures > 0 {
		t.log.Info("passes succeed again", "failures", t.failures, "after", time.Since(t.since).Round(time.Millisecond))
	}
	t.failures, t.said = 0, ""
}

// wait is how long to wait for the next try at most: a second, doubling; 0 without any.
func (t *setbacks) wait() time.Duration {
	if t.failures == 0 {
		return 0
	}
	return min(longestSetback, time.Second<<min(t.failures-1, 10))
}

// again comes when it is time for the next try; never without any.
func (t *setbacks) again() <-chan time.Time {
	if t.failures == 0 {
		return nil
	}
	return time.After(t.wait())
}
