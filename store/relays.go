package store

// Relay is one relay that works, or worked, on the file. Whether it lives is told by its lock.
type Relay struct {
	Holder     string `json:"holder"`
	PID        int    `json:"pid"`
	StartedAt  int64  `json:"started_at"`
	LastPassAt int64  `json:"last_pass_at"`
}

const sqlRelays = `SELECT holder, pid, started_at, last_pass_at FROM relays ORDER BY holder`

// Relays lists the relays that have made a pass and were not swept away since.
func (tx *Tx) Relays() ([]Relay, error) {
	return collect(tx, sqlRelays, nil, func(scan func(...any) error, r *Relay) error {
		return scan(&r.Holder, &r.PID, &r.StartedAt, &r.LastPassAt)
	})
}

// A pass is noted at most once a second, and whenever the clock has gone backwards.
const sqlNotePass = `INSERT INTO relays (holder, pid, started_at, last_pass_at) VALUES ($1, $2, $3, $3)
	ON CONFLICT (holder) DO UPDATE SET last_pass_at = excluded.last_pass_at
	WHERE last_pass_at < excluded.last_pass_at - 1000 OR last_pass_at > excluded.last_pass_at`

func (tx *Tx) notePass(holder string, pid int) error {
	if tx.tight {
		return nil
	}
	_, err := tx.exec(sqlNotePass, holder, pid, tx.now)
	return err
}

func (tx *Tx) forgetRelay(holder string) error {
	_, err := tx.exec(`DELETE FROM relays WHERE holder = $1`, holder)
	return err
}

// Paused reports whether the relays of this file are paused.
func (tx *Tx) Paused() (bool, error) {
	var paused bool
	_, err := tx.find(`SELECT paused FROM relay_state WHERE id = 1`, nil, &paused)
	return paused, err
}

// Pause pauses or resumes every relay of the file; who is noted in the operator log.
func (tx *Tx) Pause(paused bool, who string) error {
	n, err := tx.exec(`UPDATE relay_state SET paused = $1 WHERE id = 1 AND paused <> $1`, paused)
	if err != nil || n == 0 {
		return err
	}
	tx.wake = true
	action := "relay resumed"
	if paused {
		action = "relay paused"
	}
	return tx.Log(who, action, "", "")
}

// Touch writes one small change, for a commit that is wanted for its own sake: at a start, since a WAL
// that was recovered after a kill holds transactions that are visible but perhaps not synced, and
// this commit's sync covers them; or to find out whether the disk takes commits again.
func (tx *Tx) Touch() error {
	if _, err := tx.seq(); err != nil {
		return err
	}
	_, err := tx.exec(`UPDATE relay_state SET touched = touched + 1 WHERE id = 1`)
	return err
}
