package handlers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"comanda/handlers/order"
	"comanda/store"
)

func mustDecode(t testing.TB, body string) *order.Order {
	t.Helper()
	o, err := order.Decode([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDecide(t *testing.T) {
	o := mustDecode(t, `{"event_id":"E","order_id":"O:1","customer_id":"C","amount":5,"currency":"JPY",
		"line_items":[{"sku":"A","quantity":2},{"sku":"B\"<","quantity":1},{"sku":"A","quantity":3}]}`)
	allow := cmp.AllowUnexported(decision{})
	refund := decision{"refund", []store.NewTicket{{OrderID: "O:1", EffectType: "issue_refund", Payload: `{"amount":5,"currency":"JPY"}`, Key: "refund:O%3A1"}}}
	if diff := cmp.Diff(refund, decide(o, false), allow); diff != "" {
		t.Error(diff)
	}
	inventory := decision{"inventory", []store.NewTicket{
		{OrderID: "O:1", EffectType: "inventory_sync", Payload: `{"sku":"A","quantity":5}`, Key: "inventory:O%3A1:A"},
		{OrderID: "O:1", EffectType: "inventory_sync", Payload: `{"sku":"B\"<","quantity":1}`, Key: `inventory:O%3A1:B"<`},
	}}
	if diff := cmp.Diff(inventory, decide(o, true), allow); diff != "" {
		t.Error(diff)
	}
}

// The standing row holds all that is needed to tell the same tickets and the same differences again.
func TestStandingOrderIsTheOrder(t *testing.T) {
	for _, amount := range []string{`0`, `"0.30"`, `999999999999999.99`} {
		o := mustDecode(t, body("E", "O/<&>", amount, `[{"sku":"Z\u2028","quantity":1000000000},{"sku":"A","quantity":1}]`))
		for _, credit := range []bool{true, false} {
			d := decide(o, credit)
			back := standingOrder(*row(o, Credit{OK: credit}, d))
			if diff := order.Differs(o, back); diff != nil {
				t.Errorf("differs: %v", diff)
			}
			if o.Digest() != back.Digest() {
				t.Error("another digest")
			}
			if diff := cmp.Diff(d, decide(back, credit), cmp.AllowUnexported(decision{})); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		lines              []order.Line
		category, priority string
	}{
		{[]order.Line{{SKU: "CF-ARA-500", Quantity: 9}}, "coffee", "low"},
		{[]order.Line{{SKU: "cf-x", Quantity: 5}, {SKU: "CAFE", Quantity: 5}}, "coffee", "normal"},
		{[]order.Line{{SKU: "TEA-1", Quantity: 99}}, "tea", "normal"},
		{[]order.Line{{SKU: "CF-1", Quantity: 50}, {SKU: "TE-1", Quantity: 50}}, "mixed", "high"},
		{[]order.Line{{SKU: "CF-1", Quantity: 1}, {SKU: "CUP-1", Quantity: 1}, {SKU: "CF-2", Quantity: 1}}, "mixed", "low"},
		{[]order.Line{{SKU: "CUP-1", Quantity: 1e9}, {SKU: "-", Quantity: 1e9}}, "other", "high"},
	} {
		if category, priority := classify(c.lines); category != c.category || priority != c.priority {
			t.Errorf("%v: %s, %s; want %s, %s", c.lines, category, priority, c.category, c.priority)
		}
	}
}
