package e2e

import "context"

const claimD message = "d.claim"

const (
	sqlFanOutEffects = "SELECT count(*) FROM external_effects_log\nWHERE order_id='ORD-2041' AND effect_type='inventory';"
	sqlFanOutTickets = "SELECT idempotency_key, status FROM outbox\nWHERE aggregate_id='ORD-2041' AND effect_type='inventory_sync' ORDER BY id;"
	sqlFanOutDone    = "SELECT count(*) FROM outbox\nWHERE aggregate_id='ORD-2041' AND effect_type='inventory_sync' AND status='done';"
)

func proveD(ctx context.Context, p *proof) error {
	s, err := p.serve("", "--no-relay")
	if err != nil {
		return err
	}
	if err := p.client.credit(ctx, s.url, "CUS-8", "50000.00"); err != nil {
		return err
	}
	p.say("d.order")
	body := orderBody("EVT-2041", "ORD-2041", "CUS-8", "2154.00", line{"CF-ARA-500", 12}, line{"TE-CHM-100", 10}, line{"CF-DEC-250", 2})
	keys := "[inventory:ORD-2041:CF-ARA-500 inventory:ORD-2041:TE-CHM-100 inventory:ORD-2041:CF-DEC-250]"
	if _, err := p.post(ctx, s, body, "200 accepted, inventory, "+keys); err != nil {
		return err
	}
	p.say("d.first")
	if err := proveKilledRelay(ctx, p, "effect.after_commit:2"); err != nil {
		return err
	}
	p.ask(ctx, sqlFanOutEffects, "2")
	p.ask(ctx, sqlFanOutTickets, threeTickets("pending"))

	p.say("d.second")
	if err := proveKilledRelay(ctx, p, "effect.before_commit:1"); err != nil {
		return err
	}
	p.ask(ctx, sqlFanOutEffects, "2")
	p.ask(ctx, sqlFanOutTickets, threeTickets("processing"))

	p.say("d.third")
	r, err := p.relay("relay", "", "--batch", "1")
	if err != nil {
		return err
	}
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, sqlFanOutEffects, "3")
	p.ask(ctx, sqlFanOutDone, "3")
	p.ask(ctx, sqlFanOutTickets, threeTickets("done"))
	p.ask(ctx, sqlNotDone, "0")
	p.invariants(ctx)
	if err := p.noLocksLeft(2); err != nil {
		return err
	}
	return p.endAll(ctx, r, s)
}

func threeTickets(third string) string {
	return "inventory:ORD-2041:CF-ARA-500 | done\ninventory:ORD-2041:TE-CHM-100 | done\ninventory:ORD-2041:CF-DEC-250 | " + third
}

func proveKilledRelay(ctx context.Context, p *proof, plan string) error {
	r, err := p.relay("relay", plan, "--batch", "1")
	if err != nil {
		return err
	}
	if err := r.waitKilled(ctx); err != nil {
		return err
	}
	p.expect("COMANDA_CRASH_AT="+plan+" comanda relay --batch 1", p.text("proof.killed"), p.text("proof.killed"))
	return nil
}
