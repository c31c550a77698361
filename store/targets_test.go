package store

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func openAt(t testing.TB) (*DB, *machine) {
	t.Helper()
	m := newMachine()
	return open(t, newPath(t), m.options()), m
}

// view reads one thing in a transaction of its own.
func view[T any](t testing.TB, db *DB, fn func(*Tx) (T, error)) (one T) {
	t.Helper()
	err := db.View(t.Context(), func(tx *Tx) (err error) {
		one, err = fn(tx)
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return one
}

const stockURL = "https://stock.example/movements"

// markAll marks targets as a process does when it starts, and returns the missing ones.
func markAll(t testing.TB, db *DB, marks ...Mark) (missing []string) {
	t.Helper()
	update(t, db, func(tx *Tx) (err error) {
		missing, err = tx.MarkTargets(marks, "tester")
		return err
	})
	return missing
}

func wantTarget(t *testing.T, db *DB, name, mode, address string) {
	t.Helper()
	if got := targetNow(t, db, name); got.Name != name || got.Mode != mode || got.Address != address {
		t.Errorf("target %s is %s at %q, want %s at %q", name, got.Mode, got.Address, mode, address)
	}
}

// wantPaused looks at who has paused a target; "" is nobody.
func wantPaused(t *testing.T, db *DB, what, name, by string) {
	t.Helper()
	got := targetNow(t, db, name)
	if (got.Paused == nil) != (by == "") || got.Paused != nil && *got.Paused != by {
		t.Errorf("%s: target %s is %+v, want it paused by %q", what, name, got, by)
	}
}

func TestMarkTargets(t *testing.T) {
	db := openNew(t)
	wantTarget(t, db, "refund", "lab", "")
	if missing := markAll(t, db, Mark{Name: "refund", URL: gate}); missing != nil {
		t.Fatalf("missing in a new file: %v", missing)
	}
	wantTarget(t, db, "refund", "real", gate)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE action = 'target is real'`) // the same mark says nothing new
	markAll(t, db, Mark{Name: "refund", URL: gate + "/v2"})
	wantTarget(t, db, "refund", "real", gate+"/v2")
	wantNumber(t, db, 2, `SELECT count(*) FROM operator_log WHERE action = 'target is real' AND who = 'tester'`)
	wantTarget(t, db, "inventory", "lab", "")
}

// A process that lacks the address of a real target marks nothing, resumes nothing and says what it lacks.
func TestMarkTargetsMissing(t *testing.T) {
	db := openNew(t)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "401", "old") })
	for what, marks := range map[string][]Mark{
		"none": nil, "another": {{Name: "inventory", URL: stockURL}}, "no address": {{Name: "inventory", URL: stockURL}, {Name: "refund", Credential: "new"}},
	} {
		before := dump(t, db)
		if missing := markAll(t, db, marks...); !slices.Equal(missing, []string{"refund"}) {
			t.Errorf("%s: missing %v", what, missing)
		}
		wantTarget(t, db, "refund", "real", gate)
		wantTarget(t, db, "inventory", "lab", "")
		wantPaused(t, db, what, "refund", "answer")
		if dump(t, db) != before {
			t.Errorf("%s: something was written down", what)
		}
	}
}

// A target can be real without an address: nobody simulates it, nobody lacks its address.
func TestMarkWithoutAddress(t *testing.T) {
	db := openNew(t)
	markAll(t, db, Mark{Name: "inventory"})
	wantTarget(t, db, "inventory", "real", "")
	if missing := markAll(t, db); missing != nil {
		t.Errorf("missing %v, and it has no address", missing)
	}
	wantTarget(t, db, "inventory", "real", "")
	markAll(t, db, Mark{Name: "inventory", URL: stockURL})
	wantTarget(t, db, "inventory", "real", stockURL)
}

func TestStartWithAnotherCredentialResumes(t *testing.T) {
	db := openNew(t)
	start := func(credential string) {
		markAll(t, db, Mark{Name: "refund", URL: gate, Credential: credential})
	}
	start("sesame-1")
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "401: who are you", "sesame-1") })
	start("sesame-1")
	wantPaused(t, db, "with the same", "refund", "answer")
	wantNumber(t, db, 1, `SELECT length(paused_credential) = 32 AND instr(paused_credential, CAST('sesame' AS BLOB)) = 0 FROM targets`)
	start("sesame-2")
	wantPaused(t, db, "with another", "refund", "")
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE action = 'target resumed' AND subject = 'refund' AND who = 'tester' AND detail LIKE '%another credential'`)
	wantNumber(t, db, 1, `SELECT paused_credential IS NULL AND paused_at IS NULL AND paused_why = '' AND probe_at = 0 FROM targets`)
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "401", "") })
	start("")
	wantPaused(t, db, "with none again", "refund", "answer")
	start("sesame-3")
	wantPaused(t, db, "with one at last", "refund", "")
	update(t, db, func(tx *Tx) error { return tx.PauseTarget("refund", "olga", "stocktaking") })
	start("sesame-4")
	wantPaused(t, db, "what an operator paused", "refund", "operator")
}

func TestTargetLocal(t *testing.T) {
	db := openNew(t)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	update(t, db, func(tx *Tx) error {
		for _, err := range []error{tx.PauseByAnswer("refund", "401", "k"), tx.HoldTarget("refund", 5000), tx.Offline("refund", true), tx.ProveAddress("refund", gate)} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	local := func(name string) (was bool) {
		update(t, db, func(tx *Tx) (err error) { was, err = tx.TargetLocal(name, "olga"); return err })
		return was
	}
	if !local("refund") || local("refund") || local("inventory") {
		t.Error("TargetLocal does not tell what was real")
	}
	select {
	case <-db.Wake():
	default:
		t.Error("nobody was woken up for the tickets that can be simulated now")
	}
	got := targetNow(t, db, "refund")
	if got.Real() || got.Address+got.PausedWhy+got.Proven != "" || got.Paused != nil || got.PausedAt != nil || got.OfflineSince != nil ||
		got.HoldUntil+got.ProbeAt != 0 || got.credential != nil {
		t.Errorf("a local target is %+v", got)
	}
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE action = 'target is local' AND who = 'olga'`)
	if missing := markAll(t, db); missing != nil {
		t.Errorf("missing %v after it was made local", missing)
	}
}

// An operator's pause stands until an operator says otherwise.
func TestOperatorBeatsAnswer(t *testing.T) {
	db, clock := openAt(t)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	put(t, db, TicketIssueRefund, 1)
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "403", "k") })
	update(t, db, func(tx *Tx) error { return tx.PauseTarget("refund", "olga", "stocktaking") })
	wantPaused(t, db, "operator after answer", "refund", "operator")
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "403 again", "k") })
	update(t, db, func(tx *Tx) error { return tx.Answered("refund") })
	got := targetNow(t, db, "refund")
	wantPaused(t, db, "answer after operator", "refund", "operator")
	if got.PausedWhy != "stocktaking" || got.ProbeAt != 0 || got.credential != nil || *got.PausedAt != clock.wall.UnixMilli() {
		t.Errorf("paused by an operator it is %+v", got)
	}
	for _, wait := range []time.Duration{time.Hour, 50 * time.Hour, -90 * time.Hour} {
		clock.wall = clock.wall.Add(wait)
		if c := lane(t, db, "refund"); c.Halted != "paused" || c.Probe || len(c.Tickets) > 0 {
			t.Errorf("%v later an operator's pause was tried: %+v", wait, c)
		}
	}
	for range 2 {
		update(t, db, func(tx *Tx) error { return tx.ResumeTarget("refund", "olga") })
	}
	wantPaused(t, db, "resumed", "refund", "")
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log WHERE action = 'target resumed'`)
	wantNumber(t, db, 2, `SELECT count(*) FROM operator_log WHERE action = 'target paused'`)
	wantNumber(t, db, 1, `SELECT count(*) FROM outbox WHERE status = 'pending'`)
}

// What an answer has paused is tried by one ticket an hour, and a clock that jumps costs at most one try.
func TestProbeOnceAnHour(t *testing.T) {
	db, clock := openAt(t)
	clock.boot = "" // it has only a wall clock
	markAll(t, db, Mark{Name: "refund", URL: gate})
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "401", "k") })
	clock.wall = clock.wall.Add(time.Hour)
	if c := lane(t, db, "refund"); !c.Probe || len(c.Tickets) > 0 {
		t.Fatalf("with nothing to send the claim was %+v", c)
	}
	ids := put(t, db, TicketIssueRefund, 3)
	probes := func(what string, jump time.Duration, want bool) {
		t.Helper()
		clock.wall = clock.wall.Add(jump)
		c := lane(t, db, "refund")
		if c.Probe != want || want != (len(c.Tickets) == 1) || want == (c.Halted == "paused") {
			t.Errorf("%s: the claim is %+v", what, c)
		}
		if want {
			wantIDs(t, what, c.Tickets, ids[0])
		}
		update(t, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
	}
	probes("the turn was not used up by an empty rail", 0, true)
	probes("at once", 0, false)
	probes("a millisecond early", time.Hour-time.Millisecond, false)
	probes("an hour later", time.Millisecond, true)
	probes("the clock is set back by half an hour", -30*time.Minute, true) // the mark lies further ahead than a probe ever does
	probes("and then", 0, false)
	probes("the clock is set back by two days", -48*time.Hour, true)
	probes("and then", 59*time.Minute, false)
	probes("the clock is set ahead by ten days", 240*time.Hour, true)
	probes("and then", 59*time.Minute, false)
	update(t, db, func(tx *Tx) error { return tx.PauseByAnswer("refund", "401 still", "k") })
	if got := targetNow(t, db, "refund"); got.PausedWhy != "401" {
		t.Errorf("a second refusal changed the pause to %+v", got)
	}
	probes("a second refusal puts nothing off", time.Minute, true)
	update(t, db, func(tx *Tx) error { return tx.HoldTarget("refund", 2*time.Hour.Milliseconds()) })
	probes("it asked to be left alone", 61*time.Minute, false)
	probes("that is over, and the turn was kept", 60*time.Minute, true)
	update(t, db, func(tx *Tx) error { return tx.Answered("refund") })
	wantPaused(t, db, "it let us in", "refund", "")
	wantIDs(t, "then all go", lane(t, db, "refund").Tickets, ids...)
}

// The longest hold is a day; one that ends further ahead was written by a clock that was wrong.
func TestHold(t *testing.T) {
	db, clock := openAt(t)
	clock.boot = "" // it has only a wall clock
	markAll(t, db, Mark{Name: "refund", URL: gate})
	holdFor := func(d time.Duration) {
		update(t, db, func(tx *Tx) error { return tx.HoldTarget("refund", d.Milliseconds()) })
	}
	until := func(what string, want time.Duration) {
		t.Helper()
		if got := targetNow(t, db, "refund").HoldUntil - clock.wall.UnixMilli(); got != want.Milliseconds() {
			t.Errorf("%s: held for %d ms, want %v", what, got, want)
		}
	}
	halted := func(what, want string) {
		t.Helper()
		if got := lane(t, db, "refund").Halted; got != want {
			t.Errorf("%s: halted %q, want %q", what, got, want)
		}
	}
	holdFor(-time.Second)
	halted("less than nothing", "")
	holdFor(time.Minute)
	halted("a minute", "held")
	holdFor(time.Second)
	until("a shorter one changes nothing", time.Minute)
	clock.wall = clock.wall.Add(time.Minute - time.Millisecond)
	halted("a millisecond before its end", "held")
	clock.wall = clock.wall.Add(time.Millisecond)
	halted("at its end", "")
	holdFor(1000 * time.Hour)
	until("clamped", LongestWait)
	halted("a day", "held")
	clock.wall = clock.wall.Add(-time.Millisecond) // now it ends more than a day ahead
	halted("the clock was set back", "")
	if state := targetNow(t, db, "refund").State(clock.wall.UnixMilli()); state != "up" {
		t.Errorf("under a void hold it is %q", state)
	}
	holdFor(time.Minute)
	until("a void one is replaced by a shorter one", time.Minute)
	halted("a minute", "held")
}

func TestTargetState(t *testing.T) {
	const now = int64(1_800_000_000_000)
	who, since := "operator", now
	for want, one := range map[string]Target{
		"up": {Mode: "real", HoldUntil: now}, "held": {HoldUntil: now + 1},
		"offline": {OfflineSince: &since, HoldUntil: now + 1}, "paused": {Paused: &who, OfflineSince: &since, HoldUntil: now + 1},
	} {
		if got := one.State(now); got != want {
			t.Errorf("%+v is %q, want %q", one, got, want)
		}
	}
}

// A secret in a query is neither kept nor shown, and two queries are two addresses all the same.
func TestAddressHidesTheQuery(t *testing.T) {
	a, b := Address(gate+"?key=sesame"), Address(gate+"?key=simsim")
	for _, got := range []string{a, b} {
		if strings.Contains(got, "sesame") || strings.Contains(got, "simsim") || !strings.HasPrefix(got, gate+"?…") {
			t.Errorf("an address is shown as %s", got)
		}
	}
	if a == b || a != Address(gate+"?key=sesame") || Address(gate) != gate || Address("") != "" {
		t.Errorf("addresses are %s and %s", a, b)
	}
	db := openNew(t)
	markAll(t, db, Mark{Name: "refund", URL: gate + "?key=sesame"})
	wantTarget(t, db, "refund", "real", a)
	if missing := markAll(t, db, Mark{Name: "refund", URL: gate + "?key=sesame"}); missing != nil {
		t.Errorf("missing %v", missing)
	}
	wantNumber(t, db, 0, `SELECT count(*) FROM operator_log WHERE detail LIKE '%sesame%'`)
	wantNumber(t, db, 1, `SELECT count(*) FROM operator_log`)
}

func TestOfflineAndProven(t *testing.T) {
	db, clock := openAt(t)
	markAll(t, db, Mark{Name: "refund", URL: gate})
	offline := func(is bool) { update(t, db, func(tx *Tx) error { return tx.Offline("refund", is) }) }
	offline(true)
	began := clock.wall.UnixMilli()
	clock.pass(time.Minute)
	offline(true)
	if got := targetNow(t, db, "refund"); got.OfflineSince == nil || *got.OfflineSince != began {
		t.Errorf("offline since %v, want %d", got.OfflineSince, began)
	}
	offline(false)
	select {
	case <-db.Wake():
	default:
		t.Error("the return woke nobody up")
	}
	if got := targetNow(t, db, "refund"); got.OfflineSince != nil {
		t.Errorf("it is back and offline since %d", *got.OfflineSince)
	}
	offline(false)
	select {
	case <-db.Wake():
		t.Error("it was back already and woke somebody up")
	default:
	}
	for _, address := range []string{gate, gate, gate + "/v2"} {
		update(t, db, func(tx *Tx) error { return tx.ProveAddress("refund", address) })
		if got := targetNow(t, db, "refund").Proven; got != address {
			t.Errorf("proven is %q, want %q", got, address)
		}
	}
	if all := view(t, db, func(tx *Tx) ([]Target, error) { return tx.Targets() }); len(all) != 1 || all[0].Name != "refund" {
		t.Errorf("the file knows %+v", all)
	}
}
