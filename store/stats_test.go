package store

import (
	"strings"
	"testing"
)

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
	wantNumber(t, now, int64(len(steps(t))), `PRAGMA user_version`)
	wantNumber(t, now, 350, `SELECT sum(n) FROM ticket_counts WHERE status = 'done'`)
	if a, err := now.Query(t.Context(), sqlNoCountWrong); err != nil || len(a.Rows) > 0 {
		t.Errorf("wrong counts: %v, %v", a.Rows, err)
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

// What is remembered becomes done from wherever it was, and is counted there no more.
func TestCountsOfRememberedTickets(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 3)
	c := claim(t, db, ClaimRequest{Limit: 2})
	update(t, db, func(tx *Tx) error { _, err := tx.Park(c.Token, c.Tickets[0].ID, "why"); return err })
	if got, want := view(t, db, (*Tx).Counts), (Counts{Pending: 1, Processing: 1, Review: 1}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	update(t, db, func(tx *Tx) error { _, err := tx.RememberAll([]int64{1, 2, 3}, "refund", "remote"); return err })
	if got, want := view(t, db, (*Tx).Counts), (Counts{Done: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
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
