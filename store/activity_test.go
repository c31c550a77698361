package store

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Spans are counted by the borders between them, whatever is missing, and each row once though a clock was set.
func TestActivity(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	mustExec(t, other, `INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT 'O' || i, 'E', 'C', '1', 'MXN', '', '', 0, 'refund', 1000 + i * 10 FROM n`)
	mustExec(t, other, `INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 'k' || i, 'refund', 'O', 1000 + i * 20 FROM n`)
	mustExec(t, other, `INSERT INTO targets (name, mode) VALUES ('refund', 'real')`)
	mustExec(t, other, insertTicket)
	mustExec(t, other, `INSERT INTO attempts (ticket_id, claim_token, begun_at, ended_at, outcome, kind, target)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
		SELECT 1, 't', 1000 + i * 100, 1001 + i * 100, CASE i % 2 WHEN 0 THEN 'done' ELSE 'failed' END, 'send', 'refund' FROM n`)
	activity := func(from, to int64, buckets int) []Bucket {
		return view(t, db, func(tx *Tx) ([]Bucket, error) { return tx.Activity(from, to, buckets) })
	}
	want := []Bucket{{2000, 200, 110}, {4000, 200, 110}, {6000, 200, 110}, {8000, 200, 110}}
	if diff := gocmp.Diff(want, activity(2000, 10_000, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, nothing := range [][]Bucket{activity(0, 1000, 1), activity(20_000, 30_000, 1)} {
		if len(nothing) != 1 || nothing[0].Orders+nothing[0].Effects != 0 {
			t.Errorf("outside there is %v", nothing)
		}
	}
	if got := activity(5, 5, 3); len(got) != 0 {
		t.Errorf("no time at all has %v", got)
	}
	mustExec(t, other, `DELETE FROM orders WHERE rowid BETWEEN 300 AND 700`)
	if got := activity(2000, 4000, 1); got[0].Orders != 200 {
		t.Errorf("beside a gap: %v", got)
	}
	mustExec(t, other, `UPDATE orders SET decided_at = decided_at - 100000 WHERE rowid BETWEEN 800 AND 900`)
	total := int64(0)
	for _, b := range activity(-200_000, 200_000, 50) {
		total += b.Orders
	}
	if total != 1000 {
		t.Errorf("after a clock was set %d orders stand in the spans, want each of the thousand places once", total)
	}
}
