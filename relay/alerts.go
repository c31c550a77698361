package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"comanda/store"
)

// Notice is one thing that a person is told. It holds no payloads, no ids and no secrets.
type Notice struct {
	Cause  string    // "dead letters"
	State  string    // "onset", "lasts" or "over"
	Since  time.Time // of the cause
	Detail string
}

// Text is the notice in one line.
func (n Notice) Text() string {
	switch n.State {
	case "over":
		return fmt.Sprintf("comanda: over: %s", n.Cause)
	case "lasts":
		return fmt.Sprintf("comanda: still %s: %s (since %s)", n.Cause, n.Detail, n.Since.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return fmt.Sprintf("comanda: %s: %s", n.Cause, n.Detail)
}

// Alerts tells a person of what needs one: at its onset, once an hour while it lasts, and when it is over. What
// was told is remembered in the file; that the file itself can't be read or written, and what the watchdog sees,
// is told without it and remembered here.
type Alerts struct {
	DB    *store.DB
	Tell  func(context.Context, Notice) error
	Watch func() []store.Condition // what is seen without asking the file; nil nothing
	Log   *slog.Logger
	Every time.Duration // between two looks; 0 means 15 s

	file aside
}

// Causes that are told without the file.
const (
	causeFull     = "disk full"
	causeDatabase = "database unavailable"
)

// Run looks and tells until ctx ends.
func (a *Alerts) Run(ctx context.Context) {
	if a.Every == 0 {
		a.Every = 15 * time.Second
	}
	var seen aside
	var both sync.WaitGroup
	both.Go(func() { // apart, since the file may keep the other waiting
		a.again(ctx, func() {
			now := map[string]string{}
			if a.Watch != nil {
				for _, c := range a.Watch() {
					now[c.Cause] = c.Detail
				}
			}
			seen.tell(ctx, a, now)
		})
	})
	a.again(ctx, func() { a.look(ctx) })
	both.Wait()
}

func (a *Alerts) again(ctx context.Context, look func()) {
	for ctx.Err() == nil {
		if err := guarded(look); err != nil {
			a.Log.Error("alerts begin again", "error", err)
		}
		wait(ctx, a.Every)
	}
}

func (a *Alerts) look(ctx context.Context) {
	conditions, err := a.conditions(ctx)
	if err == nil {
		err = a.writes(ctx)
	}
	a.withoutFile(ctx, errors.Join(err, a.DB.Room()))
	if err != nil {
		return
	}
	known, err := a.known(ctx)
	if err != nil {
		a.withoutFile(ctx, err)
		return
	}
	for _, c := range conditions {
		a.raise(ctx, c)
	}
	for _, k := range known {
		if !slices.ContainsFunc(conditions, func(c store.Condition) bool { return c.Cause == k.Cause }) {
			a.over(ctx, k)
		}
	}
}

// writes says whether the file takes commits. After one that failed it tries a small one: perhaps nobody else
// would, and a file that was held for a moment needs no person.
func (a *Alerts) writes(ctx context.Context) error {
	if a.DB.LastCommit() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Every)
	defer cancel()
	return a.DB.Update(ctx, (*store.Tx).Touch)
}

func (a *Alerts) conditions(ctx context.Context) (all []store.Condition, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.Every)
	defer cancel()
	err = a.DB.View(ctx, func(tx *store.Tx) (err error) {
		all, err = tx.Conditions()
		return err
	})
	return all, err
}

func (a *Alerts) known(ctx context.Context) (known []store.Alert, err error) {
	err = a.DB.View(ctx, func(tx *store.Tx) (err error) {
		known, err = tx.Alerts()
		return err
	})
	return known, err
}

// raise tells a condition if it is time. A telling that failed is due again at the next look.
func (a *Alerts) raise(ctx context.Context, c store.Condition) {
	var alert store.Alert
	var due bool
	err := a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		alert, due, err = tx.RaiseAlert(c)
		return err
	})
	if err != nil || !due {
		return // a file that can't be written is told by the next look
	}
	n := Notice{Cause: c.Cause, State: "onset", Since: time.UnixMilli(alert.Since), Detail: c.Detail}
	if alert.Times > 1 {
		n.State = "lasts"
	}
	if !a.tell(ctx, n) {
		_ = a.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.UntellAlert(c.Cause) })
	}
}

func (a *Alerts) over(ctx context.Context, k store.Alert) {
	var ours bool
	err := a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		ours, err = tx.EndAlert(k.Cause)
		return err
	})
	if err != nil || !ours || k.ToldAt == 0 {
		return
	}
	if !a.tell(ctx, Notice{Cause: k.Cause, State: "over", Since: time.UnixMilli(k.Since)}) {
		_ = a.DB.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.RestoreAlert(k) })
	}
}

// withoutFile tells what keeps the file from being read or written, by a path that needs no file.
func (a *Alerts) withoutFile(ctx context.Context, err error) {
	now := map[string]string{}
	switch {
	case errors.Is(err, store.ErrFull):
		now[causeFull] = "orders are refused for now and nothing that was accepted is lost: free some space"
	case err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed):
		now[causeDatabase] = "the file can't be read or written: the log says why"
	}
	a.file.tell(ctx, a, now)
}

// aside remembers what was told without the file.
type aside struct {
	known map[string]Notice // by cause
	told  map[string]time.Time
}

// tell tells what there is now, by cause, and what is over.
func (m *aside) tell(ctx context.Context, a *Alerts, now map[string]string) {
	if m.known == nil {
		m.known, m.told = map[string]Notice{}, map[string]time.Time{}
	}
	for cause, detail := range now {
		n, lasts := m.known[cause]
		if !lasts {
			n = Notice{Cause: cause, State: "onset", Since: time.Now()}
		}
		n.Detail = detail
		if at, told := m.told[cause]; told && time.Since(at) < store.DigestEvery {
			continue
		}
		if a.tell(ctx, n) {
			m.told[cause] = time.Now()
			n.State = "lasts"
		}
		m.known[cause] = n
	}
	for cause, n := range m.known {
		if _, lasts := now[cause]; lasts {
			continue
		}
		if _, told := m.told[cause]; !told || a.tell(ctx, Notice{Cause: cause, State: "over", Since: n.Since}) {
			delete(m.known, cause)
			delete(m.told, cause)
		}
	}
}

func (a *Alerts) tell(ctx context.Context, n Notice) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := a.Tell(ctx, n)
	if err != nil {
		a.Log.Warn("alert not delivered; it is tried again", "cause", n.Cause, "error", err)
	}
	return err == nil
}
