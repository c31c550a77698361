package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// void is the lease of a claim whose holder died while it carried some tickets out.
func void(c Claim, holder string, begun ...int64) []VoidLease {
	return []VoidLease{{Token: c.Token, Holder: holder, Dead: true, Begun: begun}}
}

func TestClaimGoesById(t *testing.T) {
	db := openNew(t)
	a := put(t, db, TicketInventorySync, 2)
	b := put(t, db, TicketIssueRefund, 2)
	c := put(t, db, "a_new_effect", 1)
	d := put(t, db, TicketInventorySync, 2)
	all := slices.Concat(a, b, c, d)
	for i, limit := range []int{1, 3, 3} {
		got := claim(t, db, ClaimRequest{Limit: limit})
		wantIDs(t, fmt.Sprintf("claim %d", i), got.Tickets, all[:limit]...)
		all = all[limit:]
		for _, one := range got.Tickets {
			if one.Status != "processing" || one.Attempts != 1 || *one.ClaimToken != got.Token || *one.LeaseHolder != "tester" || *one.LeaseMS != 60000 {
				t.Errorf("a claimed ticket is %+v", one)
			}
		}
	}
	wantIDs(t, "nothing is left", claim(t, db, ClaimRequest{}).Tickets)
	if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.InsertTicket(NewTicket{Payload: "{}"}); return err }); err == nil {
		t.Error("a ticket of nothing was taken")
	}
}

// Claim answers with what is on disk: 'processing' is visible to others before it returns.
func TestClaimIsCommitted(t *testing.T) {
	path := newPath(t)
	db, other := open(t, path, Options{}), open(t, path, Options{})
	put(t, db, TicketIssueRefund, 1)
	c := claim(t, db, ClaimRequest{})
	wantNumber(t, other, 1, `SELECT count(*) FROM outbox WHERE status = 'processing' AND claim_token = $1`, c.Token)
}

// noBoot is a machine that has only a wall clock.
func noBoot() (string, int64) { return "", 0 }

// What waits is not due before its time; what would wait longer than the longest wait is due now: a
// clock was wrong when that was written.
func TestDueRules(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	db := open(t, newPath(t), Options{Now: func() time.Time { return now }, Boot: noBoot})
	ids := put(t, db, TicketIssueRefund, 7)
	day := LongestWait.Milliseconds()
	first := claim(t, db, ClaimRequest{})
	waits := []int64{0, 1, day - 1, day, day + 1, 1 << 60, -5} // Retry itself never waits longer than a day
	update(t, db, func(tx *Tx) error {
		for i, id := range ids {
			if ok, err := tx.Retry(first.Token, id, waits[i], "later"); err != nil || !ok {
				return fmt.Errorf("retry %d: %t, %w", id, ok, err)
			}
		}
		return nil
	})
	wantIDs(t, "at once", claim(t, db, ClaimRequest{}).Tickets, ids[0], ids[6])
	now = now.Add(time.Millisecond)
	wantIDs(t, "a millisecond later", claim(t, db, ClaimRequest{}).Tickets, ids[1])
	now = now.Add(LongestWait - 2*time.Millisecond)
	wantIDs(t, "a day less a millisecond later", claim(t, db, ClaimRequest{}).Tickets, ids[2])
	now = now.Add(-2 * LongestWait)
	wantIDs(t, "after the clock was set back by two days", claim(t, db, ClaimRequest{}).Tickets, ids[3], ids[4], ids[5])
	wantNumber(t, db, 7, `SELECT count(*) FROM attempts WHERE outcome = 'failed' AND detail = 'later'`)
	wantNumber(t, db, 7, `SELECT sum(failures) FROM outbox`)
}

// New tickets and those whose wait is over are claimed by id, however long they waited.
func TestDelayedAndNewGoById(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	db := open(t, newPath(t), Options{Now: func() time.Time { return now }, Boot: noBoot})
	old := put(t, db, TicketIssueRefund, 2)
	c := claim(t, db, ClaimRequest{})
	update(t, db, func(tx *Tx) error {
		_, err := tx.Retry(c.Token, old[0], 2000, "")
		_, err2 := tx.Retry(c.Token, old[1], 1000, "")
		return errors.Join(err, err2)
	})
	fresh := put(t, db, TicketInventorySync, 1)
	now = now.Add(3 * time.Second)
	wantIDs(t, "by id", claim(t, db, ClaimRequest{Limit: 2}).Tickets, old...)
	wantIDs(t, "and then", claim(t, db, ClaimRequest{}).Tickets, fresh...)
}

func TestPausedClaimsNothing(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 1)
	dead := claim(t, db, ClaimRequest{})
	update(t, db, func(tx *Tx) error { return tx.Pause(true, "tester") })
	c := claim(t, db, ClaimRequest{Void: void(dead, "tester")})
	if !c.Paused || len(c.Tickets) != 0 || c.Freed != 1 {
		t.Errorf("a paused claim is %+v, want nothing but a freed ticket", c)
	}
	update(t, db, func(tx *Tx) error { return errors.Join(tx.Pause(false, "tester"), tx.Pause(false, "tester")) })
	wantIDs(t, "resumed", claim(t, db, ClaimRequest{}).Tickets, ids...)
	wantNumber(t, db, 2, `SELECT count(*) FROM operator_log WHERE action LIKE 'relay %'`)
}

// A crash is charged to the ticket that was begun and to no other; after two it goes alone, and after
// five it waits for a person.
func TestCrashesAreChargedToTheBegun(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 3)
	bad, good := ids[1], ids[2]
	c := claim(t, db, ClaimRequest{})
	for crash := 1; crash <= reviewAfter; crash++ {
		next := claim(t, db, ClaimRequest{Void: void(c, "dead", bad, 999)})
		if next.Freed != len(c.Tickets) || next.Parked > 0 != (crash == reviewAfter) {
			t.Errorf("crash %d freed %d and parked %d", crash, next.Freed, next.Parked)
		}
		if got := ticket(t, db, bad).Crashes; got != int64(crash) {
			t.Errorf("after crash %d the ticket is charged with %d", crash, got)
		}
		switch {
		case crash < aloneAfter:
			wantIDs(t, "all together", next.Tickets, ids...)
		case crash == aloneAfter:
			wantIDs(t, "those before it first", next.Tickets, ids[0])
			next = claim(t, db, ClaimRequest{})
			wantIDs(t, "then it alone", next.Tickets, bad)
		case crash < reviewAfter:
			wantIDs(t, "it alone", next.Tickets, bad)
		default:
			wantIDs(t, "the others flow", next.Tickets, good)
		}
		c = next
	}
	parked := ticket(t, db, bad)
	if parked.Status != "review" || !strings.Contains(parked.Detail, "crashes the process") || parked.Failures != 0 || parked.ProcessedAt != nil {
		t.Errorf("the crashing ticket is %+v, want it in review", parked)
	}
	if others := number(t, db, `SELECT sum(crashes) + sum(failures) FROM outbox WHERE id <> $1`, bad); others != 0 {
		t.Errorf("the others were charged with %d", others)
	}
	wantNumber(t, db, reviewAfter, `SELECT count(*) FROM attempts WHERE outcome = 'crashed' AND ticket_id = $1`, bad)
	wantNumber(t, db, reviewAfter, `SELECT count(*) FROM attempts WHERE outcome <> 'interrupted'`)
	// Each of the others has a line for each claim that died under it.
	wantNumber(t, db, 0, `SELECT count(*) FROM outbox o WHERE id <> $1 AND attempts <> (SELECT count(*) FROM attempts a WHERE a.ticket_id = o.id) + (status IN ('processing', 'done'))`, bad)
}

// Being stopped is not failing: a released ticket is as it was, but for the claims that it had.
func TestReleaseChargesNothing(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 3)
	c := claim(t, db, ClaimRequest{})
	update(t, db, func(tx *Tx) error {
		if n, err := tx.Release(c.Token, ids[1:]); err != nil || n != 2 {
			return fmt.Errorf("released %d, %w", n, err)
		}
		return nil
	})
	got := ticket(t, db, ids[1])
	if got.Status != "pending" || got.Attempts != 1 || got.Failures != 0 || got.Crashes != 0 || got.DueAt != 0 || got.ClaimToken != nil || got.LeaseHolder != nil || got.LeaseMS != nil {
		t.Errorf("a released ticket is %+v", got)
	}
	again := claim(t, db, ClaimRequest{})
	wantIDs(t, "claimed again", again.Tickets, ids[1:]...)
	if again.Token == c.Token {
		t.Error("a new claim has an old token")
	}
	wantNumber(t, db, 0, `SELECT count(*) FROM attempts`)
}

// Between the look at the leases and the claim that frees them the worker may finish, or
// another claim may take the tickets. Then there is nothing to free.
func TestReclaimChangesOnlyWhatItLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), newPath(t), Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		finished, taken := put(t, db, TicketIssueRefund, 1)[0], put(t, db, TicketIssueRefund, 1)[0]
		watch := db.NewWatch("another")
		one := claim(t, db, ClaimRequest{Limit: 1, Holder: "one"})
		two := claim(t, db, ClaimRequest{Limit: 1, Holder: "two"})
		look, err := watch.Void(t.Context())
		if err != nil || len(look) != 2 {
			t.Fatalf("Void: %v, %v; want the leases of two holders without a lock file", look, err)
		}
		look[0].Begun, look[1].Begun = []int64{finished, taken}, []int64{finished, taken}
		update(t, db, func(tx *Tx) error { _, err := settle(tx, one.Token, one.Tickets[0]); return err })
		fresh := claim(t, db, ClaimRequest{Holder: "three", Void: void(two, "two")})
		wantIDs(t, "taken in the gap", fresh.Tickets, taken)
		before := dump(t, db)
		c := claim(t, db, ClaimRequest{Holder: "four", Void: look})
		watch.Done(look, true)
		if c.Freed != 0 || c.Parked != 0 || len(c.Tickets) != 0 {
			t.Errorf("the reclaim was %+v, want nothing", c)
		}
		if after := dump(t, db); after != before {
			t.Errorf("the reclaim changed\n%s\nto\n%s", before, after)
		}
		wantNumber(t, db, 1, `SELECT count(*) FROM external_effects_log`)
	})
}

// What a claim could not mark it does not hand out.
func TestUnmarkedTicketsAreNotHandedOut(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 3)
	c := claim(t, db, ClaimRequest{Limit: 1})
	before := ticket(t, db, ids[0])
	update(t, db, func(tx *Tx) error {
		got, err := tx.mark([]int64{ids[2], ids[0], ids[1], 999}, ClaimRequest{Token: "late", Holder: "late", Lease: time.Minute})
		wantIDs(t, "marked", got, ids[1], ids[2])
		return err
	})
	if after := ticket(t, db, ids[0]); *after.ClaimToken != c.Token || after.Attempts != before.Attempts {
		t.Errorf("the claimed ticket became %+v", after)
	}
}

// A lease counts from before the claim, so that the holder gives up before anybody else takes over.
func TestLeaseCountsFromBeforeTheClaim(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		put(t, db, TicketIssueRefund, 1)
		letGo := hold(db)
		began := time.Now()
		got := make(chan Claim)
		go func() { got <- claim(t, db, ClaimRequest{Lease: time.Minute}) }()
		synctest.Wait()
		<-time.After(20 * time.Second) // of the bubble: the claim waits for the writer
		letGo()
		if c := <-got; !c.until.Equal(began.Add(time.Minute)) {
			t.Errorf("the lease ends %v after the claim began, want 1m", c.until.Sub(began))
		}
	})
}

// A ticket that another client puts in by hand, as in the lesson, is claimed and settled like any other.
func TestTicketByHandIsCarriedOut(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	mustExec(t, raw(t, path), `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
		VALUES ('ORD-2041', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-2041', 'pending') ON CONFLICT (idempotency_key) DO NOTHING`)
	c := claim(t, db, ClaimRequest{})
	wantIDs(t, "by hand", c.Tickets, 1)
	wantEnds(t, "by hand", settleAll(t, db, c, c.Tickets...), Done)
	wantNumber(t, db, 1, `SELECT count(*) FROM external_effects_log WHERE order_id='ORD-2041' AND effect_type='refund'`)
	if got := ticket(t, db, 1); got.Seq == 0 || got.Seq >= got.ClaimedSeq || got.ClaimedSeq >= got.EndedSeq {
		t.Errorf("its places in the sequence are %d, %d, %d", got.Seq, got.ClaimedSeq, got.EndedSeq)
	}
}

// A number of attempts that can't grow stops neither its ticket nor the others.
func TestMostAttempts(t *testing.T) {
	db := openNew(t)
	ids := put(t, db, TicketIssueRefund, 2)
	mustExec(t, raw(t, db.Path()), `UPDATE outbox SET attempts = 9223372036854775807 WHERE id = $1`, ids[0])
	wantIDs(t, "both", claim(t, db, ClaimRequest{}).Tickets, ids...)
	mustExec(t, raw(t, db.Path()), `UPDATE outbox SET failures = 9223372036854775807, crashes = 9223372036854775807 WHERE id = $1`, ids[0])
	update(t, db, func(tx *Tx) error {
		token := *ticket(t, db, ids[0]).ClaimToken
		ok, err := tx.Review(token, ids[0], "undecodable", "x")
		if !ok {
			err = errors.Join(err, errors.New("not parked"))
		}
		return err
	})
	if got := ticket(t, db, ids[0]).Attempts; got != 9223372036854775807 {
		t.Errorf("%d attempts", got)
	}
}
