package order

import (
	"encoding/json"
	"errors"
	"testing"
)

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		contractBody, with(), with("amount", `"0.30"`), with("amount", `9007199254740993e-2`), with("event_id", `"\ud83d\ude00"`),
		with("order_id", `"\ud800"`), `{}`, `[[{"a":1,"\u0061":2}]]`, `{"a":1,}`, "\xef\xbb\xbf{}", "{\"\xff\":0}", threeLines,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := Decode(body)
		var p *Problem
		if err != nil {
			if !errors.As(err, &p) || p.Detail == "" || (len(p.Faults) > 0) != (p.Type == "invalid-order") || len(p.Faults) > 100 {
				t.Fatalf("Decode(%q): %#v", body, err)
			}
			if (p.Type != "bad-json") != isJSON(string(body)) {
				t.Fatalf("Decode(%q): %v", body, err)
			}
			return
		}
		if !isJSON(string(body)) {
			t.Fatalf("Decode took %q for JSON", body)
		}
		again, err := Decode(rewrite(t, o))
		if err != nil || again.Digest() != o.Digest() || Differs(o, again) != nil || again.EventID != o.EventID {
			t.Fatalf("%+v became %+v, %v", o, again, err)
		}
	})
}

// rewrite writes an order anew.
func rewrite(t *testing.T, o *Order) []byte {
	body, err := json.Marshal(map[string]any{
		"event_id": o.EventID, "order_id": o.OrderID, "customer_id": o.CustomerID,
		"amount": json.Number(o.Amount.String()), "currency": o.Currency, "line_items": o.Lines,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
