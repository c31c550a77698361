package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The file of a big shop: two million done tickets, a thousand of them dead, and fifty thousand pending ones, of which
// the first fifty lie before all that is done and the others after it. Of a rare type there are three.
const (
	bigDone    = 2_000_000
	bigPending = 50_000
	bigOld     = 50
)

var bigFile = []string{
	`INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key, status, attempts, created_at, processed_at, detail, seq)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1 + $2)
		SELECT i, 'ORD-' || i, CASE WHEN i IN (700000, 1200000, 1900000) THEN 'rare' WHEN i % 3 = 0 THEN 'inventory_sync' ELSE 'issue_refund' END,
		'{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-' || i,
		CASE WHEN i <= $3 OR i > $1 + $3 THEN 'pending' WHEN i % 2000 = 7 THEN 'dead' ELSE 'done' END, 1, 1700000000000 + i * 1000,
		CASE WHEN i <= $3 OR i > $1 + $3 THEN NULL ELSE 1700000000000 + i * 1000 END,
		CASE WHEN i % 2000 = 7 THEN '422 Unprocessable Entity: order ORD-' || i || ' is unknown' ELSE '' END, i FROM n`,
	`INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, seq)
		SELECT aggregate_id, 'EVT-' || id, 'C', '1.00', 'MXN', '', '', 0, 'refund', created_at, seq FROM outbox ORDER BY id`,
	`INSERT INTO events (event_id, order_id, body, received_at, seq) SELECT event_id, order_id, X'7B7D', decided_at, seq FROM orders ORDER BY rowid`,
	`INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, seq)
		SELECT idempotency_key, 'refund', aggregate_id, processed_at, seq FROM outbox WHERE status = 'done' ORDER BY id`,
	`INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq)
		SELECT effect_key, order_id, effect_type, 'done', occurred_at, 'local', seq FROM external_effects_log ORDER BY effect_key`,
	`INSERT INTO targets (name, mode) VALUES ('refund', 'real')`,
	`INSERT INTO attempts (ticket_id, claim_token, begun_at, ended_at, outcome, kind, target)
		SELECT id, 't', processed_at, processed_at + 1, 'done', 'send', 'refund' FROM outbox WHERE id BETWEEN 1000000 AND 1200000 AND status = 'done'`,
	`UPDATE sequence SET value = (SELECT max(seq) FROM outbox)`,
}

// openBig makes such a file as fast as SQLite can, and opens it.
func openBig(b *testing.B) *DB {
	b.Helper()
	path := newPath(b)
	if err := open(b, path, Options{}).Close(); err != nil {
		b.Fatal(err)
	}
	other := raw(b, path)
	mustExec(b, other, `PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA temp_store = MEMORY; BEGIN`)
	for _, text := range bigFile {
		var args []any
		if strings.Contains(text, "$1") {
			args = []any{bigDone, bigPending, bigOld}
		}
		mustExec(b, other, text, args...)
	}
	mustExec(b, other, `COMMIT; PRAGMA wal_checkpoint(TRUNCATE)`)
	if err := other.Close(); err != nil {
		b.Fatal(err)
	}
	return open(b, path, Options{})
}

// asks are what a page asks of the file.
func asks() (names []string, all []func(*Tx) error) {
	add := func(name string, ask func(*Tx) error) { names, all = append(names, name), append(all, ask) }
	add("counts", func(tx *Tx) error { _, err := tx.Counts(); return err })
	for _, f := range []TicketFilter{{EffectType: "issue_refund"}, {EffectType: "rare"}, {OrderID: "ORD-1500000"}} {
		add("counts/"+f.EffectType+f.OrderID, func(tx *Tx) error { _, err := tx.TicketCounts(f); return err })
	}
	for _, status := range []string{"", "pending", "processing", "done", "dead", "review", "discarded"} {
		for _, effect := range []string{"", "issue_refund", "rare"} {
			for _, before := range []int64{0, 1_000_000} {
				f := TicketFilter{Status: status, EffectType: effect, Before: before, Limit: 50}
				add(fmt.Sprintf("tickets/%s/%s/%d", status, effect, before), func(tx *Tx) error { _, err := tx.Tickets(f); return err })
			}
		}
	}
	add("tickets/order", func(tx *Tx) error {
		_, err := tx.Tickets(TicketFilter{OrderID: "ORD-1500000", Status: "done", Limit: 50})
		return err
	})
	const at, hour = 1700000000000, 3600 * 1000
	add("activity/day", func(tx *Tx) error { _, err := tx.Activity(at+1_000_000_000, at+1_000_000_000+24*hour, 96); return err })
	add("activity/all", func(tx *Tx) error { _, err := tx.Activity(at, at+2_050_000_000, 60); return err })
	add("causes", func(tx *Tx) error { _, err := tx.Causes(20); return err })
	add("differing", func(tx *Tx) error { _, err := tx.DifferingEvents(0, 50); return err })
	add("refused", func(tx *Tx) error { _, err := tx.RefusedBodies(0, 50); return err })
	add("operator log", func(tx *Tx) error { _, err := tx.OperatorLog(0, 50); return err })
	for _, q := range []string{"ORD-1500000", "1500000", "EVT-1500000", "refund:ORD-1500000", "ORD-15000000"} {
		add("find/"+q, func(tx *Tx) error { _, _, err := tx.Find(q); return err })
	}
	add("place", func(tx *Tx) error { _, err := tx.Place(); return err })
	add("changed/200 rows behind", func(tx *Tx) error {
		p, err := tx.Place()
		if err != nil {
			return err
		}
		p.Seq, p.orders, p.tickets, p.events = p.Seq-200, p.orders-200, p.tickets-200, p.events-200
		_, _, err = tx.Changed(p)
		return err
	})
	add("waiting orders", func(tx *Tx) error { _, err := tx.WaitingOrders("issue_refund", "inventory_sync"); return err })
	return names, all
}

// What a page asks of a file with two million done tickets takes, each in a View of its own, in milliseconds.
func BenchmarkConsole(b *testing.B) {
	db := openBig(b)
	names, all := asks()
	for i, name := range names {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := db.View(b.Context(), all[i]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("invariants", func(b *testing.B) {
		for b.Loop() {
			asked, err := db.AskInvariants(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, a := range asked {
				b.Logf("%s: %v, %s", a.Name, a.Took.Round(time.Millisecond), a.Answer)
			}
		}
	})
}
