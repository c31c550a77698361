package store

import (
	"context"
	"encoding/json"
)

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

// What is open is counted in its partial indexes, what has come to rest was counted as it did.
const (
	sqlCountsOpen = `SELECT 'pending', count(*) FROM outbox WHERE status = 'pending'
	UNION ALL SELECT 'processing', count(*) FROM outbox WHERE status = 'processing'`
	sqlCountsRest = `SELECT status, sum(n) FROM ticket_counts GROUP BY status`
)

// The same for one effect type. Of what is being carried out there is little; the plus has SQLite go through that.
const (
	sqlTypeOpen = `SELECT 'pending', count(*) FROM outbox WHERE status = 'pending' AND effect_type = $1
	UNION ALL SELECT 'processing', count(*) FROM outbox WHERE status = 'processing' AND +effect_type = $1`
	sqlTypeRest = `SELECT status, n FROM ticket_counts WHERE effect_type = $1`
)

// An order has few tickets, by outbox_order_id.
const sqlOrderCounts = `SELECT status, count(*) FROM outbox WHERE aggregate_id = $1 AND ($2 = '' OR effect_type = $2) GROUP BY status`

// Counts returns the number of tickets in each state.
func (tx *Tx) Counts() (Counts, error) { return tx.TicketCounts(TicketFilter{}) }

// TicketCounts returns how many of the filter's order and effect type are in each state, whatever else it says.
func (tx *Tx) TicketCounts(f TicketFilter) (c Counts, err error) {
	switch {
	case f.OrderID != "":
		return c, tx.count(&c, sqlOrderCounts, f.OrderID, f.EffectType)
	case f.EffectType != "":
		if err = tx.count(&c, sqlTypeOpen, f.EffectType); err == nil {
			err = tx.count(&c, sqlTypeRest, f.EffectType)
		}
	default:
		if err = tx.count(&c, sqlCountsOpen); err == nil {
			err = tx.count(&c, sqlCountsRest)
		}
	}
	return c, err
}

// count reads the numbers of an answer's states.
func (tx *Tx) count(c *Counts, text string, args ...any) error {
	into := map[string]*int64{"pending": &c.Pending, "processing": &c.Processing, "done": &c.Done,
		"dead": &c.Dead, "review": &c.Review, "discarded": &c.Discarded}
	return tx.each(text, args, func(scan func(...any) error) error {
		var status string
		var n int64
		if err := scan(&status, &n); err != nil {
			return err
		}
		*into[status] = n // the outbox knows no other state
		return nil
	})
}

// Orders with a pending ticket of the types, by outbox_pending, and those that have none because it was just claimed.
const sqlWaitingOrders = `SELECT
	(SELECT count(DISTINCT aggregate_id) FROM outbox WHERE status = 'pending' AND effect_type IN (SELECT value FROM json_each($1))) +
	(SELECT count(DISTINCT aggregate_id) FROM outbox AS p WHERE id IN (SELECT id FROM outbox WHERE status = 'processing')
		AND +effect_type IN (SELECT value FROM json_each($1)) AND NOT EXISTS (SELECT 1 FROM outbox AS o
		WHERE o.aggregate_id = p.aggregate_id AND o.status || '' = 'pending' AND +o.effect_type IN (SELECT value FROM json_each($1))))`

// WaitingOrders is how many orders have a ticket of one of the effect types that is pending or being carried out. It
// reads every such ticket.
func (tx *Tx) WaitingOrders(effectTypes ...string) (n int64, err error) {
	types, err := json.Marshal(effectTypes)
	if err != nil || len(effectTypes) == 0 {
		return 0, err
	}
	_, err = tx.find(sqlWaitingOrders, []any{string(types)}, &n)
	return n, err
}

// The plus keeps SQLite from looking for the smallest id along the primary key, past all that is done.
const sqlOldestPending = `SELECT created_at FROM outbox WHERE id = (SELECT min(+id) FROM outbox WHERE status = 'pending')`

// OldestPending is the age of the oldest pending ticket in milliseconds; 0 when there is none.
func (tx *Tx) OldestPending() (int64, error) {
	var created int64
	found, err := tx.find(sqlOldestPending, nil, &created)
	if err != nil || !found {
		return 0, err
	}
	return max(0, tx.now-created), nil
}

// The measuring instrument: the keys that are noted as standing there more than once, and do.
const sqlDuplicateEffects = `SELECT count(*) FROM effects_doubled AS d
	WHERE (SELECT count(*) FROM (SELECT 1 FROM external_effects_log WHERE effect_key = d.effect_key LIMIT 2)) = 2`

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
		if s.OldestPendingMS, err = tx.OldestPending(); err != nil {
			return err
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
