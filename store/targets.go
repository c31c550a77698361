package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Target is where the effects of one key prefix go, as the file knows it.
type Target struct {
	Name         string  `json:"name"`
	Mode         string  `json:"mode"` // "lab": a row in this file; "real": a request to an address
	Address      string  `json:"address"`
	Paused       *string `json:"paused"` // "operator" or "answer"; nil when it is not
	PausedAt     *int64  `json:"paused_at"`
	PausedWhy    string  `json:"paused_why"`
	ProbeAt      int64   `json:"probe_at"`   // when one ticket may try a target that an answer has paused
	HoldUntil    int64   `json:"hold_until"` // the target asked to be left alone until then
	OfflineSince *int64  `json:"offline_since"`
	Proven       string  `json:"proven"` // the address that has answered 2xx

	credential []byte
}

// Real reports whether this file sends the target's effects out for real.
func (t Target) Real() bool { return t.Mode == "real" }

// State is one word for how the target fares: "paused", "offline", "held" or "up".
func (t Target) State(now int64) string {
	switch {
	case t.Paused != nil:
		return "paused"
	case t.OfflineSince != nil:
		return "offline"
	case t.held(now):
		return "held"
	}
	return "up"
}

// held: a hold that ends further ahead than the longest wait was written by a clock that was wrong.
func (t Target) held(now int64) bool {
	return now < t.HoldUntil && t.HoldUntil <= now+LongestWait.Milliseconds()
}

// probeDue says whether a paused target may be tried by one ticket: an operator's pause never is.
func (t Target) probeDue(now int64) bool {
	return t.Paused != nil && *t.Paused == "answer" && (now >= t.ProbeAt || t.ProbeAt > now+probeEvery.Milliseconds())
}

// probeEvery is how long a target that an answer has paused is left alone before one ticket tries it.
const probeEvery = time.Hour

// Address is how an address is kept and shown: without its query, which may hold a secret, but telling
// two queries apart.
func Address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.RawQuery == "" {
		return raw
	}
	sum := sha256.Sum256([]byte(u.RawQuery))
	u.RawQuery = ""
	return fmt.Sprintf("%s?…%x", u, sum[:4])
}

const targetColumns = `name, mode, url, paused, paused_at, paused_why, probe_at, hold_until, offline_since, proven_url, paused_credential`

func scanTarget(scan func(...any) error, t *Target) error {
	return scan(&t.Name, &t.Mode, &t.Address, &t.Paused, &t.PausedAt, &t.PausedWhy, &t.ProbeAt, &t.HoldUntil, &t.OfflineSince, &t.Proven, &t.credential)
}

const sqlTargets = `SELECT ` + targetColumns + ` FROM targets ORDER BY name`

// Targets lists the targets that this file knows by name; one that never had an address, a pause or a
// hold is not among them.
func (tx *Tx) Targets() ([]Target, error) { return collect(tx, sqlTargets, nil, scanTarget) }

const sqlTarget = `SELECT ` + targetColumns + ` FROM targets WHERE name = $1`

// Target returns what the file knows of a target; one that it does not know is in the lab.
func (tx *Tx) Target(name string) (Target, error) {
	t, found, err := first(tx, sqlTarget, []any{name}, scanTarget)
	if !found {
		t = Target{Name: name, Mode: "lab"}
	}
	return t, err
}

// sameTarget is Target, read once for the many sends that share a transaction. Its ProbeAt may be an older one.
func (tx *Tx) sameTarget(name string) (Target, error) {
	if t, ok := tx.targets[name]; ok {
		return t, nil
	}
	t, err := tx.Target(name)
	if err == nil {
		if tx.targets == nil {
			tx.targets = map[string]Target{}
		}
		tx.targets[name] = t
	}
	return t, err
}

// changeTarget is exec for what changes a target.
func (tx *Tx) changeTarget(text string, args ...any) (int64, error) {
	tx.targets = nil
	return tx.exec(text, args...)
}

func (tx *Tx) targetsByName() (map[string]Target, error) {
	byName := map[string]Target{}
	targets, err := tx.Targets()
	for _, t := range targets {
		byName[t.Name] = t
	}
	return byName, err
}

// Mark is what a process that carries effects out says of a target when it starts.
type Mark struct {
	Name       string
	URL        string // "" marks it as real without an address: nothing may simulate it, nobody sends yet
	Credential string // compared with the one that was refused, never kept
}

const sqlMarkTarget = `INSERT INTO targets (name, mode, url) VALUES ($1, 'real', $2)
	ON CONFLICT (name) DO UPDATE SET mode = 'real', url = CASE WHEN $2 = '' THEN url ELSE $2 END
	WHERE mode <> 'real' OR ($2 <> '' AND url <> $2)`

// MarkTargets makes the marked targets real for ever: an effect that a file once sent out for real is
// never simulated. It returns the names that have an address in the file and none here; then nothing is
// marked. A target that an answer has paused goes on with another credential.
func (tx *Tx) MarkTargets(marks []Mark, who string) (missing []string, err error) {
	known, err := tx.Targets()
	if err != nil {
		return nil, err
	}
	for _, t := range known {
		here := slices.ContainsFunc(marks, func(m Mark) bool { return m.Name == t.Name && m.URL != "" })
		if t.Real() && t.Address != "" && !here {
			missing = append(missing, t.Name)
		}
	}
	if len(missing) > 0 {
		return missing, nil
	}
	for _, m := range marks {
		if err := tx.mark1(m, who); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (tx *Tx) mark1(m Mark, who string) error {
	n, err := tx.changeTarget(sqlMarkTarget, m.Name, Address(m.URL))
	if err != nil {
		return err
	}
	if n > 0 {
		if err := tx.Log(who, "target is real", m.Name, Address(m.URL)); err != nil {
			return err
		}
	}
	t, err := tx.Target(m.Name)
	if err != nil || t.Paused == nil || *t.Paused != "answer" || bytes.Equal(t.credential, fingerprint(m.Credential)) {
		return err
	}
	return tx.resume(m.Name, who, "started with another credential")
}

func fingerprint(credential string) []byte {
	sum := sha256.Sum256([]byte("comanda credential\x00" + credential))
	return sum[:]
}

const sqlTargetLocal = `UPDATE targets SET mode = 'lab', url = '', paused = NULL, paused_at = NULL, paused_why = '', paused_credential = NULL,
	probe_at = 0, hold_until = 0, offline_since = NULL, proven_url = '' WHERE name = $1 AND mode = 'real'`

// TargetLocal undoes the mark: from now on the effect is simulated. False means that it was not real.
func (tx *Tx) TargetLocal(name, who string) (bool, error) {
	n, err := tx.changeTarget(sqlTargetLocal, name)
	if err != nil || n == 0 {
		return false, err
	}
	tx.wake = true
	return true, tx.Log(who, "target is local", name, "from now on its effects are simulated in this file")
}

// MarkLab makes a private copy of a shop's file one that sends nothing: every target is local, and nothing is paused.
func (tx *Tx) MarkLab(who string) error {
	targets, err := tx.Targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if _, err := tx.TargetLocal(t.Name, who); err != nil {
			return err
		}
		if err := tx.ResumeTarget(t.Name, who); err != nil {
			return err
		}
	}
	return tx.Pause(false, who)
}

const sqlPauseTarget = `INSERT INTO targets (name, paused, paused_at, paused_why, paused_credential, probe_at) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, paused_at = excluded.paused_at, paused_why = excluded.paused_why,
	paused_credential = excluded.paused_credential, probe_at = excluded.probe_at WHERE paused IS NULL OR (paused = 'answer' AND excluded.paused = 'operator')`

// PauseTarget keeps everything from being sent to a target, until an operator resumes it.
func (tx *Tx) PauseTarget(name, who, why string) error {
	n, err := tx.changeTarget(sqlPauseTarget, name, "operator", tx.now, why, nil, 0)
	if err != nil || n == 0 {
		return err
	}
	return tx.Log(who, "target paused", name, why)
}

// PauseByAnswer pauses a target that does not let us in, until it is resumed by hand, by a start with
// another credential, or by one ticket an hour that finds the door open.
func (tx *Tx) PauseByAnswer(name, why, credential string) error {
	n, err := tx.changeTarget(sqlPauseTarget, name, "answer", tx.now, why, fingerprint(credential), tx.now+probeEvery.Milliseconds())
	if err != nil || n == 0 {
		return err
	}
	return tx.Log("relay", "target paused", name, why)
}

// ResumeTarget lets things go out to a target again.
func (tx *Tx) ResumeTarget(name, who string) error { return tx.resume(name, who, "") }

const sqlResumeTarget = `UPDATE targets SET paused = NULL, paused_at = NULL, paused_why = '', paused_credential = NULL, probe_at = 0
	WHERE name = $1 AND paused IS NOT NULL`

func (tx *Tx) resume(name, who, why string) error {
	n, err := tx.changeTarget(sqlResumeTarget, name)
	if err != nil || n == 0 {
		return err
	}
	tx.wake = true
	return tx.Log(who, "target resumed", name, why)
}

// Answered notes that a target let us in: a pause by answer ends.
func (tx *Tx) Answered(name string) error {
	t, err := tx.Target(name)
	if err != nil || t.Paused == nil || *t.Paused != "answer" {
		return err
	}
	return tx.resume(name, "relay", "it answered")
}

const sqlHold = `INSERT INTO targets (name, hold_until) VALUES ($1, $2)
	ON CONFLICT (name) DO UPDATE SET hold_until = excluded.hold_until WHERE hold_until < excluded.hold_until OR hold_until > $3`

// HoldTarget leaves a target alone for some time because it asked for that.
func (tx *Tx) HoldTarget(name string, waitMS int64) error {
	until := tx.now + max(0, min(waitMS, LongestWait.Milliseconds()))
	_, err := tx.changeTarget(sqlHold, name, until, tx.now+LongestWait.Milliseconds())
	return err
}

const (
	sqlOffline = `INSERT INTO targets (name, offline_since) VALUES ($1, $2)
	ON CONFLICT (name) DO UPDATE SET offline_since = excluded.offline_since WHERE offline_since IS NULL`
	sqlOnline = `UPDATE targets SET offline_since = NULL WHERE name = $1 AND offline_since IS NOT NULL`
)

// Offline notes that a target is, or is no longer, out of reach; relays tell it to other eyes.
func (tx *Tx) Offline(name string, offline bool) error {
	if offline {
		_, err := tx.changeTarget(sqlOffline, name, tx.now)
		return err
	}
	n, err := tx.changeTarget(sqlOnline, name)
	tx.wake = tx.wake || n > 0
	return err
}

const sqlProven = `UPDATE targets SET proven_url = $2 WHERE name = $1 AND proven_url <> $2`

// ProveAddress notes that an address has answered 2xx.
func (tx *Tx) ProveAddress(name, address string) error {
	t, err := tx.sameTarget(name)
	if err != nil || t.Proven == address {
		return err
	}
	_, err = tx.changeTarget(sqlProven, name, address)
	return err
}
