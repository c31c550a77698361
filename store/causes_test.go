package store

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Details that differ in numbers and ids alone are one cause; what a target answered is another.
func TestCauses(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	add := func(status, effect, detail string) {
		mustExec(t, other, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, created_at, processed_at, detail)
			SELECT 'O', $2, '{}', 'k' || (count(*) + 1), $1, 1000 + count(*), CASE $1 WHEN 'dead' THEN 1 END, $3 FROM outbox`, status, effect, detail)
	}
	add("dead", "issue_refund", "422 Unprocessable Entity: order ORD-2041 is unknown")
	add("dead", "issue_refund", "422 Unprocessable Entity: order ORD-2042 is unknown")
	add("dead", "issue_refund", "404 Not Found")
	add("dead", "inventory_sync", "404 Not Found")
	add("review", "issue_refund", "gave up after 12 answers that tell nothing: ask the target whether it happened; last: 503 Service Unavailable")
	add("review", "issue_refund", "gave up after 9 answers that tell nothing: ask the target whether it happened; last: 503 Service Unavailable")
	add("dead", "issue_refund", "422 Unprocessable Entity: order 7f3c9a1e-22b1-4c55-9f0e-aa11bb22cc33 is unknown")
	causes := view(t, db, func(tx *Tx) ([]Cause, error) { return tx.Causes(10) })
	want := []Cause{
		{"dead", "issue_refund", "422 Unprocessable Entity: order … is unknown", 3, 1000, 1006, 1, 7, []int64{7, 2, 1}, false},
		{"review", "issue_refund", "gave up after … answers that tell nothing: ask the target whether it happened; last: 503 Service Unavailable", 2, 1004, 1005, 5, 6, []int64{6, 5}, false},
		{"dead", "inventory_sync", "404 Not Found", 1, 1003, 1003, 4, 4, []int64{4}, false},
		{"dead", "issue_refund", "404 Not Found", 1, 1002, 1002, 3, 3, []int64{3}, false},
	}
	if diff := gocmp.Diff(want, causes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := view(t, db, func(tx *Tx) ([]Cause, error) { return tx.Causes(1) }); len(got) != 1 {
		t.Errorf("of one cause there are %d", len(got))
	}
	mustExec(t, other, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20001) SELECT 'O', 'x', '{}', 'many' || i, 'dead', 1 FROM n`)
	if got := view(t, db, func(tx *Tx) ([]Cause, error) { return tx.Causes(10) }); len(got) != 2 || got[0].Tickets != causesAmong || !got[0].AtLeast || got[1].AtLeast || len(got[0].IDs) != causeIDs {
		t.Errorf("of 20,001: %+v", got)
	}
}
