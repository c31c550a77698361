package store

import (
	"fmt"
	"time"
)

// Condition is something that a person should hear of, while it lasts. Its detail holds counts and names of
// targets and nothing of an order.
type Condition struct {
	Cause  string // "dead letters", "review", "target refund paused", "target refund offline"
	Detail string
}

// longUnreachable is how long a target may be paused by an operator, or offline, before that is worth an alert.
const longUnreachable = 15 * time.Minute

// Conditions reads from the file what a person should hear of. What an answer has paused is told at once: it
// needs a person, and nothing goes out meanwhile.
func (tx *Tx) Conditions() ([]Condition, error) {
	var all []Condition
	counts, err := tx.Counts()
	if err != nil {
		return nil, err
	}
	if counts.Dead > 0 {
		all = append(all, Condition{"dead letters", fmt.Sprintf("%d dead, rejected for good", counts.Dead)})
	}
	if counts.Review > 0 {
		all = append(all, Condition{"review", fmt.Sprintf("%d in review, of which a person must find out what came", counts.Review)})
	}
	late, err := tx.countTooLate()
	if err != nil {
		return nil, err
	}
	if late > 0 {
		all = append(all, Condition{"happened after all", fmt.Sprintf("%d dead or discarded and yet carried out", late)})
	}
	targets, err := tx.Targets()
	for _, t := range targets {
		switch long := longUnreachable.Milliseconds(); {
		case t.Paused != nil && (*t.Paused == "answer" || tx.now-*t.PausedAt > long):
			all = append(all, Condition{"target " + t.Name + " paused", pausedBy[*t.Paused]})
		case t.OfflineSince != nil && tx.now-*t.OfflineSince > long:
			all = append(all, Condition{"target " + t.Name + " offline", "not reached for a while; tickets wait and nothing is lost"})
		}
	}
	return all, err
}

// pausedBy tells who paused a target. Why is left out: it is the target's own words, or an operator's, and may
// hold anything.
var pausedBy = map[string]string{
	"answer":   "it does not let us in; `comanda targets list` says what it answered",
	"operator": "an operator paused it; `comanda targets list` says why",
}

// Tickets that ended otherwise and whose effect is in the ledger, by outbox_dead and outbox_discarded.
const sqlTooLateCount = `SELECT
	(SELECT count(*) FROM outbox JOIN ledger ON effect_key = idempotency_key WHERE outbox.status = 'dead') +
	(SELECT count(*) FROM outbox JOIN ledger ON effect_key = idempotency_key WHERE outbox.status = 'discarded')`

func (tx *Tx) countTooLate() (n int64, err error) {
	_, err = tx.find(sqlTooLateCount, nil, &n)
	return n, err
}

// Alert is what a person was told of.
type Alert struct {
	Cause  string
	Since  int64 // Unix milliseconds
	ToldAt int64 // 0 before anybody was told
	Times  int64 // how often
	Detail string
}

// DigestEvery is how often a person is told again of what lasts.
const DigestEvery = time.Hour

const sqlAlerts = `SELECT cause, since, told_at, times, detail FROM alerts ORDER BY cause`

// Alerts lists what was told and is not over.
func (tx *Tx) Alerts() ([]Alert, error) {
	return collect(tx, sqlAlerts, nil, func(scan func(...any) error, a *Alert) error {
		return scan(&a.Cause, &a.Since, &a.ToldAt, &a.Times, &a.Detail)
	})
}

const (
	sqlRaise = `INSERT INTO alerts (cause, since, detail) VALUES ($1, $2, $3) ON CONFLICT (cause) DO UPDATE SET detail = excluded.detail WHERE detail <> excluded.detail`
	sqlTell  = `UPDATE alerts SET told_at = $2, times = times + 1 WHERE cause = $1 AND (told_at = 0 OR told_at <= $3 OR told_at > $2)
	RETURNING cause, since, told_at, times, detail`
)

// RaiseAlert notes a condition that lasts and returns it if it is this process's turn to tell it: at its onset,
// then once an hour. Of several processes on one file one gets the turn.
func (tx *Tx) RaiseAlert(c Condition) (Alert, bool, error) {
	if _, err := tx.exec(sqlRaise, c.Cause, tx.now, c.Detail); err != nil {
		return Alert{}, false, err
	}
	a, due, err := first(tx, sqlTell, []any{c.Cause, tx.now, tx.now - DigestEvery.Milliseconds()}, func(scan func(...any) error, a *Alert) error {
		return scan(&a.Cause, &a.Since, &a.ToldAt, &a.Times, &a.Detail)
	})
	tx.wrote = tx.wrote || due
	return a, due, err
}

// UntellAlert gives the turn back: the telling failed and is due again.
func (tx *Tx) UntellAlert(cause string) error {
	_, err := tx.exec(`UPDATE alerts SET told_at = 0, times = max(0, times - 1) WHERE cause = $1`, cause)
	return err
}

const sqlRestoreAlert = `INSERT INTO alerts (cause, since, told_at, times, detail) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (cause) DO NOTHING`

// RestoreAlert puts back one that EndAlert removed: that it is over could not be told, and is due again.
func (tx *Tx) RestoreAlert(a Alert) error {
	_, err := tx.exec(sqlRestoreAlert, a.Cause, a.Since, a.ToldAt, a.Times, a.Detail)
	return err
}

// EndAlert removes what is over; false means that another process did, and tells it.
func (tx *Tx) EndAlert(cause string) (bool, error) {
	n, err := tx.exec(`DELETE FROM alerts WHERE cause = $1`, cause)
	return n > 0, err
}
