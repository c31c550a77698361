package console

import (
	"bufio"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"comanda/handlers/door"
	"comanda/store"
)

const goodPassword = "correct horse battery"

// away is a request that comes by a proxy from another machine.
func away(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.9") }

// keyed is away with a cookie.
func keyed(cookie string) func(*http.Request) {
	return func(r *http.Request) { away(r); r.Header.Set("Cookie", cookie) }
}

func (s *shop) account(name, role string) {
	s.Helper()
	kept := door.HashPassword(goodPassword)
	s.update(func(tx *store.Tx) error { return tx.SetAccount(name, role, kept, "test") })
}

func credentials(name, password string) url.Values {
	return url.Values{"name": {name}, "password": {password}}
}

// login returns the cookie that a browser would send from then on.
func (s *shop) login(name string, change ...func(*http.Request)) (cookie string) {
	s.Helper()
	p := s.do("POST", "/login", credentials(name, goodPassword), append([]func(*http.Request){away}, change...)...).wants(303)
	cookie, _, _ = strings.Cut(p.header.Get("Set-Cookie"), ";")
	if !strings.HasPrefix(cookie, "comanda_session=") {
		s.Fatalf("a login gives %q", p.header)
	}
	return cookie
}

func (s *shop) count(query string) int64 {
	s.Helper()
	a, err := s.db.Query(s.Context(), query)
	if err != nil {
		s.Fatal(err)
	}
	return a.Rows[0][0].(int64)
}

// Whoever logs in gets to the page that was asked for, is named in the log, and may leave again.
func TestLogin(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	if p := s.do("GET", "/rail?status=dead", nil, away); p.status != 303 || p.header.Get("Location") != "/login?next=%2Frail%3Fstatus%3Ddead" {
		t.Fatalf("%d to %q", p.status, p.header.Get("Location"))
	}
	s.do("GET", "/login?next=%2Frail%3Fstatus%3Ddead", nil, away).wants(200, `name="next" value="/rail?status=dead"`, `autocomplete="current-password"`)
	f := credentials("ana", "wrong password")
	f.Set("next", "/rail?status=dead")
	s.do("POST", "/login", f, away).wants(401, "The name or the password is wrong.", `value="ana"`, `value="/rail?status=dead"`)
	f.Set("password", goodPassword)
	p := s.do("POST", "/login", f, away)
	cookie, _, _ := strings.Cut(p.header.Get("Set-Cookie"), ";")
	if p.status != 303 || p.header.Get("Location") != "/rail?status=dead" {
		t.Fatalf("%d to %q", p.status, p.header.Get("Location"))
	}
	s.do("GET", "/rail?status=dead", nil, keyed(cookie)).wants(200, "ana, may act", "Log out")
	s.do("POST", "/relay", url.Values{"do": {"pause"}}, keyed(cookie)).wants(303)
	s.do("GET", "/relay", nil, keyed(cookie)).wants(200, "console as ana from 203.0.113.9")
	if p := s.do("POST", "/logout", url.Values{}, keyed(cookie)).wants(303); !strings.Contains(p.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("the cookie stays: %q", p.header.Get("Set-Cookie"))
	}
	s.do("GET", "/rail", nil, keyed(cookie)).wants(303)
	s.do("POST", "/relay", url.Values{"do": {"resume"}}, keyed(cookie)).wants(401, "nothing was changed", `action="/login"`)
	if n := s.count(`SELECT count(*) FROM operator_log WHERE who = 'console as ana from 203.0.113.9' AND action IN ('login', 'logout', 'relay paused')`); n != 3 {
		t.Errorf("%d lines of it in the operator log", n)
	}
}

// Too many tries are told how long to wait, in the reader's language.
func TestLoginWaits(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	for range 5 {
		s.do("POST", "/login", credentials("ana", "wrong password"), away).wants(401)
	}
	if p := s.do("POST", "/login", credentials("ana", goodPassword), away).wants(429, "Wait 1 minute;"); p.header.Get("Retry-After") == "" || p.header.Get("Set-Cookie") != "" {
		t.Errorf("%q", p.header)
	}
	s.lang = "es"
	s.do("POST", "/login", credentials("ana", goodPassword), away).wants(429, "Espere 1 minuto;")
	s.do("POST", "/login", credentials("ana", goodPassword)).wants(303) // from another place
}

// Nobody needs to know a key before the login: one that was planted is no key after it, and the one of before is over.
func TestNoFixation(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	planted := "comanda_session=planted0planted0planted0planted0"
	first := s.login("ana", keyed(planted))
	if first == planted {
		t.Error("a planted key is taken")
	}
	s.do("GET", "/rail", nil, keyed(planted)).wants(303)
	second := s.login("ana", keyed(first))
	if first == second {
		t.Error("two logins have one key")
	}
	s.do("GET", "/rail", nil, keyed(first)).wants(303)
	s.do("GET", "/rail", nil, keyed(second)).wants(200)
}

// A login leads to a page of this server, whatever the link to it said.
func TestNoOpenRedirect(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	for next, want := range map[string]string{
		"/rail?status=dead": "/rail?status=dead", "": "/", "rail": "/", "//evil.example": "/", "///evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/",
		"\\\\evil.example": "/", "javascript:alert(1)": "/", "/\t/evil.example": "/", "/\n/evil.example": "/", " //evil.example": "/", "http:evil.example": "/", "/%2f/evil.example": "/%2f/evil.example",
		"//evil.example@127.0.0.1": "/", "/orders/ORD%2F1": "/orders/ORD%2F1",
	} {
		f := credentials("ana", goodPassword)
		f.Set("next", next)
		if p := s.do("POST", "/login", f, away); p.status != 303 || p.header.Get("Location") != want {
			t.Errorf("%q leads to %q (%d)", next, p.header.Get("Location"), p.status)
		}
	}
}

// A page of another site logs nobody in, and its requests carry no session with them (the browser's part).
func TestLoginFromElsewhere(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	for name, change := range map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a hidden one":   func(r *http.Request) { r.Header.Set("Origin", "null") },
	} {
		if p := s.do("POST", "/login", credentials("ana", goodPassword), change); p.status != 403 || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %q", name, p.status, p.header.Get("Set-Cookie"))
		}
	}
}

// Who may act sees and ends everybody's logins and tokens; who may look the own ones alone.
func TestSessionsPage(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	s.account("eve", store.RoleView)
	s.update(func(tx *store.Tx) error {
		_, err := tx.AddToken("prometheus", store.RoleView, [32]byte{1}, "test")
		return err
	})
	ana, eve, other := s.login("ana"), s.login("eve"), s.login("eve")
	id := func(account string, nth int) url.Values {
		var all []store.Session
		if err := s.db.View(t.Context(), func(tx *store.Tx) (err error) { all, err = tx.Sessions(); return err }); err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Account == account {
				if nth--; nth < 0 {
					return url.Values{"id": {strconv.FormatInt(one.ID, 10)}}
				}
			}
		}
		t.Fatalf("%s has no such session", account)
		return nil
	}
	s.do("GET", "/sessions", nil, keyed(ana)).wants(200, "prometheus", "eve may look", "ana may act", "this one", "203.0.113.9")
	seen := s.do("GET", "/sessions", nil, keyed(eve)).wants(200, "eve may look", "this one").body
	for _, hidden := range []string{"prometheus", "ana"} {
		if strings.Contains(seen, hidden) {
			t.Errorf("who may look sees %s", hidden)
		}
	}
	s.do("POST", "/sessions", id("ana", 0), keyed(eve)).wants(303) // nothing of it is done
	s.do("GET", "/rail", nil, keyed(ana)).wants(200)
	s.do("POST", "/sessions", url.Values{"token": {"prometheus"}}, keyed(eve)).wants(403)
	s.do("POST", "/sessions", url.Values{"id": {"x"}}, keyed(eve)).wants(400)
	s.do("POST", "/sessions", id("eve", 1), keyed(other)).wants(303)
	s.do("GET", "/rail", nil, keyed(eve)).wants(303)
	s.do("POST", "/sessions", id("eve", 0), keyed(ana)).wants(303)
	s.do("GET", "/rail", nil, keyed(other)).wants(303)
	s.do("POST", "/sessions", url.Values{"token": {"prometheus"}}, keyed(ana)).wants(303)
	if n := s.count(`SELECT count(*) FROM tokens`); n != 0 {
		t.Errorf("%d tokens are left", n)
	}
	s.get("/sessions").wants(200, "ana may act") // at the machine itself
}

// A role that may look is shown nothing to press, and told so when it presses all the same.
func TestViewRole(t *testing.T) {
	s := newShop(t)
	s.account("eve", store.RoleView)
	eve := s.login("eve")
	for _, path := range everyPage {
		if path != "/tickets/1" && !strings.HasPrefix(path, "/orders/") {
			s.do("GET", path, nil, keyed(eve)).wants(200, `<body class="look">`)
		}
	}
	s.do("POST", "/relay", url.Values{"do": {"pause"}}, keyed(eve)).wants(403, "Your account may look, not act.", "eve, may look")
	if n := s.count(`SELECT count(*) FROM relay_state WHERE paused`); n != 0 {
		t.Error("a relay is paused")
	}
}

// A page that refreshes itself is led to the login when its session has ended, and comes back to where it was.
func TestRefreshIsLedToLogin(t *testing.T) {
	s := newShop(t)
	p := s.do("GET", "/rail", nil, away, func(r *http.Request) {
		r.Header.Set("HX-Request", "true")
		r.Header.Set("HX-Current-URL", "http://192.168.1.5:8080/rail?status=dead")
	})
	if p.status != 401 || p.header.Get("HX-Redirect") != "/login?next=%2Frail%3Fstatus%3Ddead" {
		t.Errorf("%d to %q", p.status, p.header.Get("HX-Redirect"))
	}
	if p := s.do("GET", "/events", nil, away, func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }); p.status != 401 || p.body != "" {
		t.Errorf("a stream without a login: %d %q", p.status, p.body)
	}
}

// A stream ends within seconds of its session, its token or its account.
func TestStreamEndsWithItsSession(t *testing.T) {
	s := newShop(t)
	s.account("ana", store.RoleOperate)
	ends := map[string]func(*store.Tx) error{
		"the session is ended":   func(tx *store.Tx) error { _, err := tx.EndSession(1, "", "test", "session ended"); return err },
		"the account is removed": func(tx *store.Tx) error { _, err := tx.RemoveAccount("bea", "test"); return err },
		"the token is revoked":   func(tx *store.Tx) error { _, err := tx.RevokeToken("p", "test"); return err },
	}
	first := s.login("ana")
	s.account("bea", store.RoleView)
	token, secret := door.NewToken()
	s.update(func(tx *store.Tx) error { _, err := tx.AddToken("p", store.RoleView, secret, "test"); return err })
	changes := map[string]func(*http.Request){
		"the session is ended": keyed(first), "the account is removed": keyed(s.login("bea")),
		"the token is revoked": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
	}
	for name, end := range ends {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.http.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		changes[name](r)
		res, err := http.DefaultClient.Do(r)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: %v %v", name, res, err)
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != ": hello" {
		}
		s.update(end)
		over := time.AfterFunc(20*time.Second, func() { res.Body.Close() })
		for lines.Scan() {
		}
		if !over.Stop() {
			t.Errorf("%s, and its stream goes on", name)
		}
		res.Body.Close()
	}
}
