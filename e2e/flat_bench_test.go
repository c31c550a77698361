package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"comanda/store"
)

// A shop after so many orders: each with its event, its effects and its ledger rows.
const (
	sqlDoneOrders = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, line_items, seq)
		SELECT 'OLD-' || i, 'OLD-EVT-' || i, 'CUS-' || i % 1000, '100.00', 'MXN', 'coffee', 'low', 1, 'inventory', 1700000000000 + i, '[]', i FROM n`
	sqlDoneEvents  = `INSERT INTO events (event_id, order_id, body, received_at, seq) SELECT event_id, order_id, CAST('{}' AS BLOB), decided_at, seq FROM orders ORDER BY event_id`
	sqlDoneTickets = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, created_at, processed_at, seq, ended_seq)
		SELECT order_id, 'inventory_sync', '{"sku":"CF","quantity":1}', 'inventory:' || order_id || ':' || k.value, 'done', decided_at, decided_at, seq, seq
		FROM orders, json_each('["A","B","C","D"]') AS k WHERE k.key < $1 ORDER BY orders.rowid`
	sqlDoneEffects = `INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, seq) SELECT idempotency_key, 'inventory', aggregate_id, created_at, seq FROM outbox`
	sqlDoneLedger  = `INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at, how, seq) SELECT idempotency_key, aggregate_id, 'inventory', 'done', created_at, 'local', seq FROM outbox ORDER BY idempotency_key`
)

// putDone writes so many orders of one to four lines, all done, into a file that no process has open.
func putDone(b *testing.B, file string, orders, lines int) {
	b.Helper()
	o := must(openOutside(file))(b)
	for _, text := range []string{`PRAGMA synchronous = OFF`, `PRAGMA cache_size = -400000`} {
		must(o.exec(b.Context(), text))(b)
	}
	must(o.exec(b.Context(), sqlDoneOrders, orders))(b)
	must(o.exec(b.Context(), sqlDoneTickets, lines))(b)
	for _, text := range []string{sqlDoneEvents, sqlDoneEffects, sqlDoneLedger, `UPDATE sequence SET value = (SELECT max(seq) FROM orders)`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		must(o.exec(b.Context(), text))(b)
	}
	if err := o.close(); err != nil {
		b.Fatal(err)
	}
}

// doneVar has BenchmarkFlat compare with a file of so many done tickets, such as 5000000, which takes minutes to make.
const doneVar = "COMANDA_TEST_DONE"

// doneCounts are how many tickets are done in the files that are compared. A thousand fill every page that is shown; with
// fewer the same question would have a shorter answer.
func doneCounts(b *testing.B) []int {
	b.Helper()
	many := 1_000_000
	if testing.Short() {
		many = 100_000
	}
	if n := os.Getenv(doneVar); n != "" {
		many = must(strconv.Atoi(n))(b)
	}
	return []int{1000, many}
}

// flatFile is a server on a file with so many done tickets and 200 that wait.
type flatFile struct {
	p      *proof
	url    string
	done   int
	db     *store.DB // in this process, for what HTTP does not show alone
	orders int
}

func newFlatFile(b *testing.B, done int) *flatFile {
	b.Helper()
	p := onFile(b, builtProgram(b))
	if err := p.endAll(b.Context(), must(p.serve("", "--no-relay"))(b)); err != nil {
		b.Fatal(err)
	}
	putDone(b, p.file, done/4, 4)
	f := &flatFile{p: p, done: done, url: must(p.serve("", "--no-relay"))(b).url}
	f.db = must(store.Open(b.Context(), p.file, store.Options{MustExist: true, Readers: 1}))(b)
	b.Cleanup(func() { _ = f.db.Close() })
	for range 100 {
		f.accept(b)
	}
	return f
}

func (f *flatFile) accept(b *testing.B) {
	b.Helper()
	f.orders++
	order := fmt.Sprintf("ORD-%d", f.orders)
	a, err := f.p.client.order(b.Context(), f.url, orderBody("EVT-"+order, order, "CUS-7", "2154.00", line{"CF-ARA-500", 12}, line{"CF-ROB-250", 2}))
	if err != nil || a.body.Status != "accepted" {
		b.Fatalf("order %s: %s, %v", order, a, err)
	}
}

func (f *flatFile) get(path string) func(*testing.B) {
	return func(b *testing.B) {
		b.Helper()
		req := must(http.NewRequestWithContext(b.Context(), http.MethodGet, f.url+path, nil))(b)
		res := must(http.DefaultTransport.RoundTrip(req))(b)
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode >= 400 {
			b.Fatalf("%s: %s, %v", path, res.Status, err)
		}
	}
}

func (f *flatFile) claim(b *testing.B) {
	b.Helper()
	c := must(f.db.Claim(b.Context(), store.ClaimRequest{Limit: claimBatch, Lease: time.Minute, Holder: "bench"}))(b)
	if len(c.Tickets) != claimBatch {
		b.Fatalf("claimed %d", len(c.Tickets))
	}
	giveBack(b, f.db, c)
}

// acts are what must take as long after years as on the first day.
func (f *flatFile) acts() (names []string, acts []func(*testing.B)) {
	add := func(name string, act func(*testing.B)) { names, acts = append(names, name), append(acts, act) }
	add("claim and release 100", f.claim)
	add("accept", f.accept)
	for _, page := range [][2]string{{"stats", "/api/stats"}, {"orders", "/api/orders"}, {"order", "/api/orders/ORD-1"}, {"search", "/api/orders?q=ORD-1"},
		{"tickets", "/api/tickets"}, {"tickets pending", "/api/tickets?status=pending"}, {"tickets done", "/api/tickets?status=done"}, {"tickets dead", "/api/tickets?status=dead"},
		{"ledger", "/api/ledger"}, {"effects", "/api/effects"}, {"counter", "/"}, {"metrics", "/metrics"}} {
		add(page[0], f.get(page[1]))
	}
	return names, acts
}

// What the appliance does a thousand times a day takes as long with years of done tickets in the file as with a day's. The
// files are measured in turns; milliseconds are medians, and "×" is what the larger file takes of the smaller one's.
func BenchmarkFlat(b *testing.B) {
	var files []*flatFile
	for _, n := range doneCounts(b) {
		files = append(files, newFlatFile(b, n))
	}
	turns := 101
	if testing.Short() {
		turns = 25
	}
	names, _ := files[0].acts()
	for i, name := range names {
		b.Run(name, func(b *testing.B) {
			took := make([][]float64, len(files))
			for range b.N {
				for range turns {
					for at, f := range files {
						_, acts := f.acts()
						began := time.Now()
						acts[i](b)
						took[at] = append(took[at], time.Since(began).Seconds()*1000)
					}
				}
			}
			for at, f := range files {
				b.ReportMetric(median(took[at]), fmt.Sprintf("ms-at-%d", f.done))
			}
			b.ReportMetric(median(took[len(files)-1])/median(took[0]), "×")
			b.ReportMetric(0, "ns/op")
		})
	}
}
