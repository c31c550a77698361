package store

import "slices"

// Place is how far a reader has come: what Changed begins after. Its zero value is before everything.
type Place struct {
	Seq      int64 // the place in the sequence
	events   int64 // the last rowids
	orders   int64
	tickets  int64
	effects  int64
	attempts int64
	standing string // what is changed in place, without a place in the sequence
}

// Changes is what came since a Place.
type Changes struct {
	Seq    int64    // the place in the sequence now
	Orders []string // ids of the orders that something came to be or changed for; at most 100, in no order
	More   bool     // something has changed that Orders does not name
}

// Any reports whether anything has changed.
func (c Changes) Any() bool { return c.More || len(c.Orders) > 0 }

// Each is the end of a primary key.
const sqlPlace = `SELECT (SELECT value FROM sequence WHERE id = 1), (SELECT coalesce(max(rowid), 0) FROM events), (SELECT coalesce(max(rowid), 0) FROM orders),
	(SELECT coalesce(max(id), 0) FROM outbox), (SELECT coalesce(max(id), 0) FROM external_effects_log), (SELECT coalesce(max(id), 0) FROM attempts)`

// What stands in few rows and is changed without a place in the sequence: pauses, targets and alerts. The relays'
// passes are left out: they change every second.
const sqlStanding = `SELECT (SELECT paused FROM relay_state WHERE id = 1)
	|| char(10) || (SELECT coalesce(group_concat(quote(cause) || since || ' ' || told_at || ' ' || times || quote(detail)), '') FROM alerts)
	|| char(10) || (SELECT coalesce(group_concat(quote(name) || mode || quote(url) || quote(paused) || quote(paused_at) || quote(paused_why)
		|| probe_at || ' ' || hold_until || ' ' || quote(offline_since) || quote(proven_url)), '') FROM targets)`

// Place returns how far the file has come.
func (tx *Tx) Place() (p Place, err error) {
	if _, err := tx.find(sqlPlace, nil, &p.Seq, &p.events, &p.orders, &p.tickets, &p.effects, &p.attempts); err != nil {
		return p, err
	}
	_, err = tx.find(sqlStanding, nil, &p.standing)
	return p, err
}

// At most so many orders are named, and so many rows are looked at for them. An attempt ends some time after it
// began, so that many before the last are looked at again.
const (
	changedOrders  = 100
	changedRows    = 2000
	attemptsBehind = 200
)

// What came since, by the rowids, with every place in the sequence that its order's rows had: a claim and an end
// change a ticket that was there before. What is claimed now is little.
const sqlCame = `SELECT order_id, seq, 0, 0, 0, 0 FROM events WHERE rowid > $1
	UNION ALL SELECT order_id, seq, 0, 0, 0, 0 FROM orders WHERE rowid > $2
	UNION ALL SELECT aggregate_id, seq, claimed_seq, ended_seq, 0, 0 FROM outbox WHERE id > $3
	UNION ALL SELECT * FROM (SELECT aggregate_id, seq, claimed_seq, ended_seq, 0, 0 FROM outbox WHERE status = 'processing' AND claimed_seq > $6 LIMIT $7)
	UNION ALL SELECT e.order_id, e.seq, coalesce(o.claimed_seq, 0), coalesce(o.ended_seq, 0), 0, 0
		FROM external_effects_log AS e LEFT JOIN outbox AS o ON o.idempotency_key = e.effect_key WHERE e.id > $4
	UNION ALL SELECT o.aggregate_id, max(a.seq, a.closed_seq), a.ended_seq, o.claimed_seq, o.ended_seq, coalesce(l.seq, 0)
		FROM attempts AS a CROSS JOIN outbox AS o ON o.id = a.ticket_id LEFT JOIN ledger AS l ON l.effect_key = o.idempotency_key WHERE a.id > $5
	LIMIT $7`

// Changed tells what came since a place that Place or Changed returned, in this process or any other, and how far the
// file is now. It misses nothing that comes or changes its state: every row of an event, an order, a ticket, an effect,
// an attempt or an act has a place in the sequence, so what Orders does not name is seen by the places that are left
// over, and pauses, targets and alerts are compared. It does not see what another client writes over in a row that
// keeps its state, a detail or a due time, nor a row other than a ticket that it deletes: a page that shows such a
// thing reads all of it now and then.
func (tx *Tx) Changed(since Place) (now Place, c Changes, err error) {
	if now, err = tx.Place(); err != nil {
		return since, c, err
	}
	c.Seq = now.Seq
	if now == since {
		return now, c, nil
	}
	c.More = now.standing != since.standing || now.Seq < since.Seq
	if now.Seq > since.Seq {
		err = tx.came(since, &c)
	}
	return now, c, err
}

// came names the orders of what came since, and notes whether that was all.
func (tx *Tx) came(since Place, c *Changes) error {
	args := []any{since.events, since.orders, since.tickets, since.effects, since.attempts - attemptsBehind, since.Seq, changedRows}
	rows, places := 0, map[int64]bool{}
	err := tx.each(sqlCame, args, func(scan func(...any) error) error {
		var order string
		var at [5]int64
		if err := scan(&order, &at[0], &at[1], &at[2], &at[3], &at[4]); err != nil {
			return err
		}
		rows++
		if slices.Max(at[:]) <= since.Seq {
			return nil
		}
		if !slices.Contains(c.Orders, order) {
			if len(c.Orders) == changedOrders {
				c.More = true
				return nil
			}
			c.Orders = append(c.Orders, order)
		}
		for _, seq := range at {
			if seq > since.Seq {
				places[seq] = true
			}
		}
		return nil
	})
	c.More = c.More || rows == changedRows || int64(len(places)) < c.Seq-since.Seq
	return err
}
