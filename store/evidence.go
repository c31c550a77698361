package store

// What is not at its end otherwise becomes done, whoever has it now: the token of a claim that is under way
// is gone with it.
const sqlDoneByEvidence = `UPDATE outbox SET status = 'done', processed_at = $2, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $3
	WHERE id = $1 AND status IN ('pending', 'processing', 'review') RETURNING id`

const sqlLedgerByEvidence = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq)
	SELECT idempotency_key, aggregate_id, $2, 'done', $3, $4, $5 FROM outbox WHERE id = $1
	ON CONFLICT (effect_key) DO NOTHING`

// Remember writes down that the effect of a ticket happened outside: the ledger row and, unless the ticket
// has ended, 'done'. It names no token: a success that comes late is a success. how is "remote" or "by hand".
// Done and AlreadyDone (by the ledger) are about a ticket that this made done; TooLate is about one that was
// dead or discarded and stays so; Lost about one that was done.
func (tx *Tx) Remember(ticket int64, ledgerType, how string) (Settled, error) {
	seq, err := tx.seq()
	if err != nil {
		return Lost, err
	}
	fresh, err := tx.exec(sqlLedgerByEvidence, ticket, ledgerType, tx.now, how, seq)
	if err != nil {
		return Lost, err
	}
	ended, err := tx.find(sqlDoneByEvidence, []any{ticket, tx.now, seq}, new(int64))
	if err != nil {
		return Lost, err
	}
	tx.wrote = true
	switch {
	case !ended && fresh > 0:
		return TooLate, tx.noteTooLate(ticket)
	case !ended:
		return Lost, nil
	case fresh == 0:
		return AlreadyDone, tx.linesDone([]int64{ticket})
	}
	return Done, tx.linesDone([]int64{ticket})
}

const sqlTooLate = `UPDATE outbox SET detail = 'it happened after all, and this ticket had ended otherwise: ' || detail
	WHERE id = $1 AND status IN ('dead', 'discarded')`

func (tx *Tx) noteTooLate(ticket int64) error {
	_, err := tx.exec(sqlTooLate, ticket)
	return err
}

const sqlWindowAnew = `UPDATE outbox SET failures = 0, lookups = 0 WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// WindowAnew closes the unknown sends of a claimed ticket because the target says that none of them
// happened: the next send goes out as the first. False means that the claim was lost: by now somebody else may
// have sent what the target did not know of when it was asked, so nothing is closed.
func (tx *Tx) WindowAnew(token string, ticket int64) (bool, error) {
	n, err := tx.exec(sqlWindowAnew, ticket, token)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.CloseUnknown(ticket)
}
