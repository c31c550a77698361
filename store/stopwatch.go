package store

import (
	"crypto/rand"
	"sync"
	"time"
)

// processName tells this process from every other one.
var processName = sync.OnceValue(func() string { return "process " + rand.Text() })

// stopwatch is a clock that nobody sets, and a name of what it counts from, which is never "": the start of the machine,
// or of this process where the machine can't tell. What was measured from somewhere else can't be compared.
func (tx *Tx) stopwatch() (from string, ms int64) {
	if boot, ms := tx.boot(); boot != "" {
		return boot, ms
	}
	return processName(), time.Since(processBegan).Milliseconds()
}
