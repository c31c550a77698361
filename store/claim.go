package store

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// The rules of a claim that are not settings.
const (
	// LongestWait is the longest wait there is; a due time further ahead is the mark of a clock that
	// was wrong when it was written, and void.
	LongestWait = 24 * time.Hour
	// aloneAfter is how many crashes a ticket may be charged with before it is carried out alone, so
	// that the next crash says for sure whether it was this one.
	aloneAfter = 2
	// reviewAfter is how many crashes park a ticket for a person.
	reviewAfter = 5
)

// ClaimRequest asks for tickets.
type ClaimRequest struct {
	Limit  int           // at most this many
	Lease  time.Duration // counted from before the claim, whole milliseconds
	Holder string
	Token  string      // of the claim; "" makes a new one
	Void   []VoidLease // to be freed first, in the same transaction

	// Target is the one whose tickets are wanted, which must be real in this file; "" wants those of every
	// target that is not.
	Target string
	// Address is where this process sends the target's tickets; they are claimed only while that is the file's
	// own address, which is that of the process that was started last.
	Address string
	// TargetOf names the target of each effect type; a type that is not in it has none.
	TargetOf map[string]string
	// Turn takes one ticket alone: the oldest at 1, the next one at 2 … and round again after ProbesInTurn;
	// 0 takes as many as Limit says.
	Turn int
}

// ProbesInTurn is how many of the oldest tickets try in turn a target that can't be reached, so that one
// ticket that the target can't bear does not hold up the others.
const ProbesInTurn = 3

// Claim is a set of tickets that belong to one holder until its lease is void.
type Claim struct {
	Token   string
	Tickets []Ticket // by id
	Freed   int      // tickets whose void lease was freed
	Parked  int      // of these, sent to review because they keep crashing the process
	Paused  bool     // nothing was claimed because the relay is paused
	Halted  string   // nothing was claimed because the target is "paused", "held", not "real", or has another "address"
	Probe   bool     // one ticket was claimed to try a target that an answer has paused
	// Elsewhere are the targets of due tickets that were left alone because they are real in this file.
	Elsewhere []string

	until time.Time // on Go's clock, which stands still while the machine sleeps; Left says more
	made  reading
	boot  BootClock
}

// Left is how much of the lease is left, by Go's clock and by the time since boot, whichever is further.
func (c Claim) Left() time.Duration {
	left := time.Until(c.until)
	if c.boot == nil {
		return left
	}
	_, ms := c.boot()
	return left - reading{time.Now(), ms}.asleep(c.made)
}

// Claim frees void leases and claims due tickets, oldest first, in one write transaction:
// 'processing' is on disk before Claim returns, and so before anything happens. The lease counts
// from before the claim, so the holder gives up before anybody else may take over.
func (db *DB) Claim(ctx context.Context, r ClaimRequest) (Claim, error) {
	made := readClocks(db.opt.Boot) // it may have to wait for its turn to write
	var c Claim
	err := db.Update(ctx, func(tx *Tx) (err error) {
		c, err = tx.claimSince(r, made)
		return err
	})
	if err != nil {
		return Claim{}, fmt.Errorf("claim tickets: %w", err)
	}
	return c, nil
}

// Claim is DB.Claim as a part of a transaction, such as the one that settles the claim before: 'processing' is on
// disk with its commit, and nothing of the claim may be begun before that.
func (tx *Tx) Claim(r ClaimRequest) (Claim, error) {
	return tx.claimSince(r, readClocks(tx.boot))
}

func (tx *Tx) claimSince(r ClaimRequest, made reading) (Claim, error) {
	if r.Token == "" {
		r.Token = NewToken()
	}
	c, err := tx.claim(r)
	c.until, c.made, c.boot = made.at.Add(r.Lease), made, tx.boot
	return c, err
}

func (tx *Tx) claim(r ClaimRequest) (Claim, error) {
	c := Claim{Token: r.Token}
	if err := tx.notePass(r.Holder, os.Getpid()); err != nil {
		return c, err
	}
	if err := tx.followClock(); err != nil {
		return c, err
	}
	for _, v := range r.Void {
		freed, parked, err := tx.free(v)
		if err != nil {
			return c, err
		}
		c.Freed += freed
		c.Parked += parked
	}
	var err error
	if c.Paused, err = tx.Paused(); err != nil || c.Paused {
		return c, err
	}
	kinds, err := tx.kinds(r, &c)
	if err != nil || c.Halted != "" {
		return c, err
	}
	limit := r.Limit
	if c.Probe {
		limit = 1
	}
	ids, err := tx.due(kinds, limit, r.Turn)
	if err != nil || len(ids) == 0 {
		return c, err
	}
	if c.Probe {
		if _, err := tx.exec(sqlNextProbe, r.Target, tx.now+probeEvery.Milliseconds()); err != nil {
			return c, err
		}
	}
	c.Tickets, err = tx.mark(ids, r)
	return c, err
}

const sqlNextProbe = `UPDATE targets SET probe_at = $2 WHERE name = $1`

// kinds are the effect types that this claim may take: the marks are read in its own transaction, so nothing
// is simulated that a process has sent out for real.
func (tx *Tx) kinds(r ClaimRequest, c *Claim) ([]string, error) {
	pending, err := tx.pendingTypes()
	if err != nil {
		return nil, err
	}
	targets, err := tx.targetsByName()
	if err != nil {
		return nil, err
	}
	if r.Target != "" {
		if c.Halted, c.Probe, err = tx.halted(r); err != nil || c.Halted != "" {
			return nil, err
		}
	}
	var kinds []string
	for _, kind := range pending {
		target := targets[r.TargetOf[kind]]
		switch {
		case r.Target != "":
			if r.TargetOf[kind] == r.Target {
				kinds = append(kinds, kind)
			}
		case target.Real():
			c.Elsewhere = append(c.Elsewhere, target.Name)
		case target.Paused == nil:
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// halted says why nothing may be claimed for a real target, or that one ticket may try it.
func (tx *Tx) halted(r ClaimRequest) (why string, probe bool, err error) {
	t, err := tx.Target(r.Target)
	switch {
	case err != nil:
		return "", false, err
	case !t.Real():
		return "real", false, nil
	case r.Address != "" && t.Address != r.Address:
		return "address", false, nil
	case t.probeDue(tx.now) && !t.held(tx.now):
		return "", true, nil
	case t.Paused != nil:
		return "paused", false, nil
	case t.held(tx.now):
		return "held", false, nil
	}
	return "", false, nil
}

// The soonest end of a wait, one step in outbox_pending.
const sqlSoonest = `SELECT due_at FROM outbox WHERE status = 'pending' AND effect_type = $1 AND due_at > $2 ORDER BY due_at LIMIT 1`

// Due reports whether a claim would find a ticket now, and if not how long until the first wait is over, in
// milliseconds; 0 when nothing waits. halted is as in Claim.
func (tx *Tx) Due(r ClaimRequest) (now bool, inMS int64, halted string, err error) {
	paused, err := tx.Paused()
	if err != nil || paused {
		return false, 0, "", err
	}
	_, _, step, err := tx.step()
	if err != nil {
		return false, 0, "", err
	}
	tx.now -= step // the clock by which the waits were written; the claim has them follow
	var c Claim
	kinds, err := tx.kinds(r, &c)
	if err != nil || c.Halted != "" {
		return false, 0, c.Halted, err
	}
	ids, err := tx.due(kinds, 1, 0)
	if err != nil || len(ids) > 0 {
		return len(ids) > 0, 0, "", err
	}
	for _, kind := range kinds {
		var due int64
		found, err := tx.find(sqlSoonest, []any{kind, tx.now}, &due)
		if err != nil {
			return false, 0, "", err
		}
		if in := due - tx.now; found && (inMS == 0 || in < inMS) {
			inMS = in
		}
	}
	return false, inMS, "", nil
}

// Charges a crash to a ticket that a dead holder had begun, while its void claim still stands.
const sqlCharge = `UPDATE outbox SET crashes = min(crashes, 9223372036854775000) + 1 WHERE id = $1 AND status = 'processing' AND claim_token = $2`

// Frees a void claim; who lost it finds another token, or none, and changes nothing.
const sqlFree = `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL
	WHERE status = 'processing' AND claim_token = $1`

// Parks what has crashed the process too often.
const sqlParkCrashing = `UPDATE outbox SET status = 'review', claim_token = NULL, lease_holder = NULL, lease_ms = NULL, detail = $3, ended_seq = $4
	WHERE status = 'processing' AND claim_token = $1 AND crashes >= $2`

// What was claimed and not begun, or not ended as far as anybody can tell, leaves a line in the story.
const sqlNoteInterrupted = `INSERT INTO attempts (ticket_id, claim_token, begun_at, ended_at, outcome, detail, seq, ended_seq)
	SELECT id, claim_token, claimed_at, $2, 'interrupted', $3, $4, $4 FROM outbox
	WHERE status = 'processing' AND claim_token = $1 AND claimed_at IS NOT NULL
	AND NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.ticket_id = outbox.id AND a.claim_token = $1)`

func (tx *Tx) noteInterrupted(v VoidLease) error {
	seq, err := tx.seq()
	if err != nil {
		return err
	}
	why := "its relay did not settle it within the lease"
	if v.Dead {
		why = "its relay died before it was settled"
	}
	_, err = tx.exec(sqlNoteInterrupted, v.Token, tx.now, why, seq)
	return err
}

// free makes the tickets of a void lease pending again. A ticket that was begun when its holder died
// is charged with the crash; the others are not.
func (tx *Tx) free(v VoidLease) (freed, parked int, err error) {
	for _, id := range v.Begun {
		n, err := tx.exec(sqlCharge, id, v.Token)
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			continue
		}
		if err := tx.noteAttempt(id, v.Token, "crashed", "the process died while it carried this ticket out"); err != nil {
			return 0, 0, err
		}
		seq, err := tx.seq()
		if err != nil {
			return 0, 0, err
		}
		n, err = tx.exec(sqlParkCrashing, v.Token, reviewAfter, fmt.Sprintf("crashes the process: it died %d times while carrying this ticket out", reviewAfter), seq)
		if err != nil {
			return 0, 0, err
		}
		parked += int(n)
	}
	if err := tx.noteInterrupted(v); err != nil {
		return 0, 0, err
	}
	n, err := tx.exec(sqlFree, v.Token)
	if err != nil {
		return 0, 0, err
	}
	tx.wake = tx.wake || n > 0
	if v.Dead {
		err = tx.forgetRelay(v.Holder)
	}
	return int(n) + parked, parked, err
}

// The effect types that have pending tickets, by stepping from one to the next in outbox_pending.
const sqlPendingTypes = `WITH RECURSIVE kinds(kind) AS (
	SELECT min(effect_type) FROM outbox WHERE status = 'pending'
	UNION ALL
	SELECT (SELECT min(effect_type) FROM outbox WHERE status = 'pending' AND effect_type > kind) FROM kinds WHERE kind IS NOT NULL
) SELECT kind FROM kinds WHERE kind IS NOT NULL`

// The heads of one type: new tickets lie in id order at due_at = 0 in outbox_pending.
const sqlNew = `SELECT id, crashes FROM outbox WHERE status = 'pending' AND effect_type = $1 AND due_at = 0 ORDER BY id LIMIT $2`

// Tickets whose wait is over, or void because no wait is that long.
const sqlDelayed = `SELECT id, crashes FROM outbox WHERE status = 'pending' AND effect_type = $1 AND due_at > 0 AND due_at <= $2
	UNION ALL SELECT id, crashes FROM outbox WHERE status = 'pending' AND effect_type = $1 AND due_at > $3
	ORDER BY id LIMIT $4`

type head struct {
	id      int64
	crashes int64
}

func (tx *Tx) pendingTypes() ([]string, error) {
	return collect(tx, sqlPendingTypes, nil, func(scan func(...any) error, s *string) error { return scan(s) })
}

// due returns the ids to claim: by id among what is due, at most limit; or one, if it is to go in turn.
// What has crashed the process before goes alone.
func (tx *Tx) due(kinds []string, limit, turn int) ([]int64, error) {
	if turn > 0 {
		limit = ProbesInTurn
	}
	var heads []head
	scanHead := func(scan func(...any) error, h *head) error { return scan(&h.id, &h.crashes) }
	for _, kind := range kinds {
		fresh, err := collect(tx, sqlNew, []any{kind, limit}, scanHead)
		if err != nil {
			return nil, err
		}
		delayed, err := collect(tx, sqlDelayed, []any{kind, tx.now, tx.now + LongestWait.Milliseconds(), limit}, scanHead)
		if err != nil {
			return nil, err
		}
		heads = append(append(heads, fresh...), delayed...)
	}
	slices.SortFunc(heads, func(a, b head) int { return cmp.Compare(a.id, b.id) })
	if turn > 0 && len(heads) > 0 {
		heads = heads[:min(len(heads), ProbesInTurn)]
		return []int64{heads[(turn-1)%len(heads)].id}, nil
	}
	return cut(heads, limit), nil
}

func cut(heads []head, limit int) []int64 {
	var ids []int64
	for i, h := range heads {
		alone := h.crashes >= aloneAfter
		if i == limit || alone && i > 0 {
			break
		}
		ids = append(ids, h.id)
		if alone {
			break
		}
	}
	return ids
}

// Marks what was found in the same transaction; the status in the WHERE is the guard all the same. It is
// written so that no partial index fits: the ids alone are the way to the rows.
const sqlMark = `UPDATE outbox SET status = 'processing', attempts = min(attempts, 9223372036854775806) + 1, claim_token = $2, lease_holder = $3, lease_ms = $4,
	claimed_at = $5, claimed_seq = $6
	WHERE id IN (SELECT value FROM json_each($1)) AND status || '' = 'pending' RETURNING ` + ticketColumns

func (tx *Tx) mark(ids []int64, r ClaimRequest) ([]Ticket, error) {
	seq, err := tx.seq()
	if err != nil {
		return nil, err
	}
	tickets, err := collect(tx, sqlMark,
		[]any{idList(ids), r.Token, r.Holder, max(1, r.Lease.Milliseconds()), tx.now, seq}, scanTicket)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tickets, func(a, b Ticket) int { return cmp.Compare(a.ID, b.ID) }) // RETURNING promises no order
	return tickets, nil
}
