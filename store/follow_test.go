package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// follow begins behind a place, or now.
func follow(t *testing.T, db *DB, since int64) *Follower {
	t.Helper()
	f, err := db.Follow(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// look is what one look tells.
func look(t *testing.T, f *Follower) (all []Change) {
	t.Helper()
	if err := f.Look(t.Context(), func(c []Change) error { all = append(all, c...); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func kinds(all []Change) string {
	var words []string
	for _, c := range all {
		words = append(words, strings.TrimSuffix(fmt.Sprintf("%s %s", c.Kind, c.OrderID+c.Target), " "))
	}
	return strings.Join(words, ", ")
}

// Whatever happens, in this process or another, is told once, in the order of the sequence.
func TestFollow(t *testing.T) {
	db := openNew(t)
	other := raw(t, db.Path())
	put(t, db, "old", 2) // on the rail before anybody looks
	f := follow(t, db, -1)
	var c Claim
	for _, step := range []struct {
		what string
		do   func()
		told string
	}{
		{"nothing", func() {}, ""},
		{"an order", func() { update(t, db, func(tx *Tx) error { return accept(tx, "1") }) }, "decided ORD-1"},
		{"a claim of what was there before", func() { c = claim(t, db, ClaimRequest{Limit: 1}) }, "claimed ORD-old-1"},
		{"its end", func() { settleAll(t, db, c, c.Tickets...) }, "done ORD-old-1"},
		{"nothing more", func() {}, ""},
		{"a claim that ended already", func() { c = claim(t, db, ClaimRequest{Limit: 1}); settleAll(t, db, c, c.Tickets...) }, "claimed ORD-old-2, done ORD-old-2"},
		{"a try that failed", func() {
			c = claim(t, db, ClaimRequest{Limit: 1})
			update(t, db, func(tx *Tx) error { _, err := tx.Retry(c.Token, c.Tickets[0].ID, 0, "x"); return err })
		}, "claimed ORD-1, attempt ORD-1"},
		{"review", func() {
			c = claim(t, db, ClaimRequest{Limit: 1})
			update(t, db, func(tx *Tx) error { _, err := tx.Review(c.Token, c.Tickets[0].ID, "undecodable", "x"); return err })
		}, "claimed ORD-1, attempt ORD-1, review ORD-1"},
		{"what a person does", func() {
			update(t, db, func(tx *Tx) error {
				_, err := tx.ByHand(c.Tickets[0].ID, HandAct{Do: ActResolve, Reason: "r", Who: "ana"})
				return err
			})
		}, "operator ORD-1, dead ORD-1"},
		{"given up", func() {
			update(t, db, func(tx *Tx) error {
				_, err := tx.ByHand(c.Tickets[0].ID, HandAct{Do: ActDiscard, Reason: "r", Who: "ana"})
				return err
			})
		}, "operator ORD-1, discarded ORD-1"},
		{"a pause", func() { update(t, db, func(tx *Tx) error { return tx.Pause(true, "ana") }) }, "operator"},
		{"a target out of reach", func() { update(t, db, func(tx *Tx) error { return tx.Offline("refund", true) }) }, "target refund"},
		{"and in reach", func() { update(t, db, func(tx *Tx) error { return tx.Offline("refund", false) }) }, "target refund"},
		{"a ticket that comes and goes", func() {
			put(t, db, "gone", 1)
			look(t, f)
			mustExec(t, other, `DELETE FROM outbox WHERE aggregate_id LIKE 'ORD-gone%'`)
		}, ""},
		{"an order by another client", func() {
			mustExec(t, other, `INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at)
				VALUES ('HAND', 'E', 'C', '1.00', 'MXN', 'c', 'p', 0, 'refund', 1)`)
			update(t, db, func(tx *Tx) error { return accept(tx, "2") })
			mustExec(t, other, `INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at)
				VALUES ('HAND-2', 'E', 'C', '1.00', 'MXN', 'c', 'p', 0, 'refund', 1)`)
		}, "decided ORD-2"}, // what has no place has none among the lines
	} {
		step.do()
		if got := kinds(look(t, f)); got != step.told {
			t.Errorf("%s: told %q, want %q", step.what, got, step.told)
		}
		if len(f.tries) > 0 {
			t.Errorf("%s: %d attempts are waited for", step.what, len(f.tries))
		}
	}
	if len(f.open) != 1 { // ORD-2's
		t.Errorf("%d tickets are waited for", len(f.open))
	}
}

// Whoever begins behind a line is told exactly what came after it, in pages that no place is torn apart by, also when
// the telling fails in between.
func TestFollowAgain(t *testing.T) {
	db := openNew(t)
	f := follow(t, db, 0)
	const orders = followLines * 3 / 5 // a page ends amid the places of a claim
	for i := range orders {
		update(t, db, func(tx *Tx) error { return accept(tx, fmt.Sprint(i)) })
	}
	c := claim(t, db, ClaimRequest{Limit: 10_000})
	settleAll(t, db, c, c.Tickets...)
	all := look(t, f)
	if len(all) != 3*orders || !slices.IsSortedFunc(all, func(a, b Change) int { return int(a.Seq - b.Seq) }) {
		t.Fatalf("%d lines, in order: want %d", len(all), 3*orders)
	}
	for _, at := range []int{0, followLines / 2, len(all) - 1} {
		rest := slices.DeleteFunc(slices.Clone(all), func(c Change) bool { return c.Seq <= all[at].Seq })
		if diff := cmp.Diff(rest, look(t, follow(t, db, all[at].Seq))); len(rest) > 0 && diff != "" {
			t.Errorf("since %d: %.1000s", all[at].Seq, diff)
		}
	}
	again := follow(t, db, 0)
	var told []Change
	broken, pages := errors.New("broken"), 0
	for {
		err := again.Look(t.Context(), func(c []Change) error {
			if pages++; pages%2 == 1 {
				return broken
			}
			told = append(told, c...)
			return nil
		})
		if err == nil {
			break
		}
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(all, told); diff != "" {
		t.Errorf("with a telling that fails: %.1000s", diff)
	}
	if _, err := db.Follow(t.Context(), 1<<40); !errors.Is(err, ErrRefused) {
		t.Errorf("a place to come: %v", err)
	}
}
