package handlers

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"comanda/handlers/console"
	"comanda/handlers/door"
	"comanda/handlers/graph"
	"comanda/store"
)

// asking is a request from an address, under a name, with headers.
type asking struct {
	peer, host string
	headers    []string
}

// outside are requests that are not this machine's own, however they look.
var outside = map[string]asking{
	"from the network":              {"192.168.1.7:4000", "192.168.1.5:8080", nil},
	"from the network, as us":       {"192.168.1.7:4000", "127.0.0.1:8080", nil},
	"to our network address":        {"127.0.0.1:4000", "192.168.1.5:8080", nil},
	"under another name":            {"127.0.0.1:4000", "evil.example:8080", nil},
	"under a name like ours":        {"127.0.0.1:4000", "localhost.evil.example", nil},
	"forwarded":                     {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Forwarded", "for=10.0.0.1"}},
	"forwarded (X)":                 {"127.0.0.1:4000", "127.0.0.1:8080", []string{"X-Forwarded-For", "127.0.0.1"}},
	"forwarded, with nothing in it": {"127.0.0.1:4000", "127.0.0.1:8080", []string{"X-Forwarded-Proto", ""}},
	"via":                           {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Via", "1.1 proxy"}},
	"with a key of nobody":          {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Authorization", "Bearer comanda_nobody"}},
	"with half a key":               {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Authorization", ""}},
	"with two keys":                 {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Authorization", "Bearer " + operateToken, "Authorization", "Bearer x"}},
	"with a password":               {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Authorization", "Basic YWRtaW46YWRtaW4="}},
	"with a session of nobody":      {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Cookie", "comanda_session=nobody"}},
	"with a token for a session":    {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Cookie", "comanda_session=" + operateToken}},
	"with a session for a token":    {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Authorization", "Bearer operate-session"}},
	"with a plain cookie under TLS": {"127.0.0.1:4000", "127.0.0.1:8080", []string{"X-Forwarded-Proto", "https", "Cookie", "comanda_session=operate-session"}},
	"as another machine's token":    {"192.168.1.7:4000", "evil.example", []string{"Authorization", "Bearer " + operateToken}},
}

const (
	viewToken    = "comanda_VIEW"
	operateToken = "comanda_OPERATE"
)

// inside are requests from the network with a key of each kind and role.
var inside = map[string]asking{
	"view token":      {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Authorization", "Bearer " + viewToken}},
	"view session":    {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Cookie", "comanda_session=view-session"}},
	"view at home":    {"127.0.0.1:4000", "127.0.0.1:8080", []string{"Authorization", "bearer " + viewToken}},
	"operate token":   {"192.168.1.7:4000", "[fe80::1]:8080", []string{"Authorization", "Bearer " + operateToken}},
	"operate session": {"192.168.1.7:4000", "192.168.1.5:8080", []string{"Cookie", "comanda_session=operate-session"}},
	"secure session":  {"127.0.0.1:4000", "192.168.1.5", []string{"X-Forwarded-Proto", "https", "Cookie", "__Host-comanda_session=operate-session"}},
	"this machine":    {"127.0.0.1:4000", "localhost:8080", nil},
	"this machine, 6": {"[::1]:4000", "[::1]:8080", []string{"Cookie", "comanda_session=nobody"}},
}

func (a asking) send(s *Server, method, path string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond) // of a stream that lets in who may not
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, nil)
	r.RemoteAddr, r.Host = a.peer, a.host
	for i := 0; i < len(a.headers); i += 2 {
		r.Header.Add(a.headers[i], a.headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// keptOut reports whether an answer is a door's: no, or the way to the login.
func keptOut(w *httptest.ResponseRecorder) bool {
	return w.Code == 401 || w.Code == 403 || w.Code == 421 || w.Code == 303 && strings.HasPrefix(w.Header().Get("Location"), "/login?next=")
}

// doorRig has every route, and keys of each kind and role.
func doorRig(t *testing.T) *rig {
	var shown *console.Console
	r := newClosedRig(t, func(o *Options) {
		shown = console.New(console.Options{DB: o.DB, Graph: graph.Graph{}, TargetNames: []string{"refund"}})
		o.Console = shown
		o.TargetNames = []string{"refund"}
		o.Hosts = []string{"192.168.1.5", "fe80::1"}
		o.RunRelay = func(context.Context) (RelayRun, error) { return RelayRun{}, nil }
	})
	t.Cleanup(func() { _ = shown.Close() })
	for role, token := range map[string]string{store.RoleView: viewToken, store.RoleOperate: operateToken} {
		r.update(func(tx *store.Tx) error {
			const password = "$argon2id$"
			if err := tx.SetAccount(role, role, password, "test"); err != nil {
				return err
			}
			_, err1 := tx.AddToken(role, role, sha256.Sum256([]byte(token)), "test")
			if err1 != nil {
				return err1
			}
			_, err := tx.BeginSession(store.NewSession{Secret: sha256.Sum256([]byte(role + "-session")), Account: role, Password: password, Who: "test"})
			return err
		})
	}
	return r
}

func (r *rig) update(fn func(*store.Tx) error) {
	r.t.Helper()
	if err := r.db.Update(r.t.Context(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// ownActs change nothing but the visitor's own logins: whoever may look may do them, and anybody may try the first.
var ownActs = []string{"POST /login", "POST /logout", "POST /sessions"}

// Every route names its door. It is tried without a key, with the wrong one, and with the right one.
func TestEveryRouteAtItsDoor(t *testing.T) {
	r := doorRig(t)
	routes := r.srv.routes()
	if len(routes) < 50 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, route := range routes {
		name, path := route.Method+" "+route.Path, strings.ReplaceAll(route.Path, ":id", "1")
		if route.Method != "GET" && (route.Door == door.View || route.Door == door.Open) && !slices.Contains(ownActs, name) {
			t.Errorf("%s changes something behind the door %s", name, route.Door)
		}
		for who, a := range outside {
			if w := a.send(r.srv, route.Method, path); keptOut(w) != (route.Door >= door.View) && w.Code != 421 && name != "POST /login" {
				t.Errorf("%s %s: %d by the door %s", who, name, w.Code, route.Door)
			}
		}
		for who, a := range inside {
			if name == "POST /logout" && strings.HasSuffix(who, "session") {
				continue // it would be the last that is done with it
			}
			wrong := strings.HasPrefix(who, "view") && (route.Door == door.Operate || name == "POST /sessions" && !strings.HasSuffix(who, "session"))
			w := a.send(r.srv, route.Method, path)
			if h := w.Header(); route.Door >= door.View && (h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("%s %s: %v", who, name, h)
			}
			switch {
			case wrong && w.Code == 403 || route.Path == "/login" || strings.HasPrefix(route.Path, "/static") && w.Code == 404:
			case wrong || keptOut(w):
				t.Errorf("%s %s: %d by the door %s", who, name, w.Code, route.Door)
			}
		}
	}
}

// No other spelling of a path or a method leads round a door: what is not kept out is not there, and whoever may only
// look has changed nothing after all of them.
func TestNoWayRoundADoor(t *testing.T) {
	r := doorRig(t)
	before := r.count(`SELECT count(*) FROM operator_log`)
	tried := maps.Clone(outside)
	for _, who := range []string{"view token", "view session"} {
		for _, header := range []string{"X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method", "X-Original-URL", "X-Rewrite-URL"} {
			a := inside[who]
			a.headers = append(slices.Clone(a.headers), header, map[bool]string{true: "POST", false: "/relay"}[strings.Contains(header, "Method")])
			tried[who+" "+header] = a
		}
	}
	for _, route := range r.srv.routes() {
		if route.Door < door.View {
			continue
		}
		path := strings.ReplaceAll(route.Path, ":id", "1")
		for who, a := range tried {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "post", "X-POST"} {
				if strings.HasPrefix(who, "view") && method == "POST" && slices.Contains(ownActs, "POST "+route.Path) {
					continue
				}
				for _, spelled := range []string{path, path + "/", "/" + path, strings.ToUpper(path), "/." + path, path + "%2f", path + "?_method=POST", path + ";x"} {
					w := a.send(r.srv, method, spelled)
					looking := strings.HasPrefix(who, "view") && (method == "GET" || method == "HEAD")
					if w.Code < 400 && !keptOut(w) && !looking && (method != "OPTIONS" || w.Code != 204) { // OPTIONS names the methods, to anybody
						t.Errorf("%s %s %s: %d", who, method, spelled, w.Code)
					}
				}
			}
		}
	}
	if after := r.count(`SELECT count(*) FROM operator_log`); after != before || r.count(`SELECT count(*) FROM relay_state WHERE paused`) != 0 {
		t.Errorf("%d lines more in the operator log", after-before)
	}
}

// Where a forwarder of this machine says nothing of itself, the machine can be asked for a key like anybody.
func TestLoginIsRequired(t *testing.T) {
	for _, require := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.RequireLogin = require })
		want := map[bool]int{false: 200, true: 401}[require]
		if got := r.do("GET", "/api/stats", ""); got.status != want {
			t.Errorf("login required %v: %d", require, got.status)
		}
		if got := r.do("GET", "/healthz", ""); got.status != 200 {
			t.Errorf("login required %v: /healthz answers %d", require, got.status)
		}
	}
}
