package store

import "strconv"

// Settled is how settling one ticket ended.
type Settled string

const (
	Done        Settled = "done"         // the effect and its ledger row are new, and so is 'done'
	AlreadyDone Settled = "already_done" // the ledger knew the key: no second effect, 'done' is new
	Lost        Settled = "lost"         // the claim was no longer ours: nothing was changed
	TooLate     Settled = "too_late"     // it happened, and the ticket had ended otherwise: a person must look
)

// Settling names the token: a worker that lost its lease changes nothing. $1 is a JSON array of ids, so
// that a whole claim costs one statement.
const sqlDone = `UPDATE outbox SET status = 'done', processed_at = $3, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $4
	WHERE id IN (SELECT value FROM json_each($1)) AND status || '' = 'processing' AND claim_token = $2 RETURNING id, effect_type`

// What the fence keeps from happening: the same without the token.
const sqlDoneUnfenced = `UPDATE outbox SET status = 'done', processed_at = $3, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $4
	WHERE id IN (SELECT value FROM json_each($1)) AND $2 <> '' RETURNING id, effect_type`

// The ledger is the lock of the effect: a row that is there already is not new, and nothing goes out.
const sqlInsertLedger = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq)
	SELECT idempotency_key, aggregate_id, $2, 'done', $3, 'local', $4 FROM outbox WHERE id IN (SELECT value FROM json_each($1))
	ON CONFLICT (effect_key) DO NOTHING RETURNING effect_key`

const sqlInsertEffects = `INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, seq)
	SELECT idempotency_key, $2, aggregate_id, $3, $4 FROM outbox WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id`

// SettleLocal carries out the local effects of tickets of one claim and settles them, all in this
// transaction: for each the ledger row, the effect only if that row was new, and 'done'. ledgerType is
// the effects' name in the ledger. It returns how each ticket ended, by id.
func (tx *Tx) SettleLocal(token string, tickets []Ticket, ledgerType string) (map[int64]Settled, error) {
	settled := make(map[int64]Settled, len(tickets))
	keys := make(map[string]int64, len(tickets))
	ids := make([]int64, 0, len(tickets))
	for _, t := range tickets {
		settled[t.ID], keys[t.Key] = Lost, t.ID
		ids = append(ids, t.ID)
	}
	seq, err := tx.seq()
	if err != nil {
		return nil, err
	}
	ours, err := tx.markDone(ids, token, seq)
	if err != nil || len(ours) == 0 {
		return settled, err
	}
	fresh, err := collect(tx, sqlInsertLedger, []any{idList(ours), ledgerType, tx.now, seq}, func(scan func(...any) error, key *string) error { return scan(key) })
	if err != nil {
		return nil, err
	}
	out := make([]int64, 0, len(fresh))
	for _, key := range fresh {
		out = append(out, keys[key])
	}
	for _, id := range ours {
		settled[id] = AlreadyDone
	}
	for _, id := range out {
		settled[id] = Done
	}
	if !withLedgerCheck {
		out = ours
	}
	if _, err = tx.exec(sqlInsertEffects, idList(out), ledgerType, tx.now, seq); err != nil {
		return nil, err
	}
	return settled, tx.linesDone(ours)
}

func (tx *Tx) markDone(ids []int64, token string, seq int64) ([]int64, error) {
	text := sqlDone
	if !withFence {
		text = sqlDoneUnfenced
	}
	return tx.makeDone(text, idList(ids), token, tx.now, seq)
}

// The outbox's own triggers leave those to be counted here that become done with a new place in the sequence.
const sqlCountDone = `INSERT INTO ticket_counts (effect_type, status, n) VALUES ($1, 'done', $2)
	ON CONFLICT (effect_type, status) DO UPDATE SET n = n + excluded.n`

// makeDone runs a statement that makes tickets done, counts them, and returns their ids.
func (tx *Tx) makeDone(text string, args ...any) (ids []int64, err error) {
	made := map[string]int64{}
	err = tx.each(text, args, func(scan func(...any) error) error {
		var id int64
		var kind string
		err := scan(&id, &kind)
		ids = append(ids, id)
		made[kind]++
		return err
	})
	if err != nil {
		return nil, err
	}
	for kind, n := range made {
		if _, err := tx.exec(sqlCountDone, kind, n); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// idList is ids as a JSON array, for json_each.
func idList(ids []int64) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

const sqlRequeue = `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL,
	failures = min(failures, 9223372036854775000) + $3, lookups = min(lookups, 9223372036854775000) + $4, due_at = $5, detail = $6
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Requeue is what a ticket takes back to the rail with it.
type Requeue struct {
	WaitMS   int64 // 0 makes it due at once
	Failures int64 // to be charged
	Lookups  int64 // to be charged
	Detail   string
}

// Requeue puts a claimed ticket back on the rail; false means that the claim was lost.
func (tx *Tx) Requeue(token string, id int64, r Requeue) (bool, error) {
	var due int64
	if r.WaitMS > 0 {
		due = tx.now + min(r.WaitMS, LongestWait.Milliseconds())
	}
	n, err := tx.exec(sqlRequeue, id, token, r.Failures, r.Lookups, due, r.Detail)
	return n > 0, err
}

// Retry puts a ticket back with a wait (milliseconds) after a try that failed; false means the claim was lost.
func (tx *Tx) Retry(token string, id, waitMS int64, detail string) (bool, error) {
	ok, err := tx.Requeue(token, id, Requeue{WaitMS: waitMS, Failures: 1, Detail: detail})
	if err != nil || !ok {
		return false, err
	}
	return true, tx.noteAttempt(id, token, "failed", detail)
}

const sqlPark = `UPDATE outbox SET status = 'review', claim_token = NULL, lease_holder = NULL, lease_ms = NULL, failures = min(failures, 9223372036854775000) + 1, detail = $3, ended_seq = $4
	WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Park leaves a claimed ticket to a person; false means that the claim was lost.
func (tx *Tx) Park(token string, id int64, detail string) (bool, error) {
	seq, err := tx.seq()
	if err != nil {
		return false, err
	}
	n, err := tx.exec(sqlPark, id, token, detail, seq)
	return n > 0, err
}

// Review parks a ticket that a claim came to nothing with, and notes the outcome of that claim; false
// means that the claim was lost.
func (tx *Tx) Review(token string, id int64, outcome, detail string) (bool, error) {
	tried, err := tx.seq() // the cause before what it led to
	if err != nil {
		return false, err
	}
	ok, err := tx.Park(token, id, detail)
	if err != nil || !ok {
		return false, err
	}
	_, err = tx.exec(sqlInsertAttempt, id, token, tx.now, outcome, detail, tried)
	return true, err
}

const sqlBury = `UPDATE outbox SET status = 'dead', processed_at = $4, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, failures = min(failures, 9223372036854775000) + 1, detail = $3, ended_seq = $5
	WHERE id = $1 AND status = 'processing' AND claim_token = $2 RETURNING aggregate_id`

// Bury makes a ticket a dead letter: its effect was rejected for good, as the attempt's own row says. False
// means the claim was lost.
func (tx *Tx) Bury(token string, id int64, detail string) (bool, error) {
	seq, err := tx.seq()
	if err != nil {
		return false, err
	}
	var orderID string
	ok, err := tx.find(sqlBury, []any{id, token, detail, tx.now, seq}, &orderID)
	if err != nil || !ok {
		return false, err
	}
	tx.wrote = true
	return true, tx.lineEnded(orderID)
}

const sqlRelease = `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL
	WHERE id IN (SELECT value FROM json_each($1)) AND status = 'processing' AND claim_token = $2`

// Release gives claimed tickets back untouched: being stopped is not failing. It returns how many
// were still ours.
func (tx *Tx) Release(token string, ids []int64) (int, error) {
	if _, err := tx.seq(); err != nil { // for those who watch the sequence
		return 0, err
	}
	n, err := tx.exec(sqlRelease, idList(ids), token)
	return int(n), err
}
