package order

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bojanz/currency"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is Schema as a validator reads it, with the metaschema's own checks.
var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://comanda.invalid/schemas/order.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("https://comanda.invalid/schemas/order.json")
})

// beyondSchema are the faults of an order that the schema can't tell of, by words of their detail and an example.
var beyondSchema = map[string]string{
	"must have no digits beyond":               with("amount", "0.001"), // of a JSON number
	"must not be negative":                     with("amount", "-0"),
	"must be valid Unicode":                    with("event_id", `"\ud800"`),
	"must not bring the sum of its sku beyond": with("line_items", `[{"sku":"S","quantity":1000000000},{"sku":"S","quantity":1}]`),
}

// hugeExponent is what the validator's own arithmetic does not take; beyond largeBody it takes its time.
var hugeExponent = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{7}`)

const largeBody = 128 << 10

// fitsSchema asks the schema; asked is false for a body that is no document to begin with.
func fitsSchema(t testing.TB, body string) (fits, asked bool) {
	t.Helper()
	s, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil || len(body) > largeBody || hugeExponent.MatchString(body) {
		return false, false
	}
	return s.Validate(doc) == nil, true
}

// wantSchema checks that the schema says the same of a body as Decode: p is nil for one that was taken. Every body
// that the tests of this package decode goes through here.
func wantSchema(t testing.TB, body string, p *Problem) {
	t.Helper()
	fits, asked := fitsSchema(t, body)
	switch {
	case !asked:
	case p == nil && !fits:
		t.Errorf("the schema refuses what Decode takes: %.300q", body)
	case p != nil && p.Type == "invalid-order" && fits && slices.ContainsFunc(p.Faults, saidBySchema):
		t.Errorf("the schema takes what Decode refuses with %v: %.300q", p, body)
	}
}

func saidBySchema(f Fault) bool {
	for words := range beyondSchema {
		if strings.Contains(f.Detail, words) {
			return false
		}
	}
	return true
}

// What is called beyond the schema is refused by Decode for that fault, and by the schema not at all.
func TestSchemaSaysWhatItCannot(t *testing.T) {
	for words, body := range beyondSchema {
		p := problemOf(t, body)
		if !strings.Contains(p.Error(), words) {
			t.Errorf("%s is refused with %v, not with %q", body, p, words)
		}
		if fits, asked := fitsSchema(t, body); !fits || !asked {
			t.Errorf("the schema refuses %s: take %q off the list", body, words)
		}
	}
}

// What no table of the decoder has apart: keys in another case, a line that lacks one thing, and amounts as strings.
func TestSchemaRefuses(t *testing.T) {
	for _, body := range []string{
		strings.Replace(contractBody, `"event_id"`, `"Event_ID":1,"event_id"`, 1),
		strings.Replace(contractBody, `"line_items"`, `"line_item\u017f":1,"line_items"`, 1),
		strings.Replace(contractBody, `"sku"`, `"S\u212aU":1,"sku"`, 1),
		with("line_items", `[{"sku":"S"}]`), with("line_items", `[{"quantity":1}]`),
		with("amount", "-1"), with("amount", `"-0"`), with("amount", `"0.001"`), with("amount", `"1.1"`, "currency", `"JPY"`), with("amount", `"1.0001"`, "currency", `"KWD"`),
	} {
		if fits, asked := fitsSchema(t, body); fits || !asked {
			t.Errorf("the schema takes %s", body)
		}
		problemOf(t, body)
	}
}

// The schema knows every currency with its decimals, and no other.
func TestSchemaKnowsTheCurrencies(t *testing.T) {
	for _, code := range currency.GetCurrencyCodes() {
		digits, _ := currency.GetDigits(code)
		fits := func(decimals int) bool {
			fits, _ := fitsSchema(t, with("currency", `"`+code+`"`, "amount", `"1.`+strings.Repeat("1", decimals)+`0"`))
			return fits
		}
		if !fits(int(digits)) || fits(int(digits)+1) {
			t.Errorf("%s does not have %d decimals in the schema", code, digits)
		}
	}
	s, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	if n, m := len(s.Properties["currency"].Ref.Enum.Values), len(currency.GetCurrencyCodes()); n != m {
		t.Errorf("the schema knows %d currencies, Decode %d", n, m)
	}
}
