package store

// What is not at its end otherwise becomes done, whoever has it now: the token of a claim that is under way
// is gone with it. $1 is a JSON array of ids.
const sqlDoneByEvidence = `UPDATE outbox SET status = 'done', processed_at = $2, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = '', ended_seq = $3
	WHERE id IN (SELECT value FROM json_each($1)) AND status || '' IN ('pending', 'processing', 'review') RETURNING id, effect_type`

const sqlLedgerByEvidence = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq)
	SELECT idempotency_key, aggregate_id, $2, 'done', $3, $4, $5 FROM outbox WHERE id IN (SELECT value FROM json_each($1))
	ON CONFLICT (effect_key) DO NOTHING`

// The key is compared as it lies in both tables: as JSON two that are no UTF-8 could become one.
const sqlWhichInLedger = `SELECT id, EXISTS (SELECT 1 FROM ledger WHERE effect_key = idempotency_key) FROM outbox WHERE id IN (SELECT value FROM json_each($1))`

// InLedger tells of each of these tickets that there is whether its effect is in the ledger.
func (tx *Tx) InLedger(tickets []int64) (map[int64]bool, error) {
	in := make(map[int64]bool, len(tickets))
	err := tx.each(sqlWhichInLedger, []any{idList(tickets)}, func(scan func(...any) error) error {
		var id int64
		var known bool
		err := scan(&id, &known)
		in[id] = known
		return err
	})
	return in, err
}

// Remember is RememberAll of one ticket.
func (tx *Tx) Remember(ticket int64, ledgerType, how string) (Settled, error) {
	settled, err := tx.RememberAll([]int64{ticket}, ledgerType, how)
	return settled[ticket], err
}

// RememberAll writes down that the effects of tickets happened outside: for each the ledger row and, unless the ticket
// has ended, 'done'. It names no token: a success that comes late is a success. how is "remote" or "by hand".
// Done and AlreadyDone (by the ledger) are about a ticket that this made done; TooLate is about one that was
// dead or discarded and stays so; Lost about one that was done.
func (tx *Tx) RememberAll(tickets []int64, ledgerType, how string) (map[int64]Settled, error) {
	seq, err := tx.seq()
	if err != nil {
		return nil, err
	}
	known, err := tx.InLedger(tickets)
	if err != nil {
		return nil, err
	}
	ids := idList(tickets)
	if _, err := tx.exec(sqlLedgerByEvidence, ids, ledgerType, tx.now, how, seq); err != nil {
		return nil, err
	}
	ended, err := tx.makeDone(sqlDoneByEvidence, ids, tx.now, seq)
	if err != nil {
		return nil, err
	}
	settled := make(map[int64]Settled, len(tickets))
	for _, id := range ended {
		settled[id] = Done
		if known[id] {
			settled[id] = AlreadyDone
		}
	}
	for _, id := range tickets {
		if settled[id] != "" {
			continue
		}
		settled[id] = Lost
		if in, exists := known[id]; exists && !in {
			settled[id] = TooLate
			if err := tx.noteTooLate(id); err != nil {
				return nil, err
			}
		}
	}
	return settled, tx.linesDone(ended)
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
