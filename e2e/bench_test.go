package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// BenchmarkOrders sends orders of three lines through HTTP to a server of its own, without a relay, and
// prints orders a second, the latencies, and orders a commit (a commit is one fsync), the last from the
// server's own count.
func BenchmarkOrders(b *testing.B) {
	for _, conns := range []int{1, 64} {
		b.Run(fmt.Sprintf("connections=%d", conns), func(b *testing.B) { benchOrders(b, conns, 3000+conns*300) })
	}
}

func benchOrders(b *testing.B, conns, orders int) {
	for range b.N {
		p := onFile(b, builtProgram(b))
		s, err := p.serve("", "--no-relay")
		if err != nil {
			b.Fatal(err)
		}
		transport := &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns}
		began := time.Now()
		latencies := sendAll(b, &http.Client{Transport: transport}, s.url, conns, orders)
		took := time.Since(began)
		transport.CloseIdleConnections()
		slices.Sort(latencies)
		b.ReportMetric(float64(orders)/took.Seconds(), "orders/s")
		b.ReportMetric(float64(latencies[orders/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(latencies[orders*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(orders)/float64(commitsOf(b, s)), "orders/fsync")
		b.ReportMetric(0, "ns/op")
	}
}

// sendAll sends orders over conns connections and returns how long each took.
func sendAll(b *testing.B, c *http.Client, base string, conns, orders int) []time.Duration {
	latencies := make([]time.Duration, orders)
	var next atomic.Int64
	var senders sync.WaitGroup
	for range conns {
		senders.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= orders {
					return
				}
				body := fmt.Sprintf(`{"event_id":"EVT-%d","order_id":"ORD-%d","customer_id":"CUS-7","amount":0,"currency":"MXN",`+
					`"line_items":[{"sku":"CF-ARA-500","quantity":12},{"sku":"TE-CHM-100","quantity":10},{"sku":"CF-DEC-250","quantity":2}]}`, i, i)
				began := time.Now()
				res, err := c.Post(base+"/webhooks/orders", "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				text, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					b.Errorf("%s: %s %v", res.Status, text, err)
					return
				}
				latencies[i] = time.Since(began)
			}
		})
	}
	senders.Wait()
	return latencies
}

// commitsOf stops a server and reads from its last log line how often it committed.
func commitsOf(b *testing.B, s *child) int64 {
	line := s.watch(`"msg":"stopped"`)
	if err := s.endGently(b.Context()); err != nil {
		b.Fatal(err)
	}
	var stopped struct {
		Commits int64 `json:"commits"`
	}
	if err := json.Unmarshal([]byte(<-line), &stopped); err != nil || stopped.Commits == 0 {
		b.Fatalf("the server did not say how often it committed: %v", err)
	}
	return stopped.Commits
}

// BenchmarkDrain lets one relay process, with its defaults, carry out 60,000 tickets and prints tickets a
// second from its start to the last one done.
func BenchmarkDrain(b *testing.B) {
	const tickets = 60_000
	for range b.N {
		p := onFile(b, builtProgram(b))
		fill(b, p.file, "pending", tickets)
		began := time.Now()
		if _, err := p.relay("relay", ""); err != nil {
			b.Fatal(err)
		}
		if err := p.untilDrained(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(tickets/time.Since(began).Seconds(), "tickets/s")
		b.ReportMetric(0, "ns/op")
	}
}

// fill puts tickets into a file in one transaction: pending ones, or ones that are done, ledger and
// effect included.
func fill(b *testing.B, file, status string, n int) {
	db, err := store.Open(b.Context(), file, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	o, err := openOutside(file)
	if err != nil {
		b.Fatal(err)
	}
	defer o.close()
	ended := "NULL"
	if status == "done" {
		ended = "1"
	}
	texts := []string{fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at, seq)
		SELECT printf('ORD-%%07d', i), 'inventory_sync', '{"sku":"CF-ARA-500","quantity":12}', printf('inventory:ORD-%%07d:CF-ARA-500', i), '%s', %s, i FROM n`, n, status, ended)}
	if status == "done" {
		texts = append(texts, `INSERT INTO ledger (effect_key, order_id, effect_type, status, how, seq) SELECT idempotency_key, aggregate_id, 'inventory', 'done', 'local', id FROM outbox`,
			`INSERT INTO external_effects_log (effect_key, effect_type, order_id, seq) SELECT idempotency_key, 'inventory', aggregate_id, id FROM outbox`)
	}
	for _, text := range texts {
		if _, err := o.exec(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClaim claims 100 tickets on a file with no done ticket and on one with a million, turn by turn,
// and prints the medians in microseconds.
func BenchmarkClaim(b *testing.B) {
	const rounds = 101
	for range b.N {
		none, million := claimable(b, 0), claimable(b, 1_000_000)
		var a, z []time.Duration
		for range rounds {
			a = append(a, claimOnce(b, none))
			z = append(z, claimOnce(b, million))
		}
		slices.Sort(a)
		slices.Sort(z)
		b.ReportMetric(float64(a[rounds/2].Microseconds()), "µs-with-0-done")
		b.ReportMetric(float64(z[rounds/2].Microseconds()), "µs-with-1000000-done")
		b.ReportMetric(0, "ns/op")
	}
}

// claimable is a file with done tickets and 200 pending ones behind them.
func claimable(b *testing.B, done int) *store.DB {
	file := b.TempDir() + "/claim.db"
	if done > 0 {
		fill(b, file, "done", done)
	}
	db, err := store.Open(b.Context(), file, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	err = db.Update(b.Context(), func(tx *store.Tx) error {
		for i := range 200 {
			order := fmt.Sprintf("NEW-%d", i)
			if _, err := tx.InsertTicket(store.NewTicket{OrderID: order, EffectType: store.TicketIssueRefund, Payload: "{}", Key: store.Key("refund", order)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// claimOnce times one claim of 100 and gives the tickets back.
func claimOnce(b *testing.B, db *store.DB) time.Duration {
	began := time.Now()
	c, err := db.Claim(b.Context(), store.ClaimRequest{Limit: 100, Lease: time.Minute, Holder: "bench"})
	took := time.Since(began)
	if err != nil || len(c.Tickets) != 100 {
		b.Fatalf("claimed %d: %v", len(c.Tickets), err)
	}
	ids := make([]int64, len(c.Tickets))
	for i, t := range c.Tickets {
		ids[i] = t.ID
	}
	if err := db.Update(context.Background(), func(tx *store.Tx) error { _, err := tx.Release(c.Token, ids); return err }); err != nil {
		b.Fatal(err)
	}
	return took
}
