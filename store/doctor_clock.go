package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// The newest time that any row carries. Rows are not ordered by time, so every table is looked through.
const sqlNewest = `SELECT max(t) FROM (SELECT max(received_at) AS t FROM events UNION ALL SELECT max(decided_at) FROM orders ` +
	`UNION ALL SELECT max(created_at) FROM outbox UNION ALL SELECT max(processed_at) FROM outbox ` +
	`UNION ALL SELECT max(created_at) FROM ledger UNION ALL SELECT max(occurred_at) FROM external_effects_log ` +
	`UNION ALL SELECT max(at) FROM operator_log UNION ALL SELECT max(last_pass_at) FROM relays)`

// clockSlack is how far ahead a row may be that another process writes while this one looks.
const clockSlack = 2 * time.Second

func (db *DB) lookAtClock(ctx context.Context) []Check {
	now := db.opt.Now()
	return []Check{
		judgeClock(ClockSynchronised()),
		db.ask(ctx, "clock against the newest row", sqlNewest, func(a Answer, c *Check) {
			newest, err := strconv.ParseInt(a.first(), 10, 64)
			if err != nil {
				c.Answer = "no row yet"
				return
			}
			c.Answer = time.UnixMilli(newest).UTC().Format("2006-01-02T15:04:05.000Z")
			if ahead := time.UnixMilli(newest).Sub(now); ahead > clockSlack {
				c.Level = LevelWarning
				c.Detail = fmt.Sprintf("the clock stands %s before it: set the clock; no ticket waits for that", ahead.Round(time.Second))
			}
		}),
		db.ask(ctx, "times the clock was set", sqlClockSet, func(a Answer, c *Check) {
			if c.Answer = a.first(); c.Answer != "0" {
				c.Detail = fmt.Sprintf("last at place %v of the sequence: %v", a.Rows[0][1], a.Rows[0][2])
			}
		}),
	}
}

// What followClock has noted.
const sqlClockSet = `SELECT count(*), coalesce(max(seq), 0), coalesce((SELECT detail FROM operator_log WHERE who = '` + clockWho + `' ORDER BY id DESC LIMIT 1), '') ` +
	`FROM operator_log WHERE who = '` + clockWho + `'`

func judgeClock(synchronised bool, err error) Check {
	c := Check{Name: "clock", Level: LevelOK, Answer: "synchronised"}
	switch {
	case err != nil:
		c.Level, c.Answer = LevelWarning, "it can't be told whether it is synchronised: "+err.Error()
	case !synchronised:
		c.Level, c.Answer, c.Detail = LevelWarning, "not synchronised", "times in the file may be wrong; the order of things is not: it does not come from the clock"
	}
	return c
}
