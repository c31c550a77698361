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
	{"in flight", sqlInFlight, "SCAN outbox USING INDEX outbox_processing | USE TEMP B-TREE FOR ORDER BY"},
	{"charge", sqlCharge, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"free", sqlFree, "SEARCH outbox USING COVERING INDEX outbox_processing (claim_token=?)"},
	{"park", sqlParkCrashing, "SEARCH outbox USING INDEX outbox_processing (claim_token=?)"},
	{"done", sqlDone, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"ledger", sqlInsertLedger, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"effects", sqlInsertEffects, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"requeue", sqlRequeue, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"park a ticket", sqlPark, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"bury", sqlBury, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"soonest wait", sqlSoonest, "SEARCH outbox USING COVERING INDEX outbox_pending (effect_type=? AND due_at>?)"},
	{"freeze", sqlFreeze, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"freeze first letters", sqlFreezeFirst, "SCAN j VIRTUAL TABLE INDEX 1: | SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"begin first sends", sqlBeginFirst, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"in the ledger", sqlWhichInLedger, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 2 | SCAN json_each VIRTUAL TABLE INDEX 1: | CORRELATED SCALAR SUBQUERY 1 | SEARCH ledger USING PRIMARY KEY (effect_key=?)"},
	{"end attempts", sqlEndAttempts, "SCAN j VIRTUAL TABLE INDEX 1: | SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"},
	{"unknown sends", sqlUnknown, "SEARCH attempts USING INDEX attempts_unknown (ticket_id=?)"},
	{"control key", sqlControl, "SEARCH a USING INDEX attempts_done (target=?) | SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"},
	{"close unknown", sqlCloseUnknown, "SEARCH attempts USING INDEX attempts_unknown (ticket_id=?)"},
	{"done by evidence", sqlDoneByEvidence, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"ledger by evidence", sqlLedgerByEvidence, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1:"},
	{"any compensating", sqlAnyCompensating, "SCAN orders USING COVERING INDEX orders_compensating"},
	{"open line", sqlOpenLine, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=?)"},
	{"event or order", sqlKnown, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SEARCH events USING COVERING INDEX sqlite_autoindex_events_1 (event_id=?) | UNION ALL | SEARCH orders USING COVERING INDEX sqlite_autoindex_orders_1 (order_id=?)"},
	{"event", sqlEvent, "SEARCH events USING INDEX sqlite_autoindex_events_1 (event_id=?)"},
	{"order", sqlOrder, "SEARCH orders USING INDEX sqlite_autoindex_orders_1 (order_id=?)"},
	{"credit", sqlCreditLimit, "SEARCH credit_limits USING PRIMARY KEY (customer_id=? AND currency=?)"},
	{"ticket", sqlTicket, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"attempts", sqlAttempts, "SEARCH attempts USING INDEX attempts_ticket_id (ticket_id=?)"},
	{"order's tickets", sqlOrderTickets, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=?)"},
	{"order's effects", sqlOrderEffects, "SEARCH external_effects_log USING INDEX external_effects_log_order_id (order_id=?)"},
	{"order's ledger", sqlOrderLedger, "SEARCH ledger USING INDEX ledger_order_id (order_id=?) | USE TEMP B-TREE FOR ORDER BY"},
	{"duplicates", sqlDuplicateEffects, "SCAN d | CORRELATED SCALAR SUBQUERY 2 | CO-ROUTINE (subquery-1) | SEARCH external_effects_log USING COVERING INDEX external_effects_log_key (effect_key=?) | SCAN (subquery-1)"},
	{"oldest pending", sqlOldestPending, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | SCALAR SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_pending"},
	{"tickets", ticketLists[""].all, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING INTEGER PRIMARY KEY (rowid<?)"},
	{"tickets of a type", ticketLists[""].ofType,
		"SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_effect_type (effect_type=? AND id<?)"},
	{"done tickets", ticketLists["done"].all, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING INTEGER PRIMARY KEY (rowid<?)"},
	{"done tickets of a type", ticketLists["done"].ofType,
		"SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING INDEX outbox_effect_type (effect_type=? AND id<?)"},
	{"dead tickets", ticketLists["dead"].all, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_dead (id<?)"},
	{"dead tickets of a type", ticketLists["dead"].ofType,
		"SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_aside (status=? AND effect_type=? AND id<?)"},
	{"pending tickets", ticketLists["pending"].all, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN outbox USING COVERING INDEX outbox_pending | USE TEMP B-TREE FOR ORDER BY"},
	{"pending tickets of a type", ticketLists["pending"].ofType, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SEARCH outbox USING COVERING INDEX outbox_pending (effect_type=?) | USE TEMP B-TREE FOR ORDER BY"},
	{"claimed tickets", ticketLists["processing"].all, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN outbox USING COVERING INDEX outbox_processing | USE TEMP B-TREE FOR ORDER BY"},
	{"claimed tickets of a type", ticketLists["processing"].ofType, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 1 | SCAN outbox USING INDEX outbox_processing | USE TEMP B-TREE FOR ORDER BY"},
	{"an order's tickets in a state", sqlTicketsOrder, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=? AND rowid<?)"},
	{"counts of what is open", sqlCountsOpen, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SCAN outbox USING COVERING INDEX outbox_pending | UNION ALL | SCAN outbox USING COVERING INDEX outbox_processing"},
	{"counts of what rests", sqlCountsRest, "SCAN ticket_counts | USE TEMP B-TREE FOR GROUP BY"},
	{"a type's counts of what is open", sqlTypeOpen, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SEARCH outbox USING COVERING INDEX outbox_pending (effect_type=?) | UNION ALL | SCAN outbox USING INDEX outbox_processing"},
	{"a type's counts of what rests", sqlTypeRest, "SEARCH ticket_counts USING PRIMARY KEY (effect_type=?)"},
	{"an order's counts", sqlOrderCounts, "SEARCH outbox USING INDEX outbox_order_id (aggregate_id=?) | USE TEMP B-TREE FOR GROUP BY"},
	{"waiting orders", sqlWaitingOrders, "SCAN CONSTANT ROW | SCALAR SUBQUERY 2 | USE TEMP B-TREE FOR count(DISTINCT) | SEARCH outbox USING INDEX outbox_pending (effect_type=?) | LIST SUBQUERY 1 | SCAN json_each VIRTUAL TABLE INDEX 1: | SCALAR SUBQUERY 7 | USE TEMP B-TREE FOR count(DISTINCT) | SEARCH p USING INTEGER PRIMARY KEY (rowid=?) | LIST SUBQUERY 3 | SCAN outbox USING COVERING INDEX outbox_processing | LIST SUBQUERY 4 | SCAN json_each VIRTUAL TABLE INDEX 1: | CREATE BLOOM FILTER | CORRELATED SCALAR SUBQUERY 6 | SEARCH o USING INDEX outbox_order_id (aggregate_id=?) | LIST SUBQUERY 5 | SCAN json_each VIRTUAL TABLE INDEX 1: | CREATE BLOOM FILTER"},
	{"why dead", sqlWhyDead, "SCAN outbox USING INDEX outbox_dead"},
	{"why in review", sqlWhyReview, "SCAN outbox USING INDEX outbox_review"},
	{"anything of an order", sqlAnyOfOrder, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SEARCH orders USING COVERING INDEX sqlite_autoindex_orders_1 (order_id=?) | UNION ALL | SEARCH outbox USING COVERING INDEX outbox_order_id (aggregate_id=?) | UNION ALL | SEARCH events USING COVERING INDEX events_order_id (order_id=?) | UNION ALL | SEARCH ledger USING COVERING INDEX ledger_order_id (order_id=?) | UNION ALL | SEARCH external_effects_log USING COVERING INDEX external_effects_log_order_id (order_id=?)"},
	{"an order from here on", sqlOrderFrom, "SEARCH orders USING INTEGER PRIMARY KEY (rowid>?)"},
	{"an effect from here on", sqlEffectFrom, "SEARCH external_effects_log USING INTEGER PRIMARY KEY (rowid>?)"},
	{"an attempt from here on", sqlAttemptFrom, "SEARCH attempts USING INTEGER PRIMARY KEY (rowid>?)"},
	{"refused", sqlRefusedPage, "SCAN refused_bodies"},
	{"differing", sqlDifferingPage, "SEARCH events USING INDEX events_differing (seq<?)"},
	{"differing events", sqlDifferingCount, "SCAN events USING INDEX events_differing"},
	{"operator log", sqlActsPage, "SEARCH operator_log USING INTEGER PRIMARY KEY (rowid<?)"},
	{"place", sqlPlace, "SCAN CONSTANT ROW | SCALAR SUBQUERY 1 | SEARCH sequence USING INTEGER PRIMARY KEY (rowid=?) | SCALAR SUBQUERY 2 | SEARCH events | SCALAR SUBQUERY 3 | SEARCH orders | SCALAR SUBQUERY 4 | SEARCH outbox | SCALAR SUBQUERY 5 | SEARCH external_effects_log | SCALAR SUBQUERY 6 | SEARCH attempts"},
	{"what came", sqlCame, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SEARCH events USING INTEGER PRIMARY KEY (rowid>?) | UNION ALL | SEARCH orders USING INTEGER PRIMARY KEY (rowid>?) | UNION ALL | SEARCH outbox USING INTEGER PRIMARY KEY (rowid>?) | UNION ALL | CO-ROUTINE (subquery-4) | SCAN outbox USING INDEX outbox_processing | SCAN (subquery-4) | UNION ALL | SEARCH e USING INTEGER PRIMARY KEY (rowid>?) | SEARCH o USING INDEX sqlite_autoindex_outbox_1 (idempotency_key=?) LEFT-JOIN | UNION ALL | SEARCH a USING INTEGER PRIMARY KEY (rowid>?) | SEARCH o USING INTEGER PRIMARY KEY (rowid=?) | SEARCH l USING PRIMARY KEY (effect_key=?) LEFT-JOIN"},
	{"a ticket by its key", sqlKeyTicket, "SEARCH outbox USING COVERING INDEX sqlite_autoindex_outbox_1 (idempotency_key=?)"},
	{"an order by a key", sqlKeyOrder, "COMPOUND QUERY | LEFT-MOST SUBQUERY | SEARCH ledger USING PRIMARY KEY (effect_key=?) | UNION ALL | SEARCH external_effects_log USING INDEX external_effects_log_key (effect_key=?)"},
	{"done of a type", sqlDoneOf, "SCAN ticket_counts"},
	{"depth of what waits", sqlDepthPending, "SCAN outbox USING COVERING INDEX outbox_pending"},
	{"depth of what is carried out", sqlDepthProcessing, "SCAN outbox USING INDEX outbox_processing | USE TEMP B-TREE FOR GROUP BY"},
	{"when a ticket was put", sqlCreatedAt, "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"},
	{"sent between", sqlSentBetween, "SCAN targets | SEARCH attempts USING COVERING INDEX attempts_done (target=? AND id>? AND id<?)"},
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
		named := strings.Contains(step, "PRIMARY KEY (") || strings.Contains(step, "INDEX sqlite_autoindex") || strings.Contains(step, "_id=?") ||
			strings.Contains(step, "INDEX outbox_effect_type (effect_type=? AND id<?)") || step == "SEARCH outbox" // its largest id
		waiting := strings.Contains(step, "INDEX outbox_pending") || strings.Contains(step, "INDEX outbox_processing") || strings.Contains(step, "INDEX outbox_dead") ||
			strings.Contains(step, "INDEX outbox_review") || strings.Contains(step, "INDEX outbox_aside")
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
