package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// decision is what an event of a refunded order brings about.
func decision(id string) Decision {
	digest := sha256.Sum256([]byte(id))
	return Decision{
		Event: Event{EventID: "EVT-" + id, OrderID: "ORD-" + id, Body: Text("{\"ñ\":\x00\xff}"), Digest: digest[:], Outcome: "decided"},
		Order: &Order{OrderID: "ORD-" + id, EventID: "EVT-" + id, CustomerID: "CUS-7", Amount: "2154.00", Currency: "MXN", Category: "deposit",
			Priority: "normal", Decision: "refund", LineItems: JSON(`[{"sku":"CF-ARA-500","quantity":12}]`)},
		Tickets: []NewTicket{{OrderID: "ORD-" + id, EffectType: TicketIssueRefund, Payload: `{"amount":2154.00,"currency":"MXN"}`, Key: Key("refund", "ORD-"+id)}},
	}
}

// accept takes an event as the director does.
func accept(tx *Tx, id string) error {
	d := decision(id)
	if _, ok, err := tx.Event(d.Event.EventID); ok || err != nil {
		return err
	}
	if _, ok, err := tx.Order(d.Event.OrderID); ok || err != nil {
		return err
	}
	if _, _, err := tx.CreditLimit(d.Order.CustomerID, d.Order.Currency); err != nil {
		return err
	}
	_, err := tx.Record(d)
	return err
}

func TestRecordIsReadBack(t *testing.T) {
	db := openNew(t)
	want := decision("1")
	update(t, db, func(tx *Tx) error {
		n, err := tx.Record(want)
		if n != 1 {
			t.Errorf("%d tickets were new", n)
		}
		return err
	})
	err := db.View(t.Context(), func(tx *Tx) error {
		e, found, err := tx.Event("EVT-1")
		if err != nil || !found || !bytes.Equal(e.Body, want.Event.Body) || string(e.Differs) != "[]" {
			t.Errorf("the event is %+v, %t, %v", e, found, err)
		}
		o, found, err := tx.Order("ORD-1")
		if diff := cmp.Diff(*want.Order, o, cmpopts.IgnoreFields(Order{}, "DecidedAt", "Seq")); err != nil || !found || diff != "" {
			t.Errorf("the order: %t, %v (-want +got):\n%s", found, err, diff)
		}
		for _, id := range []string{"evt-1", "EVT-1 ", "", "EVT-1\x00"} { // byte for byte
			if _, found, err := tx.Event(id); found || err != nil {
				t.Errorf("event %q: %t, %v", id, found, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantNumber(t, db, 3, `SELECT count(DISTINCT seq) FROM (SELECT seq FROM events UNION ALL SELECT seq FROM orders UNION ALL SELECT seq FROM outbox)`)
	wantNumber(t, db, 3, `SELECT value FROM sequence`)
}

// An event is recorded whole or not at all, whatever part of it fails.
func TestRecordAllOrNothing(t *testing.T) {
	spoil := map[string]func(*Decision){
		"the event":       func(d *Decision) { d.Event.Digest = []byte{1} },
		"the order":       func(d *Decision) { d.Order.CreditOK = true },
		"the last ticket": func(d *Decision) { d.Tickets = append(d.Tickets, NewTicket{Key: "k"}) },
	}
	for name, f := range spoil {
		db := openNew(t)
		d := decision("1")
		f(&d)
		if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.Record(d); return err }); err == nil {
			t.Errorf("%s: was recorded", name)
		}
		wantNumber(t, db, 0, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM orders) + (SELECT count(*) FROM outbox) + (SELECT value FROM sequence)`)
	}
}

// What stands is never overwritten: a second event or order of the same id is an error for a caller that
// did not look, and a second ticket of one key is left out.
func TestWhatStandsStays(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error { return accept(tx, "1") })
	before := dump(t, db)
	update(t, db, func(tx *Tx) error { return accept(tx, "1") })
	other := decision("1")
	other.Event.Body, other.Order.Amount = Text("other"), "1.00"
	for name, d := range map[string]Decision{
		"event": other,
		"order": {Event: Event{EventID: "EVT-2", OrderID: "ORD-1", Body: Text("b"), Digest: make([]byte, 32), Outcome: "decided"}, Order: other.Order},
	} {
		err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.Record(d); return err })
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("a second %s: %v", name, err)
		}
	}
	update(t, db, func(tx *Tx) error {
		if added, err := tx.InsertTicket(NewTicket{OrderID: "X", EffectType: "x", Payload: "x", Key: "refund:ORD-1"}); added || err != nil {
			return fmt.Errorf("a second ticket of one key: %t, %w", added, err)
		}
		return nil
	})
	if after := dump(t, db); after != before {
		t.Errorf("what stood became\n%s\ninstead of\n%s", after, before)
	}
}

func TestCreditBook(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error {
		return errors.Join(credit("b")(tx), credit("a")(tx), tx.SetCredit(Credit{CustomerID: "a", Currency: "JPY", Limit: "5"}, "tester"),
			tx.SetCredit(Credit{CustomerID: "a", Currency: "MXN", Limit: "9007199254740993.10"}, "tester"))
	})
	err := db.View(t.Context(), func(tx *Tx) error {
		if limit, ok, err := tx.CreditLimit("a", "MXN"); limit != "9007199254740993.10" || !ok || err != nil {
			t.Errorf("the limit is %q, %t, %v", limit, ok, err)
		}
		if _, ok, err := tx.CreditLimit("A", "MXN"); ok || err != nil {
			t.Errorf("a stranger has credit: %t, %v", ok, err)
		}
		var got []string
		for customer, currency := "", ""; ; {
			page, err := tx.Credits(customer, currency, "", 2)
			if err != nil || len(page) == 0 {
				break
			}
			for _, c := range page {
				got = append(got, c.CustomerID+c.Currency)
				customer, currency = c.CustomerID, c.Currency
			}
		}
		if fmt.Sprint(got) != "[aJPY aMXN bMXN]" {
			t.Errorf("the book's pages are %v", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantNumber(t, db, 4, `SELECT count(*) FROM operator_log WHERE who = 'tester' AND action = 'credit set'`)
}

func TestRefusedBodiesAreBounded(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error {
		for i := range refusedKept + 10 {
			if err := tx.KeepRefused(Refused{Problem: "bad-json", Detail: fmt.Sprint(i), Body: bytes.Repeat([]byte{'x'}, i*5)}); err != nil {
				return err
			}
		}
		return tx.KeepRefused(Refused{Problem: "unsigned", EventID: "E"}) // without a body
	})
	wantNumber(t, db, refusedKept, `SELECT count(*) FROM refused_bodies`)
	wantNumber(t, db, refusedBytes, `SELECT max(length(body)) FROM refused_bodies`)
	wantNumber(t, db, (refusedKept+9)*5, `SELECT max(body_bytes) FROM refused_bodies`)
	wantNumber(t, db, 1, `SELECT count(*) FROM refused_bodies WHERE event_id = 'E' AND body_bytes = 0`)
	wantNumber(t, db, 11, `SELECT min(detail + 0) FROM refused_bodies WHERE event_id IS NULL`)
}

// The timeline of an order runs by the one sequence, even when the clock goes backwards.
func TestStoryRunsBySequence(t *testing.T) {
	now := int64(2_000_000_000_000)
	db := open(t, newPath(t), Options{Now: func() time.Time { now -= 3_600_000; return time.UnixMilli(now) }})
	update(t, db, func(tx *Tx) error { return accept(tx, "1") })
	c := claim(t, db, ClaimRequest{})
	update(t, db, func(tx *Tx) error { _, err := tx.Retry(c.Token, c.Tickets[0].ID, 0, "later"); return err })
	now += 100 * 3_600_000 // it is due again
	c = claim(t, db, ClaimRequest{})
	wantEnds(t, "settled", settleAll(t, db, c, c.Tickets...), Done)
	err := db.View(t.Context(), func(tx *Tx) error {
		s, err := tx.Story("ORD-1")
		var kinds []string
		for _, m := range s.Timeline {
			kinds = append(kinds, m.Kind)
		}
		if got := strings.Join(kinds, " "); got != "event decided ticket attempt claimed effect ledger done" {
			t.Errorf("the timeline is %s", got)
		}
		if _, err := tx.Story("ORD-2"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an order that nobody knows: %v", err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
