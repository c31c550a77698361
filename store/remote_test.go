package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const gate = "https://gateway.example/refunds"

// machine is a computer of the tests: its wall clock, its boot, and how long it has been up.
type machine struct {
	wall   time.Time
	boot   string
	bootMS int64
}

func (m *machine) options() Options {
	return Options{Now: func() time.Time { return m.wall }, Boot: func() (string, int64) { return m.boot, m.bootMS }}
}

// pass lets time go by for all clocks.
func (m *machine) pass(d time.Duration) {
	m.wall = m.wall.Add(d)
	m.bootMS += d.Milliseconds()
}

func newMachine() *machine {
	return &machine{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), "boot 1", 1000}
}

var targetOf = map[string]string{TicketIssueRefund: LedgerRefund, TicketInventorySync: LedgerInventory, TicketInventoryRelease: LedgerRelease}

func markRefund(t *testing.T, db *DB) {
	t.Helper()
	update(t, db, func(tx *Tx) error {
		missing, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: gate, Credential: "old"}}, "test")
		if len(missing) > 0 {
			return fmt.Errorf("missing %v", missing)
		}
		return err
	})
}

func targetNow(t *testing.T, db *DB, name string) (got Target) {
	t.Helper()
	if err := db.View(t.Context(), func(tx *Tx) (err error) { got, err = tx.Target(name); return err }); err != nil {
		t.Fatal(err)
	}
	return got
}

// A file that sends for real is never simulated: a process without the address is told so, and marks nothing.
func TestMarks(t *testing.T) {
	db := openNew(t)
	markRefund(t, db)
	update(t, db, func(tx *Tx) error {
		missing, err := tx.MarkTargets([]Mark{{Name: LedgerInventory, URL: "https://w.example"}, {Name: LedgerRelease}}, "test")
		if !slices.Equal(missing, []string{LedgerRefund}) {
			return fmt.Errorf("missing %v", missing)
		}
		return err
	})
	if got := targetNow(t, db, LedgerInventory); got.Real() {
		t.Errorf("marked though it was refused: %+v", got)
	}
	update(t, db, func(tx *Tx) error {
		missing, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: gate + "?key=secret"}, {Name: LedgerInventory, URL: "https://w.example"}, {Name: LedgerRelease}}, "test")
		if len(missing) > 0 {
			return fmt.Errorf("missing %v", missing)
		}
		return err
	})
	if got := targetNow(t, db, LedgerRefund); !got.Real() || !strings.HasPrefix(got.Address, gate+"?…") || strings.Contains(got.Address, "secret") {
		t.Errorf("%+v", got)
	}
	if got := targetNow(t, db, LedgerRelease); !got.Real() || got.Address != "" {
		t.Errorf("release: %+v", got)
	}
	update(t, db, func(tx *Tx) error { // an address that was never given is not asked for
		missing, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: gate}, {Name: LedgerInventory, URL: "https://w.example"}}, "test")
		if len(missing) > 0 {
			return fmt.Errorf("missing %v", missing)
		}
		return err
	})
	for want, ok := range []bool{false, true} {
		update(t, db, func(tx *Tx) error {
			did, err := tx.TargetLocal(LedgerRefund, "me")
			if did != (want == 0) || ok == did {
				return fmt.Errorf("local says %t", did)
			}
			return err
		})
	}
	if got := targetNow(t, db, LedgerRefund); got.Real() || got.Address != "" {
		t.Errorf("after it was made local: %+v", got)
	}
}

func TestPauses(t *testing.T) {
	m := newMachine()
	m.boot = "" // it has only a wall clock
	db := open(t, newPath(t), m.options())
	markRefund(t, db)
	put(t, db, TicketIssueRefund, 3)
	want := func(what string, halted string, probe bool, n int) {
		t.Helper()
		c, err := db.Claim(t.Context(), ClaimRequest{Limit: 2, Lease: time.Minute, Holder: "h", Target: LedgerRefund, TargetOf: targetOf})
		if err != nil || c.Halted != halted || c.Probe != probe || len(c.Tickets) != n {
			t.Errorf("%s: halted %q, probe %t, %d tickets (%v); want %q, %t, %d", what, c.Halted, c.Probe, len(c.Tickets), err, halted, probe, n)
		}
		if n > 0 {
			update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
		}
	}
	byAnswer := func() { update(t, db, func(tx *Tx) error { return tx.PauseByAnswer(LedgerRefund, "401", "old") }) }
	want("open", "", false, 2)
	byAnswer()
	want("paused by an answer", "paused", false, 0)
	m.pass(59 * time.Minute)
	want("before the hour is over", "paused", false, 0)
	m.pass(2 * time.Minute)
	want("after it", "", true, 1)
	want("the next probe is an hour away", "paused", false, 0)
	m.wall = m.wall.Add(-48 * time.Hour)
	want("the clock was set back by two days", "", true, 1)
	markRefund(t, db) // a start with the same credential
	want("started with the same credential", "paused", false, 0)
	update(t, db, func(tx *Tx) error {
		_, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: gate, Credential: "new"}}, "test")
		return err
	})
	want("started with another credential", "", false, 2)
	byAnswer()
	update(t, db, func(tx *Tx) error { return tx.PauseTarget(LedgerRefund, "me", "stocktaking") })
	m.pass(100 * time.Hour)
	want("an operator's pause outlasts", "paused", false, 0)
	byAnswer()
	if got := targetNow(t, db, LedgerRefund); *got.Paused != "operator" {
		t.Errorf("an answer took over from the operator: %+v", got)
	}
	update(t, db, func(tx *Tx) error { return tx.Answered(LedgerRefund) })
	want("nor does an answer end it", "paused", false, 0)
	update(t, db, func(tx *Tx) error { return tx.ResumeTarget(LedgerRefund, "me") })
	want("resumed", "", false, 2)
	update(t, db, func(tx *Tx) error { return tx.HoldTarget(LedgerRefund, 3600_000) })
	want("held", "held", false, 0)
	m.pass(time.Hour)
	want("the hold is over", "", false, 2)
	mustExec(t, raw(t, db.Path()), `UPDATE targets SET hold_until = $1`, m.wall.Add(25*time.Hour).UnixMilli())
	want("a hold that no clock can have meant", "", false, 2)
}

// A claim keeps to its lane: nothing that is real is taken for the lab, and the lab's nothing by a lane.
func TestLanes(t *testing.T) {
	db := openNew(t)
	refunds, moves := put(t, db, TicketIssueRefund, 4), put(t, db, TicketInventorySync, 2)
	markRefund(t, db)
	local := claim(t, db, ClaimRequest{TargetOf: targetOf})
	wantIDs(t, "the lab", local.Tickets, moves...)
	if !slices.Equal(local.Elsewhere, []string{LedgerRefund}) {
		t.Errorf("elsewhere %v", local.Elsewhere)
	}
	if c := claim(t, db, ClaimRequest{Target: LedgerInventory, TargetOf: targetOf}); c.Halted != "real" || len(c.Tickets) > 0 {
		t.Errorf("a lane for a target that is not real: %+v", c)
	}
	if c := claim(t, db, ClaimRequest{Target: LedgerRefund, Address: gate + "/old", TargetOf: targetOf}); c.Halted != "address" || len(c.Tickets) > 0 {
		t.Errorf("a process with another address: %+v", c)
	}
	for turn, want := range map[int]int64{1: refunds[0], 2: refunds[1], 3: refunds[2], 4: refunds[0]} {
		c := claim(t, db, ClaimRequest{Limit: 4, Target: LedgerRefund, TargetOf: targetOf, Turn: turn})
		wantIDs(t, fmt.Sprintf("turn %d", turn), c.Tickets, want)
		update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
	}
	wantIDs(t, "the lane", claim(t, db, ClaimRequest{Limit: 3, Target: LedgerRefund, TargetOf: targetOf}).Tickets, refunds[:3]...)
	update(t, db, func(tx *Tx) error { return tx.PauseTarget(LedgerInventory, "me", "") })
	put(t, db, TicketInventorySync, 1)
	if c := claim(t, db, ClaimRequest{TargetOf: targetOf}); len(c.Tickets) > 0 {
		t.Errorf("claimed for the lab though it is paused: %+v", c.Tickets)
	}
}

func begin(t *testing.T, db *DB, b Begin) (begun Begun) {
	t.Helper()
	update(t, db, func(tx *Tx) (err error) { begun, err = tx.BeginAttempt(b); return err })
	return begun
}

// sending is a refund in the hands of a worker, on a machine of its own.
func sending(t *testing.T) (m *machine, db *DB, c Claim, b Begin) {
	t.Helper()
	m = newMachine()
	db = open(t, newPath(t), m.options())
	markRefund(t, db)
	put(t, db, TicketIssueRefund, 1)
	c = claim(t, db, ClaimRequest{Limit: 1, Target: LedgerRefund, TargetOf: targetOf})
	return m, db, c, Begin{Ticket: c.Tickets[0].ID, Token: c.Token, Kind: "send", Target: LedgerRefund, Address: gate, Letter: Letter{Key: "k", Body: []byte("first")}}
}

// No row, no byte: nothing may be sent when the claim is gone, or the target is not to be sent to.
func TestBeginAttempt(t *testing.T) {
	for name, change := range map[string]func(tx *Tx, b *Begin) error{
		"lost":   func(_ *Tx, b *Begin) error { b.Token = "another"; return nil },
		"paused": func(tx *Tx, _ *Begin) error { return tx.PauseTarget(LedgerRefund, "me", "") },
		"held":   func(tx *Tx, _ *Begin) error { return tx.HoldTarget(LedgerRefund, 1000) },
		"local":  func(tx *Tx, _ *Begin) error { _, err := tx.TargetLocal(LedgerRefund, "me"); return err },
		"moved": func(tx *Tx, _ *Begin) error {
			_, err := tx.MarkTargets([]Mark{{Name: LedgerRefund, URL: gate + "/new"}}, "another")
			return err
		},
		"denied": func(tx *Tx, _ *Begin) error { return tx.PauseByAnswer(LedgerRefund, "401", "old") },
	} {
		_, db, _, b := sending(t)
		update(t, db, func(tx *Tx) error { return change(tx, &b) })
		if got := begin(t, db, b); got.ID != 0 || got.Lost == got.Halted || got.Lost != (name == "lost") {
			t.Errorf("%s: %+v", name, got)
		}
		wantNumber(t, db, 0, `SELECT count(*) FROM attempts`)
		if name == "denied" {
			b.Probe = true
			if got := begin(t, db, b); got.ID == 0 {
				t.Errorf("a probe: %+v", got)
			}
		}
	}
	_, db, _, b := sending(t)
	first := begin(t, db, b)
	b.Letter = Letter{Key: "another", Body: []byte("second")}
	second := begin(t, db, b)
	if string(second.Letter.Body) != "first" || second.Letter.Key != "k" || second.ID == first.ID {
		t.Errorf("the letter is not frozen: %+v", second)
	}
}

// The age of an unknown send, by the clock that nobody sets.
func TestPast(t *testing.T) {
	m, db, c, b := sending(t)
	past := func(address string) (p Past) {
		t.Helper()
		if err := db.View(t.Context(), func(tx *Tx) (err error) { p, err = tx.Past(c.Tickets[0], LedgerRefund, address); return err }); err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := func(what, address string, want Past) {
		t.Helper()
		if diff := cmp.Diff(want, past(address)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	want("nothing sent", gate, Past{})
	b.Timeout = 20_000 // as it was then; today's may be another
	one := begin(t, db, b)
	m.pass(time.Hour)
	m.wall = m.wall.Add(-300 * 24 * time.Hour) // nobody looks at it
	want("begun and not ended", gate, Past{Unknown: 1, FirstMS: 3600_000, LastMS: 3580_000})
	update(t, db, func(tx *Tx) error { return tx.EndAttempts(Ended{ID: one.ID, Outcome: string(Unknown)}) })
	update(t, db, func(tx *Tx) error { return tx.EndAttempts(Ended{ID: one.ID, Outcome: "done"}) }) // once is enough
	m.pass(time.Minute)
	want("ended", gate, Past{Unknown: 1, FirstMS: 3660_000, LastMS: 60_000})
	two := begin(t, db, b)
	want("and another", gate, Past{Unknown: 2, FirstMS: 3660_000, LastMS: 0})
	b.KeyTTL = 500
	three := begin(t, db, b)
	update(t, db, func(tx *Tx) error { return tx.EndAttempts(Ended{ID: three.ID, Outcome: string(Unknown), Status: 409}) })
	want("a third", gate, Past{Unknown: 3, FirstMS: 3660_000, LastMS: 0, LastStatus: 409})
	update(t, db, func(tx *Tx) error { _, err := tx.exec(`DELETE FROM attempts WHERE id = $1`, three.ID); return err })
	want("at another address", gate+"/new", Past{Unknown: 2, FirstMS: 3660_000, LastMS: 0, Elsewhere: gate})
	update(t, db, func(tx *Tx) error { return tx.EndAttempts(Ended{ID: two.ID, Outcome: string(NotSent)}) })
	want("not sent is not unknown", gate, Past{Unknown: 1, FirstMS: 3660_000, LastMS: 60_000})
	m.boot, m.bootMS = "boot 2", 5000
	want("after another boot", gate, Past{Unknown: 1, Expired: true, LastMS: 5000})
	m.boot = ""
	want("on a machine without such a clock", gate, Past{Unknown: 1, Expired: true})
	m.boot, m.bootMS = "boot 1", 500
	want("a clock that went back", gate, Past{Unknown: 1, Expired: true})
	update(t, db, func(tx *Tx) error { return tx.CloseUnknown(b.Ticket) })
	want("closed", gate, Past{})
	update(t, db, func(tx *Tx) error { return tx.ProveAddress(LedgerRefund, gate) })
	mustExec(t, raw(t, db.Path()), `INSERT INTO ledger (effect_key, order_id, effect_type, status) VALUES ($1, 'o', 'refund', 'done')`, c.Tickets[0].Key)
	want("proven, and in the ledger", gate, Past{Proven: true, InLedger: true})
}

// A lookup is tested with the newest send that was done at the same address before the grace, and not with the
// ticket's own.
func TestControlKey(t *testing.T) {
	m := newMachine()
	db := open(t, newPath(t), m.options())
	markRefund(t, db)
	ids := put(t, db, TicketIssueRefund, 6)
	c := claim(t, db, ClaimRequest{Limit: 6, Target: LedgerRefund, TargetOf: targetOf})
	for i, address := range []string{gate, gate, gate + "/old", gate} {
		mustExec(t, raw(t, db.Path()), `UPDATE targets SET url = $1`, address)
		a := begin(t, db, Begin{Ticket: ids[i], Token: c.Token, Kind: "send", Target: LedgerRefund, Address: address, Letter: Letter{Key: fmt.Sprint("k", i)}})
		if i == 3 {
			m.pass(time.Hour) // what follows is younger than the grace
		}
		update(t, db, func(tx *Tx) error { return tx.EndAttempts(Ended{ID: a.ID, Outcome: string(Happened)}) })
	}
	control := func(i int, want string) {
		t.Helper()
		var p Past
		var key string
		err := db.View(t.Context(), func(tx *Tx) (err error) {
			if p, err = tx.Past(c.Tickets[i], LedgerRefund, gate); err != nil {
				return err
			}
			key, err = tx.ControlKey(c.Tickets[i], LedgerRefund, gate, 60_000)
			return err
		})
		if err != nil || key != want {
			t.Errorf("for ticket %d the control is %q (%v), want %q", i, key, err, want)
		}
		if done := i < 4; p.InLedger != done { // a send that says that it was done is as good as the ledger
			t.Errorf("ticket %d: known to have happened %t", i, p.InLedger)
		}
	}
	control(0, "k1")
	control(1, "k0")
	control(4, "k1")
	m.pass(time.Minute)
	control(4, "k3")
	m.boot, m.bootMS = "boot 2", 5
	control(4, "k3") // what was done before this boot is old enough
}

// A success that comes late, in every state, with and without a ledger row.
func TestRemember(t *testing.T) {
	for state, want := range map[string]struct {
		fresh, known Settled
		after        string
	}{
		"pending":    {Done, AlreadyDone, "done"},
		"processing": {Done, AlreadyDone, "done"},
		"review":     {Done, AlreadyDone, "done"},
		"done":       {TooLate, Lost, "done"}, // done without a ledger row is what somebody made by hand
		"dead":       {TooLate, Lost, "dead"},
		"discarded":  {TooLate, Lost, "discarded"},
	} {
		for _, known := range []bool{false, true} {
			_, db, c, _ := sending(t)
			id, other := c.Tickets[0].ID, raw(t, db.Path())
			if known {
				mustExec(t, other, `INSERT INTO ledger (effect_key, order_id, effect_type, status) SELECT idempotency_key, aggregate_id, 'refund', 'done' FROM outbox`)
			}
			if state != "processing" {
				ended := any(nil)
				if state == "done" || state == "dead" || state == "discarded" {
					ended = 1
				}
				mustExec(t, other, `UPDATE outbox SET status = $1, processed_at = $2, claim_token = NULL, lease_holder = NULL, lease_ms = NULL`, state, ended)
			}
			var got Settled
			update(t, db, func(tx *Tx) (err error) { got, err = tx.Remember(id, LedgerRefund, "remote"); return err })
			wanted := want.fresh
			if known {
				wanted = want.known
			}
			after := ticket(t, db, id)
			if got != wanted || after.Status != want.after {
				t.Errorf("%s, known %t: %s and %s, want %s and %s", state, known, got, after.Status, wanted, want.after)
			}
			if late := strings.HasPrefix(after.Detail, "it happened after all"); late != (wanted == TooLate && state != "done") {
				t.Errorf("%s, known %t: detail %q", state, known, after.Detail)
			}
			wantNumber(t, db, 1, `SELECT count(*) FROM ledger`)
			wantNumber(t, db, 0, `SELECT count(*) FROM external_effects_log`)
			if state != "processing" {
				continue
			}
			for name, act := range map[string]func(tx *Tx) (bool, error){
				"requeue": func(tx *Tx) (bool, error) { return tx.Requeue(c.Token, id, Requeue{}) },
				"park":    func(tx *Tx) (bool, error) { return tx.Park(c.Token, id, "late") },
				"bury":    func(tx *Tx) (bool, error) { return tx.BuryLine(c.Token, id, "late") },
				"anew":    func(tx *Tx) (bool, error) { return tx.WindowAnew(c.Token, id) },
			} {
				update(t, db, func(tx *Tx) error {
					if ok, err := act(tx); ok || err != nil {
						return errors.Join(err, fmt.Errorf("%s by the worker that lost its claim: %t", name, ok))
					}
					return nil
				})
			}
			if diff := cmp.Diff(after, ticket(t, db, id)); diff != "" {
				t.Errorf("the worker that lost its claim changed the ticket: %s", diff)
			}
		}
	}
}

// First sends are begun together, each by the claim that has its ticket in hand; the others are for BeginAttempt.
func TestBeginFirst(t *testing.T) {
	m := newMachine()
	db := open(t, newPath(t), m.options())
	markRefund(t, db)
	ids := put(t, db, TicketIssueRefund, 5)
	c := claim(t, db, ClaimRequest{Limit: 5, Target: LedgerRefund, TargetOf: targetOf})
	common := Begin{Kind: "send", Target: LedgerRefund, Address: gate, KeyTTL: 1000, Timeout: 100}
	one := common
	one.Ticket, one.Token, one.Letter = ids[1], c.Token, Letter{Key: "frozen", Body: []byte("before")}
	begin(t, db, one)
	letters := map[Claimed]Letter{}
	for i, token := range []string{c.Token, c.Token, "lost", c.Token, c.Token} {
		letters[Claimed{ids[i], token}] = Letter{Key: fmt.Sprint("k", i), Body: []byte(`{"amount":2154.00,"note":"é\u0000\""}`)}
	}
	letters[Claimed{ids[0], "another"}] = letters[Claimed{ids[0], c.Token}]
	letters[Claimed{ids[4], c.Token}] = Letter{Key: "k4", Body: []byte{0xff}}
	together := func(b Begin) (begun map[Claimed]Begun) {
		update(t, db, func(tx *Tx) (err error) { begun, err = tx.BeginFirst(b, letters); return err })
		return begun
	}
	for name, change := range map[string]func(*Begin){"moved": func(b *Begin) { b.Address = gate + "/old" }, "local": func(b *Begin) { b.Target = LedgerInventory }} {
		b := common
		change(&b)
		if begun := together(b); len(begun) > 0 {
			t.Errorf("%s: %+v", name, begun)
		}
	}
	begun := together(common)
	if len(begun) != 2 {
		t.Errorf("begun: %+v", begun)
	}
	for _, i := range []int{0, 3} {
		got := begun[Claimed{ids[i], c.Token}]
		var key, body string
		row := raw(t, db.Path()).QueryRow(`SELECT wire_key, CAST(wire_body AS TEXT) FROM outbox AS o JOIN attempts AS a ON a.ticket_id = o.id
			WHERE o.id = $1 AND a.id = $2 AND a.claim_token = $3 AND a.kind = 'send' AND a.target = 'refund' AND a.address = $4
			AND a.begun_at > 0 AND a.seq > 0 AND a.boot = $5 AND a.boot_ms = $6 AND a.key_ttl_ms = 1000 AND a.timeout_ms = 100 AND a.ended_at IS NULL AND typeof(wire_body) = 'blob'`,
			ids[i], got.ID, c.Token, gate, m.boot, m.bootMS)
		if err := row.Scan(&key, &body); err != nil || key != fmt.Sprint("k", i) || body != string(letters[Claimed{ids[i], c.Token}].Body) || string(got.Letter.Body) != body || got.Letter.Key != key {
			t.Errorf("ticket %d: %q %q (%v), begun %+v", i, key, body, err, got)
		}
	}
	if again := together(common); len(again) > 0 {
		t.Errorf("begun as the first a second time: %+v", again)
	}
	wantNumber(t, db, 3, `SELECT count(*) FROM attempts`)
}

// The ledger is asked by the key as it lies there, whatever its bytes are.
func TestInLedger(t *testing.T) {
	db := open(t, newPath(t), Options{})
	ids := put(t, db, TicketIssueRefund, 3)
	other := raw(t, db.Path())
	mustExec(t, other, `UPDATE outbox SET idempotency_key = CAST(X'FF' || id AS TEXT)`)
	mustExec(t, other, `INSERT INTO ledger (effect_key, order_id, effect_type, status) SELECT idempotency_key, 'O', 'refund', 'done' FROM outbox WHERE id = $1`, ids[1])
	in := view(t, db, func(tx *Tx) (map[int64]bool, error) { return tx.InLedger(append(ids, 99)) })
	if diff := cmp.Diff(map[int64]bool{ids[0]: false, ids[1]: true, ids[2]: false}, in); diff != "" {
		t.Error(diff)
	}
}
