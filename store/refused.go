package store

import "math"

// Refused is a body that was not accepted, kept for a person to look at.
type Refused struct {
	Problem string // the name of the problem, "invalid-order"
	Detail  string
	EventID string // "" when it could not be read
	Body    []byte
}

// What is kept of refused bodies: the newest refusedKept, refusedBytes of each.
const (
	refusedKept  = 1000
	refusedBytes = 4096
)

const sqlInsertRefused = `INSERT INTO refused_bodies (received_at, problem, detail, event_id, body, body_bytes, seq)
	VALUES ($1, $2, $3, NULLIF($4, ''), $5, $6, $7)`

const sqlTrimRefused = `DELETE FROM refused_bodies WHERE id <= (SELECT max(id) FROM refused_bodies) - $1`

// KeepRefused keeps a refused body, cut to 4 KiB, and forgets the oldest beyond 1,000.
func (tx *Tx) KeepRefused(r Refused) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	kept := r.Body[:min(len(r.Body), refusedBytes)]
	if kept == nil {
		kept = []byte{}
	}
	if _, err := tx.exec(sqlInsertRefused, tx.now, r.Problem, r.Detail, r.EventID, kept, len(r.Body), seq); err != nil {
		return err
	}
	_, err = tx.exec(sqlTrimRefused, refusedKept)
	return err
}

// RefusedBody is a body that was refused, as it was kept.
type RefusedBody struct {
	ID         int64  `json:"id"`
	ReceivedAt int64  `json:"received_at"` // Unix milliseconds
	Problem    string `json:"problem"`
	Detail     string `json:"detail"`
	EventID    string `json:"event_id"` // "" when it could not be read
	Body       Text   `json:"body"`     // its first 4 KiB
	BodyBytes  int64  `json:"body_bytes"`
	Seq        int64  `json:"seq"`
}

const refusedColumns = `id, received_at, problem, detail, coalesce(event_id, ''), body, body_bytes, seq`

func scanRefused(scan func(...any) error, r *RefusedBody) error {
	return scan(&r.ID, &r.ReceivedAt, &r.Problem, &r.Detail, &r.EventID, &r.Body, &r.BodyBytes, &r.Seq)
}

const sqlRefusedPage = `SELECT ` + refusedColumns + ` FROM refused_bodies
	WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2`

// RefusedBodies lists the refused bodies that are kept, newest first, below the given id; 0 means all.
func (tx *Tx) RefusedBodies(before int64, limit int) ([]RefusedBody, error) {
	return collect(tx, sqlRefusedPage, []any{before, limit}, scanRefused)
}

const sqlRefusedCount = `SELECT count(*) FROM refused_bodies`

// RefusedCount is how many refused bodies are kept.
func (tx *Tx) RefusedCount() (n int64, err error) {
	_, err = tx.find(sqlRefusedCount, nil, &n)
	return n, err
}

// Both by events_differing, which holds nothing of an ordinary event.
const (
	sqlDifferingPage  = `SELECT ` + eventColumns + ` FROM events WHERE differs <> '[]' AND seq < $1 ORDER BY seq DESC LIMIT $2`
	sqlDifferingCount = `SELECT count(*) FROM events WHERE differs <> '[]'`
)

// DifferingEvents lists the events that contradict the standing decision of their order, newest first, those with a
// seq below the given one; 0 means all.
func (tx *Tx) DifferingEvents(before int64, limit int) ([]Event, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return collect(tx, sqlDifferingPage, []any{before, limit}, scanEvent)
}

// DifferingCount is how many there are.
func (tx *Tx) DifferingCount() (n int64, err error) {
	_, err = tx.find(sqlDifferingCount, nil, &n)
	return n, err
}
