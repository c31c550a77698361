package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs fn with a new file, in a bubble in which synctest.Wait returns once every goroutine
// waits for another one.
func inBubble(t *testing.T, opt Options, fn func(t *testing.T, db *DB)) {
	t.Helper()
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		opt.Readers = 1
		db, err := Open(context.Background(), path, opt)
		if err != nil {
			t.Fatal(err)
		}
		fn(t, db)
		if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
}

// hold keeps the writer busy with a member of its own until the returned function is called.
func hold(db *DB) (letGo func()) {
	gate := make(chan struct{})
	go func() {
		_ = db.Update(context.Background(), func(*Tx) error { <-gate; return nil })
	}()
	synctest.Wait()
	return func() { close(gate) }
}

// credit is a write that leaves a trace of its own.
func credit(customer string) func(*Tx) error {
	return func(tx *Tx) error {
		return tx.SetCredit(Credit{CustomerID: customer, Currency: "MXN", Limit: "1.00"}, "tester")
	}
}

// later hands a write in and returns where its answer arrives.
func later(ctx context.Context, db *DB, fn func(*Tx) error) chan error {
	answer := make(chan error, 1)
	go func() { answer <- db.Update(ctx, fn) }()
	synctest.Wait()
	return answer
}

const sqlCreditCount = `SELECT count(*) FROM credit_limits`

func TestGroupSharesCommits(t *testing.T) {
	inBubble(t, Options{GroupMax: 64}, func(t *testing.T, db *DB) {
		const n = 200
		letGo := hold(db)
		before := db.Commits()
		answers := make(chan error)
		for i := range n {
			go func() {
				customer := fmt.Sprintf("C%d", i)
				err := db.Update(context.Background(), credit(customer))
				if err == nil { // whoever is answered finds its write committed
					a, qerr := db.Query(context.Background(), `SELECT 1 FROM credit_limits WHERE customer_id = $1`, customer)
					if qerr != nil || len(a.Rows) != 1 {
						err = fmt.Errorf("answered before the commit: %v, %v", a.Rows, qerr)
					}
				}
				answers <- err
			}()
		}
		synctest.Wait()
		if len(answers) > 0 || number(t, db, sqlCreditCount) > 0 {
			t.Error("members were answered or committed while the writer was held")
		}
		letGo()
		for range n {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		wantNumber(t, db, n, sqlCreditCount)
		if got := db.Commits() - before; got < n/64 || got > n/64+2 {
			t.Errorf("%d members took %d commits, want about %d", n, got, n/64+1)
		}
	})
}

// One member that fails, by its own error, by SQLite's, by a panic, or by an error that it swallows, gets an
// error; the others of its group are committed. What it had written before is gone.
func TestGroupOneFailingMemberAlone(t *testing.T) {
	own := errors.New("no")
	bad := map[string]struct {
		then func(*Tx) error
		says string
	}{
		"its own error":   {func(*Tx) error { return own }, "no"},
		"a constraint":    {func(tx *Tx) error { _, err := tx.exec(sqlSetCredit, "", "MXN", "1", 1); return err }, "credit_customer"},
		"a panic":         {func(*Tx) error { panic("oranges") }, "panic in a transaction: oranges"},
		"a swallowed one": {func(tx *Tx) error { _, _ = tx.exec(`SELEC`); return nil }, "SELEC"},
		"a panic in a row": {func(tx *Tx) error {
			return tx.each(`SELECT 1`, nil, func(func(...any) error) error { panic("apples") })
		}, "apples"},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			for _, after := range []int{5, 0} { // others come after it, or it is the last of its group
				failAmong(t, after, c.then, c.says)
			}
		})
	}
}

func failAmong(t *testing.T, after int, then func(*Tx) error, says string) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		letGo := hold(db)
		var good []chan error
		for i := range 5 {
			good = append(good, later(t.Context(), db, credit(fmt.Sprintf("before%d", i))))
		}
		failed := later(t.Context(), db, func(tx *Tx) error { return errors.Join(credit("failed")(tx), then(tx)) })
		for i := range after {
			good = append(good, later(t.Context(), db, credit(fmt.Sprintf("after%d", i))))
		}
		letGo()
		if err := <-failed; err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the failing member got %v, want %q", err, says)
		}
		for i, answer := range good {
			if err := <-answer; err != nil {
				t.Errorf("member %d got %v", i, err)
			}
		}
		wantNumber(t, db, int64(5+after), sqlCreditCount)
		wantNumber(t, db, 0, `SELECT count(*) FROM credit_limits WHERE customer_id = 'failed'`)
		wantNumber(t, db, int64(5+after), `SELECT count(DISTINCT seq) FROM operator_log`)
	})
}

// After a statement has failed, every further one of the same transaction returns that error and does
// nothing, and a member that ignores it is not committed.
func TestNothingGoesOnAfterAnError(t *testing.T) {
	db := openNew(t)
	var first, second, third error
	err := db.Update(t.Context(), func(tx *Tx) error {
		if err := credit("before")(tx); err != nil {
			return err
		}
		_, first = tx.exec(sqlSetCredit, "", "MXN", "1", 1)
		second = credit("after")(tx)
		_, third = tx.Paused()
		return nil
	})
	if first == nil || !errors.Is(second, first) || !errors.Is(third, first) || !errors.Is(err, first) {
		t.Errorf("got %v, then %v, %v and %v; want the first one each time", first, second, third, err)
	}
	wantNumber(t, db, 0, sqlCreditCount)
	update(t, db, credit("next"))
	wantNumber(t, db, 1, sqlCreditCount)
}

func TestCancelledBeforeItsStart(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		ran := false
		fn := func(*Tx) error { ran = true; return nil }
		cancelled, cancel := context.WithCancel(context.Background())
		letGo := hold(db)
		waits := later(cancelled, db, fn)
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while it waited: %v", err)
		}
		letGo()
		synctest.Wait()
		for range 100 {
			if err := db.Update(cancelled, fn); !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled before it was handed in: %v", err)
			}
		}
		if ran {
			t.Error("a cancelled member was run")
		}
	})
}

// A member that was begun is on its way to the disk: its caller gets to know how that ended.
func TestCancelledAfterItsStart(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		ctx, cancel := context.WithCancel(context.Background())
		gate := make(chan struct{})
		begun := later(ctx, db, func(tx *Tx) error { <-gate; return credit("kept")(tx) })
		cancel()
		synctest.Wait()
		if len(begun) != 0 {
			t.Error("answered before the outcome was known")
		}
		close(gate)
		if err := <-begun; err != nil {
			t.Errorf("a committed member got %v", err)
		}
		wantNumber(t, db, 1, sqlCreditCount)
	})
}

// Close lets what was handed in go to the disk and refuses what comes after.
func TestCloseDrains(t *testing.T) {
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(context.Background(), path, Options{Readers: 1, GroupMax: 8})
		if err != nil {
			t.Fatal(err)
		}
		letGo := hold(db)
		var answers []chan error
		for i := range 50 {
			answers = append(answers, later(context.Background(), db, credit(fmt.Sprint(i))))
		}
		closed := make(chan error, 1)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		if err := db.Update(context.Background(), credit("late")); !errors.Is(err, ErrClosed) {
			t.Errorf("Update after Close began: %v", err)
		}
		letGo()
		for _, answer := range answers {
			if err := <-answer; err != nil {
				t.Errorf("handed in before Close: %v", err)
			}
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	wantNumber(t, open(t, path, Options{}), 50, sqlCreditCount)
}

// Close waits for a reader that is at work.
func TestCloseWaitsForViews(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, db *DB) {
		gate, viewed, closed := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			viewed <- db.View(context.Background(), func(tx *Tx) error { <-gate; _, err := tx.Paused(); return err })
		}()
		synctest.Wait()
		go func() { closed <- db.Close() }()
		synctest.Wait()
		if len(closed) != 0 {
			t.Error("Close did not wait")
		}
		close(gate)
		if err := errors.Join(<-viewed, <-closed); err != nil {
			t.Error(err)
		}
	})
}

// Another process that holds the write lock makes a write fail within the busy timeout, with nothing written.
func TestBusyFromAnotherWriter(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{BusyTimeout: 100 * time.Millisecond})
	other := raw(t, path)
	mustExec(t, other, `BEGIN IMMEDIATE`)
	ran, began := false, time.Now()
	err := db.Update(t.Context(), func(tx *Tx) error { ran = true; return credit("busy")(tx) })
	if took := time.Since(began); !errors.Is(err, ErrBusy) || took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("Update beside another writer: %v after %v, want ErrBusy after 100 ms", err, took)
	}
	if ran {
		t.Error("the member was run without the write lock")
	}
	if !errors.Is(db.LastCommit(), ErrBusy) {
		t.Errorf("LastCommit: %v, want ErrBusy", db.LastCommit())
	}
	mustExec(t, other, `ROLLBACK`)
	wantNumber(t, db, 0, sqlCreditCount)
	update(t, db, credit("then"))
	if db.LastCommit() != nil {
		t.Errorf("LastCommit after a good one: %v", db.LastCommit())
	}
}

// Only a commit that makes tickets due signals the relay.
func TestWakeOnlyForTickets(t *testing.T) {
	db := openNew(t)
	one := NewTicket{OrderID: "O", EffectType: TicketIssueRefund, Payload: `{}`, Key: "refund:O"}
	insert := func(tx *Tx) error { _, err := tx.InsertTicket(one); return err }
	var c Claim
	for _, step := range []struct {
		name string
		fn   func(*Tx) error
		want bool
	}{
		{"no ticket", credit("a"), false},
		{"a ticket", insert, true},
		{"the same ticket", insert, false},
		{"a claim", func(tx *Tx) (err error) {
			c, err = tx.claim(ClaimRequest{Limit: 1, Lease: time.Minute, Holder: "h", Token: "token"})
			return err
		}, false},
		{"a release: this process has no use for it", func(tx *Tx) error { _, err := tx.Release("token", idsOf(c.Tickets)); return err }, false},
		{"a release of nothing", func(tx *Tx) error { _, err := tx.Release("token", idsOf(c.Tickets)); return err }, false},
		{"resumed", func(tx *Tx) error { return errors.Join(tx.Pause(true, "t"), tx.Pause(false, "t")) }, true},
		{"a ticket that is rolled back", func(tx *Tx) error {
			_, err := tx.InsertTicket(NewTicket{OrderID: "P", EffectType: "x", Payload: `{}`, Key: "p"})
			return errors.Join(err, errors.New("no"))
		}, false},
	} {
		_ = db.Update(t.Context(), step.fn)
		got := len(db.Wake()) > 0
		if got {
			<-db.Wake()
		}
		if got != step.want {
			t.Errorf("%s: signalled %t, want %t", step.name, got, step.want)
		}
	}
}
