package store

import (
	"strings"
	"testing"
)

// Two different lists of parts never give one key, whatever stands in them, and one key always gives the
// same text.
func FuzzKeyIsInjective(f *testing.F) {
	for _, seed := range [][4]string{
		{"ORD-1", "SKU-9", "ORD-1:SKU", "9"}, {"a:b", "c", "a", "b:c"}, {"a%3Ab", "c", "a:b", "c"}, {"a%", "3Ab", "a", "%3Ab"},
		{"", "a", "a", ""}, {":", "", "", ":"}, {"%25", "%", "%", "%25"}, {"\xff", "\x00", "\x00", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, order, sku, otherOrder, otherSKU string) {
		same := order == otherOrder && sku == otherSKU
		for _, kind := range []string{LedgerInventory, LedgerRelease} {
			if (Key(kind, order, sku) == Key(kind, otherOrder, otherSKU)) != same {
				t.Fatalf("%q of (%q, %q) and (%q, %q)", Key(kind, order, sku), order, sku, otherOrder, otherSKU)
			}
		}
		keys := []string{Key(LedgerRefund, order), Key(LedgerInventory, order, sku), Key(LedgerRelease, order, sku)}
		for i, k := range keys {
			for j, other := range keys {
				if i != j && k == other {
					t.Fatalf("two effects share %q", k)
				}
			}
			prefix, rest, _ := strings.Cut(k, ":")
			if prefix == LedgerRefund && strings.Contains(rest, ":") {
				t.Fatalf("%q holds a colon of the order's own", k)
			}
		}
	})
}
