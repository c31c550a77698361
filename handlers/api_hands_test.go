package handlers

import (
	"fmt"
	"strings"
	"testing"

	"comanda/store"
)

// state puts a ticket of an order into a state; unknown gives it a send of which nobody knows what came.
func (r *rig) state(id int, status string, unknown bool) {
	r.t.Helper()
	set := map[string]string{
		"pending":    "status = 'pending', processed_at = NULL, claim_token = NULL, lease_holder = NULL, lease_ms = NULL, due_at = 9",
		"processing": "status = 'processing', processed_at = NULL, claim_token = 't', lease_holder = 'h', lease_ms = 1000",
		"done":       "status = 'done', processed_at = 1, claim_token = NULL, lease_holder = NULL, lease_ms = NULL",
		"dead":       "status = 'dead', processed_at = 1, claim_token = NULL, lease_holder = NULL, lease_ms = NULL",
		"review":     "status = 'review', processed_at = NULL, claim_token = NULL, lease_holder = NULL, lease_ms = NULL",
		"discarded":  "status = 'discarded', processed_at = 1, claim_token = NULL, lease_holder = NULL, lease_ms = NULL",
	}[status]
	r.exec(fmt.Sprintf(`UPDATE outbox SET %s WHERE id = %d`, set, id))
	r.exec(fmt.Sprintf(`DELETE FROM attempts WHERE ticket_id = %d`, id))
	if unknown {
		r.exec(fmt.Sprintf(`INSERT INTO attempts (ticket_id, claim_token, begun_at, kind, target, address) VALUES (%d, 't', 1, 'send', 'refund', 'https://g')`, id))
	}
}

// act posts JSON.
func (r *rig) act(path, body string) reply {
	r.t.Helper()
	return r.do("POST", path, body, "Content-Type", "application/json")
}

func newHandsRig(t *testing.T) *rig {
	return newRig(t, func(o *Options) {
		o.TargetNames = []string{"refund", "inventory"}
		o.LedgerTypes = map[string]string{store.TicketIssueRefund: store.LedgerRefund, store.TicketInventorySync: store.LedgerInventory}
	})
}

// Every act in every state, with and without a send of which nobody knows what came.
func TestActs(t *testing.T) {
	const again, why, yes, no = `{"confirm":"send again"}`, `{"reason":"r"}`, `{"happened":true,"reference":"rf_1","reason":"r"}`, `{"happened":false,"reason":"r"}`
	r := newHandsRig(t)
	r.post(contractBody).wants(200)
	for _, c := range []struct {
		act, body string
		allowed   map[string]string // state, with "?" behind it if unknown → state after
	}{
		{"retry", "", map[string]string{"pending": "pending", "pending?": "pending", "dead": "pending"}},
		{"retry", again, map[string]string{"pending": "pending", "pending?": "pending", "dead": "pending", "dead?": "pending", "review": "pending", "review?": "pending"}},
		{"discard", why, map[string]string{"pending": "discarded", "dead": "discarded"}},
		{"resolve", yes, map[string]string{"review": "done", "review?": "done", "dead?": "done"}},
		{"resolve", no, map[string]string{"review": "dead", "review?": "dead", "dead?": "dead"}},
	} {
		for _, state := range []string{"pending", "processing", "done", "dead", "review", "discarded"} {
			for _, unknown := range []bool{false, true} {
				r.exec(`DELETE FROM ledger`)
				r.state(1, state, unknown)
				name := state
				if unknown {
					name += "?"
				}
				a := r.act("/api/tickets/1/"+c.act, c.body)
				after, allowed := c.allowed[name]
				if !allowed {
					a.problem(409, "conflict")
					a.wants(409, `"state":"`+state+`"`)
					continue
				}
				a.wants(200, `"id":1,`, `"status":"`+after+`"`)
				if n := r.count(`SELECT count(*) FROM ledger WHERE how = 'by hand' AND effect_type = 'refund'`); (n == 1) != (after == "done") {
					t.Errorf("%s %s in %s: %d ledger rows", c.act, c.body, name, n)
				}
				open := r.count(`SELECT count(*) FROM attempts WHERE kind = 'send' AND closed_seq = 0`)
				if closes := c.act == "resolve" || c.body == again; closes && open != 0 || !closes && unknown && open != 1 {
					t.Errorf("%s %s in %s: %d unknown sends", c.act, c.body, name, open)
				}
				if after == "pending" && r.count(`SELECT due_at FROM outbox WHERE id = 1`) != 0 {
					t.Errorf("%s in %s is not due now", c.act, name)
				}
			}
		}
	}
	if n := r.count(`SELECT count(*) FROM operator_log WHERE subject = 'ticket 1' AND who = 'api 127.0.0.1'`); n != 17 {
		t.Errorf("%d acts in the operator log, want 17", n)
	}
}

func TestActsThatMakeNoSense(t *testing.T) {
	r := newHandsRig(t)
	r.post(contractBody).wants(200)
	for path, body := range map[string]string{
		"1/discard":  `{}`,
		"1/discard ": `{"reason":" "}`,
		"1/retry":    `{"confirm":"yes"}`,
		"1/retry ":   `{"confrim":"send again"}`,
		"1/resolve":  `{"reason":"r"}`,
		"1/resolve ": `{"happened":"true","reason":"r"}`,
		"retry":      `{"ids":[]}`,
		"retry ":     `{"ids":["1"]}`,
		"discard":    `{"ids":[1]}`,
		// null is not an answer: "happened" is not false by it, nor "preview"
		"1/resolve  ":       `{"happened":null,"reason":"r"}`,
		"retry  ":           `{"ids":[1],"preview":null}`,
		"retry   ":          `{"ids":[null]}`,
		"1/discard  ":       `{"reason":null}`,
		"retry?preview=x":   `{"ids":[1]}`,
		"retry?preview":     `{"ids":[1]}`,
		"1/retry?preview=1": ``,
	} {
		r.act("/api/tickets/"+strings.TrimSpace(path), body).problem(400, "bad-request")
	}
	r.act("/api/tickets/1/retry", `{"a":1,"a":2}`).problem(400, "duplicate-key")
	if r.count(`SELECT count(*) FROM operator_log`) != 0 {
		t.Error("what made no sense did something")
	}
	r.act("/api/tickets/9/retry", ``).problem(404, "not-found")
	r.act("/api/tickets/x/retry", ``).problem(404, "not-found")
	r.exec(`INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('refund:ORD-2041', 'ORD-2041', 'refund', 'done')`)
	r.state(1, "dead", false)
	r.act("/api/tickets/1/retry", ``).wants(409, `"state":"in the ledger"`)
	r.act("/api/tickets/1/discard", `{"reason":"r"}`).wants(409, `"state":"in the ledger"`)
}

// What a program was shown is what it acts on: the mark of a preview stands for one act.
func TestActOnWhatWasSeen(t *testing.T) {
	r := newHandsRig(t)
	r.post(body("E1", "O1", "1.00", oneLine)).wants(200)
	r.state(1, "dead", false)
	r.act("/api/tickets/retry", `{"ids":[1],"preview":true}`).wants(200, `"mark":"dead.0.0"`)
	r.act("/api/tickets/1/retry", `{"seen":{"1":""}}`).problem(400, "bad-request")
	r.act("/api/tickets/1/retry", `{"seen":{"1":null}}`).problem(400, "bad-request")
	r.act("/api/tickets/1/retry", `{"seen":{"1":"dead.0.9"}}`).wants(409, "look again")
	r.act("/api/tickets/retry", `{"ids":[1],"seen":{"1":"dead.0.0"}}`).wants(200, `"state":"pending"`)
	r.act("/api/tickets/retry", `{"ids":[1],"seen":{"1":"dead.0.0"}}`).wants(200, "look again")
}

// Many at once: first told, then done, over exactly those that were named.
func TestActOnMany(t *testing.T) {
	r := newHandsRig(t)
	for i := 1; i <= 4; i++ {
		r.post(body(fmt.Sprintf("E%d", i), fmt.Sprintf("O%d", i), "2154.10", oneLine)).wants(200)
		r.state(i, "dead", false)
	}
	r.exec(`UPDATE outbox SET wire_key = 'k', wire_body = X'00' WHERE id = 2`)
	r.state(4, "done", false)
	const ids = `"ids":[3,1,2,2,4,99]`
	preview := r.act("/api/tickets/retry", `{`+ids+`,"preview":true}`)
	preview.wants(200, `"text":"this sends 3 calls: 2 refund never sent, 1 refund with the same key; 6462.30 MXN in all; 2 tickets left alone","preview":true`,
		`"id":4`, `"reason":"ticket 4 is done, and what is done is never run again"`, `"state":"unknown"`)
	r.act("/api/tickets/retry?preview=1", `{`+ids+`}`).wants(200, `"preview":true`)
	r.act("/api/tickets/retry?preview=0", `{`+ids+`,"preview":true}`).wants(200, `"preview":true`)
	if r.count(`SELECT count(*) FROM outbox WHERE status = 'dead'`) != 3 || r.count(`SELECT count(*) FROM operator_log`) != 0 {
		t.Error("a preview did something")
	}
	r.act("/api/tickets/retry", `{`+ids+`}`).wants(200, `"preview":false`)
	if r.count(`SELECT count(*) FROM outbox WHERE status = 'pending'`) != 3 {
		t.Error("three should be pending")
	}
	r.act("/api/tickets/discard", `{"ids":[1,2],"reason":"shop closed","preview":true}`).wants(200, `"this discards 2 tickets, and nothing is sent for them; 4308.20 MXN in all"`)
}

func TestTargetsByHand(t *testing.T) {
	r := newHandsRig(t)
	r.get("/api/targets").wants(200, `"name":"refund","mode":"lab"`, `"name":"inventory"`, `"state":"up"`)
	r.act("/api/targets/refund/pause", `{"reason":"stocktaking"}`).wants(200, `"state":"paused"`, `"paused_why":"stocktaking"`)
	r.get("/api/stats").wants(200, `"targets":{"inventory":{"mode":"lab","state":"up"},"refund":{"mode":"lab","state":"paused"}}`)
	r.act("/api/targets/refund/resume", ``).wants(200, `"state":"up"`)
	r.act("/api/targets/shop/pause", ``).problem(404, "not-found")
	r.act("/api/targets/refund/pause", `{"reason":1}`).problem(400, "bad-request")
	if n := r.count(`SELECT count(*) FROM operator_log WHERE subject = 'refund' AND action LIKE 'target %'`); n != 2 {
		t.Errorf("%d lines in the operator log", n)
	}
}

// A line of an order that is being taken back is not sent again.
func TestCompensatingLineIsNotRetried(t *testing.T) {
	r := newHandsRig(t)
	r.post(body("E", "O", "0", oneLine)).wants(200)
	r.state(1, "dead", false)
	r.exec(`UPDATE orders SET compensating = 1`)
	r.act("/api/tickets/1/retry", ``).wants(409, `"state":"compensating"`)
}
