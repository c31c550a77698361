package store

import (
	"math"
)

// OperatorAct is one line of the operator log.
type OperatorAct struct {
	ID      int64
	Seq     int64
	At      int64 // Unix milliseconds
	Who     string
	Action  string
	Subject string // "ticket 12", or an order's id
	Detail  string
}

const actColumns = `id, seq, at, who, action, subject, detail`

func scanAct(scan func(...any) error, a *OperatorAct) error {
	return scan(&a.ID, &a.Seq, &a.At, &a.Who, &a.Action, &a.Subject, &a.Detail)
}

// By operator_log_subject. $2 is what the acts begin with: a customer or a target may be called like the order.
const sqlActs = `SELECT ` + actColumns + ` FROM operator_log WHERE subject = $1 AND substr(action, 1, length($2)) = $2 ORDER BY id`

func (tx *Tx) acts(kind, subject string) ([]OperatorAct, error) {
	return collect(tx, sqlActs, []any{subject, kind}, scanAct)
}

const sqlActsPage = `SELECT ` + actColumns + ` FROM operator_log WHERE id < $1 ORDER BY id DESC LIMIT $2`

// OperatorLog lists what operators did, and the relay in their place, newest first, below the given id; 0 means all.
func (tx *Tx) OperatorLog(before int64, limit int) ([]OperatorAct, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return collect(tx, sqlActsPage, []any{before, limit}, scanAct)
}

const sqlLog = `INSERT INTO operator_log (at, who, action, subject, detail, seq) VALUES ($1, $2, $3, $4, $5, $6)`

// Log appends to the operator log what somebody did.
func (tx *Tx) Log(who, action, subject, detail string) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	_, err = tx.exec(sqlLog, tx.now, who, action, subject, detail, seq)
	return err
}
