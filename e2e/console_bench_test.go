package e2e

import (
	"io"
	"net/http"
	"testing"
	"time"

	"comanda/store"
)

// What a shop has after years: 500,000 orders of four lines, all carried out, and 50,000 refunds that wait.
const (
	sqlYearsOrders = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 550000)
		INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, line_items, seq)
		SELECT 'ORD-' || i, 'EVT-' || i, 'CUS-' || i % 1000, '100.00', 'MXN', 'coffee', 'low', i <= 500000, iif(i <= 500000, 'inventory', 'refund'), $1 - 550000 + i, '[]', i FROM n`
	sqlYearsEvents  = `INSERT INTO events (event_id, order_id, body, received_at, seq) SELECT event_id, order_id, CAST('{}' AS BLOB), decided_at, seq FROM orders`
	sqlYearsTickets = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, created_at, processed_at, seq, ended_seq)
		SELECT order_id, 'inventory_sync', '{"sku":"CF","quantity":1}', 'inventory:' || order_id || ':' || k.value, 'done', decided_at, decided_at, seq, seq
		FROM orders, json_each('["A","B","C","D"]') AS k WHERE credit_ok = 1 ORDER BY orders.rowid`
	sqlYearsWaiting = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, created_at, seq)
		SELECT order_id, 'issue_refund', '{"amount":100.00,"currency":"MXN"}', 'refund:' || order_id, 'pending', decided_at, seq FROM orders WHERE credit_ok = 0 ORDER BY rowid`
	sqlYearsEffects = `INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, seq) SELECT idempotency_key, 'inventory', aggregate_id, created_at, seq FROM outbox WHERE status = 'done'`
	sqlYearsLedger  = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq) SELECT idempotency_key, aggregate_id, 'inventory', 'done', created_at, 'local', seq FROM outbox WHERE status = 'done' ORDER BY idempotency_key`
)

// How long each page takes over HTTP with 2,000,000 done and 50,000 pending tickets.
func BenchmarkConsolePages(b *testing.B) {
	if testing.Short() {
		b.Skip("the file alone takes a minute; BenchmarkFlat asks for the same pages of a smaller one")
	}
	p := onFile(b, builtProgram(b))
	db := must(store.Open(b.Context(), p.file, store.Options{}))(b)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	client := must(openOutside(p.file))(b)
	for _, text := range []string{`PRAGMA synchronous = OFF`, `PRAGMA cache_size = -400000`} {
		must(client.exec(b.Context(), text))(b)
	}
	must(client.exec(b.Context(), sqlYearsOrders, time.Now().UnixMilli()))(b)
	for _, text := range []string{sqlYearsEvents, sqlYearsTickets, sqlYearsWaiting, sqlYearsEffects, sqlYearsLedger, `UPDATE sequence SET value = 600000`} {
		must(client.exec(b.Context(), text))(b)
	}
	if err := client.close(); err != nil {
		b.Fatal(err)
	}
	base := must(p.serve("", "--no-relay"))(b).url
	for name, path := range map[string]string{
		"counter": "/", "rail": "/rail", "rail done": "/rail?status=done", "rail pending": "/rail?status=pending", "rail of a type": "/rail?status=done&type=inventory_sync", "rail, no such": "/rail?status=dead",
		"rail, far down": "/rail?before=1000000", "orders": "/orders", "order": "/orders/ORD-250000", "receipt": "/orders/ORD-250000/receipt", "attention": "/attention", "graph": "/graph", "relay": "/relay",
		"search an order": "/search?q=ORD-250000", "search a beginning": "/orders?q=ORD-2500", "search nothing": "/search?q=nothing",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				req := must(http.NewRequestWithContext(b.Context(), http.MethodGet, base+path, nil))(b)
				res := must(http.DefaultTransport.RoundTrip(req))(b)
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode >= 400 {
					b.Fatalf("%s: %s, %v", path, res.Status, err)
				}
				_ = res.Body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
