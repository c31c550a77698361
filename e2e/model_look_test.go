package e2e

import (
	"context"
	"fmt"
	"strings"

	"comanda/store"
)

const (
	sqlModelTickets = `SELECT id, idempotency_key, status, coalesce(claim_token, ''), coalesce(lease_holder, ''), attempts, due_at,
	EXISTS (SELECT 1 FROM attempts AS a WHERE a.ticket_id = outbox.id AND kind = 'send' AND closed_seq = 0 AND (outcome IS NULL OR outcome = 'unknown')),
	coalesce((SELECT how FROM ledger WHERE effect_key = idempotency_key), ''),
	(SELECT count(*) FROM external_effects_log WHERE effect_key = idempotency_key), coalesce(processed_at, 0) || ' ' || ended_seq FROM outbox ORDER BY id`
	sqlModelEvents = `SELECT event_id, order_id FROM events`
	sqlModelOrders = `SELECT order_id, event_id, decision FROM orders`
	sqlModelOrphan = `SELECT effect_key FROM ledger WHERE effect_key NOT IN (SELECT idempotency_key FROM outbox)`
)

// look compares the file with the model after a command; by is the relay that moved, nil when none did.
func (m *model) look(ctx context.Context, by *modelRelay) error {
	if m.w.broken != nil {
		return m.w.broken
	}
	db := m.w.serve
	rows, err := db.Query(ctx, sqlModelTickets)
	if err != nil {
		return err
	}
	if len(rows.Rows) != len(m.tickets) {
		return fmt.Errorf("the file holds %d tickets, the model %d", len(rows.Rows), len(m.tickets))
	}
	for i, row := range rows.Rows {
		if err := m.lookAt(m.tickets[i], row, by); err != nil {
			return err
		}
	}
	return m.lookAtDecisions(ctx, db)
}

func (m *model) lookAt(t *mTicket, row []any, by *modelRelay) error {
	now := *t
	now.id, now.status, now.token, now.attempts, now.due = row[0].(int64), row[2].(string), row[3].(string), row[5].(int64), row[6].(int64)
	now.unknown, now.ledger = row[7].(int64) == 1, row[8].(string)
	if now.id != t.id || row[1] != t.key {
		return fmt.Errorf("ticket %d is %v, the model has %d %s", now.id, row[1], t.id, t.key)
	}
	now.holder, now.ended = m.holderOf(row[4].(string), t.holder), row[10].(string)
	if t.status == "done" && t.ended != "" && t.ended != now.ended {
		return fmt.Errorf("%s was done, and was ended once more", t.key)
	}
	if err := m.moves(t, &now, by); err != nil {
		return err
	}
	effects := row[9].(int64)
	switch did := m.did(t); {
	case t.ledger != "" && now.ledger != t.ledger:
		return fmt.Errorf("the ledger forgot %s", t.key)
	case now.ledger == "" && now.status == "done":
		return fmt.Errorf("%s is done and not in the ledger", t.key)
	case now.ledger == "local" && t.remote:
		return fmt.Errorf("%s of a real target was simulated", t.key)
	case effects > 1 || (now.ledger == "local") != (effects == 1):
		return fmt.Errorf("%s: %d effects, and the ledger says %q", t.key, effects, now.ledger)
	case now.ledger != "" && t.remote && !did && !t.noted:
		return fmt.Errorf("%s is in the ledger and never happened", t.key)
	case by != nil && now.ledger == "" && t.remote && m.heard(by, t) && !by.running:
		return fmt.Errorf("%s was told that %s happened, and the ledger does not know it", by.name, t.key)
	case now.status == "pending" && now.due > 0 && now.due != t.due && now.due > m.w.wall().Add(modelBackoff+modelGrace).UnixMilli():
		return fmt.Errorf("%s waits until %d, longer than any wait there is", t.key, now.due)
	}
	if now.status != "done" {
		now.ended = ""
	}
	if by != nil {
		m.reached(t, &now, by)
	}
	*t = now
	return nil
}

func (m *model) did(t *mTicket) bool {
	g := m.w.gates[t.target]
	return g != nil && g.did[t.key] > 0
}

func (m *model) holderOf(id string, before *modelRelay) *modelRelay {
	if id == "" {
		return nil
	}
	for _, r := range m.w.relays {
		if r.holder.ID == id {
			return r
		}
	}
	return before
}

// reached counts the interesting states.
func (m *model) reached(t, now *mTicket, by *modelRelay) {
	did := m.did(t)
	for state, is := range map[string]bool{
		"the ledger knew it":          t.noted && now.status == "done" && t.status != "done",
		"review":                      now.status == "review" && t.status != "review",
		"dead":                        now.status == "dead" && t.status != "dead",
		"done in the lab":             now.status == "done" && t.status != "done" && !t.remote,
		"done outside":                now.status == "done" && t.status != "done" && t.remote,
		"gateway did it, answer lost": did && now.unknown && !t.unknown,
		"happened, ticket had ended":  now.ledger != "" && t.ledger == "" && (t.status == "dead" || t.status == "discarded"),
		"stands still with a claim":   now.status == "processing" && now.holder == by,
	} {
		if is {
			m.w.saw(state)
		}
	}
}

func (m *model) lookAtDecisions(ctx context.Context, db *store.DB) error {
	events, err := db.Query(ctx, sqlModelEvents)
	if err != nil {
		return err
	}
	if len(events.Rows) != len(m.events) {
		return fmt.Errorf("the file holds %d events, %d were acknowledged", len(events.Rows), len(m.events))
	}
	for _, row := range events.Rows {
		if e, ok := m.events[row[0].(string)]; !ok || e.order != row[1] {
			return fmt.Errorf("event %v of order %v is not as it was acknowledged", row[0], row[1])
		}
	}
	orders, err := db.Query(ctx, sqlModelOrders)
	if err != nil {
		return err
	}
	if len(orders.Rows) != len(m.orders) {
		return fmt.Errorf("the file holds %d orders, %d were decided", len(orders.Rows), len(m.orders))
	}
	for _, row := range orders.Rows {
		if o, ok := m.orders[row[0].(string)]; !ok || o.id != row[1] || o.answer("", "").Decision != row[2] {
			return fmt.Errorf("order %v was decided as %v by %v; it is not as it was acknowledged", row[0], row[2], row[1])
		}
	}
	orphans, err := db.Query(ctx, sqlModelOrphan)
	if err == nil && len(orphans.Rows) > 0 {
		return fmt.Errorf("in the ledger without a ticket: %v", orphans.Rows)
	}
	return err
}

// truths are the contract's queries that must never find a row.
var truths = []string{
	`SELECT effect_key, count(*) FROM external_effects_log GROUP BY effect_key HAVING count(*) > 1`,
	`SELECT o.id FROM outbox o LEFT JOIN ledger l ON l.effect_key = o.idempotency_key WHERE o.status='done' AND l.effect_key IS NULL`,
	`SELECT l.effect_key FROM ledger l LEFT JOIN external_effects_log e USING (effect_key) WHERE l.how='local' AND e.effect_key IS NULL`,
	`SELECT order_id FROM ledger GROUP BY order_id HAVING count(DISTINCT effect_type) > 1`,
}

// lookAtTruth asks the contract's own queries, and the file's own doctor.
func (w *modelWorld) lookAtTruth() error {
	for _, q := range truths {
		if a, err := w.serve.Query(w.ctx, q); err != nil || len(a.Rows) > 0 {
			return fmt.Errorf("%s\n→ %v, %v", q, a.Rows, err)
		}
	}
	checks, err := w.serve.Doctor(w.ctx)
	for _, c := range checks {
		if c.Level == store.LevelWrong && !strings.Contains(c.Name, "synchronous") { // off, for speed
			return fmt.Errorf("doctor: %s: %s", c.Name, c.Answer)
		}
	}
	return err
}
