package effects

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"comanda/store"
)

// Orders that the director may take never share a key on the wire, and a key is fit for a header.
func FuzzWireKey(f *testing.F) {
	f.Add("ORD ", "S", "ORD", "S")
	f.Add("a b", "c", "a%20b", "c")
	f.Add("é", "\"", "\\", "~")
	f.Add(strings.Repeat("ñ", 100), "x", strings.Repeat("ñ", 100), "y")
	f.Fuzz(func(t *testing.T, order, sku, otherOrder, otherSKU string) {
		a := WireKey(store.Key(store.LedgerInventory, order, sku))
		b := WireKey(store.Key(store.LedgerInventory, otherOrder, otherSKU))
		if (a == b) != (order == otherOrder && sku == otherSKU) {
			t.Fatalf("(%q, %q) is %q and (%q, %q) is %q", order, sku, a, otherOrder, otherSKU, b)
		}
		if len(a) == 0 || len(a) > maxWireKey {
			t.Fatalf("%q has %d bytes", a, len(a))
		}
		for i := range len(a) {
			if c := a[i]; c < 0x21 || c > 0x7E || c == '"' || c == '\\' {
				t.Fatalf("%q holds the byte 0x%02X", a, c)
			}
		}
	})
}

// Whatever a payload is, its letter is either refused as undecodable or one JSON object that names the order,
// the effect and the key as they are, once, and every other member of the payload to the last digit.
func FuzzBody(f *testing.F) {
	for _, payload := range []string{
		`{"amount":2154.00,"currency":"MXN"}`, `{"sku":"CF-1","quantity":12}`, `{"ORDER_ID":"x","a":1e400}`, `{"a":{"b":[1,{"c":2}]}}`,
		`{"a":1,"a":2}`, `{"a":1,"A":2}`, `{`, `[]`, `{} {}`, `{"\u0061":1,"a":2}`, "{\"\xff\":1}", `{"effect_\u212aey":1}`, `{"":null}`,
	} {
		f.Add(payload, "ORD-1", "refund:ORD-1")
	}
	f.Fuzz(func(t *testing.T, payload, order, key string) {
		body, err := Body(payload, order, store.LedgerRefund, key)
		if err != nil {
			if !errors.Is(err, store.ErrUndecodable) {
				t.Fatal(err)
			}
			return
		}
		sent, err := objectMembers(string(body))
		if err != nil || !json.Valid(body) {
			t.Fatalf("%q became %q: %v", payload, body, err)
		}
		for i, want := range []string{order, store.LedgerRefund, key} {
			var got string
			if err := json.Unmarshal(sent[i].value, &got); err != nil || got != want {
				t.Fatalf("member %d of %q is %q, %v", i, body, got, err)
			}
		}
		seen := map[string]bool{}
		for _, m := range sent {
			if seen[fold(m.name)] {
				t.Fatalf("%q names %q twice", body, m.name)
			}
			seen[fold(m.name)] = true
		}
		given, err := objectMembers(payload)
		if err != nil {
			t.Fatalf("%q was taken: %v", payload, err)
		}
		for _, m := range given {
			if !seen[fold(m.name)] {
				t.Fatalf("%q lacks %q of %q", body, m.name, payload)
			}
		}
	})
}

// What a target asks to wait is never below nothing nor above the longest wait there is.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "120", "-1", "99999999999999999999", "9223372036854775807", "1e3", " 5 ", "Wed, 21 Oct 2026 07:28:00 GMT",
		"Wed, 21 Oct 9999 07:28:00 GMT", "Wed, 21 Oct 0001 07:28:00 GMT", "٣"} {
		f.Add(seed, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		wait := RetryAfter(http.Header{"Retry-After": {text}}, time.Unix(now%(1<<40), 0))
		if wait < 0 || wait > store.LongestWait {
			t.Fatalf("%q asks to wait %s", text, wait)
		}
	})
}

// Whatever a target answers, it is read without a panic, its words are fit to be shown and don't tell our
// token, a success always has a status in the 2xx and nothing that speaks against it, and a lookup is never
// found or absent by an answer that is not JSON.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []struct {
		status int
		body   string
	}{
		{200, `{"id":"re_1","status":"succeeded"}`}, {201, `{"id":7}`}, {204, ``}, {200, `<html>`}, {200, `{"error":"no"}`}, {200, `{"ok":false}`},
		{200, `{"id":"a","id":"b"}`}, {200, `[]`}, {404, `{}`}, {404, `nothing`}, {409, `{"message":"\u0000\u202e"}`}, {302, ``}, {503, `{"error":{"message":"x"}}`},
		{200, `{"id":"secret-token"}`}, {429, `{}`}, {101, ``}, {200, `{"Status":"FAILED"}`},
	} {
		f.Add(seed.status, seed.body, "5", "https://elsewhere.example/?secret-token")
	}
	const token = "secret-token"
	f.Fuzz(func(t *testing.T, status int, body, after, location string) {
		target := NewTarget(TargetConfig{Name: "refund", URL: "http://127.0.0.1:1/", Token: token, Timeout: time.Second}, nil)
		a := target.read(t.Context(), &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Retry-After": {after}, "Location": {location}}})
		reply, found := target.weigh(a), tell(a)
		for _, text := range []string{reply.Detail, reply.Receipt, found.Detail, found.Receipt} {
			if strings.Contains(text, token) || !utf8.ValidString(text) || len(text) > 4096 {
				t.Fatalf("%d %q says %q", status, body, text)
			}
		}
		if reply.Evidence == store.Happened && (status < 200 || status > 299 || a.saysOtherwise() != "") {
			t.Fatalf("%d %q is a success", status, body)
		}
		if found.Knowledge == store.Found && (status < 200 || status > 299 || found.Receipt == "") {
			t.Fatalf("%d %q is found", status, body)
		}
		if (found.Knowledge == store.Found || found.Knowledge == store.Absent) && !json.Valid([]byte(body)) {
			t.Fatalf("%d %q is %s", status, body, found.Knowledge)
		}
	})
}
