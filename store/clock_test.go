package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waitAll claims what is due and has each ticket wait for so long.
func waitAll(t *testing.T, db *DB, d time.Duration) {
	t.Helper()
	c := claim(t, db, ClaimRequest{Limit: 100})
	update(t, db, func(tx *Tx) error {
		for _, id := range idsOf(c.Tickets) {
			if ok, err := tx.Retry(c.Token, id, d.Milliseconds(), "later"); err != nil || !ok {
				return fmt.Errorf("retry %d: %t, %w", id, ok, err)
			}
		}
		return nil
	})
}

// A clock that is set, by a year, from 1970, or back by two hours, ends no wait and lengthens none: what was due is
// due, what waits waits for as long as it was to, and the log says where the times changed.
func TestWaitsOutlastAClockThatIsSet(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from time.Time
		step time.Duration
		says string
	}{
		{time.Unix(40, 0), now.Sub(time.Unix(40, 0)), "forward by 20970 days"}, {now, year, "forward by 365 days"}, {now, -year, "back by 365 days"},
		{now, -2 * time.Hour, "back by 2h0m0s"}, {now, 90 * time.Second, "forward by 1m30s"},
	} {
		t.Run(c.says, func(t *testing.T) {
			m := &machine{c.from, "boot 1", 40_000}
			db := open(t, newPath(t), m.options())
			markRefund(t, db)
			put(t, db, TicketInventorySync, 50)
			waitAll(t, db, 6*time.Hour)
			due := put(t, db, TicketInventorySync, 3)
			waitAll(t, db, time.Second)
			m.pass(2 * time.Second) // over before the step
			update(t, db, func(tx *Tx) error { return tx.HoldTarget(LedgerRefund, (5 * time.Hour).Milliseconds()) })
			put(t, db, TicketIssueRefund, 1)
			claimed := func(target string) int {
				t.Helper()
				r := ClaimRequest{Limit: 100, Target: target, TargetOf: targetOf}
				dueNow := view(t, db, func(tx *Tx) (bool, error) { now, _, halted, err := tx.Due(r); return now && halted == "", err })
				n := len(claim(t, db, r).Tickets)
				if dueNow != (n > 0) {
					t.Errorf("a look says due=%t, the claim found %d", dueNow, n)
				}
				return n
			}
			m.wall = m.wall.Add(c.step)
			if n := claimed(LedgerRefund); n != 0 {
				t.Errorf("a hold was over with the step")
			}
			wantIDs(t, "due after the step", claim(t, db, ClaimRequest{Limit: 100, TargetOf: targetOf}).Tickets, due...)
			m.pass(5*time.Hour - time.Minute)
			if n := claimed("") + claimed(LedgerRefund); n != 0 {
				t.Errorf("%d claimed before their time", n)
			}
			m.pass(time.Minute)
			if n := claimed(LedgerRefund); n != 1 {
				t.Errorf("%d claimed when the hold was over", n)
			}
			m.pass(time.Hour)
			if n := claimed(""); n != 50 {
				t.Errorf("%d claimed when the wait was over, want 50", n)
			}
			says := text(t, db, `SELECT group_concat(detail) FROM operator_log WHERE who = 'clock'`)
			if !strings.HasPrefix(says, c.says+"; ") || strings.Contains(says, ",") {
				t.Errorf("the log says %q", says)
			}
		})
	}
}

// Two processes see the same step, and the waits follow it once.
func TestStepIsFollowedOnce(t *testing.T) {
	m := newMachine()
	path := newPath(t)
	db, other := open(t, path, m.options()), open(t, path, m.options())
	put(t, db, TicketInventorySync, 1)
	waitAll(t, db, time.Hour)
	m.wall = m.wall.Add(-3 * time.Hour)
	claim(t, db, ClaimRequest{})
	claim(t, other, ClaimRequest{})
	claim(t, db, ClaimRequest{})
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE who = 'clock'`)
	wantNumber(t, db, m.wall.Add(time.Hour).UnixMilli(), `SELECT due_at FROM outbox`)
}

// After another boot nobody knows what the clock did in between: what waits goes by the wall clock, a day at most.
func TestWaitsAfterABoot(t *testing.T) {
	m := newMachine()
	db := open(t, newPath(t), m.options())
	ids := put(t, db, TicketInventorySync, 1)
	waitAll(t, db, time.Hour)
	m.boot, m.bootMS = "boot 2", 0
	m.wall = m.wall.Add(-12 * time.Hour)
	wantIDs(t, "set back in between", claim(t, db, ClaimRequest{}).Tickets)
	m.pass(13*time.Hour + time.Second)
	wantIDs(t, "after that", claim(t, db, ClaimRequest{}).Tickets, ids...)
	wantNumber(t, db, 0, `SELECT count(*) FROM operator_log WHERE who = 'clock'`)
	mustExec(t, raw(t, db.Path()), `UPDATE outbox SET status = 'pending', claim_token = NULL, lease_holder = NULL, lease_ms = NULL, due_at = 9223372036854775807`)
	m.wall = m.wall.Add(time.Hour)
	wantIDs(t, "what no clock can have meant is no obstacle to the step", claim(t, db, ClaimRequest{}).Tickets, ids...)
}

// A clock that goes back between any two things changes nothing in their order.
func TestStoryUnderAClockThatGoesBack(t *testing.T) {
	m := newMachine()
	opt := m.options()
	opt.Now = func() time.Time { m.wall = m.wall.Add(-time.Hour); return m.wall }
	db := open(t, newPath(t), opt)
	ids := put(t, db, TicketIssueRefund, 3)
	waitAll(t, db, 0)
	order := text(t, db, `SELECT aggregate_id FROM outbox WHERE id = $1`, ids[0])
	c := claim(t, db, ClaimRequest{Limit: 100})
	wantIDs(t, "claimed", c.Tickets, ids...)
	settleAll(t, db, c, c.Tickets...)
	s := view(t, db, func(tx *Tx) (Story, error) { return tx.Story(order) })
	var kinds []string
	for i, moment := range s.Timeline {
		kinds = append(kinds, moment.Kind)
		if i > 0 && (moment.Seq < s.Timeline[i-1].Seq || moment.At > s.Timeline[i-1].At) {
			t.Errorf("%+v comes after %+v", moment, s.Timeline[i-1])
		}
	}
	if got := strings.Join(kinds, " "); got != "ticket attempt claimed effect ledger done" {
		t.Errorf("the story is %s", got)
	}
}

// text is number for an answer that is text.
func text(t testing.TB, db *DB, query string, args ...any) string {
	t.Helper()
	return view(t, db, func(tx *Tx) (s string, err error) {
		_, err = tx.find(query, args, &s)
		return s, err
	})
}
