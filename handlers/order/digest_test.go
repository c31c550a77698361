package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawOrder draws an order that is fine.
func drawOrder(t *rapid.T) *Order {
	id := rapid.StringMatching(`[a-c:%é😀 ]{0,3}[a-cé😀]`)
	o := &Order{
		EventID:    id.Draw(t, "event"),
		OrderID:    id.Draw(t, "order"),
		CustomerID: id.Draw(t, "customer"),
		Currency:   rapid.SampledFrom([]string{"JPY", "MXN", "KWD"}).Draw(t, "currency"),
	}
	decimals := map[string]int{"JPY": 0, "MXN": 2, "KWD": 3}[o.Currency]
	text := rapid.StringMatching(`(0|[1-9][0-9]{0,14})`).Draw(t, "whole")
	if decimals > 0 {
		text += "." + rapid.StringMatching(fmt.Sprintf(`[0-9]{%d}`, decimals)).Draw(t, "part")
	}
	o.Amount = Amount{text: text}
	for _, sku := range rapid.SliceOfNDistinct(id, 1, 4, rapid.ID).Draw(t, "skus") {
		o.Lines = append(o.Lines, Line{SKU: sku, Quantity: rapid.Int64Range(1, maxQuantity).Draw(t, "quantity")})
	}
	return o
}

// spell writes an order in one of its many spellings.
func spell(t *rapid.T, o *Order) string {
	return spellObject(t, []string{
		`"event_id":` + spellString(t, o.EventID),
		spellString(t, "order_id") + ":" + spellString(t, o.OrderID),
		`"customer_id":` + spellString(t, o.CustomerID),
		`"amount":` + spellAmount(t, o.Amount),
		`"currency":` + spellString(t, o.Currency),
		`"line_items":` + spellLines(t, o.Lines),
	})
}

// spellObject orders members freely, adds an ignored one and white space.
func spellObject(t *rapid.T, members []string) string {
	if rapid.Bool().Draw(t, "ignored") {
		members = append(members, `"note":{"a":[null,1e5,"\ud800"]}`)
	}
	members = rapid.Permutation(members).Draw(t, "members")
	space := rapid.SampledFrom([]string{"", " ", "\n\t\r"}).Draw(t, "space")
	return space + "{" + space + strings.Join(members, space+","+space) + "}" + space
}

func spellString(t *rapid.T, text string) string {
	var b strings.Builder
	for _, r := range text {
		switch how := rapid.IntRange(0, 2).Draw(t, "escape"); {
		case how == 0:
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
		case how == 1:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	return `"` + b.String() + `"`
}

func spellAmount(t *rapid.T, a Amount) string {
	text := rapid.SampledFrom([]string{a.String(), a.value()}).Draw(t, "decimals")
	if zeros := rapid.SampledFrom([]string{"", "0", "000"}).Draw(t, "zeros"); strings.Contains(text, ".") {
		text += zeros
	}
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		return spellString(t, text)
	case 1:
		return text
	}
	return spellExponent(t, text)
}

// spellExponent moves the decimal point of a number without an exponent to
// where it doesn't show.
func spellExponent(t *rapid.T, text string) string {
	whole, part, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+part, "0")
	if digits == "" {
		return "0." + part + "0e7"
	}
	zeros := rapid.IntRange(0, 3).Draw(t, "more zeros")
	exponent := -len(part) - zeros
	form := rapid.SampledFrom([]string{"%s%se%d", "%s%sE%03d"}).Draw(t, "exponent")
	return fmt.Sprintf(form, digits, strings.Repeat("0", zeros), exponent)
}

// spellLines orders lines freely and splits some in two.
func spellLines(t *rapid.T, lines []Line) string {
	var items []string
	item := func(sku string, quantity int64) {
		text := fmt.Sprint(quantity)
		if rapid.Bool().Draw(t, "decimals") {
			text += ".0"
		} else if rapid.Bool().Draw(t, "exponent") {
			text = spellExponent(t, text)
		}
		items = append(items, spellObject(t, []string{`"sku":` + spellString(t, sku), `"quantity":` + text}))
	}
	for _, line := range lines {
		first := rapid.Int64Range(1, line.Quantity).Draw(t, "first")
		item(line.SKU, first)
		if first < line.Quantity {
			item(line.SKU, line.Quantity-first)
		}
	}
	return "[" + strings.Join(rapid.Permutation(items).Draw(t, "items"), ",") + "]"
}

func TestDigestIgnoresSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOrder(t)
		body := spell(t, o)
		got, err := Decode([]byte(body))
		if err != nil {
			t.Fatalf("Decode(%s): %v", body, err)
		}
		if got.EventID != o.EventID || got.OrderID != o.OrderID || got.Amount != o.Amount {
			t.Fatalf("Decode(%s) = %+v, want %+v", body, got, o)
		}
		if diff := cmp.Diff(bySKU(o.Lines), bySKU(got.Lines)); diff != "" {
			t.Fatalf("Decode(%s): lines (-want +got):\n%s", body, diff)
		}
		got.EventID += "x"
		if got.Digest() != o.Digest() || Differs(o, got) != nil {
			t.Fatalf("another digest, or %v, for %s", Differs(o, got), body)
		}
	})
}

func TestDigestChangesWithEveryValue(t *testing.T) {
	changes := map[string]func(t *rapid.T, o *Order){
		"order_id":    func(_ *rapid.T, o *Order) { o.OrderID += " " },
		"customer_id": func(_ *rapid.T, o *Order) { o.CustomerID = "x" + o.CustomerID },
		"amount":      func(_ *rapid.T, o *Order) { o.Amount.text = "1" + o.Amount.text },
		"currency":    func(_ *rapid.T, o *Order) { o.Currency = "CLP" },
		"quantity":    func(_ *rapid.T, o *Order) { o.Lines[0].Quantity++ },
		"sku":         func(_ *rapid.T, o *Order) { o.Lines[0].SKU += "é" + o.Lines[0].SKU + "é" },
		"more lines":  func(_ *rapid.T, o *Order) { o.Lines = append(o.Lines, Line{SKU: "new", Quantity: 1}) },
		"fewer lines": func(_ *rapid.T, o *Order) { o.Lines = o.Lines[1:] },
		"moved quantity": func(_ *rapid.T, o *Order) {
			o.Lines = append(o.Lines, Line{SKU: "new", Quantity: o.Lines[0].Quantity})
			o.Lines = o.Lines[1:]
		},
	}
	differs := map[string][]string{
		"order_id": nil, "customer_id": {"customer_id"}, "amount": {"amount"}, "currency": {"currency"},
	}
	for name, change := range changes {
		want, isField := differs[name]
		if !isField {
			want = []string{"line_items"}
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a := drawOrder(t)
				b := *a
				b.Lines = slices.Clone(a.Lines)
				change(t, &b)
				if a.Digest() == b.Digest() {
					t.Fatalf("one digest for %+v and %+v", a, b)
				}
				if diff := cmp.Diff(want, Differs(a, &b)); diff != "" {
					t.Fatalf("Differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDigestIsInjective(t *testing.T) {
	// Each pair has the same bytes once its texts are joined.
	pairs := [][2]string{
		{with("order_id", `"AB"`, "customer_id", `"C"`), with("order_id", `"A"`, "customer_id", `"BC"`)},
		{with("customer_id", `"C1"`, "amount", `2`), with("customer_id", `"C"`, "amount", `12`)},
		{with("line_items", `[{"sku":"A","quantity":1},{"sku":"B","quantity":1}]`), with("line_items", `[{"sku":"AB","quantity":1}]`)},
	}
	for _, pair := range pairs {
		if mustDecode(t, pair[0]).Digest() == mustDecode(t, pair[1]).Digest() {
			t.Errorf("one digest for\n%s\n%s", pair[0], pair[1])
		}
	}
}

// TestDigestStaysTheSame: digests are kept in files, so a change of the form
// needs another digestVersion and a thought for the digests that are kept.
func TestDigestStaysTheSame(t *testing.T) {
	const want = "25d1a611f2503caacf4e8762c23ef148b9bd47e15013ffaf5a29c69e4d8aa1b8"
	if got := fmt.Sprintf("%x", mustDecode(t, contractBody).Digest()); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestDigestLeavesTheLinesInTheirOrder(t *testing.T) {
	o := mustDecode(t, with("line_items", `[{"sku":"B","quantity":1},{"sku":"A","quantity":1}]`))
	o.Digest()
	if Differs(o, o) != nil || o.Lines[0].SKU != "B" {
		t.Errorf("lines %v", o.Lines)
	}
}

func TestDiffersNamesInOrder(t *testing.T) {
	a := mustDecode(t, with())
	b := mustDecode(t, with("line_items", `[{"sku":"S","quantity":2}]`, "currency", `"EUR"`, "amount", "2", "customer_id", `"D"`))
	if diff := cmp.Diff([]string{"customer_id", "amount", "currency", "line_items"}, Differs(a, b)); diff != "" {
		t.Errorf("Differs (-want +got):\n%s", diff)
	}
	yen := mustDecode(t, with("currency", `"JPY"`, "amount", "1"))
	if diff := cmp.Diff([]string{"currency"}, Differs(a, yen)); diff != "" {
		t.Errorf("1.00 and 1 are one value (-want +got):\n%s", diff)
	}
	if a.Digest() == yen.Digest() {
		t.Error("one digest for two currencies")
	}
}
