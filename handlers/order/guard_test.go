package order

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestAnOrderDoesNotKeepItsBody: orders may be held on to, bodies of 1 MiB not.
func TestAnOrderDoesNotKeepItsBody(t *testing.T) {
	const n = 64
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	body := with() + strings.Repeat(" ", 1<<20)
	orders := make([]*Order, 0, n)
	before := heap()
	for range n {
		orders = append(orders, mustDecode(t, body))
	}
	if after := heap(); after > before+n<<20/2 {
		t.Errorf("%d orders keep %d bytes", n, after-before)
	}
	runtime.KeepAlive(orders)
}

// TestNoFloatNoEncodingJSON reads the package's own source: no amount can pass
// through a float where there is none.
func TestNoFloatNoEncodingJSON(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"float32", "float64", "ParseFloat", `"encoding/json"`, `"comanda/`} {
			if strings.Contains(string(source), word) {
				t.Errorf("%s holds %s", name, word)
			}
		}
	}
}
