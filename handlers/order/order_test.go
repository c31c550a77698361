package order

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contractBody is the example of the contract, byte for byte.
const contractBody = `{"event_id":"EVT-1","order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN",
 "line_items":[{"sku":"CF-ARA-500","quantity":12}]}`

// good are the fields of an order that is fine, as JSON texts.
var good = map[string]string{
	"event_id":    `"E"`,
	"order_id":    `"O"`,
	"customer_id": `"C"`,
	"amount":      `1.00`,
	"currency":    `"MXN"`,
	"line_items":  `[{"sku":"S","quantity":1}]`,
}

// with returns a good order with some fields set to other JSON texts, given as
// name, text, name, text …; the text "-" leaves the field out.
func with(changes ...string) string {
	texts := make(map[string]string, len(good))
	for name, text := range good {
		texts[name] = text
	}
	for i := 0; i < len(changes); i += 2 {
		texts[changes[i]] = changes[i+1]
	}
	var members []string
	for _, name := range orderNames {
		if texts[name] != "-" {
			members = append(members, fmt.Sprintf("%q:%s", name, texts[name]))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// withQuantity returns a good order of one line with the given quantity.
func withQuantity(text string) string {
	return with("line_items", `[{"sku":"S","quantity":`+text+`}]`)
}

func mustDecode(t testing.TB, body string) *Order {
	t.Helper()
	o, err := Decode([]byte(body))
	if err != nil {
		t.Fatalf("Decode(%.300q): %v", body, err)
	}
	wantSchema(t, body, nil)
	return o
}

// problemOf decodes a body that must be refused.
func problemOf(t testing.TB, body string) *Problem {
	t.Helper()
	o, err := Decode([]byte(body))
	var p *Problem
	if !errors.As(err, &p) {
		t.Fatalf("Decode(%.300q) = %+v, %v; want a *Problem", body, o, err)
	}
	if o != nil {
		t.Fatalf("Decode(%.300q) returned an order together with %v", body, err)
	}
	wantSchema(t, body, p)
	return p
}

// pointersOf decodes a body that must be an invalid order.
func pointersOf(t testing.TB, body string) []string {
	t.Helper()
	p := problemOf(t, body)
	if p.Type != "invalid-order" || len(p.Faults) == 0 {
		t.Fatalf("Decode(%.300q): %v with %d faults, want an invalid-order", body, p, len(p.Faults))
	}
	var pointers []string
	for _, f := range p.Faults {
		if f.Detail == "" {
			t.Errorf("the fault at %q has no detail", f.Pointer)
		}
		pointers = append(pointers, f.Pointer)
	}
	return pointers
}

func wantPointers(t testing.TB, body string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, pointersOf(t, body)); diff != "" {
		t.Errorf("Decode(%.300q): pointers (-want +got):\n%s", body, diff)
	}
}

func TestContractExample(t *testing.T) {
	want := &Order{
		EventID: "EVT-1", OrderID: "ORD-2041", CustomerID: "CUS-7",
		Amount: Amount{text: "2154.00"}, Currency: "MXN",
		Lines:    []Line{{SKU: "CF-ARA-500", Quantity: 12}},
		RawLines: 1,
	}
	got := mustDecode(t, contractBody)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Amount{})); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestLinesOfOneSKUAreSummed(t *testing.T) {
	o := mustDecode(t, with("line_items",
		`[{"sku":"A","quantity":2},{"sku":"B","quantity":1},{"quantity":1.0,"sku":"\u0041"}]`))
	want := []Line{{SKU: "A", Quantity: 3}, {SKU: "B", Quantity: 1}}
	if diff := cmp.Diff(want, o.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if o.RawLines != 3 {
		t.Errorf("RawLines = %d, want 3", o.RawLines)
	}
}

func TestSumOfASKUIsBounded(t *testing.T) {
	const half = `{"sku":"A","quantity":500000000}`
	const one = `{"sku":"A","quantity":1}`
	mustDecode(t, with("line_items", "["+half+","+half+"]"))
	mustDecode(t, with("line_items", "["+half+","+half+`,{"sku":"B","quantity":1000000000}]`))
	// The fault is at the line that goes beyond, and only there.
	wantPointers(t, with("line_items", "["+half+","+half+","+one+","+one+"]"), "/line_items/2/quantity")
}

func TestALineWithAFaultIsInNoSum(t *testing.T) {
	const nameless = `{"sku":"","quantity":1000000000}`
	wantPointers(t, with("line_items", "["+nameless+","+nameless+"]"), "/line_items/0/sku", "/line_items/1/sku")
}

func TestLinesAreCounted(t *testing.T) {
	lines := func(n int) string {
		return with("line_items", "["+strings.TrimSuffix(strings.Repeat(`{"sku":"A","quantity":1},`, n), ",")+"]")
	}
	if o := mustDecode(t, lines(1000)); o.RawLines != 1000 || o.Lines[0].Quantity != 1000 {
		t.Errorf("1,000 lines became %+v", o)
	}
	wantPointers(t, lines(0), "/line_items")
	wantPointers(t, lines(1001), "/line_items")
	// What lies beyond the bound is counted, not kept.
	wantPointers(t, strings.Replace(lines(2000), "}]}", `},{"sku":7}]}`, 1), "/line_items")
}

func TestIllTypedFieldsAreFaults(t *testing.T) {
	values := map[kind]string{
		kindMissing: "-", kindNull: "null", kindBool: "true", kindNumber: "0",
		kindString: `"x"`, kindArray: "[]", kindObject: "{}",
	}
	for _, name := range orderNames {
		for k, text := range values {
			if k == kindString && strings.HasSuffix(name, "_id") || k == kindNumber && name == "amount" {
				continue // that is what the field must be
			}
			t.Run(fmt.Sprintf("%s %s", name, text), func(t *testing.T) {
				body := with(name, text)
				wantPointers(t, body, "/"+name)
				detail := problemOf(t, body).Faults[0].Detail
				if (k == kindMissing) != (detail == "is required") {
					t.Errorf("detail %q", detail)
				}
			})
		}
	}
}

func TestIllTypedLinesAreFaults(t *testing.T) {
	for item, want := range map[string][]string{
		`1`:                            {"/line_items/0"},
		`null`:                         {"/line_items/0"},
		`"S"`:                          {"/line_items/0"},
		`[{}]`:                         {"/line_items/0"},
		`{}`:                           {"/line_items/0/sku", "/line_items/0/quantity"},
		`{"sku":null,"quantity":null}`: {"/line_items/0/sku", "/line_items/0/quantity"},
		`{"sku":7,"quantity":"12"}`:    {"/line_items/0/sku", "/line_items/0/quantity"},
		`{"sku":"","quantity":1}`:      {"/line_items/0/sku"},
		`{"sku":"S"},{"quantity":1}`:   {"/line_items/0/quantity", "/line_items/1/sku"},
		`{"line_items":{"sku":"S","quantity":1}}`: {"/line_items/0/sku", "/line_items/0/quantity"},
	} {
		wantPointers(t, with("line_items", "["+item+"]"), want...)
	}
}

func TestTopLevelMustBeAnObject(t *testing.T) {
	for _, body := range []string{`[]`, `null`, `"x"`, `1`, `true`, "[" + contractBody + "]"} {
		wantPointers(t, body, "")
	}
}

func TestAllFaultsComeAtOnceInTheContractsOrder(t *testing.T) {
	wantPointers(t, `{}`, "/event_id", "/order_id", "/customer_id", "/amount", "/currency", "/line_items")
	wantPointers(t, `{"line_items":[{"quantity":0}],"currency":"mxn","amount":-1,"event_id":" "}`,
		"/event_id", "/order_id", "/customer_id", "/amount", "/currency", "/line_items/0/sku", "/line_items/0/quantity")
}

func TestFaultsAreBounded(t *testing.T) {
	items := "[" + strings.TrimSuffix(strings.Repeat("{},", 700), ",") + "]"
	p := problemOf(t, with("line_items", items))
	if len(p.Faults) != 100 || p.Faults[99].Pointer != "/line_items/49/quantity" {
		t.Errorf("%d faults, the last at %s", len(p.Faults), p.Faults[len(p.Faults)-1].Pointer)
	}
	if !strings.HasSuffix(p.Error(), "and 1399 more faults") {
		t.Errorf("Error() = %q", p.Error())
	}
}

func TestIDs(t *testing.T) {
	long := strings.Repeat("€", 100)
	for text, want := range map[string]string{
		`"9007199254740993"`:    "9007199254740993",
		`"3544790567247868102"`: "3544790567247868102",
		`" a "`:                 " a ",
		`"` + long + `"`:        long,
		`"\ud83d\ude00"`:        "😀",
		`"𐍈"`:                   "𐍈",
		`"شكرا \u200f\u202e"`:   "شكرا \u200f\u202e",
		`"e\u0301"`:             "e\u0301", // never normalised to é
		"\"\uFFFD\uFEFF\"":      "\uFFFD\uFEFF",
		`"\ufffd\ufeff"`:        "\ufffd\ufeff",
		`"\"\\\/%:~"`:           `"\/%:~`,
		`"<script>"`:            "<script>",
	} {
		for _, name := range []string{"event_id", "order_id", "customer_id"} {
			o := mustDecode(t, with(name, text))
			got := map[string]string{"event_id": o.EventID, "order_id": o.OrderID, "customer_id": o.CustomerID}[name]
			if got != want {
				t.Errorf("%s %s became %q, want %q", name, text, got, want)
			}
		}
		o := mustDecode(t, with("line_items", `[{"sku":`+text+`,"quantity":1}]`))
		if o.Lines[0].SKU != want {
			t.Errorf("sku %s became %q, want %q", text, o.Lines[0].SKU, want)
		}
	}
}

func TestIDsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		`""`, `" "`, `"\t"`, `"\u3000\u00a0\u2028 "`, // nothing to see
		`"a\u0000"`, `"\n"`, `"\u007f"`, `"\u0085"`, `"\u009f"`, // category Cc
		`"\ud800"`, `"\udc00"`, `"a\ude00\ud83d"`, `"\ud800\u0041"`, `"\ud800\ud800\udc00"`, // lone surrogates
		`"` + strings.Repeat("é", 101) + `"`, `"` + strings.Repeat("x", 65_000) + `"`,
		`0`, `12`, `null`, `-`,
	} {
		wantPointers(t, with("event_id", text), "/event_id")
		wantPointers(t, with("order_id", text), "/order_id")
		wantPointers(t, with("customer_id", text), "/customer_id")
		if text != "-" {
			wantPointers(t, with("line_items", `[{"sku":`+text+`,"quantity":1}]`), "/line_items/0/sku")
		}
	}
}

func TestCheckID(t *testing.T) {
	if got := CheckID("customer id", "CUS-7"); got != "" {
		t.Errorf("a good id: %q", got)
	}
	for id, want := range map[string]string{
		"":                       "customer id must not be empty",
		"\t":                     "customer id must not hold control characters",
		"\u2003":                 "customer id must not be only white space",
		"\xff":                   "customer id must be valid Unicode, without half of a surrogate pair",
		strings.Repeat("x", 101): "customer id must have at most 100 characters",
	} {
		if got := CheckID("customer id", id); got != want {
			t.Errorf("CheckID(%.20q) = %q, want %q", id, got, want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]int64{
		`1`: 1, `12`: 12, `12.0`: 12, `1.2e1`: 12, `1.2E+1`: 12, `120e-1`: 12, `0.12e2`: 12, `12.000000000000000000000`: 12,
		`1000000000`: 1_000_000_000, `1e9`: 1_000_000_000, `0.000001e15`: 1_000_000_000, `999999999.0`: 999_999_999,
		`1` + strings.Repeat("0", 5000) + `e-5000`: 1,
	} {
		o := mustDecode(t, withQuantity(text))
		if o.Lines[0].Quantity != want {
			t.Errorf("quantity %.40s became %d, want %d", text, o.Lines[0].Quantity, want)
		}
	}
	for _, text := range []string{
		`0`, `-0`, `0.0`, `-1`, `-1e9`, `0.5`, `1.5`, `12.01`, `1e-1`, `1e-400`, `999999999.5`, `1.0000000000000000000000001`,
		`1000000001`, `1e10`, `9999999999`, `1e400`, `18446744073709551617`, `1e99999999999999999999`, `1e-99999999999999999999`,
		`"12"`, `"1"`, `null`, `true`, `[1]`, `{}`,
	} {
		wantPointers(t, withQuantity(text), "/line_items/0/quantity")
	}
}

func TestCurrencies(t *testing.T) {
	for code, amount := range map[string]string{"MXN": "5.00", "JPY": "5", "KWD": "5.000", "CLF": "5.0000", "EUR": "5.00"} {
		o := mustDecode(t, with("currency", `"`+code+`"`, "amount", "5"))
		if o.Currency != code || o.Amount.String() != amount {
			t.Errorf("%s: %s %s, want %s", code, o.Amount, o.Currency, amount)
		}
	}
	for _, text := range []string{`""`, `"mxn"`, `"MXN "`, `"XAU"`, `"XTS"`, `"XXX"`, `"DEM"`, `"484"`, `"\ud800"`} {
		wantPointers(t, with("currency", text), "/currency")
		// The form and the range of the amount are checked all the same.
		wantPointers(t, with("currency", text, "amount", "1.2345"), "/currency")
		wantPointers(t, with("currency", text, "amount", `" 1"`), "/amount", "/currency")
		wantPointers(t, with("currency", text, "amount", "1e15"), "/amount", "/currency")
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	body := strings.Replace(contractBody, "{", `{"note":{"SKU":1,"Amount":"x","deep":[[{"Event_ID":null}]],"line_items":[{"sku":"X","quantity":1}]},"sku":"\ud800","":[],`, 1)
	body = strings.Replace(body, `"sku":"CF`, `"Amount":"\ud800","EVENT_ID":[],"sku":"CF`, 1)
	if diff := cmp.Diff(mustDecode(t, contractBody), mustDecode(t, body), cmp.AllowUnexported(Amount{})); diff != "" {
		t.Errorf("unknown fields changed the order (-without +with):\n%s", diff)
	}
}

func TestTheOrderSharesNoMemoryWithTheBody(t *testing.T) {
	body := []byte(contractBody)
	o, err := Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	before := o.Digest()
	clear(body)
	if o.Digest() != before {
		t.Error("the order changed with the body's bytes")
	}
}
