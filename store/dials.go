package store

import (
	"context"
	"path/filepath"
)

// Depth is how many tickets of one effect type are in one state.
type Depth struct {
	EffectType, Status string
	N                  int64
}

// Dials are what an instrument reads of a file and its machine at one moment. What it costs does not depend on how
// much is done: what rests is counted already, what is open stands in indexes of its own.
type Dials struct {
	Depths        []Depth          // only of what there is
	OldestPending map[string]int64 // by effect type: the age of the ticket that was put first, in milliseconds
	Paused        bool             // the relays are paused
	PassAges      []int64          // since each relay's last noted pass, in milliseconds
	Targets       []Target         // those that were asked for
	TicketsEver   int64            // put on the rail since the file was made
	EffectsEver   int64            // of the lab's world
	AttemptsEver  int64
	DatabaseBytes int64 // pages times page size, without the WAL
	WALBytes      int64
	ClockBehindMS int64 // see ClockBehind
	Space         Space
	At            int64 // Unix milliseconds
}

// What is open by effect type, and the first ticket of each, in its partial indexes. The plus keeps SQLite from
// grouping what is being carried out, of which there is little, along the index of all tickets.
const (
	sqlDepthPending    = `SELECT effect_type, count(*), min(id) FROM outbox WHERE status = 'pending' GROUP BY effect_type`
	sqlDepthProcessing = `SELECT effect_type, 'processing', count(*) FROM outbox WHERE status = 'processing' GROUP BY +effect_type`
	sqlDepthRest       = `SELECT effect_type, status, n FROM ticket_counts`
	sqlCreatedAt       = `SELECT created_at FROM outbox WHERE id = $1`
)

// SQLite's own note of the largest id that each table ever had.
const sqlEver = `SELECT coalesce(max(CASE name WHEN 'outbox' THEN seq END), 0), coalesce(max(CASE name WHEN 'external_effects_log' THEN seq END), 0),
	coalesce(max(CASE name WHEN 'attempts' THEN seq END), 0) FROM sqlite_sequence`

// Dials reads the file in one transaction, and asks the disk, which may keep the caller waiting, how much room it has.
func (db *DB) Dials(ctx context.Context, targets ...string) (d Dials, err error) {
	err = db.View(ctx, func(tx *Tx) (err error) {
		d, err = tx.dials(targets)
		return err
	})
	if err != nil {
		return Dials{}, err
	}
	d.WALBytes = db.walBytes()
	d.Space, err = db.opt.Space(filepath.Dir(db.path))
	return d, err
}

func (tx *Tx) dials(targets []string) (d Dials, err error) {
	d.At = tx.now
	for _, name := range targets {
		t, err := tx.Target(name)
		if err != nil {
			return d, err
		}
		d.Targets = append(d.Targets, t)
	}
	if err = tx.depths(&d); err != nil {
		return d, err
	}
	if _, err = tx.find(sqlEver, nil, &d.TicketsEver, &d.EffectsEver, &d.AttemptsEver); err != nil {
		return d, err
	}
	if _, err = tx.find(sqlSize, nil, &d.DatabaseBytes); err != nil {
		return d, err
	}
	behind, err := tx.ClockBehind()
	if err != nil {
		return d, err
	}
	d.ClockBehindMS = behind.Milliseconds()
	if d.Paused, err = tx.Paused(); err != nil {
		return d, err
	}
	relays, err := tx.Relays()
	for _, r := range relays {
		d.PassAges = append(d.PassAges, max(0, tx.now-r.LastPassAt))
	}
	return d, err
}

func (tx *Tx) depths(d *Dials) (err error) {
	first := map[string]int64{}
	pending, err := collect(tx, sqlDepthPending, nil, func(scan func(...any) error, one *Depth) error {
		var id int64
		err := scan(&one.EffectType, &one.N, &id)
		one.Status, first[one.EffectType] = "pending", id
		return err
	})
	if err != nil {
		return err
	}
	d.Depths, d.OldestPending = pending, map[string]int64{}
	for kind, id := range first {
		var created int64
		if _, err := tx.find(sqlCreatedAt, []any{id}, &created); err != nil {
			return err
		}
		d.OldestPending[kind] = max(0, tx.now-created)
	}
	for _, text := range []string{sqlDepthProcessing, sqlDepthRest} {
		some, err := collect(tx, text, nil, func(scan func(...any) error, one *Depth) error {
			return scan(&one.EffectType, &one.Status, &one.N)
		})
		if err != nil {
			return err
		}
		d.Depths = append(d.Depths, some...)
	}
	return nil
}
