package relay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// pager is whom the alerts of the tests are told.
type pager struct {
	mu   sync.Mutex
	got  []string // "STATE CAUSE"
	text []string
	err  error
}

func (p *pager) tell(_ context.Context, n Notice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.got = append(p.got, n.State+" "+n.Cause)
	p.text = append(p.text, n.Text())
	return nil
}

func (p *pager) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := strings.Join(p.got, ", ")
	p.got = nil
	return got
}

func watchFor(t *testing.T, db *store.DB, p *pager, stalled *atomic.Bool) (stop func()) {
	t.Helper()
	a := &Alerts{DB: db, Tell: p.tell, Log: slog.New(slog.DiscardHandler), Watch: func() []store.Condition {
		if stalled == nil || !stalled.Load() {
			return nil
		}
		return []store.Condition{{Cause: "relay stalled", Detail: "it does not come round"}}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { a.Run(ctx) })
	return func() { cancel(); run.Wait() }
}

// 3,000 failures make one alert, an hourly digest while they last, and one word when they are over.
func TestOneAlertForManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := openRemote(t, "test"), &pager{}
		put(t, db, 3000)
		defer watchFor(t, db, p, nil)()
		defer watchFor(t, db, p, nil)() // a second process on the same file
		time.Sleep(time.Minute)
		if got := p.take(); got != "" {
			t.Errorf("before anything: %s", got)
		}
		outside(t, db, `UPDATE outbox SET status = 'dead', processed_at = 1, detail = 'secret-card-4111'`)
		time.Sleep(30 * time.Minute)
		if got := p.take(); got != "onset dead letters" {
			t.Errorf("at the onset: %s", got)
		}
		time.Sleep(3 * time.Hour)
		if got := p.take(); got != "lasts dead letters, lasts dead letters, lasts dead letters" {
			t.Errorf("while it lasts: %s", got)
		}
		outside(t, db, `UPDATE outbox SET status = 'discarded' WHERE status = 'dead'`)
		time.Sleep(time.Minute)
		if got := p.take(); got != "over dead letters" {
			t.Errorf("at its end: %s", got)
		}
		for _, text := range p.text {
			if strings.Contains(text, "4111") || strings.Contains(text, "O-") {
				t.Errorf("an alert says too much: %s", text)
			}
		}
	})
}

func TestAlertCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := openRemote(t, "test"), &pager{}
		var stalled atomic.Bool
		put(t, db, 2)
		defer watchFor(t, db, p, &stalled)()
		act := func(fn func(*store.Tx) error) {
			t.Helper()
			if err := db.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		step := func(wait time.Duration, want string) {
			t.Helper()
			time.Sleep(wait)
			if got := p.take(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		outside(t, db, `UPDATE outbox SET status = 'review' WHERE id = 1`)
		step(time.Minute, "onset review")
		act(func(tx *store.Tx) error { return tx.PauseByAnswer("test", "401: no such card 4111", "token") })
		step(time.Minute, "onset target test paused")
		act(func(tx *store.Tx) error { return tx.ResumeTarget("test", "me") })
		step(time.Minute, "over target test paused")
		act(func(tx *store.Tx) error { return tx.PauseTarget("test", "me", "stocktaking") })
		step(14*time.Minute, "")
		step(2*time.Minute, "onset target test paused")
		act(func(tx *store.Tx) error { return tx.ResumeTarget("test", "me") })
		step(time.Minute, "over target test paused")
		act(func(tx *store.Tx) error { return tx.Offline("test", true) })
		step(14*time.Minute, "")
		step(2*time.Minute, "onset target test offline")
		act(func(tx *store.Tx) error { return tx.Offline("test", false) })
		step(time.Minute, "over target test offline")
		stalled.Store(true)
		step(time.Minute, "onset relay stalled")
		stalled.Store(false)
		step(time.Minute, "over relay stalled")
		for _, text := range p.text {
			if strings.Contains(text, "4111") || strings.Contains(text, "stocktaking") {
				t.Errorf("an alert repeats what a target or an operator said: %s", text)
			}
		}
	})
}

// What could not be delivered is told again, as an onset.
func TestAlertIsToldUntilItIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := openRemote(t, "test"), &pager{err: errors.New("no route")}
		put(t, db, 1)
		outside(t, db, `UPDATE outbox SET status = 'review' WHERE id = 1`)
		defer watchFor(t, db, p, nil)()
		time.Sleep(3 * time.Hour)
		p.mu.Lock()
		p.err = nil
		p.mu.Unlock()
		time.Sleep(time.Minute)
		if got := p.take(); got != "onset review" {
			t.Errorf("got %q", got)
		}
		p.mu.Lock()
		p.err = errors.New("no route again")
		p.mu.Unlock()
		outside(t, db, `UPDATE outbox SET status = 'pending' WHERE id = 1`)
		time.Sleep(3 * time.Hour)
		p.mu.Lock()
		p.err = nil
		p.mu.Unlock()
		time.Sleep(time.Minute)
		if got := p.take(); got != "over review" {
			t.Errorf("at its end: %q", got)
		}
	})
}

// A full disk and a file that can't be read are told without the file.
func TestAlertsWithoutTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := openRemote(t, "test"), &pager{}
		a := &Alerts{DB: db, Tell: p.tell, Log: slog.New(slog.DiscardHandler), Every: time.Minute}
		a.withoutFile(t.Context(), nil)
		for range 90 {
			a.withoutFile(t.Context(), store.ErrFull)
			time.Sleep(time.Minute)
		}
		if got := p.take(); got != "onset disk full, lasts disk full" {
			t.Errorf("full: %s", got)
		}
		a.withoutFile(t.Context(), errors.New("disk I/O error"))
		if got := p.take(); got != "onset database unavailable, over disk full" && got != "over disk full, onset database unavailable" {
			t.Errorf("unreadable: %s", got)
		}
		a.withoutFile(t.Context(), nil)
		if got := p.take(); got != "over database unavailable" {
			t.Errorf("over: %s", got)
		}
	})
}
