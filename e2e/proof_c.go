package e2e

import (
	"context"
	"fmt"
)

const claimC message = "c.claim"

// crashCase is one crash point and what must be true before and after the restart. States are
// "world ledger ticket", by the lesson's three queries.
type crashCase struct {
	point  string
	order  string
	who    string // "serve" or "relay"
	before string
	resent string // how the server answers when the event is sent again
	shown  bool   // with the lesson's queries in full
}

func crashCases() []crashCase {
	return []crashCase{
		{point: "triage.before_commit", order: "ORD-2051", who: "serve", before: "0 0 none", resent: "accepted"},
		{point: "triage.after_commit", order: "ORD-2052", who: "serve", before: "0 0 pending", resent: "duplicate"},
		{point: "relay.claimed", order: "ORD-2053", who: "relay", before: "0 0 processing", resent: "duplicate"},
		{point: "effect.before_commit", order: "ORD-2041", who: "relay", before: "0 0 processing", resent: "duplicate", shown: true},
		{point: "effect.after_commit", order: "ORD-2054", who: "relay", before: "1 1 done", resent: "duplicate"},
	}
}

const crashRow = "%-15s  %-10s  %s"

func proveC(ctx context.Context, p *proof) error {
	p.say("c.lesson")
	cases := crashCases()
	rows := make([]Step, len(cases))
	for _, shown := range []bool{true, false} {
		for i, c := range cases {
			if c.shown != shown {
				continue
			}
			var err error
			if rows[i], err = proveCrash(ctx, p, c); err != nil {
				return fmt.Errorf("killed at %s: %w", c.point, err)
			}
		}
	}
	p.say("c.table")
	p.add(Step{Text: fmt.Sprintf("%-21s %-5s", p.text("c.head-point"), p.text("c.head-who")), row: true, OK: true,
		Answer: fmt.Sprintf(crashRow, p.text("c.head-left"), p.text("c.head-again"), p.text("c.after"))})
	for _, row := range rows {
		p.add(row)
	}
	return proveKnownToTheLedger(ctx, p)
}

// proveCrash has one order, one kill, and one restart. It returns a row of the table.
func proveCrash(ctx context.Context, p *proof, c crashCase) (row Step, err error) {
	key := "refund:" + c.order
	event := "EVT-" + c.order
	body := orderBody(event, c.order, "CUS-7", "2154.00", line{"CF-ARA-500", 12})
	s, err := killAt(ctx, p, c, body)
	if err != nil {
		return row, err
	}
	if c.shown {
		p.say("c.carries", "Key", key, "Point", c.point)
		p.lessonQueries(ctx, key, c.before)
	}
	before := p.note(ctx, p.text("c.killed", "Point", c.point), sqlState(key), c.before)
	p.note(ctx, p.text("c.whole"), sqlKept(event, c.order), kept(c.before))
	if s, err = p.serveAgain(s); err != nil {
		return row, err
	}
	again, err := p.client.order(ctx, s.url, body)
	if err != nil {
		return row, err
	}
	p.add(Step{Text: p.text("c.again"), Answer: again.body.Status, Want: c.resent, OK: again.body.Status == c.resent, silent: true})
	r, err := p.relay("relay", "")
	if err != nil {
		return row, err
	}
	if err := p.untilDrained(ctx); err != nil {
		return row, err
	}
	if c.shown {
		p.say("c.restart")
		p.lessonQueries(ctx, key, "1 1 done")
	}
	after := p.note(ctx, p.text("c.after"), sqlState(key), "1 1 done")
	row = Step{Text: fmt.Sprintf("%-21s %-5s", c.point, c.who), row: true}
	row.Answer = fmt.Sprintf(crashRow, before, again.body.Status, after)
	row.Want = fmt.Sprintf(crashRow, c.before, c.resent, "1 1 done")
	row.OK = row.Answer == row.Want
	return row, p.endAll(ctx, r, s)
}

// killAt brings the order to the crash point. It returns the server if that still runs.
func killAt(ctx context.Context, p *proof, c crashCase, body string) (*child, error) {
	plan := map[bool]string{true: c.point}[c.who == "serve"]
	s, err := p.serve(plan, "--no-relay")
	if err != nil {
		return nil, err
	}
	a, err := p.client.order(ctx, s.url, body)
	if c.who == "serve" {
		p.add(Step{Text: p.text("c.no-answer"), OK: err != nil, Answer: fmt.Sprint(err), Want: p.text("c.broken"), silent: true})
		return nil, s.waitKilled(ctx)
	}
	if err != nil || a.body.Status != "accepted" {
		return nil, fmt.Errorf("the order was answered with %s (%w)", a, err)
	}
	r, err := p.relay("relay", c.point)
	if err != nil {
		return nil, err
	}
	return s, r.waitKilled(ctx)
}

// serveAgain returns the server that runs, or starts a new one.
func (p *proof) serveAgain(s *child) (*child, error) {
	if s != nil {
		return s, nil
	}
	return p.serve("", "--no-relay")
}

// The lesson's three queries, and the same as one line.
func (p *proof) lessonQueries(ctx context.Context, key, state string) {
	var world, ledger, ticket string
	_, _ = fmt.Sscan(state, &world, &ledger, &ticket)
	p.ask(ctx, fmt.Sprintf("SELECT count(*) FROM external_effects_log WHERE effect_key='%s';", key), world)
	p.ask(ctx, fmt.Sprintf("SELECT count(*) FROM ledger WHERE effect_key='%s';", key), ledger)
	p.ask(ctx, fmt.Sprintf("SELECT status FROM outbox WHERE idempotency_key='%s';", key), ticket)
}

func sqlState(key string) string {
	return fmt.Sprintf(`SELECT (SELECT count(*) FROM external_effects_log WHERE effect_key='%[1]s')
  || ' ' || (SELECT count(*) FROM ledger WHERE effect_key='%[1]s')
  || ' ' || coalesce((SELECT status FROM outbox WHERE idempotency_key='%[1]s'), 'none');`, key)
}

func sqlKept(event, order string) string {
	return fmt.Sprintf(`SELECT (SELECT count(*) FROM events WHERE event_id='%s') || ' event, '
  || (SELECT count(*) FROM orders WHERE order_id='%[2]s') || ' decision, '
  || (SELECT count(*) FROM outbox WHERE aggregate_id='%[2]s') || ' ticket';`, event, order)
}

func kept(state string) string {
	if state == "0 0 none" {
		return "0 event, 0 decision, 0 ticket"
	}
	return "1 event, 1 decision, 1 ticket"
}

// proveKnownToTheLedger is the lesson's re-run of an effect that the ledger knows: somebody gave the
// deposit back and noted it, and the ticket is still on the rail.
func proveKnownToTheLedger(ctx context.Context, p *proof) error {
	p.say("c.known")
	for _, insert := range []string{
		"INSERT INTO external_effects_log (effect_key, effect_type, order_id)\nVALUES ('refund:ORD-2060', 'refund', 'ORD-2060');",
		"INSERT INTO ledger (effect_key, order_id, effect_type, status)\nVALUES ('refund:ORD-2060', 'ORD-2060', 'refund', 'done')\nON CONFLICT (effect_key) DO NOTHING;",
		`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
VALUES ('ORD-2060', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-2060', 'pending')
ON CONFLICT (idempotency_key) DO NOTHING;`,
	} {
		if err := p.byHand(ctx, insert, 1); err != nil {
			return err
		}
	}
	r, err := p.relay("relay", "")
	if err != nil {
		return err
	}
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.say("c.known-done")
	p.lessonQueries(ctx, "refund:ORD-2060", "1 1 done")
	p.ask(ctx, sqlNotDone, "0")
	p.invariants(ctx)
	if err := p.noLocksLeft(1); err != nil {
		return err
	}
	return p.endAll(ctx, r)
}
