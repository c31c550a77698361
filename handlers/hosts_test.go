package handlers

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// asking sends a request under a Host header of its own and holds the answer against openapi.json.
func (r *rig) asking(host, method, path, body string, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.http.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.http.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Error(err)
	}
	a := reply{r.t, res.StatusCode, res.Header, string(b)}
	fitsOpenAPI(req, a)
	return a
}

// A page of another site whose name was made to lead here is told nothing, at any address: DNS rebinding. Its browser
// takes the page and the server for one origin, so that neither Origin nor Sec-Fetch-Site gives it away.
func TestForeignHost(t *testing.T) {
	r := fullRig(t)
	const evil = "evil.example:8080"
	origin := []string{"Origin", "http://" + evil, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}
	tried := 0
	for _, route := range r.srv.echo.Routes() {
		if route.Method == echo.RouteNotFound {
			continue
		}
		path := strings.NewReplacer(":id", "1").Replace(route.Path)
		for name, headers := range map[string][]string{"a browser": origin, "a program": nil} {
			want := 421
			if path == "/healthz" || name == "a program" && strings.HasPrefix(path, "/webhooks/") {
				want = 0
			}
			a := r.asking(evil, route.Method, path, "{}", headers...)
			if (a.status == 421) != (want == 421) || a.status == 421 && route.Method != http.MethodHead && !strings.Contains(a.body, "/problems/foreign-host") {
				t.Errorf("%s from %s: %d %.100s", route.Method+" "+path, name, a.status, a.body)
			}
			tried++
		}
	}
	if tried < 100 {
		t.Errorf("only %d tries", tried)
	}
	r.asking(evil, "GET", "/nowhere", "").problem(421, "foreign-host")
	r.asking(evil, "POST", "/webhooks/orders", contractBody, origin...).problem(421, "foreign-host")
	r.holds(0, 0, 0)
	r.asking("orders.shop.example", "POST", "/webhooks/orders", contractBody, "Content-Type", "application/json").wants(200, `"accepted"`) // a tunnel
	if !strings.Contains(r.log.String(), `evil.example:8080`) {
		t.Error("the log does not say what was asked for")
	}

	alone := httptest.NewServer(r.srv.WebhookServer().Handler)
	defer alone.Close()
	r.http = alone
	r.asking(evil, "POST", "/webhooks/orders", contractBody, origin...).problem(421, "foreign-host")
	r.asking(evil, "POST", "/webhooks/orders", contractBody, "Content-Type", "application/json").wants(200, `"duplicate"`)
	r.asking(evil, "GET", "/api/stats", "").wants(404)
}

// Which names are ours, in every spelling.
func TestKnownHosts(t *testing.T) {
	h := newHosts(Options{Hosts: []string{"Shop.Lan", "192.168.9.9", "fd12::1"}, Certified: func(name string) bool { return name == "certified.example" }})
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:80": true, "localhost:": true,
		"shop.lan": true, "SHOP.LAN.:8443": true, "192.168.9.9:80": true, "[fd12::1]:80": true, "[FD12:0::1]": true, "certified.example:8443": true,
		"192.168.1.5": true, "192.168.1.5:8080": true, "[::ffff:192.168.1.5]": true,
		"": false, ".": false, ":8080": false, "evil.example": false, "localhost.evil.example": false, "shop.lan.evil.example": false, "xshop.lan": false, "evil.example:localhost": false,
		"localhost:80:80": false, "localhost:99999": false, "localhost:x": false, "localhost@evil.example": false, "[localhost]": false, "[127.0.0.1]": false, "[::1": false, "::1": false, "[::1]x": false,
		"192.168.1.6": false, "10.0.0.1": false, "0.0.0.0": false, "[::]": false, "2130706433": false, "127.1": false, "[fe80::1]": false, "localhost..": false, "other.example": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:192.168.1.5]:8080")))))
		if got := h.know(r); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "0.0.0.0"
	if newHosts(Options{}).know(r) {
		t.Error("an address is known where it is not told by which one the connection came in")
	}
}
