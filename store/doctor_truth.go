package store

import (
	"context"
	"fmt"
)

// The truth: a measure, and four queries that must never find a row.
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

	sqlEventUndecided = `SELECT event_id, order_id FROM events WHERE order_id NOT IN (SELECT order_id FROM orders);`
	sqlOrderInPart    = `SELECT order_id FROM orders WHERE event_id NOT IN (SELECT event_id FROM events) OR order_id NOT IN (SELECT aggregate_id FROM outbox);`
)

// Invariants are the queries that must never find a row, whatever happened to a file.
var Invariants = []string{sqlNoEffectTwice, sqlNoDoneWithoutEntry, sqlNoEntryWithoutAct, sqlNoOrderBothWays}

func (db *DB) lookAtTruth(ctx context.Context) []Check {
	measure := func(a Answer, c *Check) { c.Answer = a.first() }
	return []Check{
		db.ask(ctx, "measure: tickets that are not done", sqlMeasureDrained, measure),
		db.ask(ctx, "invariant: no effect twice", sqlNoEffectTwice, noRow("these keys went out more than once: look at `comanda order show` for each order")),
		db.ask(ctx, "invariant: what is done is in the ledger", sqlNoDoneWithoutEntry, noRow("these tickets say done and the ledger does not know it: somebody changed them by hand")),
		db.ask(ctx, "invariant: what is in the ledger as local went out", sqlNoEntryWithoutAct, noRow("the ledger has these effects and the world does not: somebody changed a table by hand")),
		db.ask(ctx, "invariant: an order is refunded or delivered, never both", sqlNoOrderBothWays, noRow("these orders were refunded and delivered: take one of the two back by hand")),
		db.ask(ctx, "invariant: an event has its decision", sqlEventUndecided, noRow("these events were answered and what was decided for them is gone")),
		db.ask(ctx, "invariant: a decision has its event and its tickets", sqlOrderInPart, noRow("these orders were decided; what they came from or led to is gone")),
	}
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
