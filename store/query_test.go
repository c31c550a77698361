package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQueryAnswers(t *testing.T) {
	db := openNew(t)
	got, err := db.Query(t.Context(), `SELECT NULL AS n, 9007199254740993 AS i, 0.5 AS r, 'ñ' AS t, x'00ff' AS b, $1 AS p WHERE $1 <> ''`, "bound")
	want := Answer{Columns: []string{"n", "i", "r", "t", "b", "p"}, Rows: [][]any{{nil, int64(9007199254740993), 0.5, "ñ", []byte{0, 255}, "bound"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = db.Query(t.Context(), `SELECT id FROM outbox`)
	if diff := cmp.Diff(Answer{Columns: []string{"id"}, Rows: [][]any{}}, got); err != nil || diff != "" {
		t.Errorf("an empty answer: %v (-want +got):\n%s", err, diff)
	}
	if _, err := db.Query(t.Context(), `SELEC`); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a wrong query: %v", err)
	}
}

// Nothing that is asked through Query writes, and nothing changes the connection for whoever has it next.
func TestQueryOnlyReads(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{Readers: 1})
	put(t, db, TicketIssueRefund, 1)
	before := dump(t, db)
	elsewhere := filepath.Join(t.TempDir(), "copy.db")
	for _, text := range []string{
		`DELETE FROM outbox`, `UPDATE outbox SET status = 'dead'`, `DROP TABLE ledger`, `CREATE TABLE a (b)`, `VACUUM`,
		`BEGIN`, `BEGIN IMMEDIATE`, `SAVEPOINT a`, `COMMIT`, `SELECT 1; BEGIN`, `COMMIT; BEGIN`, `COMMIT; SAVEPOINT a`,
		`PRAGMA query_only = OFF`, `PRAGMA query_only = OFF; DELETE FROM outbox`, `COMMIT; PRAGMA query_only = OFF; DELETE FROM outbox`,
		`PRAGMA user_version = 7`, `PRAGMA journal_mode = DELETE`, `PRAGMA wal_checkpoint(TRUNCATE)`,
		`VACUUM INTO '` + elsewhere + `'`, `WITH a AS (SELECT 1) INSERT INTO credit_limits SELECT 'a', 'MXN', '1', 1 FROM a`, ``,
	} {
		_, err := db.Query(t.Context(), text)
		for _, word := range []string{"DELETE", "UPDATE", "DROP", "CREATE", "WITH"} {
			if strings.HasPrefix(text, word) && !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v, want ErrRefused", text, err)
			}
		}
		if err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Paused(); return err }); err != nil {
			t.Errorf("after %s a reader says %v", text, err)
		}
		wantNumber(t, db, 1, `SELECT query_only FROM pragma_query_only`)
	}
	if after := dump(t, db); after != before {
		t.Errorf("queries changed\n%s\nto\n%s", before, after)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a query wrote another file")
	}
	update(t, db, credit("then"))
	wantNumber(t, db, 1, sqlCreditCount)
}

func TestQueryIsInterrupted(t *testing.T) {
	db := open(t, newPath(t), Options{Readers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := db.Query(ctx, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`)
		ended <- err
	}()
	for len(db.readers) > 0 { // until the query has the only reader
		select {
		case err := <-ended:
			t.Fatalf("an endless query ended: %v", err)
		default:
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted query has no error")
	}
	wantNumber(t, db, 0, sqlCreditCount)
}

// A view sees one snapshot, whatever is committed beside it, and can't write.
func TestViewIsOneSnapshot(t *testing.T) {
	db := openNew(t)
	err := db.View(t.Context(), func(tx *Tx) error {
		before, err := tx.Credits("", "", "", 10)
		if err != nil {
			return err
		}
		update(t, db, credit("beside"))
		after, err := tx.Credits("", "", "", 10)
		if len(before)+len(after) != 0 {
			t.Errorf("a view saw %v and then %v", before, after)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := db.View(t.Context(), credit("in a view")); err == nil {
		t.Error("a view wrote")
	}
	wantNumber(t, db, 1, sqlCreditCount)
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log`)
}

func TestStats(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	s, err := db.Stats(t.Context())
	if err != nil || s.Outbox != (Counts{}) || s.OldestPendingMS != 0 || s.LastPassMSAgo != nil || s.DatabaseBytes == 0 || s.WALBytes == 0 {
		t.Errorf("an empty file is %+v, %v", s, err)
	}
	put(t, db, TicketIssueRefund, 6)
	c := claim(t, db, ClaimRequest{Limit: 5})
	settleAll(t, db, c, c.Tickets[:1]...)
	update(t, db, func(tx *Tx) error {
		_, err := tx.Bury(c.Token, c.Tickets[1].ID, "rejected")
		_, err2 := tx.Review(c.Token, c.Tickets[2].ID, "unknown", "")
		_, err3 := tx.exec(`UPDATE outbox SET status = 'discarded', processed_at = 1, claim_token = NULL, lease_holder = NULL, lease_ms = NULL WHERE id = $1`, c.Tickets[3].ID)
		_, err4 := tx.exec(`UPDATE outbox SET created_at = created_at - 5000 WHERE status = 'pending'`)
		_, err5 := tx.exec(`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:x', 'refund', 'x')`)
		_, err6 := tx.exec(`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('refund:x', 'refund', 'x')`)
		return errors.Join(err, err2, err3, err4, err5, err6, tx.Pause(true, "t"))
	})
	s, err = db.Stats(t.Context())
	want := Counts{Pending: 1, Processing: 1, Done: 1, Dead: 1, Review: 1, Discarded: 1}
	if err != nil || s.Outbox != want || s.OldestPendingMS < 5000 || s.DuplicateEffects != 1 || !s.Paused || s.LastPassMSAgo == nil {
		t.Errorf("the file is %+v, %v; want %+v", s, err, want)
	}
	if want.Waiting() != 2 {
		t.Errorf("%d tickets wait", want.Waiting())
	}
}

func TestTicketLists(t *testing.T) {
	db := openNew(t)
	a := put(t, db, TicketIssueRefund, 5)
	b := put(t, db, TicketInventorySync, 1)
	claim(t, db, ClaimRequest{Limit: 2})
	order := ticket(t, db, b[0]).AggregateID
	for _, c := range []struct {
		f    TicketFilter
		want []int64
	}{
		{TicketFilter{Limit: 2}, []int64{b[0], a[4]}},
		{TicketFilter{Limit: 2, Before: a[4]}, []int64{a[3], a[2]}},
		{TicketFilter{Limit: 9, Status: "processing"}, []int64{a[1], a[0]}},
		{TicketFilter{Limit: 9, Status: "pending", EffectType: TicketInventorySync}, b},
		{TicketFilter{Limit: 9, OrderID: order}, b},
		{TicketFilter{Limit: 9, OrderID: order, Status: "done"}, []int64{}},
	} {
		err := db.View(t.Context(), func(tx *Tx) error {
			got, err := tx.Tickets(c.f)
			wantIDs(t, fmt.Sprintf("%+v", c.f), got, c.want...)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if IsStatus("") || IsStatus("oranges") || !IsStatus("done") {
		t.Error("IsStatus is wrong")
	}
	if err := db.View(t.Context(), func(tx *Tx) error { _, err := tx.Ticket(999); return err }); !errors.Is(err, ErrNotFound) {
		t.Errorf("a ticket that is not there: %v", err)
	}
}
