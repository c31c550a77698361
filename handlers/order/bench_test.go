package order

import (
	"strings"
	"testing"
)

const threeLines = `{"event_id":"EVT-1","order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN",
 "line_items":[{"sku":"CF-ARA-500","quantity":12},{"sku":"CF-ROB-250","quantity":3},{"sku":"FILTER-02","quantity":100}],
 "source":{"shop":"centro","device":"till-3"}}`

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{
		"3 lines":     threeLines,
		"1,000 lines": with("line_items", "["+strings.TrimSuffix(strings.Repeat(`{"sku":"CF-ARA-500","quantity":12},`, 1000), ",")+"]"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			raw := []byte(body)
			for b.Loop() {
				if _, err := Decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	o := mustDecode(b, threeLines)
	b.ReportAllocs()
	for b.Loop() {
		o.Digest()
	}
}

// TestDecodeAllocatesLittle keeps the hot path from growing unseen.
func TestDecodeAllocatesLittle(t *testing.T) {
	raw := []byte(threeLines)
	if n := testing.AllocsPerRun(100, func() { _, _ = Decode(raw) }); n > 40 {
		t.Errorf("%v allocations for an order of three lines, want 40 at most", n)
	}
}
