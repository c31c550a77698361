package store

import (
	"context"
	"fmt"
	"time"
)

// The truth: a measure, and five queries that must never find a row.
const (
	sqlMeasureDrained = `SELECT count(*) FROM outbox WHERE status <> 'done';`

	sqlNoEffectTwice      = `SELECT effect_key, count(*) FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1;`
	sqlNoDoneWithoutEntry = `SELECT o.id FROM outbox o LEFT JOIN ledger l ON l.effect_key = o.idempotency_key
WHERE o.status='done' AND l.effect_key IS NULL;`
	sqlNoEntryWithoutAct = `SELECT l.effect_key FROM ledger l LEFT JOIN external_effects_log e USING (effect_key)
WHERE l.how='local' AND e.effect_key IS NULL;`
	// Both only where every line that went out is taken back: a compensation. Only these two exclude each
	// other; an effect that was added may stand beside either.
	sqlNoOrderBothWays = `SELECT order_id FROM ledger WHERE effect_type IN ('refund','inventory')
GROUP BY order_id HAVING count(DISTINCT effect_type) > 1 AND EXISTS (
  SELECT 1 FROM ledger line WHERE line.order_id = ledger.order_id AND line.effect_type = 'inventory'
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE idempotency_key = 'release:'
    || CASE WHEN line.effect_key LIKE 'inventory:%' THEN substr(line.effect_key, 11) ELSE line.effect_key END));`
	// What the triggers of the outbox keep beside it, and what they should have kept.
	sqlNoCountWrong = `SELECT effect_type, status, sum(n) FROM (SELECT effect_type, status, n FROM ticket_counts
UNION ALL SELECT effect_type, status, -count(*) FROM outbox WHERE status NOT IN ('pending','processing') GROUP BY effect_type, status)
GROUP BY effect_type, status HAVING sum(n) <> 0;`

	sqlEventUndecided = `SELECT event_id, order_id FROM events WHERE order_id NOT IN (SELECT order_id FROM orders);`
	sqlOrderInPart    = `SELECT order_id FROM orders AS o WHERE event_id NOT IN (SELECT event_id FROM events) OR ` + lacksTickets + `;`
)

// Invariants are the queries that must never find a row, whatever happened to a file.
func Invariants() (texts []string) {
	for _, i := range invariants {
		texts = append(texts, i.text)
	}
	return texts
}

// invariant is a query that must find no row, as the doctor calls it and what it means when it does.
type invariant struct{ name, text, broken string }

// invariants are what doctor, the proofs, the drill and the console ask alike.
var invariants = []invariant{
	{"no effect twice", sqlNoEffectTwice, "these keys went out more than once: look at `comanda order show` for each order"},
	{"what is done is in the ledger", sqlNoDoneWithoutEntry, "these tickets say done and the ledger does not know it: somebody changed them by hand"},
	{"what is in the ledger as local went out", sqlNoEntryWithoutAct, "the ledger has these effects and the world does not: somebody changed a table by hand"},
	{"an order is refunded or delivered, never both", sqlNoOrderBothWays, "these orders were refunded and delivered: take one of the two back by hand"},
	{"the counts are those of the tickets", sqlNoCountWrong, "these counts are off by so much: somebody changed ticket_counts, or dropped a trigger, by hand"},
	{"an event has its decision", sqlEventUndecided, "these events were answered and what was decided for them is gone"},
	{"a decision has its event and its tickets", sqlOrderInPart, "these orders were decided; what they came from or led to is gone"},
}

func (db *DB) askInvariant(ctx context.Context, i invariant) Check {
	return db.ask(ctx, "invariant: "+i.name, i.text, noRow(i.broken))
}

// Asked is an invariant that was asked for, and how long that took.
type Asked struct {
	Check
	Took time.Duration
}

// AskInvariants asks the invariants, which may take minutes on a big file: as long as it takes, one after the other,
// and of several callers one at a time. It returns ctx's error when that ends first.
func (db *DB) AskInvariants(ctx context.Context) ([]Asked, error) {
	select {
	case db.asking <- struct{}{}:
		defer func() { <-db.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all := make([]Asked, 0, len(invariants))
	for _, i := range invariants {
		began := time.Now()
		check := db.askInvariant(ctx, i)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, Asked{check, time.Since(began)})
	}
	return all, db.InPlace() // what was read is no answer about a file that lies elsewhere now
}

func (db *DB) lookAtTruth(ctx context.Context) []Check {
	all := []Check{db.ask(ctx, "measure: tickets that are not done", sqlMeasureDrained, func(a Answer, c *Check) { c.Answer = a.first() })}
	for _, i := range invariants {
		all = append(all, db.askInvariant(ctx, i))
	}
	return all
}

func (db *DB) lookAtTickets(ctx context.Context) []Check {
	some := func(level Level, detail string) func(Answer, *Check) {
		return func(a Answer, c *Check) {
			if c.Answer = a.first(); c.Answer != "0" {
				c.Level, c.Detail = level, detail
			}
		}
	}
	return []Check{
		db.ask(ctx, "tickets waiting", `SELECT count(*) FROM outbox WHERE status IN ('pending', 'processing')`,
			some(LevelWarning, "`comanda serve` or `comanda relay` carries them out")),
		db.ask(ctx, "tickets dead", `SELECT count(*) FROM outbox WHERE status = 'dead'`,
			some(LevelWarning, "they need attention: `comanda tickets list --status dead`")),
		db.ask(ctx, "tickets in review", `SELECT count(*) FROM outbox WHERE status = 'review'`,
			some(LevelWarning, "they need attention: `comanda tickets list --status review`")),
		db.ask(ctx, "bodies refused", `SELECT count(*) FROM refused_bodies`,
			some(LevelWarning, "they need attention: `comanda sql 'SELECT received_at, problem, detail, body FROM refused_bodies'`")),
		db.ask(ctx, "events that differ from their order's decision", `SELECT count(*) FROM events WHERE differs <> '[]'`,
			some(LevelWarning, "they need attention: `comanda sql \"SELECT event_id, order_id, differs FROM events WHERE differs <> '[]'\"`")),
		db.ask(ctx, "effects that happened though their ticket had ended otherwise", `SELECT count(*) FROM outbox JOIN ledger ON effect_key = idempotency_key WHERE outbox.status IN ('dead', 'discarded')`,
			some(LevelWarning, "they need attention (a dead one: `comanda tickets resolve ID --happened`): `comanda sql \"SELECT id, idempotency_key FROM outbox JOIN ledger ON effect_key = idempotency_key WHERE outbox.status IN ('dead', 'discarded')\"`")),
		db.ask(ctx, "sends of which nobody knows what came", `SELECT count(DISTINCT ticket_id) FROM attempts JOIN outbox ON outbox.id = ticket_id WHERE `+isUnknown+` AND outbox.status <> 'done'`,
			some(LevelWarning, "the relay clears them up, or leaves them in review")),
		db.ask(ctx, "targets out of reach or paused", `SELECT count(*) FROM targets WHERE offline_since IS NOT NULL OR paused IS NOT NULL`,
			some(LevelWarning, "their tickets wait: `comanda targets list` says since when and why")),
		db.ask(ctx, "relays paused", `SELECT paused FROM relay_state WHERE id = 1`,
			some(LevelWarning, "no relay carries anything out before somebody resumes them")),
	}
}

// lookAtLeases tells of each claim whether its holder lives. It asks for the holder's lock the way a
// relay does, but shares it with other askers and gives it back at once: a living holder does not
// notice, and a relay that asks in the same moment asks again at its next pass.
func (db *DB) lookAtLeases(ctx context.Context) []Check {
	var all []Check
	err := db.View(ctx, func(tx *Tx) error {
		leases, err := tx.leases()
		if err != nil {
			return err
		}
		relays, err := tx.Relays()
		pids := map[string]int{}
		for _, r := range relays {
			pids[r.Holder] = r.PID
		}
		for _, l := range leases {
			all = append(all, db.lookAtLease(l, pids[l.holder]))
		}
		return err
	})
	switch {
	case err != nil:
		return append(all, Check{Name: "leases", SQL: sqlLeases, Level: LevelWrong, Answer: "can't be read: " + err.Error()})
	case len(all) == 0:
		return []Check{{Name: "leases", SQL: sqlLeases, Level: LevelOK, Answer: "no ticket is claimed"}}
	}
	return all
}

func (db *DB) lookAtLease(l lease, pid int) Check {
	c := Check{Name: "lease " + l.token, SQL: sqlLeases, Level: LevelOK}
	alive, err := db.alive(l.holder)
	switch {
	case err != nil:
		c.Level, c.Answer = LevelWrong, fmt.Sprintf("a lease nobody can free: the lock file of its holder %s can't be read: %v", l.holder, err)
		c.Detail = "make " + db.lockPath(l.holder) + " readable and writable for comanda, or remove it if no comanda runs"
	case !alive:
		c.Level, c.Answer, c.Detail = LevelWarning, "its holder "+l.holder+" is dead", "the next pass of a relay frees it"
	default:
		c.Answer = "its holder " + l.holder + " is alive"
		if pid != 0 {
			c.Answer += fmt.Sprintf(" (process %d)", pid)
		}
	}
	return c
}
