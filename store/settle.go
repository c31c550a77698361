package store

import (
	"encoding/json"
)

// Settled is how settling one ticket ended.
type Settled string

const (
	Done        Settled = "done"         // the effect and its ledger row are new, and so is 'done'
	AlreadyDone Settled = "already_done" // the ledger knew the key: no second effect, 'done' is new
	Lost        Settled = "lost"         // the claim was no longer ours: nothing was changed
)

// Settling names the token: a worker that lost its lease changes nothing.
const sqlDone = `UPDATE outbox SET status = 'done', processed_at = $3, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $4
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// What the fence keeps from happening: the same without the token.
const sqlDoneUnfenced = `UPDATE outbox SET status = 'done', processed_at = $3, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $4
	WHERE id = $1 AND $2 <> ''`

const sqlInsertLedger = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq)
	VALUES ($1, $2, $3, 'done', $4, 'local', $5) ON CONFLICT (effect_key) DO NOTHING`

const sqlInsertEffect = `INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, seq) VALUES ($1, $2, $3, $4, $5)`

// SettleLocal carries out a local effect and settles its ticket: the ledger row, the effect only if
// that row was new, and 'done', all in this transaction. ledgerType is the effect's name in the ledger.
func (tx *Tx) SettleLocal(token string, t Ticket, ledgerType string) (Settled, error) {
	seq, err := tx.seq()
	if err != nil {
		return "", err
	}
	text := sqlDone
	if !withFence {
		text = sqlDoneUnfenced
	}
	n, err := tx.exec(text, t.ID, token, tx.now, seq)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return Lost, nil
	}
	n, err = tx.exec(sqlInsertLedger, t.Key, t.AggregateID, ledgerType, tx.now, seq)
	if err != nil {
		return "", err
	}
	if n == 0 && withLedgerCheck {
		return AlreadyDone, nil
	}
	_, err = tx.exec(sqlInsertEffect, t.Key, ledgerType, t.AggregateID, tx.now, seq)
	return Done, err
}

const sqlRetry = `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL, failures = failures + 1, due_at = $3, detail = $4
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Retry puts a ticket back with a wait (milliseconds) after a try that failed; false means the claim was lost.
func (tx *Tx) Retry(token string, id, waitMS int64, detail string) (bool, error) {
	due := tx.now + max(0, min(waitMS, LongestWait.Milliseconds()))
	n, err := tx.exec(sqlRetry, id, token, due, detail)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.noteAttempt(id, token, "failed", detail)
}

const sqlReview = `UPDATE outbox SET status = 'review', claim_token = NULL, lease_holder = NULL, lease_ms = NULL, failures = failures + 1, detail = $3, ended_seq = $4
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Review parks a ticket for a person; false means the claim was lost.
func (tx *Tx) Review(token string, id int64, outcome, detail string) (bool, error) {
	tried, err := tx.seq()
	if err != nil {
		return false, err
	}
	parked, err := tx.seq()
	if err != nil {
		return false, err
	}
	n, err := tx.exec(sqlReview, id, token, detail, parked)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.exec(sqlInsertAttempt, id, token, tx.now, outcome, detail, tried) // the cause before what it led to
	return true, err
}

const sqlBury = `UPDATE outbox SET status = 'dead', processed_at = $4, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, failures = failures + 1, detail = $3, ended_seq = $5
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Bury makes a ticket a dead letter: its effect was rejected for good. False means the claim was lost.
func (tx *Tx) Bury(token string, id int64, detail string) (bool, error) {
	seq, err := tx.seq()
	if err != nil {
		return false, err
	}
	n, err := tx.exec(sqlBury, id, token, detail, tx.now, seq)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.noteAttempt(id, token, "rejected", detail)
}

const sqlRelease = `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL
	WHERE id IN (SELECT value FROM json_each($1)) AND status = 'processing' AND claim_token = $2`

// Release gives claimed tickets back untouched: being stopped is not failing. It returns how many
// were still ours.
func (tx *Tx) Release(token string, ids []int64) (int, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	n, err := tx.exec(sqlRelease, string(list), token)
	return int(n), err
}
