package effects

import (
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"comanda/store"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestWireKey(t *testing.T) {
	long := strings.Repeat("k", 256)
	for key, want := range map[string]string{
		"refund:ORD-2041":              "refund:ORD-2041",
		"refund:ORD ":                  "refund:ORD%20",
		" refund":                      "%20refund",
		"refund:Ñandú":                 "refund:%C3%91and%C3%BA",
		"a\"b\\c\td\x7f":               "a%22b%5Cc%09d%7F",
		store.Key("refund", "50%:off"): "refund:50%25%3Aoff",
		long[:255]:                     long[:255],
	} {
		if got := WireKey(key); got != want {
			t.Errorf("%q on the wire is %q, want %q", key, got, want)
		}
	}
	if got := WireKey(long); len(got) != len("comanda-")+64 || !strings.HasPrefix(got, "comanda-") || got == WireKey(long+"k") {
		t.Errorf("a long key on the wire: %q", got)
	}
}

// Keys of the director never share a wire form, and each survives a header.
func TestWireKeyIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringN(1, 100, -1)
		a := store.Key("inventory", part.Draw(t, "order"), part.Draw(t, "sku"))
		b := store.Key("inventory", part.Draw(t, "other order"), part.Draw(t, "other sku"))
		if (a == b) != (WireKey(a) == WireKey(b)) {
			t.Fatalf("%q and %q on the wire: %q, %q", a, b, WireKey(a), WireKey(b))
		}
		w := WireKey(a)
		if len(w) > 255 || strings.TrimSpace(w) != w || strings.ContainsFunc(w, func(r rune) bool { return r < 0x21 || r > 0x7E }) {
			t.Fatalf("%q does not survive a header", w)
		}
	})
}

func TestBody(t *testing.T) {
	for payload, want := range map[string]string{
		`{"amount":2154.00,"currency":"MXN"}`:                  `{"order_id":"O<1>","effect_type":"refund","effect_key":"refund:O<1>","amount":2154.00,"currency":"MXN"}`,
		` { "sku" : "A&B" , "quantity" : 12e0 } `:              `{"order_id":"O<1>","effect_type":"refund","effect_key":"refund:O<1>","sku":"A&B","quantity":12e0}`,
		`{"order_id":"other","effect_key":1,"n":{"b":[1, 2]}}`: `{"order_id":"O<1>","effect_type":"refund","effect_key":"refund:O<1>","n":{"b":[1,2]}}`,
		`{}`:                           `{"order_id":"O<1>","effect_type":"refund","effect_key":"refund:O<1>"}`,
		`{"amount":90071992547409.93}`: `{"order_id":"O<1>","effect_type":"refund","effect_key":"refund:O<1>","amount":90071992547409.93}`,
	} {
		got, err := Body(payload, "O<1>", "refund", "refund:O<1>")
		if err != nil || string(got) != want {
			t.Errorf("%s\ngot  %s (%v)\nwant %s", payload, got, err, want)
		}
	}
	for _, payload := range []string{``, `[]`, `null`, `"x"`, `{"a":1,"a":2}`, `{"order_id":1,"order_id":2}`, `{"a":1} {}`, `{"a":1`, `{"a":}`, `{"a":01}`, "{\"a\":\"\xff\"}"} {
		if got, err := Body(payload, "O", "refund", "k"); !errors.Is(err, store.ErrUndecodable) {
			t.Errorf("%s: %s, %v", payload, got, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"7":                                7 * time.Second,
		" 120 ":                            2 * time.Minute,
		"86400":                            24 * time.Hour,
		"86401":                            24 * time.Hour,
		"99999999999999999999999999":       0,
		"9223372036854775807":              24 * time.Hour,
		"-5":                               0,
		"1.5":                              0,
		"soon":                             0,
		"Mon, 30 Nov 2026 12:00:30 GMT":    30 * time.Second,
		"Monday, 30-Nov-26 12:01:00 GMT":   time.Minute,
		"Mon Nov 30 13:00:00 2026":         time.Hour,
		"Mon, 30 Nov 2026 11:59:59 GMT":    0,
		"Wed, 30 Nov 2126 12:00:00 GMT":    24 * time.Hour,
		"Thu, 01 Jan 1970 00:00:00 GMT":    0,
		"Mon, 30 Nov 2026 12:00:30 +07:00": 0,
	} {
		h := http.Header{}
		if text != "" {
			h.Set("Retry-After", text)
		}
		if got := RetryAfter(h, now); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestInventoryRelease(t *testing.T) {
	e := InventoryRelease{}
	if _, err := e.Carry(t.Context(), store.Work{Payload: `{"sku":"A","quantity":2}`}); err != nil {
		t.Error(err)
	}
	if _, err := e.Carry(t.Context(), store.Work{Payload: `{"sku":"A"}`}); !errors.Is(err, store.ErrUndecodable) {
		t.Errorf("%v", err)
	}
	if k := e.Kind(); k.TicketType != store.TicketInventoryRelease || k.LedgerType != store.LedgerRelease {
		t.Errorf("%+v", k)
	}
}
