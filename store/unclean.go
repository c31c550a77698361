package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Flight is a ticket that a process had claimed when it ended, and how often it had been claimed by then.
type Flight struct {
	Ticket   int64 `json:"ticket"`
	Attempts int64 `json:"attempts"`
}

// UncleanStop is what a start finds of processes that ended without a word: killed, or without power.
type UncleanStop struct {
	ID       int64 // 0: there is nothing to find out
	InFlight []Flight
	// Missing is how many places of the sequence such processes had answered for that the file did not hold when
	// they were found: a disk forgot what it had called safe, or the file was replaced. 0 when they left no note.
	Missing int64
}

const (
	sqlProcesses     = `SELECT holder, pid FROM processes ORDER BY holder`
	sqlArrive        = `INSERT INTO processes (holder, pid, started_at) VALUES ($1, $2, $3)`
	sqlDepart        = `DELETE FROM processes WHERE holder = $1`
	sqlInFlight      = `SELECT id, attempts, lease_holder FROM outbox WHERE status = 'processing' ORDER BY id`
	sqlOpenStops     = `SELECT id, checker, in_flight, missing FROM unclean_stops WHERE checked_at IS NULL OR damage <> '' OR lost + contradicts > 0 ORDER BY id`
	sqlForgetStop    = `DELETE FROM unclean_stops WHERE id = $1`
	sqlNoteStop      = `INSERT INTO unclean_stops (found_at, checker, in_flight, missing) VALUES ($1, $2, $3, $4) RETURNING id`
	sqlTrimStops     = `DELETE FROM unclean_stops WHERE id <= (SELECT max(id) FROM unclean_stops) - 100`
	sqlStopIsChecked = `UPDATE unclean_stops SET checked_at = $2, report = $3, damage = $4, lost = $5, contradicts = $6 WHERE id = $1`
)

type process struct {
	holder string
	pid    int
}

func (tx *Tx) processes() ([]process, error) {
	return collect(tx, sqlProcesses, nil, func(scan func(...any) error, p *process) error { return scan(&p.holder, &p.pid) })
}

// Arrive notes that the process of h works on the file, and returns what is to be found out about processes that
// ended without Depart. Of several that start at once one is told; what it does not come to find out is left to
// the next start, and so is a file in which something was found wrong.
func (db *DB) Arrive(ctx context.Context, h *Holder) (stop UncleanStop, err error) {
	flights := db.inFlight(ctx)
	err = db.Update(ctx, func(tx *Tx) (err error) {
		stop, err = db.arrive(tx, h, flights)
		return err
	})
	if err != nil {
		return UncleanStop{}, fmt.Errorf("look for processes that did not stop: %w", err)
	}
	db.witness.Store(h)
	return stop, nil
}

// inFlight are the claimed tickets by holder, as far as they can be read: a damaged file is looked into all the same.
func (db *DB) inFlight(ctx context.Context) map[string][]Flight {
	flights := map[string][]Flight{}
	_ = db.View(ctx, func(tx *Tx) error {
		return tx.each(sqlInFlight, nil, func(scan func(...any) error) error {
			var f Flight
			var holder string
			err := scan(&f.Ticket, &f.Attempts, &holder)
			flights[holder] = append(flights[holder], f)
			return err
		})
	})
	return flights
}

func (db *DB) arrive(tx *Tx, h *Holder, flights map[string][]Flight) (UncleanStop, error) {
	var stop UncleanStop
	found := false
	all, err := tx.processes()
	if err != nil {
		return stop, err
	}
	var reached, witnessed int64
	if _, err := tx.find(sqlSequence, nil, &reached); err != nil {
		return stop, err
	}
	for _, p := range all {
		if db.lives(p.holder) {
			continue
		}
		if _, err := tx.exec(sqlDepart, p.holder); err != nil {
			return stop, err
		}
		found = true
		stop.InFlight = append(stop.InFlight, flights[p.holder]...)
		witnessed = max(witnessed, h.witnesses[p.holder])
	}
	stop.Missing = max(0, witnessed-reached) // now: what is written from here on would hide it
	if found, err = db.takeOver(tx, &stop, found); err != nil {
		return stop, err
	}
	if _, err := tx.exec(sqlArrive, h.ID, os.Getpid(), tx.now); err != nil || !found {
		return stop, err
	}
	return stop, tx.noteStop(&stop, h)
}

// takeOver adds what others were to find out and did not.
func (db *DB) takeOver(tx *Tx, stop *UncleanStop, found bool) (bool, error) {
	type open struct {
		id                int64
		checker, inFlight string
		missing           int64
	}
	all, err := collect(tx, sqlOpenStops, nil, func(scan func(...any) error, o *open) error {
		return scan(&o.id, &o.checker, &o.inFlight, &o.missing)
	})
	if err != nil {
		return found, err
	}
	for _, o := range all {
		if db.lives(o.checker) {
			continue
		}
		var flights []Flight
		_ = json.Unmarshal([]byte(o.inFlight), &flights) // what can't be read is not counted
		if _, err := tx.exec(sqlForgetStop, o.id); err != nil {
			return found, err
		}
		found = true
		stop.InFlight = append(stop.InFlight, flights...)
		stop.Missing += o.missing
	}
	return found, nil
}

func (tx *Tx) noteStop(stop *UncleanStop, h *Holder) error {
	flights, err := json.Marshal(append([]Flight{}, stop.InFlight...))
	if err != nil {
		return err
	}
	if _, err := tx.find(sqlNoteStop, []any{tx.now, h.ID, string(flights), stop.Missing}, &stop.ID); err != nil {
		return err
	}
	tx.wrote = true
	_, err = tx.exec(sqlTrimStops)
	return err
}

// lives reports whether a holder has its lock. Another relay that asks in the same moment looks like a holder, so
// a lock that is taken is asked for again.
func (db *DB) lives(holder string) bool {
	for range 3 {
		if alive, err := db.alive(holder); err == nil && !alive {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// Depart takes back what Arrive noted: the process of h stops.
func (db *DB) Depart(ctx context.Context, h *Holder) error {
	db.witness.Store(nil)
	err := db.Update(ctx, func(tx *Tx) error {
		_, err := tx.exec(sqlDepart, h.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("note that this process stops: %w", err)
	}
	return nil
}

// StopChecked writes down what came of finding out about an unclean stop. While something is wrong the next start
// finds out again.
func (tx *Tx) StopChecked(id int64, report string, v Verified) error {
	_, err := tx.exec(sqlStopIsChecked, id, tx.now, report, v.Damage, v.Lost, v.Contradicts)
	return err
}

const sqlWhereabouts = `SELECT count(*) FILTER (WHERE o.attempts > f.value ->> 'attempts' OR o.status = 'done'),
	count(*) FILTER (WHERE o.attempts <= f.value ->> 'attempts' AND o.status IN ('review', 'dead', 'discarded'))
	FROM json_each($1) AS f JOIN outbox AS o ON o.id = f.value ->> 'ticket'`

// Whereabouts says how many tickets that were in flight have been taken up again or are done, and how many wait
// for a person. The others wait for a relay.
func (tx *Tx) Whereabouts(flights []Flight) (resumed, parked int, err error) {
	list, err := json.Marshal(flights)
	if err != nil || len(flights) == 0 {
		return 0, 0, err
	}
	_, err = tx.find(sqlWhereabouts, []any{string(list)}, &resumed, &parked)
	return resumed, parked, err
}

// witnessMark begins the line of a lock file that says which place in the sequence its process has answered for.
// No ticket's id looks like it.
const witnessMark = "s"

// testify notes, before anybody is answered, up to which place in the sequence commits of this process are on
// disk. It is a note without a sync in the lock file, not in the database: it outlives the process, and says after
// a kill what the file must hold at least.
func (db *DB) testify(seq int64) {
	if h := db.witness.Load(); h != nil {
		line := fmt.Appendf(nil, "%s%0*d\n", witnessMark, slotWidth-2, seq)
		_, _ = h.file.WriteAt(line, int64(h.slots*slotWidth)) // a note that fails proves nothing, and breaks nothing
	}
}

// witnesses reads what the lock files beside the database testify, by holder.
func (db *DB) witnesses() map[string]int64 {
	found := map[string]int64{}
	names, err := filepath.Glob(globEscape(db.path) + ".relay-*" + lockSuffix)
	if err != nil {
		return found
	}
	for _, name := range names {
		text, err := os.ReadFile(name) // a lock file of ours, not the database
		if err != nil {
			continue
		}
		holder := strings.TrimSuffix(strings.TrimPrefix(name, db.path+".relay-"), lockSuffix)
		for line := range bytes.Lines(text) {
			if digits, ok := strings.CutPrefix(strings.Trim(string(line), "\x00\n"), witnessMark); ok {
				if seq, err := strconv.ParseInt(digits, 10, 64); err == nil {
					found[holder] = seq
				}
			}
		}
	}
	return found
}

// The worst of the known ones: one that lost something is not hidden by one that did not.
const sqlWorstStop = `SELECT checked_at IS NULL, report, damage, missing + lost, contradicts FROM unclean_stops
	ORDER BY damage <> '' DESC, missing + lost > 0 DESC, contradicts > 0 DESC, id DESC LIMIT 1`

// lookAtStops tells of the worst of the unclean stops that are known, and of processes that have ended without
// anybody having looked.
func (db *DB) lookAtStops(ctx context.Context) []Check {
	return []Check{
		db.ask(ctx, "unclean stops", sqlWorstStop, func(a Answer, c *Check) {
			if len(a.Rows) == 0 {
				c.Answer = "none is known"
				return
			}
			open, report, damage, lost, contradicts := a.Rows[0][0] != int64(0), fmt.Sprint(a.Rows[0][1]), fmt.Sprint(a.Rows[0][2]), a.Rows[0][3] != int64(0), a.Rows[0][4] != int64(0)
			switch c.Answer = report; {
			case damage != "":
				c.Level, c.Detail = LevelWrong, "the file was found damaged: "+damage+": stop every comanda on it and restore it from a backup"
			case open:
				c.Level, c.Answer, c.Detail = LevelWarning, "not looked into yet", "a server that runs does, or the next start"
			case lost:
				c.Level, c.Detail = LevelWarning, "what had been answered for was not in the file then: the disk forgot what it had called safe, or the file or its rows were replaced; ask the shop's side for orders of that time that are not here"
			case contradicts:
				c.Level, c.Detail = LevelWarning, "the invariants say which rows, if they still do"
			}
		}),
		db.ask(ctx, "processes that ended without a word", sqlProcesses, func(a Answer, c *Check) {
			var gone []string
			for _, row := range a.Rows {
				if !db.lives(fmt.Sprint(row[0])) {
					gone = append(gone, fmt.Sprint(row[1]))
				}
			}
			if c.Answer = strconv.Itoa(len(gone)); len(gone) > 0 {
				c.Level, c.Detail = LevelWarning, "killed, or without power (process "+strings.Join(gone, ", ")+"); the next start looks into it"
			}
		}),
	}
}
