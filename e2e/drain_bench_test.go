package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"comanda/store"
)

// Tickets a second that one relay process drains from 60,000, with its standard settings: a log line a ticket is written,
// and read on the same two cores. "/C" is the part of what SQLite in C reaches that is given the same statements, on the
// same tables and with the same pragmas, in turns with the relay.
func BenchmarkDrain(b *testing.B) {
	for range b.N {
		var rates, inC, parts []float64
		for range min(3, rounds()) {
			rate := drained(b, func(p *proof) {
				r := must(p.relay("relay", ""))(b)
				if err := p.untilDrained(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := p.endAll(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			})
			rates = append(rates, rate)
			if shell, err := exec.LookPath("sqlite3"); err == nil {
				c := drained(b, func(p *proof) { drainInC(b, shell, p.file) })
				inC, parts = append(inC, c), append(parts, rate/c)
			}
		}
		b.ReportMetric(median(rates), "tickets/s")
		b.ReportMetric(0, "ns/op")
		if len(inC) == 0 {
			b.Log("there is no sqlite3 to compare with")
			continue
		}
		b.ReportMetric(median(parts), "/C")
		b.ReportMetric(median(inC), "C-tickets/s")
	}
}

// drained is how many tickets a second a drain carries out of a burst, in a file of its own; afterwards each is done once.
func drained(b *testing.B, drain func(p *proof)) float64 {
	b.Helper()
	p := onFile(b, builtProgram(b))
	if err := p.endAll(b.Context(), must(p.serve("", "--no-relay"))(b)); err != nil {
		b.Fatal(err)
	}
	if err := putBurst(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	drain(p)
	took := time.Since(began)
	p.ask(b.Context(), `SELECT count(*) FROM outbox AS o JOIN ledger AS l ON l.effect_key = o.idempotency_key WHERE o.status = 'done';`, strconv.Itoa(burst))
	p.invariants(b.Context())
	if !p.ok() {
		b.Fatal("not every ticket is done once")
	}
	return burst / took.Seconds()
}

const (
	claimRounds = 101
	claimBatch  = 100
)

// A claim of 100 tickets costs the same with five million done ones as with none: the files are
// measured in turns, and the medians are told. With -short the largest has a hundred thousand.
func BenchmarkClaim(b *testing.B) {
	var dbs []*store.DB
	done := []int{0, 1_000_000, 5_000_000}
	if testing.Short() {
		done = []int{0, 100_000}
	}
	for _, n := range done {
		dbs = append(dbs, claimFile(b, n))
	}
	took := make([][]time.Duration, len(dbs))
	for range claimRounds {
		for i, db := range dbs {
			began := time.Now()
			c, err := db.Claim(b.Context(), store.ClaimRequest{Limit: claimBatch, Lease: time.Hour, Holder: "bench"})
			took[i] = append(took[i], time.Since(began))
			if err != nil || len(c.Tickets) != claimBatch {
				b.Fatalf("claimed %d tickets, %v", len(c.Tickets), err)
			}
			giveBack(b, db, c)
		}
	}
	for i, n := range done {
		slices.Sort(took[i])
		b.ReportMetric(ms(took[i][claimRounds/2]), fmt.Sprintf("ms/claim-with-%d-done", n))
	}
	b.ReportMetric(0, "ns/op")
}

// giveBack makes the claimed tickets pending again, so that every round finds the same.
func giveBack(b *testing.B, db *store.DB, c store.Claim) {
	b.Helper()
	var ids []int64
	for _, t := range c.Tickets {
		ids = append(ids, t.ID)
	}
	err := db.Update(b.Context(), func(tx *store.Tx) error {
		_, err := tx.Release(c.Token, ids)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// claimFile makes a file with so many done tickets, older than the pending ones.
func claimFile(b *testing.B, done int) *store.DB {
	b.Helper()
	path := filepath.Join(b.TempDir(), "claim.db")
	db := must(store.Open(b.Context(), path, store.Options{Readers: 1}))(b)
	b.Cleanup(func() { _ = db.Close() })
	o := must(openOutside(path))(b)
	defer o.close()
	const fill = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at, seq)
SELECT 'ORD-' || i, iif(i % 2, 'issue_refund', 'inventory_sync'), '{"amount":1,"currency":"MXN"}', $2 || i, $2, iif($2 = 'done', 1, NULL), 1
FROM n WHERE i <= $1`
	if done > 0 {
		must(o.exec(b.Context(), fill, done, "done"))(b)
	}
	must(o.exec(b.Context(), fill, 20*claimBatch, "pending"))(b)
	return db
}
