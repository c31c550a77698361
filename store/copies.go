package store

// Copies is how often an event came again after it was accepted, as far as that was noted.
type Copies struct {
	EventID string
	Copies  int64
	FirstAt int64 // Unix milliseconds
	LastAt  int64
	Seq     int64 // the place in the sequence at which the last of them were noted
}

const sqlNoteCopies = `INSERT INTO event_copies (event_id, copies, first_at, last_at, seq) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (event_id) DO UPDATE SET copies = copies + excluded.copies, last_at = excluded.last_at, seq = excluded.seq`

// NoteCopies adds copies that came of an accepted event. Seq is given by the file.
func (tx *Tx) NoteCopies(c Copies) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	_, err = tx.exec(sqlNoteCopies, c.EventID, c.Copies, c.FirstAt, c.LastAt, seq)
	return err
}

// By events_order_id, then each by its key.
const sqlOrderCopies = `SELECT c.event_id, c.copies, c.first_at, c.last_at, c.seq FROM events AS e CROSS JOIN event_copies AS c ON c.event_id = e.event_id WHERE e.order_id = $1`

func (tx *Tx) copiesOf(orderID string) ([]Copies, error) {
	return collect(tx, sqlOrderCopies, []any{orderID}, func(scan func(...any) error, c *Copies) error {
		return scan(&c.EventID, &c.Copies, &c.FirstAt, &c.LastAt, &c.Seq)
	})
}

// The bodies that name one of the order's events and were refused: of at most 1,000 rows.
const sqlOrderRefused = `SELECT ` + refusedColumns + ` FROM refused_bodies
	WHERE event_id IN (SELECT event_id FROM events WHERE order_id = $1) ORDER BY id`
