package store

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Begin is what a worker is about to do for a ticket that it has claimed.
type Begin struct {
	Ticket  int64
	Token   string // of the claim
	Kind    string // "send" or "lookup"
	Target  string
	Address string
	Letter  Letter // frozen now unless an earlier attempt froze another
	KeyTTL  int64  // how long the target is said to honour a key, in milliseconds
	Timeout int64  // how long after its row bytes of it can leave at the most, in milliseconds
	Probe   bool   // goes out although an answer has paused the target
}

// Begun is an attempt whose row is on disk when the transaction has committed.
type Begun struct {
	ID     int64
	Letter Letter // as it was frozen: this goes over the wire and nothing else
	Lost   bool   // the claim is no longer ours: nothing may be sent
	Halted bool   // the target was paused or held meanwhile, is real no more, or has another address: nothing may be sent
	Proven bool   // the address has answered 2xx before
}

// Freezes the letter; the trigger outbox_wire_is_frozen refuses any later change.
const sqlFreeze = `UPDATE outbox SET wire_key = coalesce(wire_key, $3), wire_body = coalesce(wire_body, $4)
	WHERE id = $1 AND status = 'processing' AND claim_token = $2 RETURNING wire_key, wire_body`

const sqlBeginAttempt = `INSERT INTO attempts (ticket_id, claim_token, begun_at, seq, kind, target, address, boot, boot_ms, key_ttl_ms, timeout_ms)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id`

// BeginAttempt writes the row without which no byte leaves. The caller has made sure that its lease
// outlasts the timeout.
func (tx *Tx) BeginAttempt(b Begin) (Begun, error) {
	var begun Begun
	target, err := tx.sameTarget(b.Target)
	if err != nil {
		return begun, err
	}
	if target.refuses(b, tx.now) {
		begun.Halted = true
		return begun, nil
	}
	ours, err := tx.find(sqlFreeze, []any{b.Ticket, b.Token, b.Letter.Key, b.Letter.Body}, &begun.Letter.Key, &begun.Letter.Body)
	if err != nil || !ours {
		begun.Lost = !ours
		return begun, err
	}
	tx.wrote = true
	seq, err := tx.seq()
	if err != nil {
		return begun, err
	}
	boot, ms := tx.boot()
	_, err = tx.find(sqlBeginAttempt, []any{b.Ticket, b.Token, tx.now, seq, b.Kind, b.Target, b.Address, boot, ms, b.KeyTTL, b.Timeout}, &begun.ID)
	return begun, err
}

// Claimed is a ticket by the claim that has it in hand.
type Claimed struct {
	Ticket int64
	Token  string
}

// Freezes the letters of tickets that have none. $1 is a JSON array of [id, token, key, body].
const sqlFreezeFirst = `UPDATE outbox SET wire_key = j.value ->> 2, wire_body = CAST(j.value ->> 3 AS BLOB) FROM json_each($1) AS j
	WHERE outbox.id = j.value ->> 0 AND status = 'processing' AND claim_token = j.value ->> 1 AND wire_key IS NULL RETURNING outbox.id`

const sqlBeginFirst = `INSERT INTO attempts (ticket_id, claim_token, begun_at, seq, kind, target, address, boot, boot_ms, key_ttl_ms, timeout_ms)
	SELECT id, claim_token, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM outbox WHERE id IN (SELECT value FROM json_each($1)) RETURNING ticket_id, claim_token, id`

// BeginFirst is BeginAttempt for the first sends of several tickets, in a few statements for all. Of b it takes what they
// have in common; no probe is among them. What is not in its answer is for BeginAttempt to say: it was sent before, or its
// claim is lost, or its letter is no text.
func (tx *Tx) BeginFirst(b Begin, letters map[Claimed]Letter) (map[Claimed]Begun, error) {
	target, err := tx.sameTarget(b.Target)
	if err != nil || target.refuses(b, tx.now) {
		return nil, err
	}
	rows := make([][4]any, 0, len(letters))
	for c, l := range letters {
		if utf8.Valid(l.Body) && bytes.IndexByte(l.Body, 0) < 0 && utf8.ValidString(l.Key) { // to be the same after JSON
			rows = append(rows, [4]any{c.Ticket, c.Token, l.Key, string(l.Body)})
		}
	}
	scanID := func(scan func(...any) error, id *int64) error { return scan(id) }
	ours, err := collect(tx, sqlFreezeFirst, []any{jsonList(rows)}, scanID)
	if err != nil || len(ours) == 0 {
		return nil, err
	}
	tx.wrote = true
	seq, err := tx.seq()
	if err != nil {
		return nil, err
	}
	begun := make(map[Claimed]Begun, len(ours))
	boot, ms := tx.boot()
	err = tx.each(sqlBeginFirst, []any{idList(ours), tx.now, seq, b.Kind, b.Target, b.Address, boot, ms, b.KeyTTL, b.Timeout},
		func(scan func(...any) error) error {
			var c Claimed
			var id int64
			err := scan(&c.Ticket, &c.Token, &id)
			begun[c] = Begun{ID: id, Letter: letters[c], Proven: target.Proven == b.Address}
			return err
		})
	return begun, err
}

// refuses says that nothing may be sent to a target now, or not by this process.
func (t Target) refuses(b Begin, now int64) bool {
	return !t.Real() || t.Address != b.Address || t.held(now) || t.Paused != nil && (!b.Probe || *t.Paused == "operator")
}

// jsonList is rows as JSON, for json_each. Their texts are valid UTF-8.
func jsonList(rows any) string {
	text, _ := json.Marshal(rows) // numbers and strings always can be
	return string(text)
}

// Ended is what an attempt found out.
type Ended struct {
	ID      int64  // the attempt's
	Outcome string // an Evidence or a Knowledge
	Status  int
	Receipt string
	Detail  string
}

// The row of an attempt is written to once more, whoever has the ticket now: evidence is not fenced. $1 is a JSON array of
// [id, outcome, status, receipt, detail].
const sqlEndAttempts = `UPDATE attempts SET ended_at = $2, outcome = j.value ->> 1, http_status = j.value ->> 2, receipt = j.value ->> 3, detail = j.value ->> 4,
	ended_seq = $3, ended_boot_ms = $4 FROM json_each($1) AS j WHERE attempts.id = j.value ->> 0 AND ended_at IS NULL`

// EndAttempts writes down what attempts found out, late or not.
func (tx *Tx) EndAttempts(ended ...Ended) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	rows := make([][5]any, len(ended))
	for i, e := range ended {
		rows[i] = [5]any{e.ID, e.Outcome, e.Status, e.Receipt, e.Detail}
	}
	_, ms := tx.boot()
	_, err = tx.exec(sqlEndAttempts, jsonList(rows), tx.now, seq, ms)
	return err
}

// Past is what is known of a ticket's earlier sends, and of its target.
type Past struct {
	InLedger   bool   // the effect is known to have happened: by the ledger, or by a send that says so
	Unknown    int    // sends of which nobody knows what came
	KeyTTL     int64  // the shortest time for which the target was said to honour a key when one of these went out, in milliseconds
	LastStatus int    // the HTTP status that the newest of these was answered with; 0 when it was not
	Elsewhere  string // the address of one of these that is not today's; ""
	FirstMS    int64  // age of the oldest unknown one
	Expired    bool   // that age can't be proven: it counts as too old
	LastMS     int64  // how long ago the last byte of an unknown one can have left, at the least
	Proven     bool   // today's address has answered 2xx
}

// isUnknown tells the sends of which nobody knows what came. The index attempts_unknown repeats it.
const isUnknown = `kind = 'send' AND closed_seq = 0 AND (outcome IS NULL OR outcome = 'unknown')`

// For every remote ticket, by attempts_unknown.
const sqlUnknown = `SELECT address, boot, boot_ms, ended_at IS NOT NULL, ended_boot_ms, key_ttl_ms, timeout_ms, http_status FROM attempts
	WHERE ticket_id = $1 AND ` + isUnknown + ` ORDER BY id`

type unknownSend struct {
	address, boot  string
	begunMS, endMS int64
	ended          bool
	keyTTL         int64
	timeout        int64
	status         int
}

// By the ledger's key and attempts_ticket_id.
const sqlHappened = `SELECT 1 FROM ledger WHERE effect_key = $1 UNION ALL SELECT 1 FROM attempts WHERE ticket_id = $2 AND kind = 'send' AND outcome = 'done' LIMIT 1`

// Past returns what must be known before anything is sent for a ticket. It reads what is this ticket's own: it is asked for
// every one, and costs the same however many were sent a moment ago.
func (tx *Tx) Past(t Ticket, target, address string) (Past, error) {
	var p Past
	var err error
	if p.InLedger, err = tx.find(sqlHappened, []any{t.Key, t.ID}, new(int64)); err != nil {
		return p, err
	}
	unknown, err := collect(tx, sqlUnknown, []any{t.ID}, func(scan func(...any) error, u *unknownSend) error {
		return scan(&u.address, &u.boot, &u.begunMS, &u.ended, &u.endMS, &u.keyTTL, &u.timeout, &u.status)
	})
	if err != nil {
		return p, err
	}
	p.Unknown = len(unknown)
	for i, u := range unknown {
		if u.address != address {
			p.Elsewhere = u.address
		}
		age, proven := tx.ageSince(u.boot, u.begunMS)
		if i == 0 {
			p.FirstMS = age
		}
		p.Expired = p.Expired || !proven
		if i == 0 || u.keyTTL < p.KeyTTL {
			p.KeyTTL = u.keyTTL
		}
		p.LastStatus = u.status
		last := tx.sinceLastByte(u)
		if i == 0 || last < p.LastMS {
			p.LastMS = last
		}
	}
	known, err := tx.sameTarget(target)
	p.Proven = known.Proven != "" && known.Proven == address
	return p, err
}

// For a lookup that says never, by attempts_done; the key is another ticket's. It passes over what was sent within the grace.
const sqlControl = `SELECT o.wire_key FROM attempts AS a JOIN outbox AS o ON o.id = a.ticket_id
	WHERE a.target = $1 AND a.kind = 'send' AND a.outcome = 'done' AND a.address = $2 AND a.ticket_id <> $3 AND o.wire_key IS NOT NULL
	AND (a.boot NOT IN ($4, '') OR a.ended_boot_ms <= $5)
	ORDER BY a.id DESC LIMIT 1`

// ControlKey is the key, in its form for the wire, of the newest send of another ticket to an address that was done before
// the grace: what a lookup there must find if it is to be believed. graceMS is how long the target may not yet know what it
// did. "" when there is none.
func (tx *Tx) ControlKey(t Ticket, target, address string, graceMS int64) (key string, err error) {
	boot, now := tx.boot()
	_, err = tx.find(sqlControl, []any{target, address, t.ID, boot, now - graceMS}, &key)
	return key, err
}

// sinceLastByte: what was sent in an earlier boot was sent before this one began. What was sent when the boot
// could not be told may have been sent just now.
func (tx *Tx) sinceLastByte(u unknownSend) int64 {
	boot, now := tx.boot()
	switch {
	case boot == "", u.boot == "":
		return 0
	case u.boot != boot:
		return now
	case u.ended:
		return max(0, now-u.endMS)
	}
	return max(0, now-u.begunMS-u.timeout)
}

const sqlHasUnknown = `SELECT 1 FROM attempts WHERE ticket_id = $1 AND ` + isUnknown + ` LIMIT 1`

// HasUnknown reports whether a ticket has a send of which nobody knows what came.
func (tx *Tx) HasUnknown(ticket int64) (bool, error) {
	return tx.find(sqlHasUnknown, []any{ticket}, new(int64))
}

// The same whether or not somebody has said since what came of it.
const sqlWasSent = `SELECT 1 FROM attempts WHERE ticket_id = $1 AND kind = 'send' AND (outcome IS NULL OR outcome = 'unknown') LIMIT 1`

// WasSent reports whether a ticket has, or once had, a send of which nobody knew what came.
func (tx *Tx) WasSent(ticket int64) (bool, error) {
	return tx.find(sqlWasSent, []any{ticket}, new(int64))
}

const sqlCloseUnknown = `UPDATE attempts SET closed_seq = $2 WHERE ticket_id = $1 AND ` + isUnknown

// CloseUnknown notes that somebody who could know has said what came of a ticket's unknown sends. What is
// sent next opens the key's window anew.
func (tx *Tx) CloseUnknown(ticket int64) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	_, err = tx.exec(sqlCloseUnknown, ticket, seq)
	return err
}
