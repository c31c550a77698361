package door

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// Who is let in is told from the request alone, so that a door that stands open is seen at once and not by a stream
// that never ends.
func TestExempt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"this machine":      {func(*http.Request) {}, true},
		"by version 6":      {func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:4000", "[::1]:8080" }, true},
		"a peer elsewhere":  {func(r *http.Request) { r.RemoteAddr = "192.168.1.7:4000" }, false},
		"no peer":           {func(r *http.Request) { r.RemoteAddr = "@" }, false},
		"another host":      {func(r *http.Request) { r.Host = "evil.example" }, false},
		"an empty host":     {func(r *http.Request) { r.Host = "" }, false},
		"a proxy's mark":    {func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") }, false},
		"an empty mark":     {func(r *http.Request) { r.Header["Via"] = []string{""} }, false},
		"a mark by another": {func(r *http.Request) { r.Header.Set("X-Original-Host", "x") }, false},
		"an old protocol":   {func(r *http.Request) { r.ProtoMinor = 0 }, false},
		"a common header":   {func(r *http.Request) { r.Header.Set("X-Requested-With", "x") }, true},
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:8080/", nil)
		r.RemoteAddr = "127.0.0.1:4000"
		c.change(r)
		if got := exempt(r); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A visitor is where the peer is, or where a proxy on this machine has seen one last; what a proxy elsewhere says, or
// somebody before the last one, is not believed.
func TestAddressOf(t *testing.T) {
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"192.168.1.7:4000", nil, "192.168.1.7"},
		{"192.168.1.7:4000", []string{"10.0.0.1"}, "192.168.1.7"},
		{"127.0.0.1:4000", []string{"203.0.113.9"}, "203.0.113.9"},
		{"127.0.0.1:4000", []string{"9.9.9.9, 1.2.3.4, 203.0.113.9"}, "203.0.113.9"},
		{"[::1]:4000", []string{"1.2.3.4", "5.6.7.8,2001:db8::1"}, "2001:db8::1"},
		{"127.0.0.1:4000", []string{"203.0.113.9, x\ny"}, "127.0.0.1"},
		{"127.0.0.1:4000", []string{""}, "127.0.0.1"},
		{"[fe80::1%eth0]:4000", nil, "fe80::1%eth0"},
		{"@", nil, "nowhere"},
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1:8080/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = c.peer, c.forwarded
		if got := addressOf(r); got != c.want {
			t.Errorf("%s, %q: %s", c.peer, c.forwarded, got)
		}
	}
	for address, want := range map[string]string{"192.168.1.7": "192.168.1.7", "::ffff:192.168.1.7": "::ffff:192.168.1.7", "2001:db8::1:2:3:4": "2001:db8::/64", "fe80::1%eth0": "fe80::/64", "nowhere": "nowhere"} {
		if got := networkOf(address); got != want {
			t.Errorf("%s counts as %s", address, got)
		}
	}
}

// A session's cookie is for this server's own requests alone, and under TLS for this very host.
func TestCookie(t *testing.T) {
	r := httptest.NewRequest("GET", "http://127.0.0.1:8080/", nil)
	const plain = "comanda_session=k; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
	if got := Cookie(r, "k").String(); got != plain {
		t.Errorf("without TLS: %s", got)
	}
	if got := NoCookie(r); got.MaxAge >= 0 || got.Value != "" || got.Name != "comanda_session" {
		t.Errorf("taken back: %s", got)
	}
	secure := httptest.NewRequest("GET", "https://127.0.0.1:8080/", nil)
	proxied := httptest.NewRequest("GET", "http://127.0.0.1:8080/", nil)
	proxied.RemoteAddr = "127.0.0.1:4000"
	proxied.Header.Set("X-Forwarded-Proto", "https")
	for name, r := range map[string]*http.Request{"TLS": secure, "behind a proxy": proxied} {
		if got := Cookie(r, "k").String(); got != "__Host-comanda_session=k; Path=/; Max-Age=604800; HttpOnly; Secure; SameSite=Strict" {
			t.Errorf("%s: %s", name, got)
		}
		r.Header.Set("Cookie", "comanda_session=planted")
		if key := sessionKey(r); key != "" {
			t.Errorf("%s: a cookie that was set without it is taken", name)
		}
	}
	proxied.RemoteAddr = "192.168.1.7:4000"
	if Cookie(proxied, "k").Secure {
		t.Error("a proxy elsewhere is believed")
	}
}

// A route that names no door does not start.
func TestNoRouteWithoutADoor(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a route without a door is put up")
		}
	}()
	New(Options{}).Mount(echo.New(), []Route{{Method: "GET", Path: "/"}})
}
