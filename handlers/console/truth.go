package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"comanda/store"
)

// truth is the last answer of the file to the questions that must have none. Asking reads all of it, so one asks at
// a time.
type truth struct {
	mu     sync.Mutex
	asking time.Time // since when; zero for not
	last   *answers
}

// answers are the answers of one asking.
type answers struct {
	At     time.Time
	Took   time.Duration
	Asked  []store.Asked
	Doctor []store.Check
	Wrong  string // why there are none; "" otherwise
}

// truthSheet is what the page shows.
type truthSheet struct {
	Asking bool
	For    int64 // ms
	Last   *answers
	Ago    int64 // ms
}

// look returns what is known now.
func (t *truth) look() (s truthSheet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Asking, s.Last = !t.asking.IsZero(), t.last
	if s.Asking {
		s.For = time.Since(t.asking).Milliseconds()
	}
	if s.Last != nil {
		s.Ago = time.Since(s.Last.At).Milliseconds()
	}
	return s
}

// begin reports whether it is the caller's turn to ask.
func (t *truth) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asking.IsZero() {
		return false
	}
	t.asking = time.Now()
	return true
}

func (t *truth) end(a answers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.At, a.Took = time.Now(), time.Since(t.asking)
	t.asking, t.last = time.Time{}, &a
}

func (c *Console) truthPage(v *visit) error {
	s := c.truth.look()
	every := 0
	if s.Asking {
		every = 1
	}
	return v.show(http.StatusOK, "truth", sheet{Live: s.Asking, Every: every, Body: &s})
}

// askTruth is POST /truth: it begins to ask, and leads back to the page that shows the answer when there is one.
func (c *Console) askTruth(v *visit) error {
	if c.truth.begin() {
		c.under.Go(func() { c.truth.end(c.ask(c.closed)) })
	}
	return v.back("/truth")
}

func (c *Console) ask(ctx context.Context) (a answers) {
	var err error
	if a.Asked, err = c.opt.DB.AskInvariants(ctx); err == nil {
		a.Doctor, err = c.opt.DB.Doctor(ctx)
	}
	if err != nil {
		c.opt.Log.Warn("the console's questions were not answered", "error", err)
		a.Wrong = err.Error()
	}
	return a
}
