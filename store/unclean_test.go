package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// childArrive notes that it works on the file, claims what is there and says "here CLAIMED". At each line that it
// reads it commits something and says "answered".
func childArrive(args []string, in *bufio.Scanner, out io.Writer) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], Options{Readers: 1})
	if err != nil {
		return err
	}
	h, err := db.NewHolder(ctx, 2)
	if err != nil {
		return err
	}
	if _, err := db.Arrive(ctx, h); err != nil {
		return err
	}
	c, err := db.Claim(ctx, ClaimRequest{Limit: 10, Lease: time.Minute, Holder: h.ID})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "here", len(c.Tickets))
	for in.Scan() {
		if err := db.Update(ctx, (*Tx).Touch); err != nil {
			return err
		}
		fmt.Fprintln(out, "answered")
	}
	return nil
}

func arrive(t *testing.T, db *DB) (*Holder, UncleanStop) {
	t.Helper()
	h, err := db.NewHolder(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	stop, err := db.Arrive(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return h, stop
}

func verify(t *testing.T, db *DB) Verified {
	t.Helper()
	v, err := db.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCleanStopLeavesNothingToFindOut(t *testing.T) {
	db := openNew(t)
	for range 3 {
		h, stop := arrive(t, db)
		if stop.ID != 0 {
			t.Fatalf("found %+v", stop)
		}
		if err := errors.Join(db.Depart(t.Context(), h), h.Close()); err != nil {
			t.Fatal(err)
		}
	}
	wantNumber(t, db, 0, `SELECT count(*) FROM processes`)
	if c := checkNamed(t, db, "unclean stops"); c.Level != LevelOK {
		t.Errorf("%+v", c)
	}
}

// A process that is killed is found by the next start, and by one alone: what it had claimed, and up to where it
// had answered. A living one is not taken for dead.
func TestKilledProcessIsFoundOnce(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	put(t, db, TicketIssueRefund, 2)
	c := spawn(t, "arrive", path)
	if here := c.hear(); here[1] != "2" {
		t.Fatalf("the child claimed %s tickets", here[1])
	}
	if _, stop := arrive(t, db); stop.ID != 0 {
		t.Errorf("beside a living process: %+v", stop)
	}
	c.say("commit")
	c.hear()
	c.kill()
	if got := checkNamed(t, db, "processes that ended without a word"); got.Level != LevelWarning || got.Answer != "1" {
		t.Errorf("doctor: %+v", got)
	}
	h, stop := arrive(t, db)
	if stop.ID == 0 || len(stop.InFlight) != 2 || stop.Missing != 0 {
		t.Fatalf("found %+v, want 2 in flight and nothing missing", stop)
	}
	if v := verify(t, db); v != (Verified{}) {
		t.Errorf("a kill lost something: %+v", v)
	}
	if _, again := arrive(t, db); again.ID != 0 {
		t.Errorf("a second one was told too: %+v", again)
	}
	if err := h.Close(); err != nil { // the one that was told stops before it has found out
		t.Fatal(err)
	}
	_, stop = arrive(t, db)
	if stop.ID == 0 || len(stop.InFlight) != 2 || stop.Missing != 0 {
		t.Errorf("what was not found out is not left to the next start: %+v", stop)
	}
	if c := checkNamed(t, db, "unclean stops"); c.Level != LevelWarning {
		t.Errorf("doctor: %+v", c)
	}
	update(t, db, func(tx *Tx) error { return tx.StopChecked(stop.ID, "restarted", Verified{}) })
	if c := checkNamed(t, db, "unclean stops"); c.Level != LevelOK || c.Answer != "restarted" {
		t.Errorf("doctor: %+v", c)
	}
}

// What a killed process had answered for and the file does not hold is seen: here the file of a moment before was
// put in its place, as a disk does that forgets what it said was safe.
func TestForgottenCommitsAreSeen(t *testing.T) {
	path := newPath(t)
	if err := open(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	c := spawn(t, "arrive", path)
	c.hear()
	c.say("commit")
	c.hear()
	before := map[string][]byte{}
	for _, name := range []string{path, path + "-wal"} { // nobody writes now
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = text
	}
	for range 3 {
		c.say("commit")
		c.hear()
	}
	c.kill()
	for name, text := range before {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(path + "-shm")
	db := open(t, path, Options{})
	_, stop := arrive(t, db)
	if stop.Missing != 3 {
		t.Errorf("three commits were forgotten: %+v", stop)
	}
	update(t, db, func(tx *Tx) error { return tx.StopChecked(stop.ID, "lost 3", Verified{}) })
	for range 5 { // what is written since hides nothing
		update(t, db, func(tx *Tx) error { return tx.Log("test", "later", "", "") })
	}
	if c := checkNamed(t, db, "unclean stops"); c.Level != LevelWarning || c.Answer != "lost 3" {
		t.Errorf("doctor: %+v", c)
	}
}

// The note of a killed process is heard although its row is gone with what the file has lost: here its -wal was
// removed, or the whole file. Doctor sees it before the start, a start that fails in between leaves it, and it is
// told once.
func TestLossIsHeardWithoutTheRow(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"the -wal": func(path string) error { return os.Remove(path + "-wal") },
		"the file": func(path string) error { return errors.Join(os.Remove(path), os.Remove(path+"-wal")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			if err := open(t, path, Options{}).Close(); err != nil {
				t.Fatal(err)
			}
			c := spawn(t, "arrive", path)
			c.hear()
			for range 3 {
				c.say("commit")
				c.hear()
			}
			c.kill()
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(path + "-shm")
			db := open(t, path, Options{})
			wantNumber(t, db, 0, `SELECT count(*) FROM processes`)
			h, err := db.NewHolder(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := db.Arrive(ended, h); err == nil {
				t.Fatal("this start should have failed")
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			if c := checkNamed(t, db, "processes that ended without a word"); c.Level != LevelWarning || c.Answer != "1" || !strings.Contains(c.Detail, "at least 3 places") {
				t.Errorf("doctor: %+v", c)
			}
			h, stop := arrive(t, db)
			if stop.ID == 0 || stop.Missing != 3 {
				t.Fatalf("found %+v, want 3 missing", stop)
			}
			update(t, db, func(tx *Tx) error { return tx.StopChecked(stop.ID, "lost 3", Verified{}) })
			if err := errors.Join(db.Depart(t.Context(), h), h.Close()); err != nil {
				t.Fatal(err)
			}
			if _, again := arrive(t, db); again.ID != 0 {
				t.Errorf("told again: %+v", again)
			}
			if c := checkNamed(t, db, "unclean stops"); c.Level != LevelWarning || c.Answer != "lost 3" {
				t.Errorf("doctor: %+v", c)
			}
		})
	}
}

// Each kind of row that is missing, or that another denies, is counted.
func TestVerifyCountsWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Verified
	}{
		"nothing":                       {`SELECT 1`, Verified{}},
		"an event without a decision":   {`INSERT INTO events (event_id, order_id, body, received_at) VALUES ('E', 'O', X'', 1)`, Verified{Lost: 1}},
		"a decision without an event":   {`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('O', 'issue_refund', '{}', 'k'); INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at) VALUES ('O', 'E', 'C', '1.00', 'MXN', '', '', 0, 'refund', 1)`, Verified{Lost: 1}},
		"a decision without a ticket":   {`INSERT INTO events (event_id, order_id, body, received_at) VALUES ('E', 'O', X'', 1); INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at) VALUES ('O', 'E', 'C', '1.00', 'MXN', '', '', 0, 'refund', 1)`, Verified{Lost: 1}},
		"done and not in the ledger":    {`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at) VALUES ('O', 'issue_refund', '{}', 'k', 'done', 1)`, Verified{Contradicts: 1}},
		"in the ledger and did not act": {`INSERT INTO ledger (effect_key, order_id, effect_type, status, how) VALUES ('a', 'O', 'refund', 'done', 'local'), ('b', 'O', 'refund', 'done', 'by hand')`, Verified{Contradicts: 1}},
		"an effect twice":               {`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('k', 'refund', 'O'), ('k', 'refund', 'O')`, Verified{Contradicts: 1}},
	} {
		db := openNew(t)
		mustExec(t, raw(t, db.Path()), c.text)
		if v := verify(t, db); v != c.want {
			t.Errorf("%s: %+v, want %+v", name, v, c.want)
		}
	}
}

// An order has all the tickets that its decision asks for, each of which may be in the ledger instead; what others
// added beside them, or put there before, is no loss, and neither is a compensation.
func TestVerifyCountsEachTicket(t *testing.T) {
	const lines = `[{"sku":"A:1","quantity":1},{"sku":"B%","quantity":2},{"sku":"B%","quantity":3}]`
	const event = `INSERT INTO events (event_id, order_id, body, received_at) VALUES ('E', 'O:7', X'', 1);`
	inventory := func(lines string) string {
		return event + `INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at, line_items) VALUES ('O:7', 'E', 'C', '1.00', 'MXN', '', '', 1, 'inventory', 1, '` + lines + `');`
	}
	refund := event + `INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at) VALUES ('O:7', 'E', 'C', '1.00', 'MXN', '', '', 0, 'refund', 1);`
	ticket := func(order, kind, key string) string {
		return fmt.Sprintf(`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key) VALUES ('%s', '%s', '{}', '%s');`, order, kind, key)
	}
	line := func(sku string) string { return ticket("O:7", TicketInventorySync, Key(LedgerInventory, "O:7", sku)) }
	for name, c := range map[string]struct {
		text string
		lost int64
	}{
		"all of them":                {inventory(lines) + line("A:1") + line("B%"), 0},
		"one line gone":              {inventory(lines) + line("A:1"), 1},
		"both gone":                  {inventory(lines), 1},
		"one gone, another beside":   {inventory(lines) + line("A:1") + ticket("O:7", "by_hand", "k"), 1},
		"one in the ledger":          {inventory(lines) + line("A:1") + `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ('` + Key(LedgerInventory, "O:7", "B%") + `', 'O:7', 'inventory', 'done');`, 0},
		"one there under another id": {inventory(lines) + line("A:1") + ticket("by hand", TicketInventorySync, Key(LedgerInventory, "O:7", "B%")), 0},
		"keys of another kind":       {inventory(lines) + ticket("O:7", TicketInventorySync, "a") + ticket("O:7", TicketInventorySync, "b"), 0},
		"compensated":                {inventory(lines) + line("A:1") + line("B%") + `UPDATE outbox SET status = 'discarded', processed_at = 1;` + ticket("O:7", TicketIssueRefund, "r"), 0},
		"no lines":                   {inventory(`[]`) + ticket("O:7", TicketInventorySync, "a"), 0},
		"lines nobody can read":      {inventory(`[{"sku"`) + line("A:1"), 0},
		"lines of another kind":      {inventory(`["A", 5, {"sku":null}, {}]`) + line("A"), 0},
		"a refund":                   {refund + ticket("O:7", TicketIssueRefund, "r"), 0},
		"a refund gone":              {refund + ticket("O:7", "by_hand", "k"), 1},
		"a refund under another id":  {refund + ticket("O:7", "by_hand", "k") + ticket("by hand", TicketIssueRefund, "refund:O%3A7"), 0},
	} {
		db := openNew(t)
		mustExec(t, raw(t, db.Path()), c.text)
		if v := verify(t, db); v.Lost != c.lost || v.Damage != "" {
			t.Errorf("%s: %+v, want %d lost", name, v, c.lost)
		}
		if got := checkNamed(t, db, "invariant: a decision has its event and its tickets"); (got.Level == LevelWrong) != (c.lost > 0) {
			t.Errorf("%s: doctor: %+v", name, got)
		}
	}
}

// Rows that are missing are looked for again at each start, and doctor says which.
func TestLossIsLookedForAgain(t *testing.T) {
	db := openNew(t)
	mustExec(t, raw(t, db.Path()), `INSERT INTO processes (holder, pid, started_at) VALUES ('gone', 1, 1)`)
	mustExec(t, raw(t, db.Path()), `INSERT INTO events (event_id, order_id, body, received_at) VALUES ('E', 'O', X'', 1)`)
	h, stop := arrive(t, db)
	v := verify(t, db)
	update(t, db, func(tx *Tx) error { return tx.StopChecked(stop.ID, "lost 1", v) })
	if c := checkNamed(t, db, "unclean stops"); c.Level != LevelWarning {
		t.Errorf("doctor: %+v", c)
	}
	if c := checkNamed(t, db, "invariant: an event has its decision"); c.Level != LevelWrong {
		t.Errorf("doctor: %+v", c)
	}
	if err := errors.Join(db.Depart(t.Context(), h), h.Close()); err != nil {
		t.Fatal(err)
	}
	if _, again := arrive(t, db); again.ID == 0 {
		t.Error("after a clean stop nobody looks for what was missing")
	}
}

// A page of the file that was overwritten is found, and the file is looked at again at each start until it is whole.
func TestDamageIsFound(t *testing.T) {
	path := newPath(t)
	db := open(t, path, Options{})
	put(t, db, TicketIssueRefund, 500)
	root := number(t, db, `SELECT rootpage FROM sqlite_schema WHERE name = 'outbox'`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("\xff", 1000)), (root-1)*4096+8); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{})
	v := verify(t, db)
	if v.Damage == "" {
		t.Fatal("the damage was not found")
	}
	mustExec(t, raw(t, path), `INSERT INTO processes (holder, pid, started_at) VALUES ('gone', 1, 1)`)
	h, stop := arrive(t, db)
	update(t, db, func(tx *Tx) error { return tx.StopChecked(stop.ID, "damaged", v) })
	if err := errors.Join(db.Depart(t.Context(), h), h.Close()); err != nil {
		t.Fatal(err)
	}
	if _, stop = arrive(t, db); stop.ID == 0 {
		t.Error("a damaged file is not looked at again after a clean stop")
	}
}

// Looking through a file ends when the process stops, and keeps no commit waiting meanwhile.
func TestVerifyKeepsNobody(t *testing.T) {
	db := openNew(t)
	put(t, db, TicketIssueRefund, 20_000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = db.Verify(ctx)
		}
		ended <- err
	}()
	var longest time.Duration
	for range 50 {
		began := time.Now()
		update(t, db, (*Tx).Touch)
		longest = max(longest, time.Since(began))
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "interrupt") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	t.Logf("the longest wait of 50 commits meanwhile: %v", longest.Round(time.Millisecond))
}

// The look through the file steps from row to row: ids that lie far apart, or below 0, which another client has given
// out, neither keep it busy for ever nor hide anything.
func TestVerifyFindsWhateverTheId(t *testing.T) {
	db := open(t, newPath(t), Options{})
	put(t, db, TicketIssueRefund, 2)
	other := raw(t, db.Path())
	for _, id := range []int64{-7, 1_700_000_000_000, 1<<63 - 10} {
		mustExec(t, other, `INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key, status, processed_at) VALUES ($1, 'O', 'other', '{}', $2, 'done', 1)`, id, fmt.Sprint("key", id))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v, err := db.Verify(ctx)
	if err != nil || v.Contradicts != 3 {
		t.Errorf("%+v, %v; want 3 that the ledger does not know", v, err)
	}
}
