package e2e

import (
	"context"
	"net/http"
)

const claimA message = "a.claim"

func proveA(ctx context.Context, p *proof) error {
	s, err := p.serve("", "--no-relay")
	if err != nil {
		return err
	}
	for customer, limit := range map[string]string{"CUS-7": "1000.00", "CUS-8": "50000.00"} {
		if err := p.client.credit(ctx, s.url, customer, limit); err != nil {
			return err
		}
	}
	if err := proveRefund(ctx, p, s); err != nil {
		return err
	}
	if err := proveInventory(ctx, p, s); err != nil {
		return err
	}
	p.ask(ctx, sqlNotDone, "0")
	p.invariants(ctx)
	return p.endAll(ctx, s)
}

// proveRefund walks an order without credit through the three states of its ticket.
func proveRefund(ctx context.Context, p *proof, s *child) error {
	p.say("a.refund")
	body := orderBody("EVT-2041", "ORD-2041", "CUS-7", "2154.00", line{"CF-ARA-500", 12})
	if _, err := p.post(ctx, s, body, "200 accepted, refund, [refund:ORD-2041]"); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts FROM outbox WHERE idempotency_key='refund:ORD-2041';", "pending | 0")

	p.say("a.relay")
	r, err := p.relay("relay", "relay.claimed:stop")
	if err != nil {
		return err
	}
	if err := r.waitStopped(ctx); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts FROM outbox WHERE idempotency_key='refund:ORD-2041';", "processing | 1")
	p.ask(ctx, "SELECT count(*) FROM external_effects_log WHERE order_id='ORD-2041';", "0")

	p.say("a.continued")
	r.resume()
	if err := p.untilDrained(ctx); err != nil {
		return err
	}
	p.ask(ctx, "SELECT status, attempts FROM outbox WHERE idempotency_key='refund:ORD-2041';", "done | 1")
	p.ask(ctx, "SELECT effect_type, status FROM ledger WHERE effect_key='refund:ORD-2041';", "refund | done")
	p.say("proof.truth")
	p.ask(ctx, "SELECT count(*) FROM external_effects_log\nWHERE order_id='ORD-2041' AND effect_type='refund';", "1")
	return p.endAll(ctx, r)
}

// proveInventory walks an order with credit: one ticket and one effect a line.
func proveInventory(ctx context.Context, p *proof, s *child) error {
	p.say("a.inventory")
	body := orderBody("EVT-2042", "ORD-2042", "CUS-8", "1180.50", line{"CF-ARA-500", 12}, line{"TE-CHM-100", 10}, line{"CF-DEC-250", 2})
	keys := "[inventory:ORD-2042:CF-ARA-500 inventory:ORD-2042:TE-CHM-100 inventory:ORD-2042:CF-DEC-250]"
	if _, err := p.post(ctx, s, body, "200 accepted, inventory, "+keys); err != nil {
		return err
	}
	a, err := p.client.do(ctx, http.MethodPost, s.url+"/api/relay/run", "")
	if err != nil {
		return err
	}
	p.expect(p.text("a.pass"), a.String(),
		`200 {"claimed":3,"done":3,"retried":0,"dead":0,"review":0,"offline":0}`)
	p.ask(ctx, "SELECT idempotency_key, payload, status FROM outbox\nWHERE aggregate_id='ORD-2042' ORDER BY id;",
		`inventory:ORD-2042:CF-ARA-500 | {"sku":"CF-ARA-500","quantity":12} | done`+"\n"+
			`inventory:ORD-2042:TE-CHM-100 | {"sku":"TE-CHM-100","quantity":10} | done`+"\n"+
			`inventory:ORD-2042:CF-DEC-250 | {"sku":"CF-DEC-250","quantity":2} | done`)
	p.say("a.lines")
	p.ask(ctx, "SELECT effect_type, effect_key, count(*) FROM external_effects_log\nWHERE order_id='ORD-2042' GROUP BY effect_type, effect_key ORDER BY min(id);",
		"inventory | inventory:ORD-2042:CF-ARA-500 | 1\n"+
			"inventory | inventory:ORD-2042:TE-CHM-100 | 1\n"+
			"inventory | inventory:ORD-2042:CF-DEC-250 | 1")
	return nil
}
