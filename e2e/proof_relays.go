package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const claimRelays message = "relays.claim"

const (
	burst   = 60_000
	portion = 5_000 // tickets in one transaction of the client that puts them in
)

// sqlBurst puts tickets on the rail as an outside client would: refunds and stock movements in turn.
func sqlBurst(from, to int) string {
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
SELECT printf('ORD-%%05d', i), iif(i %% 2, 'issue_refund', 'inventory_sync'),
       iif(i %% 2, '{"amount":2154.00,"currency":"MXN"}', '{"sku":"CF-ARA-500","quantity":12}'),
       iif(i %% 2, printf('refund:ORD-%%05d', i), printf('inventory:ORD-%%05d:CF-ARA-500', i)), 'pending'
FROM n WHERE true
ON CONFLICT (idempotency_key) DO NOTHING;`, from, to)
}

func proveRelays(ctx context.Context, p *proof) error {
	s, err := p.serve("", "--no-relay") // makes the file
	if err != nil {
		return err
	}
	if err := p.endAll(ctx, s); err != nil {
		return err
	}
	p.say("relays.burst", "Tickets", thousands(burst), "Portion", thousands(portion))
	if err := putBurst(ctx, p); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, count(*) FROM outbox GROUP BY status;", fmt.Sprintf("pending | %d", burst))
	sleeper, awake, err := proveBurst(ctx, p)
	if err != nil {
		return err
	}
	p.say("relays.measure")
	p.ask(ctx, sqlNotDone, "0")
	p.ask(ctx, "SELECT count(*) FROM external_effects_log;", fmt.Sprint(burst))
	p.invariants(ctx)
	if err := p.noLocksLeft(2); err != nil {
		return err
	}
	if err := p.endAll(ctx, sleeper, awake); err != nil {
		return err
	}
	return proveWithoutAtomicClaim(ctx, p)
}

func putBurst(ctx context.Context, p *proof) error {
	o, err := openOutside(p.file)
	if err != nil {
		return err
	}
	for from := 1; from <= burst; from += portion {
		text := sqlBurst(from, from+portion-1)
		n, err := o.exec(ctx, text)
		if err != nil {
			return errors.Join(fmt.Errorf("put tickets on the rail: %w", err), o.close())
		}
		p.add(Step{SQL: text, Answer: p.rowsChanged(n), Want: p.rowsChanged(portion), OK: n == portion, silent: from > 1})
	}
	return o.close()
}

// batch is the tickets of a claim in proof relays.
const batch = 500

// proveBurst has two relays drain the burst, with a kill and a sleep on the way. It returns both.
func proveBurst(ctx context.Context, p *proof) (sleeper, awake *child, err error) {
	args := []string{"--batch", fmt.Sprint(batch), "--lease", "2s"}
	p.say("relays.start", "Batch", batch)
	began := time.Now()
	if sleeper, err = p.relay("relay 2", "relay.claimed:5:stop", args...); err != nil {
		return nil, nil, err
	}
	first, err := p.relay("relay 1", fmt.Sprintf("effect.before_commit:%d", killedAt), args...)
	if err != nil {
		return nil, nil, err
	}
	if err := sleeper.waitStopped(ctx); err != nil {
		return nil, nil, err
	}
	p.ask(ctx, fmt.Sprintf("SELECT count(*) FROM outbox WHERE lease_holder='%s';", sleeper.holder), fmt.Sprint(batch))
	span, err := p.query(ctx, fmt.Sprintf("SELECT min(id) || ' AND ' || max(id) FROM outbox WHERE lease_holder='%s'", sleeper.holder))
	if err != nil {
		return nil, nil, err
	}
	if awake, err = proveKilledInTheBurst(ctx, p, first, args); err != nil {
		return nil, nil, err
	}
	if err := p.until(ctx, `SELECT count(*) FROM outbox WHERE status = 'pending'`, "0"); err != nil {
		return nil, nil, err
	}
	took := time.Since(began)
	p.say("relays.speed", "Tickets", thousands(burst-batch), "Seconds", fmt.Sprintf("%.1f", took.Seconds()),
		"Rate", thousands(int(float64(burst-batch)/took.Seconds())))
	return sleeper, awake, proveSleeper(ctx, p, sleeper, span)
}

// killedAt is the ticket at which relay 1 is killed, in the middle of a claim and long after relay 2
// has gone to sleep.
const killedAt = burst/2 + batch/2

// proveKilledInTheBurst waits for relay 1's end and starts it again.
func proveKilledInTheBurst(ctx context.Context, p *proof, r *child, args []string) (*child, error) {
	if err := r.waitKilled(ctx); err != nil {
		return nil, err
	}
	p.say("relays.killed", "Ticket", thousands(killedAt))
	held := fmt.Sprintf("SELECT count(*) FROM outbox WHERE lease_holder='%s';", r.holder)
	p.ask(ctx, held, fmt.Sprint(batch))
	p.say("relays.again")
	again, err := p.relay("relay 1 again", "", args...)
	if err != nil {
		return nil, err
	}
	if err := p.until(ctx, held, "0"); err != nil {
		return nil, err
	}
	p.ask(ctx, held, "0")
	return again, nil
}

// Everything that a relay could change about tickets, as one line.
const sqlFingerprint = "SELECT count(*), sum(attempts), sum(ended_seq), max(processed_at),\n" +
	"  (SELECT count(*) FROM ledger), (SELECT count(*) FROM external_effects_log) FROM outbox;"

// proveSleeper waits for the sleeper's tickets to be taken over, then wakes it.
func proveSleeper(ctx context.Context, p *proof, sleeper *child, span string) error {
	p.say("relays.sleeps")
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts, count(*) FROM outbox\nWHERE id BETWEEN "+span+" GROUP BY status, attempts;", fmt.Sprintf("done | 2 | %d", batch))
	before := p.show(ctx, sqlFingerprint)
	p.say("relays.woken")
	outcome := sleeper.watch(`"msg":"ticket"`)
	sleeper.resume()
	if _, err := sleeper.await(ctx, outcome, "the end of its claim"); err != nil {
		return err
	}
	p.ask(ctx, sqlFingerprint, before)
	return nil
}
