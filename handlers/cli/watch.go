package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"comanda/store"
)

// How often a watcher asks whether anything was committed, and looks at the file though nothing was: only then it finds
// out that the file was taken away.
const (
	watchEvery = 100 * time.Millisecond
	watchIdle  = 5 * time.Second
)

// errNobodyReads: whoever read the lines has gone.
var errNobodyReads = errors.New("nobody reads")

// Run prints each change at once. It ends with its context, or when nobody reads any more; neither is an error.
func (c *watchCmd) Run(s *session) error {
	since := int64(-1)
	if c.Since != nil {
		if since = *c.Since; since < 0 {
			return Usage(fmt.Errorf("--since must be 0 or the seq of a line, not %d", since))
		}
	}
	OutliveReaders()
	return s.withFile(c.DB, func(db *store.DB) error {
		err := c.follow(s, db, since)
		if s.ctx.Err() != nil || errors.Is(err, errNobodyReads) {
			return nil
		}
		return err
	})
}

func (c *watchCmd) follow(s *session, db *store.DB, since int64) error {
	committed, err := db.Listen(s.ctx, watchEvery) // before the first look, so that nothing comes between
	if err != nil {
		return err
	}
	f, err := db.Follow(s.ctx, since)
	if err != nil {
		return err
	}
	for {
		began := time.Now()
		err := f.Look(s.ctx, func(changes []store.Change) error { return c.print(s, changes) })
		if err != nil && !errors.Is(err, store.ErrTooLong) && !errors.Is(err, store.ErrBusy) {
			return err
		}
		// A look at a long rail takes its time: the others get ten times as much.
		rest(s.ctx, min(10*time.Since(began), watchIdle))
		select {
		case <-s.ctx.Done():
			return nil
		case <-committed:
		case <-time.After(watchIdle):
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// print writes whole places of the sequence at once, so that whoever is cut off can go on behind its last line.
func (c *watchCmd) print(s *session, changes []store.Change) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, one := range changes {
		if c.JSON {
			if err := e.Encode(one); err != nil {
				return fmt.Errorf("a change can't be written as JSON: %w", err)
			}
			continue
		}
		about := one.OrderID
		if about == "" {
			about = "-"
		}
		fmt.Fprintf(&b, "%d  %s  %-12s %s  %s\n", one.Seq, instant(one.At), one.Kind, visible(about, true), visible(one.Text, true))
	}
	_, err := s.program.Stdout.Write(b.Bytes())
	if errors.Is(err, syscall.EPIPE) {
		return errNobodyReads
	}
	if err != nil {
		return fmt.Errorf("a change can't be written: %w", err)
	}
	return nil
}
