package store

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// Follower tells what happens to a file, whichever process does it: each order's decision, each ticket's claim and
// end, each attempt, each act of an operator, once and in the order of the sequence. It keeps no transaction between
// two looks. Of a ticket that was claimed twice between two looks it tells the second claim alone, since the file
// remembers no other. It is for one goroutine.
type Follower struct {
	db      *DB
	seq     int64              // everything up to here is told
	open    map[int64]struct{} // tickets that may still change
	tries   map[int64]struct{} // attempts that may still end
	offline map[string]bool    // targets that were not reached when last looked at
}

// Pages are so short that no look keeps the -wal from being emptied.
const (
	followRows  = 10_000
	followLines = 500
)

// Follow begins after the place since, or now if since is negative. It returns ErrRefused for a place that the file
// has not come to.
func (db *DB) Follow(ctx context.Context, since int64) (*Follower, error) {
	f := &Follower{db: db, open: map[int64]struct{}{}, tries: map[int64]struct{}{}}
	err := db.View(ctx, func(tx *Tx) (err error) {
		if _, err = tx.find(sqlSequence, nil, &f.seq); err != nil {
			return err
		}
		if f.offline, err = tx.offlineTargets(); err != nil || since >= 0 {
			return err
		}
		return cmp.Or(tx.ids(sqlOpenTickets, f.open), tx.ids(sqlOpenAttempts, f.tries))
	})
	if err != nil || since < 0 {
		return f, err
	}
	if since > f.seq {
		return nil, refuse("the file has come to place %d only, and not to %d", f.seq, since)
	}
	f.seq = since
	if err := f.recall(ctx, sqlTicketsFrom, f.open); err != nil {
		return nil, err
	}
	return f, f.recall(ctx, sqlAttemptsFrom, f.tries)
}

// Seq is the place up to which everything is told.
func (f *Follower) Seq() int64 { return f.seq }

// What may still change, in the partial indexes, and the newest attempts.
const (
	sqlOpenTickets = `SELECT id FROM outbox WHERE status = 'pending' UNION ALL SELECT id FROM outbox WHERE status = 'processing'
	UNION ALL SELECT id FROM outbox WHERE status = 'dead' UNION ALL SELECT id FROM outbox WHERE status = 'review'`
	sqlOpenAttempts = `SELECT id FROM attempts WHERE ` + isUnknown + ` AND ended_at IS NULL
	UNION SELECT id FROM (SELECT id, ended_at FROM attempts ORDER BY id DESC LIMIT 1000) WHERE ended_at IS NULL`
)

// What may have changed since a place, or may still, among a page of all: $1 is where the page begins, $2 the place.
const (
	sqlTicketsFrom = `SELECT id, status IN ('pending', 'processing', 'dead', 'review') OR claimed_seq > $2 OR ended_seq > $2
	FROM outbox WHERE id > $1 ORDER BY id LIMIT $3`
	sqlAttemptsFrom = `SELECT id, ended_at IS NULL OR ended_seq > $2 FROM attempts WHERE id > $1 ORDER BY id LIMIT $3`
)

func (tx *Tx) ids(text string, into map[int64]struct{}) error {
	return tx.each(text, nil, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		into[id] = struct{}{}
		return err
	})
}

// recall finds what a follower that begins in the past must look at.
func (f *Follower) recall(ctx context.Context, text string, into map[int64]struct{}) error {
	for last, n := int64(0), followRows; n == followRows; {
		n = 0
		err := f.db.View(ctx, func(tx *Tx) error {
			return tx.each(text, []any{last, f.seq, followRows}, func(scan func(...any) error) error {
				var may bool
				if err := scan(&last, &may); err != nil {
					return err
				}
				n++
				if may {
					into[last] = struct{}{}
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// found is a place in the sequence and the row that has it.
type found struct {
	seq, id int64
	tell    teller
}

// Look tells what came since the last look, in pages of whole places, and returns when it has told all that there was
// when it began. After an error the next look goes on behind the last page that tell took.
func (f *Follower) Look(ctx context.Context, tell func([]Change) error) error {
	var to, at int64
	var offline map[string]bool
	err := f.db.View(ctx, func(tx *Tx) (err error) {
		at = tx.now
		if _, err = tx.find(sqlSequence, nil, &to); err != nil {
			return err
		}
		offline, err = tx.offlineTargets()
		return err
	})
	if err != nil {
		return err
	}
	if to > f.seq {
		if err := f.catchUp(ctx, to, tell); err != nil {
			return err
		}
	}
	if moved := f.moved(offline, at); len(moved) > 0 {
		if err := tell(moved); err != nil {
			return err
		}
	}
	f.offline = offline
	return nil
}

func (f *Follower) catchUp(ctx context.Context, to int64, tell func([]Change) error) error {
	all, err := f.grown(ctx, to)
	if err != nil {
		return err
	}
	tickets, endedTickets, err := f.stirred(ctx, to, sqlTicketPlaces, f.open, ticketPlaces)
	if err != nil {
		return err
	}
	attempts, endedAttempts, err := f.stirred(ctx, to, sqlAttemptPlaces, f.tries, attemptPlaces)
	if err != nil {
		return err
	}
	all = slices.Concat(attempts, all, tickets) // under one place the cause comes first
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.seq, b.seq) })
	if err := f.tellAll(ctx, all, tell); err != nil {
		return err
	}
	f.seq = to
	for _, id := range endedTickets { // not before it is told
		delete(f.open, id)
	}
	for _, id := range endedAttempts {
		delete(f.tries, id)
	}
	return nil
}

// tellAll reads the rows again and tells them. A place that its row has no more is that of a claim before the last.
func (f *Follower) tellAll(ctx context.Context, all []found, tell func([]Change) error) error {
	for len(all) > 0 {
		n := min(followLines, len(all))
		for n < len(all) && all[n].seq == all[n-1].seq {
			n++
		}
		var lines []Change
		err := f.db.View(ctx, func(tx *Tx) error {
			lines = lines[:0]
			for _, one := range all[:n] {
				err := one.tell(tx, one.id, func(about Change, moments ...Moment) {
					for _, m := range moments {
						if m.Seq == one.seq {
							about.Seq, about.At, about.Kind, about.Text = m.Seq, m.At, m.Kind, m.Text
							lines = append(lines, about)
						}
					}
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			if err := tell(lines); err != nil {
				return err
			}
		}
		f.seq, all = all[n-1].seq, all[n:]
	}
	return nil
}

// Rows that are only ever added, newest first from $1 on, at most $2: id, place, and whether there is something to
// tell of them.
const (
	sqlOrdersBack   = `SELECT rowid, seq, 1 FROM orders WHERE rowid < $1 ORDER BY rowid DESC LIMIT $2`
	sqlEventsBack   = `SELECT rowid, seq, outcome = 'already_decided' OR clock_untrusted <> '' FROM events WHERE rowid < $1 ORDER BY rowid DESC LIMIT $2`
	sqlActsBack     = `SELECT id, seq, 1 FROM operator_log WHERE id < $1 ORDER BY id DESC LIMIT $2`
	sqlAttemptsBack = `SELECT id, seq, 1 FROM attempts WHERE id < $1 ORDER BY id DESC LIMIT $2`
	sqlTicketsBack  = `SELECT id, seq, 0 FROM outbox WHERE id < $1 ORDER BY id DESC LIMIT $2`
)

// grown finds the rows that were added since.
func (f *Follower) grown(ctx context.Context, to int64) (all []found, err error) {
	for _, of := range []struct {
		text string
		tell teller
		note map[int64]struct{} // what may still change
	}{
		{sqlEventsBack, tellEvent, nil}, {sqlOrdersBack, tellOrder, nil}, {sqlActsBack, tellAct, nil},
		{sqlAttemptsBack, tellBegun, f.tries}, {sqlTicketsBack, nil, f.open},
	} {
		err := f.back(ctx, of.text, func(id, seq int64, told bool) {
			if of.note != nil {
				of.note[id] = struct{}{}
			}
			if told && seq <= to {
				all = append(all, found{seq, id, of.tell})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// back walks from the newest row to the first that is told already. A row without a place was put in by a client that
// knows of none.
func (f *Follower) back(ctx context.Context, text string, row func(id, seq int64, told bool)) error {
	id, seq := int64(math.MaxInt64), int64(0)
	for more := true; more; {
		n := 0
		err := f.db.View(ctx, func(tx *Tx) error {
			return tx.each(text, []any{id, followRows}, func(scan func(...any) error) error {
				var told bool
				if !more {
					return nil
				}
				if err := scan(&id, &seq, &told); err != nil {
					return err
				}
				n++
				if more = seq > f.seq || seq == 0; more && seq > 0 {
					row(id, seq, told)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		more = more && n == followRows
	}
	return nil
}

// Where rows stand that change in place: id, two places, and whether nothing more can come of them. $1 is a JSON
// array of ids.
const (
	sqlTicketPlaces = `SELECT id, claimed_seq, CASE WHEN status IN ('pending', 'processing') THEN 0 ELSE ended_seq END, status IN ('done', 'discarded')
	FROM outbox WHERE id IN (SELECT value FROM json_each($1))`
	sqlAttemptPlaces = `SELECT id, 0, CASE kind WHEN 'claim' THEN 0 ELSE ended_seq END, ended_at IS NOT NULL
	FROM attempts WHERE id IN (SELECT value FROM json_each($1))`
)

var ticketPlaces, attemptPlaces = [2]teller{tellClaim, tellEnd}, [2]teller{nil, tellEnded}

// stirred finds which of the rows that may change have, and those of which nothing more can come.
func (f *Follower) stirred(ctx context.Context, to int64, text string, among map[int64]struct{}, tell [2]teller) (all []found, ended []int64, err error) {
	ids := make([]int64, 0, len(among))
	for id := range among {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for page := range slices.Chunk(ids, followRows) {
		there := map[int64]bool{}
		err := f.db.View(ctx, func(tx *Tx) error {
			return tx.each(text, []any{idList(page)}, func(scan func(...any) error) error {
				var id int64
				var at [2]int64
				var over bool
				if err := scan(&id, &at[0], &at[1], &over); err != nil {
					return err
				}
				there[id] = true
				for i, seq := range at {
					if seq > f.seq && seq <= to {
						all = append(all, found{seq, id, tell[i]})
					}
				}
				if over && max(at[0], at[1]) <= to {
					ended = append(ended, id)
				}
				return nil
			})
		})
		if err != nil {
			return nil, nil, err
		}
		for _, id := range page {
			if !there[id] { // somebody has deleted it
				ended = append(ended, id)
			}
		}
	}
	return all, ended, nil
}

func (tx *Tx) offlineTargets() (map[string]bool, error) {
	off := map[string]bool{}
	targets, err := tx.Targets()
	for _, t := range targets {
		off[t.Name] = t.OfflineSince != nil
	}
	return off, err
}

// moved tells of targets that can be reached no more, or again. No place in the sequence says that: it stands after
// all that had one when it was seen, and is not told to whoever begins later.
func (f *Follower) moved(now map[string]bool, at int64) (lines []Change) {
	for name, off := range now {
		text := map[bool]string{true: name + " can't be reached", false: name + " is reached again"}[off]
		if off != f.offline[name] {
			lines = append(lines, Change{Seq: f.seq, At: at, Kind: "target", Text: text, Target: name})
		}
	}
	slices.SortFunc(lines, func(a, b Change) int { return cmp.Compare(a.Target, b.Target) })
	return lines
}
