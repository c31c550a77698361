package store

import (
	"slices"
	"strings"
	"testing"
)

// plans are the ways of what runs at every event, claim or settlement. None of them passes by what is done.
var plans = []struct{ name, text, want string }{
	{"pending types", sqlPendingTypes, "CO-ROUTINE kinds | SETUP | SEARCH outbox USING COVERING INDEX outbox_pending | RECURSIVE STEP | SCAN kinds | " +
		"CORRELATED SCALAR SUBQUERY 2 | SEARCH outbox USING COVERING INDEX outbox_pending (effect_type>?) | SCAN kinds"},
	{"new heads", sqlNew, "SEARCH outbox USING INDEX outbox_pending (effect_type=? AND due_at=?)"}, // in id order, without sorting
	{"delayed heads", sqlDelayed, "MERGE (UNION ALL) | LEFT | SEARCH outbox USING INDEX outbox_pending (effect_type=? AND due_at>? AND due_at<?) | USE TEMP B-TREE FOR ORDER BY | " +
		"RIGHT | SEARCH outbox USING INDEX outbox_pending (effect_type=? AND due_at>?) | USE TEMP B-TREE FOR ORDER BY"},
	{"mark", sqlMark, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"leases", sqlLeases, "SCAN outbox USING INDEX outbox_processing | USE TEMP B-TREE FOR GROUP BY"},
	{"charge", sqlCharge, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"free", sqlFree, "SEARCH outbox USING INDEX outbox_processing (claim_token=?)"},
	{"park", sqlParkCrashing, "SEARCH outbox USING INDEX outbox_processing (claim_token=?)"},
	{"done", sqlDone, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"ledger", sqlInsertLedger, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"effects", sqlInsertEffects, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"requeue", sqlRequeue, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"park a ticket", sqlPark, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"bury", sqlBury, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"soonest wait", sqlSoonest, "SEARCH outbox USING COVERING INDEX outbox_pending (effect_type=? AND due_at>?)"},
	{"freeze", sqlFreeze, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"end attempt", sqlEndAttempt, "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"},
	{"unknown sends", sqlUnknown, "SEARCH attempts USING INDEX attempts_unknown (ticket_id=?)"},
	{"control key", sqlControl, "SEARCH a USING INDEX attempts_done (target=?) | SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"},
	{"close unknown", sqlCloseUnknown, "SEARCH attempts USING INDEX attempts_unknown (ticket_id=?)"},
	{"done by evidence", sqlDoneByEvidence, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"ledger by evidence", sqlLedgerByEvidence, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"any compensating", sqlAnyCompensating, "SCAN orders USING COVERING INDEX orders_compensating"},
	{"open line", sqlOpenLine, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=?)"},
	{"event", sqlEvent, "SEARCH events USING INDEX sqlite_autoindex_events_1 (event_id=?)"},
	{"order", sqlOrder, "SEARCH orders USING INDEX sqlite_autoindex_orders_1 (order_id=?)"},
	{"credit", sqlCreditLimit, "SEARCH credit_limits USING PRIMARY KEY (customer_id=? AND currency=?)"},
	{"ticket", sqlTicket, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"attempts", sqlAttempts, "SEARCH attempts USING INDEX attempts_ticket_id (ticket_id=?)"},
	{"order's tickets", sqlOrderTickets, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=?)"},
	{"order's effects", sqlOrderEffects, "SEARCH external_effects_log USING INDEX external_effects_log_order_id (order_id=?)"},
	{"order's ledger", sqlOrderLedger, "SEARCH ledger USING INDEX ledger_order_id (order_id=?) | USE TEMP B-TREE FOR ORDER BY"},
	{"duplicates", sqlDuplicateEffects, "CO-ROUTINE (subquery-1) | SCAN external_effects_log USING COVERING INDEX external_effects_log_key | SCAN (subquery-1)"},
	{"oldest pending", sqlOldestPending, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | SCALAR SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_pending"},
	{"dead tickets", sqlTicketsHead + ticketStatus["dead"] + sqlTicketsTail, "SCAN outbox USING INDEX outbox_dead"},
}

// fillDone puts n tickets in that are done.
func fillDone(t testing.TB, db *DB, n int) {
	t.Helper()
	update(t, db, func(tx *Tx) error {
		_, err := tx.exec(`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, attempts, created_at, processed_at, seq)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
			SELECT 'OLD-' || i, 'issue_refund', '{}', 'old:' || i, 'done', 1, 1, 2, i FROM n`, n)
		return err
	})
}

// passesBy reports whether a plan's every step leaves alone what is done, or names it by its key.
func passesBy(plan string) bool {
	for step := range strings.SplitSeq(plan, " | ") {
		named := strings.Contains(step, "PRIMARY KEY (") || strings.Contains(step, "INDEX sqlite_autoindex") || strings.Contains(step, "_id=?)")
		waiting := strings.Contains(step, "INDEX outbox_pending") || strings.Contains(step, "INDEX outbox_processing") || strings.Contains(step, "INDEX outbox_dead")
		if strings.Contains(step+" ", " outbox ") && !named && !waiting {
			return false
		}
	}
	return true
}

// The statements keep their plans, on a new file and on one with many done tickets, so a claim takes the
// same steps however many are done. On a file that somebody has analyzed SQLite may choose among
// the indexes of what waits, but still goes through nothing that is done.
func TestQueryPlans(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	check := func(file string) {
		t.Helper()
		for _, p := range plans {
			if got := plan(t, db, p.text); got != p.want {
				t.Errorf("%s, %s:\ngot  %s\nwant %s", file, p.name, got, p.want)
			}
		}
	}
	check("a new file")
	fillDone(t, db, 20_000)
	put(t, db, TicketIssueRefund, 3)
	check("many done")
	mustExec(t, raw(t, path), `ANALYZE`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	for _, p := range plans {
		if got := plan(t, db, p.text); !passesBy(got) {
			t.Errorf("analyzed, %s: %s", p.name, got)
		}
	}
	if passesBy(plan(t, db, `SELECT id FROM outbox WHERE payload = '' LIMIT 1`)) {
		t.Error("a scan of the whole outbox is not seen")
	}
}

// What a claim goes through, the two partial indexes, is as small on a file with many done tickets as on a new one.
func TestDoneTicketsLeaveTheClaimsIndexes(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 300)
	for {
		c := claim(t, db, ClaimRequest{Limit: 90})
		if len(c.Tickets) == 0 {
			break
		}
		settleAll(t, db, c, c.Tickets...)
	}
	update(t, db, func(tx *Tx) error { // dbstat reads the pages themselves
		left, err := collect(tx, `SELECT name, sum(ncell) FROM dbstat WHERE name IN ('outbox_pending', 'outbox_processing') GROUP BY name`, nil,
			func(scan func(...any) error, n *int64) error { var name string; return scan(&name, n) })
		if err == nil && !slices.Equal(left, []int64{0, 0}) {
			t.Errorf("the indexes of what waits hold %v rows, want none", left)
		}
		return err
	})
}
