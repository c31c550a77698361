package store

import (
	"fmt"
	"time"
)

// clockStep is by how much the wall clock must have been set for the waits to follow it: less is what a clock
// that is disciplined drifts by.
const clockStep = 2 * time.Second

const (
	sqlClock    = `SELECT boot, offset_ms FROM clock WHERE id = 1`
	sqlSetClock = `UPDATE clock SET boot = $1, offset_ms = $2 WHERE id = 1`
)

// step is by how much the wall clock was set, in milliseconds, since the waits in the file last followed it; 0
// when that can't be told: after a boot, or where there is no clock that nobody sets.
func (tx *Tx) step() (boot string, offset, step int64, err error) {
	boot, ms := tx.boot()
	if boot == "" {
		return "", 0, 0, nil
	}
	var known string
	offset = tx.now - ms
	var before int64
	if _, err = tx.find(sqlClock, nil, &known, &before); err != nil {
		return "", 0, 0, err
	}
	if step = offset - before; known != boot || max(step, -step) < clockStep.Milliseconds() {
		step = 0
	}
	if known == boot && step == 0 {
		return "", 0, 0, nil // nothing to be written down
	}
	return boot, offset, step, nil
}

// What waits, without what was void by the clock as it stood: no wait is that long. What was due stays due.
const (
	sqlStepTickets = `UPDATE outbox SET due_at = max(1, due_at + $1) WHERE status = 'pending' AND due_at > 0 AND due_at <= $2`
	sqlStepTargets = `UPDATE targets SET
	probe_at   = CASE WHEN probe_at   BETWEEN 1 AND $2 THEN max(1, probe_at + $1)   ELSE probe_at   END,
	hold_until = CASE WHEN hold_until BETWEEN 1 AND $2 THEN max(1, hold_until + $1) ELSE hold_until END
	WHERE probe_at > 0 OR hold_until > 0`
)

// followClock has what waits keep the length of its wait after the wall clock was set, and notes that in the
// log: the times of what stands before that line in the sequence were written by the other clock.
func (tx *Tx) followClock() error {
	boot, offset, step, err := tx.step()
	if err != nil || boot == "" {
		return err
	}
	if _, err := tx.exec(sqlSetClock, boot, offset); err != nil || step == 0 {
		return err
	}
	longest := tx.now - step + LongestWait.Milliseconds()
	if _, err := tx.exec(sqlStepTickets, step, longest); err != nil {
		return err
	}
	if _, err := tx.changeTarget(sqlStepTargets, step, longest); err != nil {
		return err
	}
	return tx.Log(clockWho, "clock set", "", stepText(step)+"; times up to here were written before that")
}

// clockWho is who stands in the log for the machine's clock.
const clockWho = "clock"

func stepText(ms int64) string {
	d, way := time.Duration(max(ms, -ms))*time.Millisecond, "forward"
	if ms < 0 {
		way = "back"
	}
	if days := ms / 86_400_000; days > 2 || days < -2 { // a duration ends at 292 years
		return fmt.Sprintf("%s by %d days", way, max(days, -days))
	}
	return fmt.Sprintf("%s by %s", way, d.Round(time.Second))
}

// The times of what was put in last, by id and not by time: a few steps at the ends of the tables.
const sqlLastTime = `SELECT max(coalesce((SELECT decided_at FROM orders ORDER BY rowid DESC LIMIT 1), 0), coalesce((SELECT created_at FROM outbox ORDER BY id DESC LIMIT 1), 0),
	coalesce((SELECT begun_at FROM attempts ORDER BY id DESC LIMIT 1), 0), coalesce((SELECT at FROM operator_log ORDER BY id DESC LIMIT 1), 0))`

// ClockBehind is how far the wall clock stands before what was put into the file last; 0 when it does not.
func (tx *Tx) ClockBehind() (time.Duration, error) {
	var last int64
	if _, err := tx.find(sqlLastTime, nil, &last); err != nil {
		return 0, err
	}
	behind := time.Duration(min(last-tx.now, int64(1<<63-1)/1_000_000)) * time.Millisecond
	if behind <= clockSlack {
		return 0, nil
	}
	return behind, nil
}
