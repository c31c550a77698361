package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const insertMixed = `INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key, status, created_at, processed_at, claim_token, lease_holder, lease_ms, detail)
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600),
	s(i, status) AS (SELECT i, CASE i * 7 % 12 WHEN 0 THEN 'pending' WHEN 1 THEN 'processing' WHEN 2 THEN 'dead' WHEN 3 THEN 'review' WHEN 4 THEN 'discarded' ELSE 'done' END FROM n)
	SELECT i, 'ORD-' || (i % 37), CASE WHEN i % 149 = 3 THEN 'rare' WHEN i % 3 = 0 THEN 'inventory_sync' ELSE 'issue_refund' END, '{}', 'k:' || i, status, i,
	CASE WHEN status IN ('done', 'dead', 'discarded') THEN i END, CASE status WHEN 'processing' THEN 't' || i END,
	CASE status WHEN 'processing' THEN 'h' END, CASE status WHEN 'processing' THEN 1 END, '' FROM s`

// chosen are the tickets of a filter as one would choose them without any index.
func chosen(all []Ticket, f TicketFilter) (ids []int64, c Counts) {
	of := map[string]*int64{"pending": &c.Pending, "processing": &c.Processing, "done": &c.Done, "dead": &c.Dead, "review": &c.Review, "discarded": &c.Discarded}
	ids = []int64{}
	for _, t := range slices.SortedFunc(slices.Values(all), func(a, b Ticket) int { return cmp.Compare(b.ID, a.ID) }) {
		if f.EffectType != "" && t.EffectType != f.EffectType || f.OrderID != "" && t.AggregateID != f.OrderID {
			continue
		}
		*of[t.Status]++
		if (f.Status == "" || t.Status == f.Status) && (f.Before == 0 || t.ID < f.Before) && len(ids) < f.Limit {
			ids = append(ids, t.ID)
		}
	}
	return ids, c
}

// Every combination of a filter chooses what it says, newest first, and the counts follow its type and order.
func TestTicketListsChooseByIndexes(t *testing.T) {
	db := openNew(t)
	mustExec(t, raw(t, db.Path()), insertMixed)
	all := view(t, db, func(tx *Tx) ([]Ticket, error) {
		return collect(tx, `SELECT `+ticketColumns+` FROM outbox`, nil, scanTicket)
	})
	for status := range ticketLists {
		for _, effect := range []string{"", "issue_refund", "rare", "none"} {
			for _, order := range []string{"", "ORD-5", "ORD-none"} {
				for _, before := range []int64{0, 300, 1} {
					f := TicketFilter{Status: status, EffectType: effect, OrderID: order, Before: before, Limit: 7}
					want, counts := chosen(all, f)
					got := view(t, db, func(tx *Tx) ([]Ticket, error) { return tx.Tickets(f) })
					if ids := idsOf(got); !slices.Equal(ids, want) {
						t.Errorf("%+v: got %v, want %v", f, ids, want)
					}
					if got := view(t, db, func(tx *Tx) (Counts, error) { return tx.TicketCounts(f) }); got != counts {
						t.Errorf("%+v: counts %+v, want %+v", f, got, counts)
					}
				}
			}
		}
	}
	_, counts := chosen(all, TicketFilter{})
	if got := view(t, db, (*Tx).Counts); got != counts {
		t.Errorf("counts %+v, want %+v", got, counts)
	}
}

// A file of the program before this one is brought up to date with what is in it.
func TestMigrateFillsTheCounts(t *testing.T) {
	path := newPath(t)
	db := &DB{path: path, opt: Options{}.withDefaults()}
	w, err := db.openConn(t.Context(), writerDSN(path, db.opt.BusyTimeout, "FULL", true))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps(t)[:4] {
		if err := migrateStep(t.Context(), w.sql, step, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.closeConns(); err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw(t, path), insertMixed)
	now := open(t, path, Options{})
	wantNumber(t, now, 5, `PRAGMA user_version`)
	wantNumber(t, now, 350, `SELECT sum(n) FROM ticket_counts WHERE status = 'done'`)
	for _, query := range []string{sqlNoCountWrong} {
		if a, err := now.Query(t.Context(), query); err != nil || len(a.Rows) > 0 {
			t.Errorf("%s: %v %v", query, a.Rows, err)
		}
	}
}

// What runs the usual way keeps the counts, and the doctor sees one that somebody changed.
func TestCountsOfSettledTickets(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 5)
	c := claim(t, db, ClaimRequest{Limit: 3})
	settleAll(t, db, c, c.Tickets...)
	if got, want := view(t, db, (*Tx).Counts), (Counts{Pending: 2, Done: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	mustExec(t, raw(t, db.Path()), `UPDATE ticket_counts SET n = 7`)
	asked, err := db.AskInvariants(t.Context())
	if err != nil || len(asked) != len(Invariants()) {
		t.Fatalf("%d invariants asked, %v", len(asked), err)
	}
	for i, a := range asked {
		wrong := a.Level == LevelWrong
		if a.SQL != Invariants()[i] || a.Took <= 0 || wrong != (a.SQL == sqlNoCountWrong) {
			t.Errorf("%+v", a)
		}
		if wrong && !strings.Contains(a.Answer, "issue_refund done 4") {
			t.Errorf("the doctor says %q", a.Answer)
		}
	}
}

// Who asks while another does waits, and no longer than he wants to.
func TestInvariantsOneAtATime(t *testing.T) {
	db := openNew(t)
	db.asking <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.AskInvariants(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while another asks: %v", err)
	}
	<-db.asking
	if _, err := db.AskInvariants(t.Context()); err != nil {
		t.Error(err)
	}
}

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
		{"dead", "issue_refund", "422 Unprocessable Entity: order … is unknown", 3, 1000, 1006, 1, 7, false},
		{"review", "issue_refund", "gave up after … answers that tell nothing: ask the target whether it happened; last: 503 Service Unavailable", 2, 1004, 1005, 5, 6, false},
		{"dead", "inventory_sync", "404 Not Found", 1, 1003, 1003, 4, 4, false},
		{"dead", "issue_refund", "404 Not Found", 1, 1002, 1002, 3, 3, false},
	}
	if diff := gocmp.Diff(want, causes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := view(t, db, func(tx *Tx) ([]Cause, error) { return tx.Causes(1) }); len(got) != 1 {
		t.Errorf("of one cause there are %d", len(got))
	}
	mustExec(t, other, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20001) SELECT 'O', 'x', '{}', 'many' || i, 'dead', 1 FROM n`)
	if got := view(t, db, func(tx *Tx) ([]Cause, error) { return tx.Causes(10) }); len(got) != 2 || got[0].Tickets != causesAmong || !got[0].AtLeast || got[1].AtLeast {
		t.Errorf("of 20,001: %+v", got)
	}
}

// What a person types is found by its exact name, an order before a ticket's number.
func TestFind(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error { return accept(tx, "7") })
	other := raw(t, db.Path())
	byOrder := `INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key) VALUES (12, '77', 'x', '{}', 'x:77')`
	mustExec(t, other, byOrder)
	mustExec(t, other, `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('refund:HAND', 'HAND', 'refund', 'done')`)
	event := view(t, db, func(tx *Tx) ([]Event, error) {
		return collect(tx, `SELECT `+eventColumns+` FROM events`, nil, scanEvent)
	})[0]
	for q, want := range map[string]Hit{
		event.OrderID: {"order", event.OrderID}, event.EventID: {"event", event.EventID}, "77": {"order", "77"}, " 77 ": {"order", "77"},
		"12": {"ticket", "12"}, "#12": {"ticket", "12"}, "x:77": {"ticket", "12"}, "HAND": {"order", "HAND"}, "refund:HAND": {"order", "HAND"},
		"": {}, "#": {}, "13": {}, "#77": {}, "nothing": {}, "-1": {}, "99999999999999999999": {},
	} {
		if event.EventID == event.OrderID && q == event.EventID {
			continue
		}
		var found bool
		got := view(t, db, func(tx *Tx) (h Hit, err error) { h, found, err = tx.Find(q); return h, err })
		if found != (want != Hit{}) || found && got != want {
			t.Errorf("%q: got %v %t, want %v", q, got, found, want)
		}
	}
}

// The lists of what needs a look run newest first, page by page.
func TestListsOfWhatNeedsALook(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error {
		for i := range 5 {
			if err := tx.KeepRefused(Refused{Problem: "bad-json", Detail: fmt.Sprint(i), Body: []byte("{")}); err != nil {
				return err
			}
			if err := tx.Log("me", "ticket retried", fmt.Sprint(i), ""); err != nil {
				return err
			}
		}
		return nil
	})
	mustExec(t, raw(t, db.Path()), `INSERT INTO events (event_id, order_id, body, received_at, differs, seq)
		VALUES ('a', 'O', X'7B7D', 1, '["amount"]', 101), ('b', 'O', X'7B7D', 1, '[]', 102), ('c', 'O', X'7B7D', 1, '["amount"]', 103)`)
	var seen []string
	err := db.View(t.Context(), func(tx *Tx) error {
		refused, err := tx.RefusedBodies(0, 2)
		if err != nil {
			return err
		}
		more, err := tx.RefusedBodies(refused[1].ID, 2)
		if err != nil {
			return err
		}
		acts, err := tx.OperatorLog(0, 2)
		if err != nil {
			return err
		}
		older, err := tx.OperatorLog(acts[1].ID, 2)
		if err != nil {
			return err
		}
		events, err := tx.DifferingEvents(0, 1)
		if err != nil {
			return err
		}
		first, err := tx.DifferingEvents(events[0].Seq, 5)
		if err != nil {
			return err
		}
		n, err := tx.RefusedCount()
		if err != nil {
			return err
		}
		d, err := tx.DifferingCount()
		for _, r := range append(refused, more...) {
			seen = append(seen, r.Detail)
		}
		for _, a := range append(acts, older...) {
			seen = append(seen, a.Subject)
		}
		for _, e := range append(events, first...) {
			seen = append(seen, e.EventID)
		}
		seen = append(seen, fmt.Sprint(n, d))
		return err
	})
	if got, want := strings.Join(seen, " "), "4 3 2 1 4 3 2 1 c a 5 2"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestWaitingOrders(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	for i, order := range []string{"A", "A", "B", "C", "D"} {
		mustExec(t, other, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ($1, $2, '{}', $3)`, order, []string{"x", "y"}[i%2], i)
	}
	mustExec(t, other, `UPDATE outbox SET status = 'processing', claim_token = 't', lease_holder = 'h', lease_ms = 1 WHERE id IN (2, 4)`)
	mustExec(t, other, `UPDATE outbox SET status = 'done', processed_at = 1 WHERE id = 5`)
	for types, want := range map[string]int64{"x y": 3, "x": 2, "y": 2, "z": 0, "": 0} {
		if got := view(t, db, func(tx *Tx) (int64, error) { return tx.WaitingOrders(strings.Fields(types)...) }); got != want {
			t.Errorf("%q: %d orders wait, want %d", types, got, want)
		}
	}
}

// changed reads what came since a place.
func changed(t *testing.T, db *DB, since Place) (Place, Changes) {
	t.Helper()
	var c Changes
	now := view(t, db, func(tx *Tx) (now Place, err error) { now, c, err = tx.Changed(since); return now, err })
	slices.Sort(c.Orders)
	return now, c
}

// Whatever happens in this process or another is seen: by the orders that it happened to, or as something more.
func TestChanged(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	const insertByHand = `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('HAND', 'issue_refund', '{}', 'k')`
	var c Claim
	at := view(t, db, (*Tx).Place)
	for _, step := range []struct {
		what   string
		do     func()
		orders string
		more   bool
	}{
		{"nothing", func() {}, "", false},
		{"an order", func() { update(t, db, func(tx *Tx) error { return accept(tx, "1") }) }, "ORD-1", false},
		{"a ticket by hand", func() { mustExec(t, other, insertByHand) }, "HAND", false},
		{"a claim", func() { c = claim(t, db, ClaimRequest{Limit: 1}) }, "ORD-1", false},
		{"an end", func() { settleAll(t, db, c, c.Tickets...) }, "ORD-1", false},
		{"a claim that ended already", func() { c = claim(t, db, ClaimRequest{Limit: 1}); settleAll(t, db, c, c.Tickets...) }, "HAND", false},
		{"tickets", func() { put(t, db, "x", 2) }, "ORD-x-3 ORD-x-4", false},
		{"a claim given back", func() {
			c = claim(t, db, ClaimRequest{Limit: 9})
			update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
		}, "", true},
		{"an attempt that failed", func() {
			c = claim(t, db, ClaimRequest{Limit: 1})
			update(t, db, func(tx *Tx) error { _, err := tx.Retry(c.Token, c.Tickets[0].ID, 1, "x"); return err })
		}, "ORD-x-3", true}, // to the file it looks like a ticket that somebody put back
		{"a pause", func() { update(t, db, func(tx *Tx) error { return tx.Pause(true, "me") }) }, "", true},
		{"a pause by hand", func() { mustExec(t, other, `UPDATE relay_state SET paused = 0`) }, "", true},
		{"a target", func() { update(t, db, func(tx *Tx) error { return tx.HoldTarget("refund", 1000) }) }, "", true},
		{"an alert", func() {
			update(t, db, func(tx *Tx) error { _, _, err := tx.RaiseAlert(Condition{"review", "1"}); return err })
		}, "", true},
		{"an act", func() { update(t, db, func(tx *Tx) error { return tx.Log("me", "x", "", "") }) }, "", true},
		{"a state by hand", func() { mustExec(t, other, `UPDATE outbox SET status = 'dead', processed_at = 1 WHERE id = 4`) }, "", true},
		{"a state by hand again", func() { mustExec(t, other, `UPDATE outbox SET status = 'pending', processed_at = NULL WHERE id = 4`) }, "", true},
		{"a ticket that is gone", func() { mustExec(t, other, `DELETE FROM outbox WHERE id = 4`) }, "", true},
		{"a pass", func() { update(t, db, func(tx *Tx) error { return tx.notePass("h", 1) }) }, "", false},
		{"many orders", func() { put(t, db, "y", changedOrders+1) }, "many", true},
		{"nothing more", func() {}, "", false},
	} {
		before := at
		step.do()
		now, got := changed(t, db, at)
		orders := strings.Join(got.Orders, " ")
		if len(got.Orders) == changedOrders {
			orders = "many"
		}
		if orders != step.orders || got.More != step.more || got.Seq != now.Seq || now.Seq < before.Seq || got.Any() != (step.more || orders != "") {
			t.Errorf("%s: orders %q, more %t at %d; want %q, %t", step.what, orders, got.More, got.Seq, step.orders, step.more)
		}
		at = now
	}
	if _, c := changed(t, db, Place{}); !c.More {
		t.Errorf("since the beginning: %+v", c)
	}
}

// A send that ends some time after it began is seen at the order that it was for.
func TestChangedSends(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	ids := put(t, db, TicketIssueRefund, 1)
	claim(t, db, ClaimRequest{Limit: 1})
	mustExec(t, other, `INSERT INTO attempts (ticket_id, claim_token, begun_at, kind, target) VALUES ($1, 't', 1, 'send', 'refund')`, ids[0])
	at := view(t, db, (*Tx).Place)
	update(t, db, func(tx *Tx) error {
		if err := tx.EndAttempt(1, Ended{Outcome: "done"}); err != nil {
			return err
		}
		_, err := tx.Remember(ids[0], LedgerRefund, "remote")
		return err
	})
	if _, c := changed(t, db, at); len(c.Orders) != 1 || c.More {
		t.Errorf("got %+v, want the one order", c)
	}

}
