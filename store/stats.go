package store

import "context"

// Counts are the numbers of tickets by state.
type Counts struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Done       int64 `json:"done"`
	Dead       int64 `json:"dead"`
	Review     int64 `json:"review"`
	Discarded  int64 `json:"discarded"`
}

// Waiting is the number of tickets that are not at their end and need no person.
func (c Counts) Waiting() int64 { return c.Pending + c.Processing }

// Stats is the state of the file at one moment.
type Stats struct {
	Outbox           Counts
	OldestPendingMS  int64  // age of the oldest pending ticket, 0 when there is none
	DuplicateEffects int64  // effect keys that stand more than once in the world: must be 0
	DatabaseBytes    int64  // pages times page size, without the WAL
	WALBytes         int64  // size of the -wal file
	Paused           bool   // the relays are paused
	LastPassMSAgo    *int64 // since any relay's last noted pass; nil when there was none
	Targets          []Target
	At               int64 // Unix milliseconds
}

// The open states are counted in their partial indexes, the done ones as the rest.
const sqlCounts = `SELECT
	(SELECT count(*) FROM outbox WHERE status = 'pending'),
	(SELECT count(*) FROM outbox WHERE status = 'processing'),
	(SELECT count(*) FROM outbox WHERE status = 'dead'),
	(SELECT count(*) FROM outbox WHERE status = 'review'),
	(SELECT count(*) FROM outbox WHERE status = 'discarded'),
	(SELECT count(*) FROM outbox)`

// Counts returns the number of tickets in each state.
func (tx *Tx) Counts() (Counts, error) {
	var c Counts
	var all int64
	_, err := tx.find(sqlCounts, nil, &c.Pending, &c.Processing, &c.Dead, &c.Review, &c.Discarded, &all)
	c.Done = all - c.Pending - c.Processing - c.Dead - c.Review - c.Discarded
	return c, err
}

// The plus keeps SQLite from looking for the smallest id along the primary key, past all that is done.
const sqlOldestPending = `SELECT created_at FROM outbox WHERE id = (SELECT min(+id) FROM outbox WHERE status = 'pending')`

// The measuring instrument: by external_effects_log_key, in its order.
const sqlDuplicateEffects = `SELECT count(*) FROM (SELECT 1 FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1)`

const sqlSize = `SELECT c.page_count * s.page_size FROM pragma_page_count AS c, pragma_page_size AS s`

// Stats reads the state of the file, and of the named targets, in one transaction.
func (db *DB) Stats(ctx context.Context, targets ...string) (Stats, error) {
	var s Stats
	err := db.View(ctx, func(tx *Tx) (err error) {
		s.At = tx.now
		for _, name := range targets {
			t, err := tx.Target(name)
			if err != nil {
				return err
			}
			s.Targets = append(s.Targets, t)
		}
		if s.Outbox, err = tx.Counts(); err != nil {
			return err
		}
		var created int64
		found, err := tx.find(sqlOldestPending, nil, &created)
		if err != nil {
			return err
		}
		if found {
			s.OldestPendingMS = max(0, tx.now-created)
		}
		if _, err := tx.find(sqlDuplicateEffects, nil, &s.DuplicateEffects); err != nil {
			return err
		}
		if _, err := tx.find(sqlSize, nil, &s.DatabaseBytes); err != nil {
			return err
		}
		return tx.relayStats(&s)
	})
	s.WALBytes = db.walBytes()
	return s, err
}

func (tx *Tx) relayStats(s *Stats) (err error) {
	if s.Paused, err = tx.Paused(); err != nil {
		return err
	}
	relays, err := tx.Relays()
	var last int64
	for _, r := range relays {
		last = max(last, r.LastPassAt)
	}
	if last > 0 {
		ago := max(0, tx.now-last)
		s.LastPassMSAgo = &ago
	}
	return err
}
