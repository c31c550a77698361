package store

import (
	"crypto/rand"
	"sync"
	"time"
)

// BootClock tells which boot of the machine this is and how long it has been up, in milliseconds, time
// asleep included. Two readings of one boot give an age that no wall clock can falsify. "" means that
// the machine can't tell, and no age can be proven.
type BootClock func() (boot string, ms int64)

// Boot reads the clock by which the ages of this file are told.
func (db *DB) Boot() (boot string, ms int64) { return db.opt.Boot() }

// ageSince is how old something is that happened at ms of boot; false when that can't be proven.
func (tx *Tx) ageSince(boot string, ms int64) (age int64, proven bool) {
	now, nowMS := tx.boot()
	if boot == "" || boot != now || nowMS < ms {
		return 0, false
	}
	return nowMS - ms, true
}

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
