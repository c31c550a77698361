package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// The lesson's tables as another client makes them, without what keeps comanda's own file whole.
const sqlLessonTables = `CREATE TABLE ledger (effect_key TEXT PRIMARY KEY, order_id TEXT NOT NULL, effect_type TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE outbox (id INTEGER PRIMARY KEY, aggregate_id TEXT NOT NULL, effect_type TEXT NOT NULL, payload TEXT NOT NULL,
  idempotency_key TEXT NOT NULL UNIQUE, status TEXT NOT NULL DEFAULT 'pending', attempts INTEGER NOT NULL DEFAULT 0);
CREATE TABLE external_effects_log (id INTEGER PRIMARY KEY, effect_key TEXT NOT NULL, effect_type TEXT NOT NULL, order_id TEXT NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key)
SELECT 'ORD-' || i, 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-' || i FROM n;`

const naiveTickets = 10

// both says that each of the two relays changes a row for every ticket.
var both = [2]int{naiveTickets, naiveTickets}

// The steps of a relay without an atomic claim: it looks, and then it marks what it saw.
const (
	sqlNaiveLook = `SELECT id, idempotency_key, aggregate_id FROM outbox
WHERE status='pending' ORDER BY id LIMIT 10;`
	sqlNaiveMark = `UPDATE outbox SET status='processing', attempts=attempts+1 WHERE id=$1;`
	sqlNaiveDone = `UPDATE outbox SET status='done' WHERE id=$1;`
)

// issue-refund as first written: it looks into the ledger, acts, and writes the ledger.
const (
	sqlFirstCheck  = `SELECT 1 FROM ledger WHERE effect_key=$1;`
	sqlFirstEffect = `INSERT INTO external_effects_log (effect_key, effect_type, order_id)
VALUES ($1, 'refund', $2);`
	sqlFirstLedger = `INSERT INTO ledger (effect_key, order_id, effect_type, status)
VALUES ($1, $2, 'refund', 'done') ON CONFLICT (effect_key) DO NOTHING;`
)

// issue-refund with the ledger as the lock: the effect goes out only if its ledger row was new.
const (
	sqlLockLedger = sqlFirstLedger
	sqlLockEffect = `INSERT INTO external_effects_log (effect_key, effect_type, order_id)
SELECT $1, 'refund', $2 WHERE changes() = 1;`
)

// naive is one of two relays that play the lesson's steps without an atomic claim.
type naive struct {
	*outside
	tickets [][]any // id, key, order
}

// proveWithoutAtomicClaim lets two naive relays take turns, step by step, so that it comes out the
// same every time. It is a negative control: its files are not kept.
func proveWithoutAtomicClaim(ctx context.Context, p *proof) error {
	p.say("naive.intro", "Tickets", naiveTickets)
	if err := p.naiveRelays(ctx, "naive-check-then-act.db", actAfterLooking, naiveTickets); err != nil {
		return err
	}
	p.say("naive.ledger")
	return p.naiveRelays(ctx, "naive-ledger-lock.db", actUnderTheLedger, 0)
}

func (p *proof) naiveRelays(ctx context.Context, file string, act func(context.Context, *proof, []*naive) error, doubled int) (err error) {
	var relays []*naive
	for range 2 {
		o, err := openOutside(filepath.Join(p.dir, file))
		if err != nil {
			return err
		}
		defer func() { _ = o.close() }() // the file goes away with the proof
		relays = append(relays, &naive{outside: o})
	}
	if _, err := relays[0].exec(ctx, sqlLessonTables); err != nil {
		return fmt.Errorf("make the lesson's tables: %w", err)
	}
	for i, r := range relays {
		if r.tickets, err = r.query(ctx, sqlNaiveLook); err != nil {
			return err
		}
		p.expectRows(fmt.Sprintf("relay %d", i+1), sqlNaiveLook, len(r.tickets), naiveTickets)
	}
	err = errors.Join(
		p.each(ctx, relays, sqlNaiveMark, both, 0),
		act(ctx, p, relays),
		p.each(ctx, relays, sqlNaiveDone, both, 0),
	)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		sql  string
		want int
	}{
		{"SELECT count(*) FROM outbox WHERE attempts = 2;", naiveTickets},
		{"SELECT count(*) FROM external_effects_log;", naiveTickets + doubled},
		{"SELECT count(*) FROM\n  (SELECT effect_key FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1);", doubled},
	} {
		rows, err := relays[0].query(ctx, q.sql)
		if err != nil {
			return err
		}
		p.add(Step{SQL: q.sql, Answer: rowsText(rows), Want: fmt.Sprint(q.want), OK: rowsText(rows) == fmt.Sprint(q.want)})
	}
	return nil
}

// actAfterLooking is issue-refund as first written, both relays side by side: both find nothing in
// the ledger, so both act.
func actAfterLooking(ctx context.Context, p *proof, relays []*naive) error {
	for i, r := range relays {
		known := 0
		for _, t := range r.tickets {
			rows, err := r.query(ctx, sqlFirstCheck, t[1])
			if err != nil {
				return err
			}
			known += len(rows)
		}
		p.expectRows(p.text("naive.each", "Relay", i+1), sqlFirstCheck, known, 0)
	}
	return errors.Join(
		p.each(ctx, relays, sqlFirstEffect, both, 1, 2),
		p.each(ctx, relays, sqlFirstLedger, [2]int{naiveTickets, 0}, 1, 2),
	)
}

// actUnderTheLedger is issue-refund with the ledger as the lock: both statements in one transaction.
func actUnderTheLedger(ctx context.Context, p *proof, relays []*naive) error {
	for i, r := range relays {
		effects := int64(0)
		for _, t := range r.tickets {
			n, err := r.underLock(ctx, t)
			if err != nil {
				return err
			}
			effects += n
		}
		want := map[int]int{0: naiveTickets}[i]
		p.expectRows(p.text("naive.each", "Relay", i+1),
			"BEGIN IMMEDIATE;\n"+sqlLockLedger+"\n"+sqlLockEffect+"\nCOMMIT;", int(effects), want)
	}
	return nil
}

func (r *naive) underLock(ctx context.Context, ticket []any) (effects int64, err error) {
	for _, text := range []string{"BEGIN IMMEDIATE;", sqlLockLedger, sqlLockEffect, "COMMIT;"} {
		var args []any
		if text == sqlLockLedger || text == sqlLockEffect {
			args = ticket[1:3]
		}
		n, err := r.exec(ctx, text, args...)
		if err != nil {
			return 0, err
		}
		if text == sqlLockEffect {
			effects = n
		}
	}
	return effects, nil
}

// each runs a statement for every ticket of every relay, the relays taking turns, and checks how
// many rows each relay changed. columns says which of a ticket's columns the statement binds.
func (p *proof) each(ctx context.Context, relays []*naive, text string, want [2]int, columns ...int) error {
	changed := make([]int64, len(relays))
	for t := range naiveTickets {
		for i, r := range relays {
			var args []any
			for _, c := range columns {
				args = append(args, r.tickets[t][c])
			}
			n, err := r.exec(ctx, text, args...)
			if err != nil {
				return err
			}
			changed[i] += n
		}
	}
	for i := range relays {
		p.expectRows(p.text("naive.each", "Relay", i+1), text, int(changed[i]), want[i])
	}
	return nil
}

func (p *proof) expectRows(who, text string, got, want int) {
	p.add(Step{Text: who, SQL: text, Answer: p.text("proof.rows", "N", got), Want: p.text("proof.rows", "N", want), OK: got == want})
}
