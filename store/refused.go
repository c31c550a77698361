package store

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
