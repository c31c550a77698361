package world

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const refundBody = `{"order_id":"O-1","effect_type":"refund","effect_key":"refund:O-1","amount":2154.00,"currency":"MXN"}`

// stage is a world behind a real listener.
type stage struct {
	t      *testing.T
	w      *World
	url    string
	client *http.Client
}

func open(t *testing.T, o Options) *stage {
	t.Helper()
	if o.DB == "" {
		o.DB = filepath.Join(t.TempDir(), "a world.db")
	}
	w, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.Handler())
	t.Cleanup(func() { w.Release(); srv.Close(); _ = w.Close() })
	return &stage{t, w, srv.URL, &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request and returns status, body and what went wrong on the wire.
func (s *stage) do(method, path, key, body string) (int, string, http.Header, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, strings.TrimRight(string(b), "\n"), res.Header, err
}

func (s *stage) want(method, path, key, body string, status int, part string) {
	s.t.Helper()
	got, text, _, err := s.do(method, path, key, body)
	if err != nil || got != status || !strings.Contains(text, part) {
		s.t.Errorf("%s %s: %d %s (%v), want %d %s", method, path, got, text, err, status, part)
	}
}

func (s *stage) effects() int {
	s.t.Helper()
	_, text, _, err := s.do("GET", "/effects", "", "")
	var rows []map[string]any
	if err != nil || json.Unmarshal([]byte(text), &rows) != nil {
		s.t.Fatalf("%s (%v)", text, err)
	}
	return len(rows)
}

func TestKeysAreHonoured(t *testing.T) {
	now := time.Now()
	s := open(t, Options{KeyTTL: time.Hour, Now: func() time.Time { return now }})
	s.want("POST", "/refunds", "k", refundBody, 200, `{"id":"refund_000001","status":"done"}`)
	_, text, h, _ := s.do("POST", "/refunds", "k", refundBody)
	if text != `{"id":"refund_000001","status":"done"}` || h.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %s %v", text, h)
	}
	s.want("POST", "/refunds", "k", strings.Replace(refundBody, "2154", "2155", 1), 422, "key_reused")
	s.want("POST", "/refunds", "", refundBody, 200, "refund_000002")
	if n := s.effects(); n != 2 {
		t.Errorf("%d effects", n)
	}
	now = now.Add(61 * time.Minute)
	s.want("POST", "/refunds", "k", refundBody, 200, "refund_000003") // forgotten
	s.want("GET", "/refunds?key=refund:O-1", "", "", 200, `"id":"refund_000001"`)
	s.want("GET", "/refunds?key=refund:O-9", "", "", 404, "not_found")
}

func TestKeysOutliveTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.db")
	w, err := Open(t.Context(), Options{DB: file, KeyTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.Handler())
	s := &stage{t, w, srv.URL, http.DefaultClient}
	s.want("POST", "/refunds", "k", refundBody, 200, "refund_000001")
	srv.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Options{DB: file, KeyTTL: time.Hour})
	s.want("POST", "/refunds", "k", refundBody, 200, "refund_000001")
	if n := s.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestFiftyAtOnceAreOne(t *testing.T) {
	s := open(t, Options{KeyTTL: time.Hour})
	s.client.Timeout = 20 * time.Second
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if status, text, _, err := s.do("POST", "/refunds", "k", refundBody); err != nil || status != 200 && status != 409 {
				t.Errorf("%d %s %v", status, text, err)
			}
		})
	}
	all.Wait()
	if n := s.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestOtherEffects(t *testing.T) {
	s := open(t, Options{KeyTTL: time.Hour})
	move := `{"order_id":"O","effect_type":"inventory","effect_key":"inventory:O:A","sku":"A","quantity":2}`
	s.want("POST", "/inventory-movements", "a", move, 200, "inventory_000001")
	s.want("POST", "/releases", "b", move, 200, "release_000002")
	s.want("POST", "/inventory-movements", "c", strings.Replace(move, `"A"`, `"OUT-1"`, 1), 409, "out_of_stock")
	s.want("POST", "/inventory-movements", "d", `{"order_id":"O","effect_key":"k","sku":"A"}`, 422, "invalid")
	s.want("POST", "/refunds", "e", `{`, 400, "bad_json")
	s.want("POST", "/credit", "", `{"customer_id":"C","amount":10.00}`, 200, `{"credit_ok":false}`)
	s.want("PUT", "/credit/C", "", `{"limit":"10.00"}`, 200, "10.00")
	s.want("POST", "/credit", "", `{"customer_id":"C","amount":10.00}`, 200, `{"credit_ok":true}`)
	s.want("POST", "/credit", "", `{"customer_id":"C","amount":10.01}`, 200, `{"credit_ok":false}`)
	s.want("PUT", "/credit/C", "", `{"limit":"much"}`, 400, "")
	s.want("GET", "/healthz", "", "", 200, "ok")
}

// Every fault does to the effect and to the wire what it says, once.
func TestFaults(t *testing.T) {
	for kind, performed := range performs {
		t.Run(kind, func(t *testing.T) {
			s := open(t, Options{KeyTTL: time.Hour, Faults: []string{"refund:" + kind}})
			status, text, _, err := s.do("POST", "/refunds", "k", refundBody)
			var timeout interface{ Timeout() bool }
			switch strings.TrimPrefix(kind, "perform-then-") {
			case "hang", "drip":
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%d %s %v, want no end", status, text, err)
				}
			case "reset":
				if err == nil {
					t.Errorf("%d %s, want a broken connection", status, text)
				}
			case "endless":
				if len(text) < 60<<10 {
					t.Errorf("%d bytes (%v)", len(text), err)
				}
			case "redirect", "redirect-307":
				if status != 302 && status != 307 {
					t.Errorf("%d", status)
				}
			case "captive", "wrong-json", "not-json", "says-failed", "amnesia", "ignore-key":
				if status != 200 {
					t.Errorf("%d %s", status, text)
				}
			default:
				if want := strings.TrimPrefix(kind, "perform-then-"); fmt.Sprint(status) != want {
					t.Errorf("%d, want %s", status, want)
				}
			}
			if n := s.effects(); (n == 1) != performed {
				t.Errorf("%d effects, performed should be %t", n, performed)
			}
			s.want("POST", "/refunds", "other", refundBody, 200, "done") // it struck once
		})
	}
}

func TestAmnesiaDoubles(t *testing.T) {
	for _, kind := range []string{"amnesia", "ignore-key"} {
		s := open(t, Options{KeyTTL: time.Hour, Faults: []string{"refund:" + kind + ":2"}})
		s.want("POST", "/refunds", "k", refundBody, 200, "done")
		s.want("POST", "/refunds", "k", refundBody, 200, "done")
		if n := s.effects(); n != 2 {
			t.Errorf("%s: %d effects, want 2", kind, n)
		}
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	s := open(t, Options{KeyTTL: time.Hour})
	s.want("PUT", "/faults", "", `{"faults":["lookup:500:2","refund:429:*"]}`, 200, `{"faults":["lookup:500:2","refund:429:*"]}`)
	s.want("GET", "/refunds?key=k", "", "", 500, "")
	s.want("GET", "/faults", "", "", 200, `["lookup:500:1","refund:429:*"]`)
	_, _, h, _ := s.do("POST", "/refunds", "k", refundBody)
	if h.Get("Retry-After") != "2" {
		t.Errorf("%v", h)
	}
	s.want("PUT", "/faults", "", `{"faults":["refund:explode"]}`, 400, "there is no fault")
	s.want("DELETE", "/faults", "", ``, 200, `[]`)
	s.want("POST", "/refunds", "k", refundBody, 200, "done")
	s.want("GET", "/requests", "", "", 200, `"fault":"429"`)
}

func TestParseFault(t *testing.T) {
	for text, want := range map[string]string{"refund:hang": "refund:hang:1", "all:500:7": "all:500:7", "lookup:404:*": "lookup:404:*"} {
		if f, err := ParseFault(text); err != nil || f.String() != want {
			t.Errorf("%s: %v %v", text, f, err)
		}
	}
	for _, text := range []string{"", "refund", "shop:hang", "refund:hangs", "refund:hang:0", "refund:hang:-1", "refund:hang:x", "refund:hang:1:2"} {
		if f, err := ParseFault(text); err == nil {
			t.Errorf("%q was read as %v", text, f)
		}
	}
	if _, err := Open(context.Background(), Options{DB: filepath.Join(t.TempDir(), "w"), Faults: []string{"x"}}); err == nil {
		t.Error("opened with a fault that can't be read")
	}
}

// Somebody else's file is refused and left as it was.
func TestAnotherProgramsFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE orders (id)`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	before, _ := os.ReadFile(path)
	if _, err := Open(t.Context(), Options{DB: path}); err == nil || !strings.Contains(err.Error(), "not touched") {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("it was touched")
	}
}

// The world's file is its owner's alone, as a real gateway's would be.
func TestWorldsFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.db")
	for range 2 { // made, and found
		w, err := Open(t.Context(), Options{DB: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
	}
}
