package handlers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"comanda/store"
)

// What is kept of copies of accepted events: they are noted together, so often, of so many events at most.
const (
	copiesEvery = 500 * time.Millisecond
	copiesMost  = 1000
	copiesWait  = 5 * time.Second
)

// copies counts how often accepted events come again, for whoever reads the story of their order. It holds up no
// answer, and a sender that repeats itself costs two commits a second; nothing rests on the count.
type copies struct {
	db    *store.DB
	log   *slog.Logger
	under sync.WaitGroup

	mu     sync.Mutex
	seen   map[string]store.Copies // by event
	timer  *time.Timer             // of the next flush, if anything was seen
	closed bool
}

// note counts one copy, now.
func (c *copies) note(eventID string) {
	now := time.Now().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	known, found := c.seen[eventID]
	if c.closed || !found && len(c.seen) >= copiesMost {
		return
	}
	if !found {
		known = store.Copies{EventID: eventID, FirstAt: now}
	}
	if len(c.seen) == 0 {
		c.seen = map[string]store.Copies{}
		c.under.Add(1)
		c.timer = time.AfterFunc(copiesEvery, func() { defer c.under.Done(); c.flush() })
	}
	known.Copies, known.LastAt = known.Copies+1, now
	c.seen[eventID] = known
}

// flush writes down what was counted.
func (c *copies) flush() {
	c.mu.Lock()
	seen := c.seen
	c.seen = nil
	c.mu.Unlock()
	if c.db.Tight() { // the room that is left is for orders
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), copiesWait)
	defer cancel()
	err := c.db.Update(ctx, func(tx *store.Tx) error {
		for _, one := range seen {
			if err := tx.NoteCopies(one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.log.Warn("copies of events were not counted", "events", len(seen), "error", err)
	}
}

// close writes down what was counted and counts no more.
func (c *copies) close() {
	c.mu.Lock()
	c.closed = true
	timer := c.timer
	c.mu.Unlock()
	if timer != nil && timer.Stop() {
		c.flush()
		c.under.Done()
	}
	c.under.Wait()
}
