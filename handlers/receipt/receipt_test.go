package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"comanda/store"
)

var update = flag.Bool("update", false, "write the golden receipts; then the form is another version")

// plays are the ways an order can go, each with the code that it comes to.
var plays = []struct {
	name, order, code string
	n                 int
	open              bool
	play              func(s *shop)
}{
	{"refund", "ORD-1", RefundedOnce, 1, false, func(s *shop) { s.refund("ORD-1"); s.local(store.LedgerRefund) }},
	{"waiting", "ORD-1", InProgress, 1, true, func(s *shop) { s.refund("ORD-1") }},
	{"processing", "ORD-1", InProgress, 3, true, func(s *shop) { s.lines("ORD-1"); s.claim("") }},
	{"inventory", "ORD-2", InventoryOnce, 3, false, func(s *shop) {
		s.lines("ORD-2")
		for range 3 {
			s.local(store.LedgerInventory)
		}
	}},
	{"remote refund", "ORD-1", RefundedConfirmed, 1, false, func(s *shop) { s.real(); s.refund("ORD-1"); s.send("refund", store.Happened, "rf_1") }},
	{"remote refund, killed once", "ORD-1", RefundedConfirmed, 1, true, func(s *shop) {
		s.real()
		s.refund("ORD-1")
		s.send("refund", "", "")
		s.send("refund", store.Happened, "rf_1")
	}},
	{"dead", "ORD-1", NeedsPerson, 1, true, func(s *shop) { s.real(); s.refund("ORD-1"); s.send("refund", store.Rejected, "") }},
	{"review", "ORD-1", NeedsPerson, 1, true, func(s *shop) { s.real(); s.refund("ORD-1"); s.send("refund", store.Unknown, "") }},
	{"by hand", "ORD-1", RefundedByHand, 1, false, func(s *shop) {
		s.real()
		s.refund("ORD-1")
		t := s.send("refund", store.Unknown, "")
		s.hand(t.ID, store.HandAct{Do: store.ActResolve, Happened: true, Reference: "rf_9", Reason: "asked the bank"})
	}},
	{"sent again", "ORD-1", RefundedSentAgain, 1, false, func(s *shop) {
		s.real()
		s.refund("ORD-1")
		t := s.send("refund", store.Unknown, "")
		s.hand(t.ID, store.HandAct{Do: store.ActRetry, SendAgain: true})
		s.send("refund", store.Happened, "rf_2")
	}},
	{"discarded", "ORD-1", Discarded, 1, false, func(s *shop) {
		s.refund("ORD-1")
		s.hand(s.story("ORD-1").Tickets[0].ID, store.HandAct{Do: store.ActDiscard, Reason: "a test order"})
	}},
	{"taken back", "ORD-3", TakenBack, 1, false, func(s *shop) {
		s.real()
		s.lines("ORD-3")
		s.send("inventory", store.Happened, "mv_1")
		s.send("inventory", store.Rejected, "")
		s.send("release", store.Happened, "rl_1")
		s.send("refund", store.Happened, "rf_3")
	}},
	{"two events", "ORD-1", RefundedOnce, 1, false, func(s *shop) {
		s.refund("ORD-1")
		s.local(store.LedgerRefund)
		s.do(func(tx *store.Tx) error {
			_, err := tx.Record(store.Decision{Event: store.Event{EventID: "EVT-later", OrderID: "ORD-1", Body: store.Text("{ }"), Digest: make([]byte, 32), Outcome: "already_decided", Differs: store.JSON(`["amount"]`)}})
			return err
		})
	}},
	{"hand-made ticket", "ORD-4", RefundedOnce, 1, false, func(s *shop) {
		s.put("ORD-4", store.TicketIssueRefund, "refund:ORD-4")
		s.local(store.LedgerRefund)
	}},
	{"hand-made ledger row", "ORD-4", RefundedByHand, 1, false, func(s *shop) {
		s.by(`INSERT INTO ledger (effect_key, order_id, effect_type, status, created_at) VALUES ('refund:ORD-4', 'ORD-4', 'refund', 'done', 1796212800000)`)
	}},
	{"hand-made extra ticket", "ORD-1", RefundedOnce, 1, false, func(s *shop) {
		s.refund("ORD-1")
		s.local(store.LedgerRefund)
		s.put("ORD-1", "send_receipt", "receipt:ORD-1")
		s.local("receipt")
	}},
	{"doubled", "ORD-1", Doubled, 2, false, func(s *shop) {
		s.refund("ORD-1")
		s.local(store.LedgerRefund)
		s.by(`INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at) VALUES ('refund:ORD-1', 'refund', 'ORD-1', 1796212800000)`)
	}},
}

// The form of version 1: a year's receipts would not be the same if one of these changed.
func TestGolden(t *testing.T) {
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			s := newShop(t)
			p.play(s)
			r := Of(s.story(p.order))
			if r.Verdict.Code != p.code || r.Verdict.N != p.n || strings.Contains(r.Text, "\nopen: ") != p.open {
				t.Errorf("the verdict is %+v, want %s of %d, open %t:\n%s", r.Verdict, p.code, p.n, p.open, r.Text)
			}
			path := filepath.Join("testdata", strings.NewReplacer(" ", "-", ",", "").Replace(p.name)+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(r.Text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), r.Text); diff != "" {
				t.Error(diff)
			}
			sum := sha256.Sum256([]byte(r.Text))
			if r.SHA256 != hex.EncodeToString(sum[:]) || r.Text != strings.Join(r.Lines, "\n")+"\n" || r.OrderID != p.order {
				t.Errorf("the receipt is not of its text: %+v", r)
			}
		})
	}
}

// At the end an order's receipt stays what it is: whatever else happens in the file, and in another process a year later.
func TestTheReceiptStays(t *testing.T) {
	for _, p := range plays {
		if p.open {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			s := newShop(t)
			p.play(s)
			before := Of(s.story(p.order))
			s.restart()
			s.refund("ORD-other")
			s.do(func(tx *store.Tx) error {
				return tx.Log("ana", "credit set", p.order, "a customer called like the order")
			})
			s.put("ORD-other", "send_receipt", "receipt:other")
			s.do(func(tx *store.Tx) error {
				return tx.NoteCopies(store.Copies{EventID: "EVT-" + p.order, Copies: 2, FirstAt: 1, LastAt: 2})
			})
			s.by(`UPDATE outbox SET due_at = 99, failures = 7, crashes = 2, attempts = attempts + 1, claimed_at = 5, claimed_seq = 7`)
			if diff := cmp.Diff(before, Of(s.story(p.order))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is tried in vain while a ticket waits changes columns, and no line.
func TestWaitingAgainIsNoNews(t *testing.T) {
	s := newShop(t)
	s.refund("ORD-1")
	before := Of(s.story("ORD-1"))
	for range 2 {
		ticket, token := s.claim("")
		s.do(func(tx *store.Tx) error {
			_, err := tx.Requeue(token, ticket.ID, store.Requeue{Failures: 1, Detail: "the disk was full"})
			return err
		})
	}
	if diff := cmp.Diff(before, Of(s.story("ORD-1"))); diff != "" {
		t.Error(diff)
	}
}

// Every line but the two at the head, the open one and the verdict is a row that one of the queries lists.
func TestQueriesListTheRows(t *testing.T) {
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			s := newShop(t)
			s.refund("ORD-other")
			s.local(store.LedgerRefund)
			p.play(s)
			s.do(func(tx *store.Tx) error { return tx.Log("ana", "credit set", p.order, "no act on the order") })
			checkQueries(t, s, Of(s.story(p.order)))
		})
	}
}

// checkQueries runs the queries as comanda sql does and looks for each row's line.
func checkQueries(t *testing.T, s *shop, r Receipt) {
	t.Helper()
	lines := map[string]int{}
	for _, line := range r.Lines[2 : len(r.Lines)-1] {
		if !strings.HasPrefix(line, "open: ") {
			lines[strings.Join(strings.SplitN(line, " ", 3)[:2], " ")]++
		}
	}
	for _, text := range r.SQL {
		a, err := s.db.Peek(t.Context(), text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, row := range a.Rows {
			lines[fmt.Sprintf("%d %s", row[0], instant(row[1].(int64)))]--
		}
	}
	for line, n := range lines {
		if n != 0 {
			t.Errorf("%q stands %d times more in the receipt than in the answers\n%s", line, n, r.Text)
		}
	}
}

var forged = []string{
	"ORD-1\nverdict: refunded exactly once", "ORD\r\n6 ledger", `ORD"`, `ORD\`, `ORD\"`, `ORD" how="local`, "ORD'; DROP TABLE outbox; --", "$(reboot)`",
	"ORD\u2028x", "ORD\u202ex", "CAFÉ", "CAFE\u0301", "ORD\xff", "ORD\ufffd", "ORD\x1b[2J", " ", "ORD ", "-", `"-"`, "%00", "ОRD-1",
}

// No id makes a line, hides one or passes for another id, and its queries still find its rows.
func TestForgedIDs(t *testing.T) {
	s := newShop(t)
	s.put("ORD-1", store.TicketIssueRefund, "refund:ORD-1")
	texts := map[string]string{}
	for _, id := range forged {
		s.put(id, "hand_made", "key "+id)
		r := Of(s.story(id))
		if len(r.Lines) != 5 || strings.Count(r.Text, "\n") != 5 || r.Verdict.Code != InProgress {
			t.Errorf("%q makes %d lines:\n%s", id, len(r.Lines), r.Text)
		}
		for _, c := range r.Text + strings.Join(r.SQL, "") {
			if c != '\n' && (c < ' ' || c > '~') {
				t.Errorf("%q: the receipt holds %q", id, c)
			}
		}
		for _, text := range r.SQL {
			if strings.ContainsAny(text, "$`\"\\!;\n") {
				t.Errorf("%q: a shell could take something for its own in %s", id, text)
			}
		}
		if other, ok := texts[r.Lines[1]]; ok {
			t.Errorf("%q and %q have one line", id, other)
		}
		texts[r.Lines[1]] = id
		checkQueries(t, s, r)
	}
}

// Two texts never have one form, no form holds a line break, and each can be read back.
func FuzzQuote(f *testing.F) {
	for _, id := range forged {
		f.Add(id, "ORD-1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if back, err := strconv.Unquote(quote(a)); err != nil || back != a {
			t.Errorf("%q is read back as %q, %v", a, back, err)
		}
		if (a == b) != (quote(a) == quote(b)) || (a == b) != (literal(a) == literal(b)) {
			t.Errorf("%q and %q have one form", a, b)
		}
		story := func(order, key string) Receipt {
			return Of(store.Story{Tickets: []store.Ticket{{ID: 1, AggregateID: order, Key: key, EffectType: b, Payload: a, Status: "pending"}}})
		}
		x, y := story(a, b), story(b, a)
		if (a == b) != (x.SHA256 == y.SHA256) || len(x.Lines) != 5 || strings.Count(x.Text, "\n") != 5 {
			t.Errorf("%q and %q:\n%s%s", a, b, x.Text, y.Text)
		}
	})
}
