package e2e

import (
	"fmt"
	"slices"
	"time"

	"comanda/store"
)

// syncReport is the middle and the end of what syncs took, of which there is at least one.
func syncReport(all []time.Duration) SyncReport {
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100] }
	return SyncReport{Times: len(all), Median: at(50), P99: at(99), TooFast: store.TooFast(at(50))}
}

// short is a duration in the largest unit that fits, with a decimal below ten: "4.1 ms", "31 ms", "120 µs".
func short(d time.Duration) string {
	unit, name := time.Microsecond, "µs"
	switch {
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	}
	n := float64(d) / float64(unit)
	if n < 10 {
		return fmt.Sprintf("%.1f %s", n, name)
	}
	return fmt.Sprintf("%.0f %s", n, name)
}

// size is a number of bytes as a person reads it.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
