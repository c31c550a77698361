package e2e

import "context"

const claimD = "Fan-out with a crash in the middle: of three tickets two are carried out when the relay is killed; " +
	"afterwards there are three effects, not one more."

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
	p.say("Order ORD-2041 has three lines and credit: three tickets on the rail.")
	body := orderBody("EVT-2041", "ORD-2041", "CUS-8", "2154.00", line{"CF-ARA-500", 12}, line{"TE-CHM-100", 10}, line{"CF-DEC-250", 2})
	keys := "[inventory:ORD-2041:CF-ARA-500 inventory:ORD-2041:TE-CHM-100 inventory:ORD-2041:CF-DEC-250]"
	if _, err := p.post(ctx, s, body, "200 accepted, inventory, "+keys); err != nil {
		return err
	}
	p.say("A relay takes one ticket at a time (--batch 1) and is killed right after its second effect:")
	if err := proveKilledRelay(ctx, p, "effect.after_commit:2"); err != nil {
		return err
	}
	p.ask(ctx, sqlFanOutEffects, "2")
	p.ask(ctx, sqlFanOutTickets, threeTickets("pending"))

	p.say("A second relay is killed inside the settlement of the third: what it had written is not there, and the claim still is.")
	if err := proveKilledRelay(ctx, p, "effect.before_commit:1"); err != nil {
		return err
	}
	p.ask(ctx, sqlFanOutEffects, "2")
	p.ask(ctx, sqlFanOutTickets, threeTickets("processing"))

	p.say("A third relay is left alone:")
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
	p.expect("COMANDA_CRASH_AT="+plan+" comanda relay --batch 1", "killed by SIGKILL", "killed by SIGKILL")
	return nil
}
