package store

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

const somePassword = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA"

// doorFile is a file whose clocks the test sets.
type doorFile struct {
	*testing.T
	path string
	db   *DB
	boot string
	up   time.Duration
	wall time.Time
}

func newDoorFile(t *testing.T) *doorFile {
	f := &doorFile{T: t, path: filepath.Join(t.TempDir(), "comanda.db"), boot: "b1", wall: time.UnixMilli(1_800_000_000_000)}
	f.open()
	t.Cleanup(func() { _ = f.db.Close() })
	return f
}

func (f *doorFile) open() {
	f.Helper()
	var err error
	f.db, err = Open(f.Context(), f.path, Options{Now: func() time.Time { return f.wall }, Boot: func() (string, int64) { return f.boot, f.up.Milliseconds() }})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *doorFile) reopen() {
	f.Helper()
	if err := f.db.Close(); err != nil {
		f.Fatal(err)
	}
	f.open()
}

func (f *doorFile) update(fn func(*Tx) error) {
	f.Helper()
	if err := f.db.Update(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}

func (f *doorFile) account(name string) {
	f.Helper()
	f.update(func(tx *Tx) error { return tx.SetAccount(name, RoleOperate, somePassword, "test") })
}

func (f *doorFile) login(account, key string) (begun bool) {
	f.Helper()
	f.update(func(tx *Tx) (err error) {
		begun, err = tx.BeginSession(NewSession{Secret: sha256.Sum256([]byte(key)), Account: account, Password: somePassword, Address: "a", Who: "w"})
		return err
	})
	return begun
}

func (f *doorFile) lives(key string) bool { f.Helper(); _, found := f.session(key); return found }

func (f *doorFile) session(key string) (s Session, found bool) {
	f.Helper()
	err := f.db.View(f.Context(), func(tx *Tx) (err error) {
		s, found, err = tx.Session(sha256.Sum256([]byte(key)))
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return s, found
}

func (f *doorFile) use(key string) {
	f.Helper()
	s, _ := f.session(key)
	f.update(func(tx *Tx) error { return tx.UseSession(s.ID) })
}

// A session ends 12 h after its last use and 7 days after its login, by a clock that nobody sets.
func TestSessionsEnd(t *testing.T) {
	f := newDoorFile(t)
	f.account("ana")
	if !f.login("ana", "k") || !f.lives("k") || f.lives("other") {
		t.Fatal("a login opens no session, or opens another")
	}
	f.up += SessionIdle - time.Millisecond
	if s, ok := f.session("k"); !ok || !s.Stale || s.Role != RoleOperate {
		t.Errorf("just before its end: %+v %t", s, ok)
	}
	f.use("k")
	if s, _ := f.session("k"); s.Stale {
		t.Error("a use that was just noted is worth noting again")
	}
	f.up += 2 * time.Millisecond
	if !f.lives("k") {
		t.Error("a session that was used ends")
	}
	f.up += SessionIdle
	if f.lives("k") {
		t.Error("a session that nobody uses goes on")
	}
	f.login("ana", "k2")
	for day := time.Duration(0); day < SessionLife-6*time.Hour; day += 6 * time.Hour {
		f.up += 6 * time.Hour
		f.use("k2")
	}
	f.up += 6*time.Hour - time.Millisecond
	if !f.lives("k2") {
		t.Error("a session ends before its seven days")
	}
	f.up += time.Millisecond
	if f.lives("k2") {
		t.Error("a session outlives its seven days")
	}
}

// Setting the wall clock neither ends a session nor keeps one; another boot ends all, a restart of the program none.
func TestSessionsAndClocks(t *testing.T) {
	f := newDoorFile(t)
	f.account("ana")
	f.login("ana", "k")
	for _, step := range []time.Duration{20 * 365 * 24 * time.Hour, -40 * 365 * 24 * time.Hour} {
		f.wall = f.wall.Add(step)
		f.reopen()
		if !f.lives("k") {
			t.Errorf("the clock was set by %s and a session is over", step)
		}
	}
	f.up += SessionIdle
	if f.lives("k") {
		t.Error("with the clock set back a session never ends")
	}
	f.login("ana", "k2")
	f.boot, f.up = "b2", 0
	if f.lives("k2") {
		t.Error("nobody knows how long the machine was off, and the session goes on")
	}
	f.boot = "" // a machine that can't tell
	f.login("ana", "k3")
	if f.reopen(); !f.lives("k3") {
		t.Error("in one process a session needs no boot")
	}
}

// A session ends with its account, its password and its role; an old one makes room beyond fifty.
func TestSessionsOfAnAccount(t *testing.T) {
	f := newDoorFile(t)
	f.account("ana")
	f.account("bea")
	f.login("ana", "k")
	f.login("bea", "b")
	f.account("ana")
	if f.lives("k") || !f.lives("b") {
		t.Error("another password leaves its sessions, or ends another's")
	}
	f.login("ana", "k")
	f.update(func(tx *Tx) error { _, err := tx.RemoveAccount("ana", "test"); return err })
	if f.lives("k") || f.login("ana", "k") {
		t.Error("an account that is gone has sessions")
	}
	for i := range mostSessions + 1 {
		f.login("bea", fmt.Sprint(i))
	}
	if f.lives("b") || f.lives("0") || !f.lives("1") {
		t.Error("fifty sessions are not the newest fifty")
	}
	f.update(func(tx *Tx) error {
		begun, err := tx.BeginSession(NewSession{Secret: sha256.Sum256([]byte("late")), Account: "bea", Password: somePassword + "old"})
		if begun {
			t.Error("a password that was changed meanwhile opens a session")
		}
		return err
	})
}

func (f *doorFile) try(debts ...LoginDebt) (wait time.Duration) {
	f.Helper()
	f.update(func(tx *Tx) (err error) { wait, err = tx.ChargeLogin(debts, "w"); return err })
	return wait
}

// Tries are paid off by time that passes: not by a clock that is set, not by a restart, and not by another boot, which
// owes what was owed and no more.
func TestLoginDebts(t *testing.T) {
	f := newDoorFile(t)
	ana := LoginDebt{"account", "ana", time.Minute, 3 * time.Minute}
	for i := range 3 {
		if wait := f.try(ana); wait != 0 {
			t.Fatalf("try %d waits %s", i+1, wait)
		}
	}
	for _, then := range []func(){
		func() {},
		func() { f.wall = f.wall.Add(20 * 365 * 24 * time.Hour) },
		func() { f.wall = f.wall.Add(-40 * 365 * 24 * time.Hour) },
		f.reopen,
		func() { f.boot, f.up = "b2", 0 },
		func() { f.boot, f.up = "b3", 1000*time.Hour },
	} {
		if then(); f.try(ana) != time.Minute {
			t.Error("a debt was forgiven, or grew")
		}
	}
	if f.try(LoginDebt{"account", "bea", time.Minute, 3 * time.Minute}) != 0 {
		t.Error("one account owes for another")
	}
	f.up += time.Minute
	if f.try(ana) != 0 || f.try(ana) != time.Minute {
		t.Error("a minute does not pay for one try")
	}
	f.up += 3 * time.Minute
	f.try(LoginDebt{"address", "x", time.Minute, 3 * time.Minute})
	if a, err := f.db.Query(t.Context(), `SELECT count(*) FROM login_debts`); err != nil || a.Rows[0][0] != int64(1) {
		t.Errorf("what is paid is kept: %v %v", a.Rows, err)
	}
}

// One try that is too much for one of its debts is charged to none, is told once, and a right password takes its try back.
func TestLoginDebtsTogether(t *testing.T) {
	f := newDoorFile(t)
	account, address := LoginDebt{"account", "ana", time.Minute, 9 * time.Minute}, LoginDebt{"address", "x", time.Minute, time.Minute}
	f.try(account, address)
	for range 20 {
		if f.try(account, address) != time.Minute {
			t.Fatal("the address may try again")
		}
	}
	for i := range 8 {
		if f.try(account) != 0 {
			t.Fatalf("the account was charged for what was refused, after %d", i)
		}
	}
	f.update(func(tx *Tx) error { return tx.ForgiveLogin([]LoginDebt{account}) })
	if wait := f.try(account); wait != account.Cost/10 {
		t.Errorf("after a try that was taken back but for a tenth of it: %s", wait)
	}
	if a, err := f.db.Query(t.Context(), `SELECT subject FROM operator_log WHERE action = 'logins refused' ORDER BY id`); err != nil || len(a.Rows) != 2 {
		t.Errorf("in the operator log: %v %v", a.Rows, err)
	}
}

// A token is known by its hash alone, and says when it was used, to the minute.
func TestTokens(t *testing.T) {
	f := newDoorFile(t)
	secret := sha256.Sum256([]byte("t"))
	find := func() (token Token, found bool) {
		if err := f.db.View(t.Context(), func(tx *Tx) (err error) { token, found, err = tx.Token(secret); return err }); err != nil {
			t.Fatal(err)
		}
		return token, found
	}
	f.update(func(tx *Tx) error {
		if added, err := tx.AddToken("p", RoleView, secret, "w"); err != nil || !added {
			t.Errorf("%t %v", added, err)
		}
		added, err := tx.AddToken("p", RoleOperate, sha256.Sum256(nil), "w")
		if added {
			t.Error("a name was given twice")
		}
		return err
	})
	if token, found := find(); !found || token.Role != RoleView || token.UsedAt != nil || !token.Stale {
		t.Errorf("%+v %t", token, found)
	}
	f.update(func(tx *Tx) error { return tx.UseToken("p") })
	if token, _ := find(); token.UsedAt == nil || token.Stale {
		t.Errorf("after a use: %+v", token)
	}
	f.wall = f.wall.Add(-time.Hour)
	if token, _ := find(); !token.Stale {
		t.Error("with the clock set back a use is not noted")
	}
	f.update(func(tx *Tx) error { _, err := tx.RevokeToken("p", "w"); return err })
	if _, found := find(); found {
		t.Error("a token outlives its end")
	}
}
