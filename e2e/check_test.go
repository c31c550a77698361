package e2e

import (
	"slices"
	"testing"

	"comanda/store"
)

// The checker of the soak finds each kind of fault that it looks for: a checker that could not fail
// would prove nothing.
func TestAuditFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage []string
		find   func(account) bool
	}{
		{"nothing", nil, account.ok},
		{"an effect that is missing", []string{`DELETE FROM external_effects_log`}, func(a account) bool { return slices.Equal(a.lost, []string{"ORD-1"}) }},
		{"a decision that is missing", []string{`DELETE FROM orders`}, func(a account) bool { return slices.Equal(a.lost, []string{"ORD-1"}) && len(a.broken) > 0 }},
		{"a ticket that is missing", []string{`DELETE FROM outbox`}, func(a account) bool { return slices.Equal(a.lost, []string{"ORD-1"}) && len(a.strange) == 1 }},
		{"an effect too many", []string{`INSERT INTO external_effects_log (effect_key, effect_type, order_id) SELECT effect_key, effect_type, order_id FROM external_effects_log`},
			func(a account) bool { return slices.Equal(a.doubled, []string{"refund:ORD-1"}) }},
		{"an effect that nobody asked for", []string{`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:ORD-9', 'refund', 'ORD-9')`},
			func(a account) bool { return slices.Equal(a.strange, []string{"refund:ORD-9"}) }},
		{"an event without its order", []string{`INSERT INTO events (event_id, order_id, body, received_at) VALUES ('EVT-9', 'ORD-9', x'7b7d', 1)`},
			func(a account) bool { return len(a.broken) > 0 }},
		{"a ticket that waits", []string{`UPDATE outbox SET status = 'pending', processed_at = NULL`}, func(a account) bool { return a.waiting == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := onFile(t, builtProgram(t))
			s := must(p.serve(""))(t)
			a := must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "1", line{"SKU", 1})))(t)
			if err := p.untilDrained(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.endAll(t.Context(), s); err != nil { // what is damaged stays so
				t.Fatal(err)
			}
			o := must(openOutside(p.file))(t)
			for _, text := range c.damage {
				must(o.exec(t.Context(), text))(t)
			}
			if err := o.close(); err != nil {
				t.Fatal(err)
			}
			db := must(store.Open(t.Context(), p.file, store.Options{MustExist: true}))(t)
			defer db.Close()
			found := must(audit(t.Context(), db, "", map[string][]string{"ORD-1": a.body.Tickets}))(t)
			if !c.find(found) || (len(c.damage) > 0) == found.ok() {
				t.Errorf("the audit says: %s", found)
			}
		})
	}
}
