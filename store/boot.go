package store

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
