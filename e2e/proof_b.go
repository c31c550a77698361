package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const claimB message = "b.claim"

// The lesson's measures of a duplicate webhook.
const (
	sqlTickets2041 = "SELECT count(*) FROM outbox WHERE idempotency_key='refund:ORD-2041';"
	sqlEffects2041 = "SELECT count(*) FROM external_effects_log\nWHERE order_id='ORD-2041' AND effect_type='refund';"
)

// sqlTicketAgain is the lesson's own INSERT of a ticket that is on the rail already.
const sqlTicketAgain = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
VALUES ('ORD-2041', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-2041', 'pending')
ON CONFLICT (idempotency_key) DO NOTHING;`

func proveB(ctx context.Context, p *proof) error {
	s, err := p.serve("")
	if err != nil {
		return err
	}
	p.say("b.twice")
	body := orderBody("EVT-2041", "ORD-2041", "CUS-7", "2154.00", line{"CF-ARA-500", 12})
	if _, err := p.post(ctx, s, body, "200 accepted, refund, [refund:ORD-2041]"); err != nil {
		return err
	}
	if _, err := p.post(ctx, s, body, "200 duplicate, refund, [refund:ORD-2041]"); err != nil {
		return err
	}
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, sqlTickets2041, "1")
	p.ask(ctx, sqlEffects2041, "1")
	if err := proveStorm(ctx, p, s); err != nil {
		return err
	}
	if err := proveStandingDecision(ctx, p, s); err != nil {
		return err
	}
	p.say("b.second-line")
	if err := p.byHand(ctx, sqlTicketAgain, 0); err != nil {
		return err
	}
	p.ask(ctx, sqlTickets2041, "1")
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, sqlNotDone, "0")
	p.invariants(ctx)
	if err := p.endAll(ctx, s); err != nil {
		return err
	}
	if p.mutant == "" {
		p.say("b.other-build")
		return nil
	}
	return proveWithoutDedupe(ctx, p)
}

// proveStorm sends 200 copies of one event at once.
func proveStorm(ctx context.Context, p *proof, s *child) error {
	const copies = 200
	p.say("b.storm", "Copies", copies)
	body := orderBody("EVT-2043", "ORD-2043", "CUS-7", "99.90", line{"TE-CHM-100", 1})
	answers := make([]string, copies)
	errs := make([]error, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() {
			var a answer
			a, errs[i] = p.client.order(ctx, s.url, body)
			answers[i] = a.brief()
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	p.expect(p.text("b.times", "Copies", copies)+"\n"+breakJSON(body), tally(answers),
		"1 × 200 accepted, refund, [refund:ORD-2043]\n199 × 200 duplicate, refund, [refund:ORD-2043]")
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, "SELECT count(*) FROM outbox WHERE idempotency_key='refund:ORD-2043';", "1")
	p.ask(ctx, "SELECT count(*) FROM external_effects_log\nWHERE order_id='ORD-2043' AND effect_type='refund';", "1")
	return nil
}

// tally counts equal lines: "199 × …", in the order of the lines.
func tally(lines []string) string {
	counts := map[string]int{}
	for _, l := range lines {
		counts[l]++
	}
	var out []string
	for l := range counts {
		out = append(out, l)
	}
	slices.Sort(out)
	for i, l := range out {
		out[i] = fmt.Sprintf("%d × %s", counts[l], l)
	}
	return strings.Join(out, "\n")
}

// proveStandingDecision raises the customer's credit and sends another event for the same order.
func proveStandingDecision(ctx context.Context, p *proof, s *child) error {
	p.say("b.credit")
	if err := p.client.credit(ctx, s.url, "CUS-7", "90000.00"); err != nil {
		return err
	}
	body := orderBody("EVT-2044", "ORD-2041", "CUS-7", "2154.00", line{"CF-ARA-500", 12})
	if _, err := p.post(ctx, s, body, "200 already_decided, refund, [refund:ORD-2041]"); err != nil {
		return err
	}
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.say("b.once")
	p.ask(ctx, "SELECT effect_key, count(*) FROM external_effects_log WHERE order_id='ORD-2041' GROUP BY effect_key;", "refund:ORD-2041 | 1")
	return nil
}

// proveWithoutDedupe runs the lesson's "even if it skipped deduplication" in a build that can. It is
// a negative control on a file of its own, which is not kept.
func proveWithoutDedupe(ctx context.Context, p *proof) error {
	p.say("b.no-dedupe")
	n := &proof{words: p.words, exe: p.mutant, without: "dedupe", dir: p.dir, file: filepath.Join(p.dir, "no-dedupe.db"), out: p.out, client: p.client}
	err := n.sameEventTwice(ctx)
	if err != nil {
		n.fault(err)
	}
	n.end(ctx)
	p.steps = append(p.steps, n.steps...)
	return nil
}

func (p *proof) sameEventTwice(ctx context.Context) error {
	s, err := p.serve("")
	if err != nil {
		return err
	}
	body := orderBody("EVT-2041", "ORD-2041", "CUS-7", "2154.00", line{"CF-ARA-500", 12})
	for range 2 {
		if _, err := p.post(ctx, s, body, "200 accepted, refund, [refund:ORD-2041]"); err != nil {
			return err
		}
	}
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, sqlTickets2041, "1")
	p.ask(ctx, sqlEffects2041, "1")
	return nil
}
