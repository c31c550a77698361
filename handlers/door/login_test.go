package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

const goodPassword = "correct horse battery"

// house is a gate before a real file, whose clocks the test sets.
type house struct {
	*testing.T
	path string
	db   *store.DB
	gate *Gate
	up   time.Duration
	wall time.Time
}

func newHouse(t *testing.T, accounts ...string) *house {
	h := &house{T: t, path: filepath.Join(t.TempDir(), "comanda.db"), wall: time.UnixMilli(1_800_000_000_000), up: time.Hour}
	h.open()
	t.Cleanup(func() { h.gate.Close(); _ = h.db.Close() })
	for _, name := range accounts {
		h.account(name, goodPassword)
	}
	return h
}

func (h *house) open() {
	h.Helper()
	var err error
	h.db, err = store.Open(h.Context(), h.path, store.Options{Now: func() time.Time { return h.wall }, Boot: func() (string, int64) { return "b", h.up.Milliseconds() }})
	if err != nil {
		h.Fatal(err)
	}
	h.gate = New(Options{DB: h.db})
}

func (h *house) restart() {
	h.Helper()
	h.gate.Close()
	if err := h.db.Close(); err != nil {
		h.Fatal(err)
	}
	h.open()
}

func (h *house) account(name, password string) {
	h.Helper()
	kept := HashPassword(password)
	if err := h.db.Update(h.Context(), func(tx *store.Tx) error { return tx.SetAccount(name, store.RoleOperate, kept, "test") }); err != nil {
		h.Fatal(err)
	}
}

func from(address string) *http.Request {
	r := httptest.NewRequest("POST", "http://192.168.1.5:8080/login", nil)
	r.RemoteAddr = address + ":4000"
	if strings.Contains(address, ":") {
		r.RemoteAddr = "[" + address + "]:4000"
	}
	return r
}

func (h *house) try(address, name, password string) error {
	_, err := h.gate.Login(from(address), name, password)
	return err
}

func (h *house) count(query string) int64 {
	h.Helper()
	a, err := h.db.Query(h.Context(), query)
	if err != nil {
		h.Fatal(err)
	}
	return a.Rows[0][0].(int64)
}

func throttled(err error) bool { return errors.As(err, new(*TooManyTries)) }

// Whoever guesses has five tries from one place and then one a minute, whatever place that is of its network; the right
// password is not looked at meanwhile. A restart, and a clock that is set, change nothing.
func TestBruteForce(t *testing.T) {
	h := newHouse(t, "ana")
	hashed := 0
	h.gate.verify = func(phc, password string) (bool, error) { hashed++; return verifyPassword(phc, password) }
	for i := range addressTries {
		if err := h.try(fmt.Sprintf("2001:db8::%d", i+1), "ana", fmt.Sprint("wrong password ", i)); !errors.Is(err, ErrWrongLogin) {
			t.Fatalf("try %d: %v", i+1, err)
		}
	}
	for what, then := range map[string]func(){
		"": func() {}, "after a restart": h.restart,
		"with the clock set forward": func() { h.wall = h.wall.Add(10 * 365 * 24 * time.Hour) }, "with it set back": func() { h.wall = h.wall.Add(-20 * 365 * 24 * time.Hour) },
	} {
		then()
		if err := h.try("2001:db8::99", "ana", goodPassword); !throttled(err) {
			t.Errorf("%s the right password is looked at: %v", what, err)
		}
	}
	if hashed != addressTries {
		t.Errorf("%d passwords were hashed", hashed)
	}
	if err := h.try("2001:db8:0:1::1", "ana", goodPassword); err != nil {
		t.Errorf("another network waits too: %v", err)
	}
	h.up += addressEvery
	if err := h.try("2001:db8::1", "ana", goodPassword); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	h.up += addressEvery / 10
	if err := h.try("2001:db8::1", "ana", goodPassword); err != nil { // the right password took most of its try back
		t.Errorf("once more: %v", err)
	}
	if n := h.count(`SELECT count(*) FROM operator_log WHERE action = 'logins refused'`); n != 1 {
		t.Errorf("%d lines of it in the operator log", n)
	}
}

// A try that is refused anyway takes nobody's turn, neither that of a password nor that of the file's writer.
func TestRefusedTriesWaitForNothing(t *testing.T) {
	h := newHouse(t, "ana")
	h.gate.verify = func(string, string) (bool, error) { return false, nil }
	for range addressTries + 1 {
		_ = h.try("10.0.0.1", "ana", "wrong password")
	}
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = h.db.Update(context.Background(), func(*store.Tx) error { close(held); <-release; return nil })
	}()
	<-held
	refused := make(chan error, 1)
	go func() { refused <- h.try("10.0.0.1", "ana", goodPassword) }()
	select {
	case err := <-refused:
		if !throttled(err) {
			t.Errorf("refused by %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a try that is refused anyway waits for the writer")
	}
	close(release)
}

// Whoever has many addresses has the tries of an account alone, for all of them. One address does not use them up.
func TestBruteForceFromEverywhere(t *testing.T) {
	h := newHouse(t, "ana", "bea")
	h.gate.verify = func(_, password string) (bool, error) { return password == goodPassword, nil }
	for range 100 {
		_ = h.try("10.0.0.1", "ana", "wrong password")
	}
	if err := h.try("10.0.0.2", "ana", goodPassword); err != nil {
		t.Errorf("one address keeps the owner out: %v", err)
	}
	looked := 0
	for i := range 200 {
		if errors.Is(h.try(fmt.Sprintf("10.1.0.%d", i), "ana", "wrong password"), ErrWrongLogin) {
			looked++
		}
	}
	if looked > accountTries {
		t.Errorf("%d tries from as many addresses", looked)
	}
	if err := h.try("10.2.0.1", "ana", goodPassword); !throttled(err) {
		t.Errorf("the right password is looked at: %v", err)
	}
	if err := h.try("10.2.0.2", "bea", goodPassword); err != nil {
		t.Errorf("another account waits too: %v", err)
	}
}

// Two tries at the same time are charged one after the other.
func TestTriesAtTheSameTime(t *testing.T) {
	h := newHouse(t, "ana")
	var looked atomic.Int64
	h.gate.verify = func(string, string) (bool, error) { looked.Add(1); return false, nil }
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() { _ = h.try("10.0.0.1", "ana", "wrong password") })
	}
	if all.Wait(); looked.Load() != addressTries {
		t.Errorf("%d passwords were looked at", looked.Load())
	}
}

// No more than two passwords are hashed at the same time; too many that wait are sent away.
func TestTwoHashesAtOnce(t *testing.T) {
	h := newHouse(t, "ana")
	var under, most, away atomic.Int64
	go_ := make(chan struct{})
	h.gate.verify = func(string, string) (bool, error) {
		n := under.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-go_
		under.Add(-1)
		return false, nil
	}
	var all sync.WaitGroup
	const many = 40
	for i := range many {
		all.Go(func() {
			if errors.Is(h.try(fmt.Sprintf("10.0.0.%d", i), fmt.Sprint("a", i), "wrong password"), ErrBusy) {
				away.Add(1)
			}
		})
	}
	for giveUp := time.Now().Add(4 * time.Second); (away.Load() < many-mostWaiting-mostHashes || under.Load() < mostHashes) && time.Now().Before(giveUp); {
		time.Sleep(time.Millisecond)
	}
	close(go_)
	if all.Wait(); most.Load() != mostHashes || away.Load() > many-mostWaiting {
		t.Errorf("%d at the same time, %d sent away", most.Load(), away.Load())
	}
}

// An account that is not there is answered as one with another password, after the same work, and what is typed for a
// name is no key of its own.
func TestUnknownAccount(t *testing.T) {
	h := newHouse(t, "ana")
	var hashes []string
	h.gate.verify = func(phc, password string) (bool, error) {
		hashes = append(hashes, phc[:strings.LastIndex(phc[:len(phc)-44], "$")])
		return verifyPassword(phc, password)
	}
	for i, name := range []string{"ana", "bea", "", "no\nname", strings.Repeat("x", 1000), "' OR 1=1 --"} {
		if err := h.try(fmt.Sprintf("10.0.0.%d", i), name, "wrong password"); err == nil || err.Error() != ErrWrongLogin.Error() {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	for _, parameters := range hashes {
		if parameters != hashes[0] || len(hashes) != 6 {
			t.Errorf("other work: %q", hashes)
		}
	}
	if n := h.count(`SELECT max(length(subject)) FROM login_debts`); n > 40 {
		t.Errorf("a name of %d is kept", n)
	}
	if err := h.try("10.0.0.9", " ANA ", goodPassword); err != nil {
		t.Errorf("a name with a capital, and blanks: %v", err)
	}
}

// A password that is changed while it is looked at opens nothing.
func TestPasswordChangesMeanwhile(t *testing.T) {
	h := newHouse(t, "ana")
	h.gate.verify = func(phc, password string) (bool, error) {
		h.account("ana", "another password")
		return verifyPassword(phc, password)
	}
	if err := h.try("10.0.0.1", "ana", goodPassword); !errors.Is(err, ErrWrongLogin) {
		t.Errorf("the old password: %v", err)
	}
}

// A password is kept as OWASP says, however it was typed, and only as long as it may be.
func TestPasswords(t *testing.T) {
	kept := HashPassword("contraseña larga") // ñ as one character
	if !strings.HasPrefix(kept, "$argon2id$v=19$m=19456,t=2,p=1$") || kept == HashPassword("contraseña larga") {
		t.Errorf("kept as %s", kept)
	}
	for password, want := range map[string]bool{"contraseña larga": true, "contrasen\u0303a larga": true, "contrasena larga": false, "": false} {
		if ok, err := verifyPassword(kept, password); ok != want || err != nil {
			t.Errorf("%q: %t %v", password, ok, err)
		}
	}
	if ok, err := verifyPassword(nobodysHash, ""); ok || err != nil {
		t.Errorf("nobody's: %t %v", ok, err)
	}
	for _, foreign := range []string{"", "$argon2id$", strings.Replace(kept, "m=19456", "m=999999", 1), strings.Replace(kept, "t=2", "t=9", 1), kept[:len(kept)-4], strings.Replace(kept, "v=19", "v=16", 1)} {
		if ok, err := verifyPassword(foreign, "contraseña larga"); ok || err == nil {
			t.Errorf("%s: %t %v", foreign, ok, err)
		}
	}
	for password, good := range map[string]bool{"123456789": false, "1234567890": true, "ñandú-ñand": true, strings.Repeat("ñ", 1000): true, strings.Repeat("ñ", 1001): false, "1234567890\x00": false} {
		if fault := CheckPassword(password); (fault == "") != good {
			t.Errorf("%.12q: %q", password, fault)
		}
	}
}

// The file's password is that of the account admin, from the start and whenever it changes; the same one again ends no
// session, and one that is no good changes nothing.
func TestPasswordFile(t *testing.T) {
	h := newHouse(t)
	path := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("short\n")
	if _, err := OpenPasswordFile("--admin-password-file", path); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("a short one: %v", err)
	}
	write(goodPassword + "\r\n")
	p, err := OpenPasswordFile("--admin-password-file", path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Use(t.Context(), h.db); err != nil {
			t.Fatal(err)
		}
		if n := h.count(`SELECT count(*) FROM operator_log WHERE action = 'password set' AND who = '--admin-password-file'`); n != 1 {
			t.Errorf("it was set %d times", n)
		}
		if h.count(`SELECT count(*) FROM sessions`) == 0 {
			if err := h.try("10.0.0.1", Admin, goodPassword); err != nil {
				t.Error(err)
			}
		}
	}
	if h.count(`SELECT count(*) FROM sessions`) != 1 {
		t.Error("a start with the same password ends sessions")
	}
	log := slog.New(slog.DiscardHandler)
	write("short")
	p.file.Reread(log)
	if err := h.try("10.0.0.1", Admin, goodPassword); err != nil {
		t.Errorf("after a change to one that is no good: %v", err)
	}
	write("another password")
	p.file.Reread(log)
	if err := h.try("10.0.0.1", Admin, "another password"); err != nil || h.count(`SELECT count(*) FROM sessions`) != 1 {
		t.Errorf("after a change: %v, %d sessions", err, h.count(`SELECT count(*) FROM sessions`))
	}
}

// A use is noted in the background, once a minute, and a page that asks by itself is none.
func TestUsesAreNoted(t *testing.T) {
	h := newHouse(t, "ana")
	key, err := h.gate.Login(from("10.0.0.1"), "ana", goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	visit := func(header, value string) {
		r := from("10.0.0.1")
		r.AddCookie(Cookie(r, key))
		r.Header.Set(header, value)
		if _, err := h.gate.admit(r, View); err != nil {
			t.Error(err)
		}
		h.gate.uses.under.Wait()
	}
	seen := func() int64 { return h.count(`SELECT seen_ms FROM sessions`) }
	began := seen()
	h.up += time.Minute
	visit("HX-Request", "true")
	visit("Accept", "text/event-stream")
	if seen() != began {
		t.Error("a page that refreshes itself counts as a use")
	}
	visit("Accept", "text/html")
	noted := seen()
	h.up += 30 * time.Second
	visit("Accept", "text/html")
	if noted == began || seen() != noted {
		t.Errorf("noted at %d, then %d", noted, seen())
	}
}

// A file that can't be written to lets in whoever has a key all the same.
func TestUsesMayFail(t *testing.T) {
	h := newHouse(t)
	token, secret := NewToken()
	if err := h.db.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.AddToken("p", store.RoleView, secret, "test"); return err }); err != nil {
		t.Fatal(err)
	}
	held, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = h.db.Update(context.Background(), func(*store.Tx) error { close(held); <-release; return nil })
	}()
	<-held
	defer close(release)
	r := from("10.0.0.1")
	r.Header.Set("Authorization", "Bearer "+token)
	if v, err := h.gate.admit(r, View); err != nil || v.Who != "token p from 10.0.0.1" || v.MayOperate() {
		t.Errorf("%+v %v", v, err)
	}
}
