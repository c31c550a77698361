package handlers

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// No body, type or encoding makes the server answer anything but what the contract lists, nor name a
// thing of its own.
func FuzzPostOrder(f *testing.F) {
	for _, seed := range []string{contractBody, `{`, ``, `[]`, `null`, `{"event_id":"\ud800"}`, "{\"event_id\":\"\xff\"}", `{"a":1,"a":2}`,
		body("E", "O", "1e400", oneLine), body("E", "O", `"-0"`, oneLine), body("\u0000", "O", "1", oneLine),
		body("E", "O2", "0", `[{"sku":"S","quantity":1e9},{"sku":"S","quantity":1}]`), strings.Repeat("[", 20000)} {
		f.Add([]byte(seed), "application/json", "")
	}
	f.Add([]byte(contractBody), "text/plain", "gzip")
	f.Add([]byte(contractBody), "application/json; charset", "identity")
	r := newClosedRig(f)
	allowed := []int{200, 400, 413, 415, 422, 503}
	f.Fuzz(func(t *testing.T, body []byte, contentType, encoding string) {
		req := httptest.NewRequest("POST", "/webhooks/orders", bytes.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Content-Encoding", encoding)
		w := httptest.NewRecorder()
		r.srv.ServeHTTP(w, req)
		if !slices.Contains(allowed, w.Code) {
			t.Fatalf("status %d: %s\n%q", w.Code, w.Body, body)
		}
		if w.Code == 200 {
			return // tells the sender's own ids
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Fatalf("content type %q: %s", got, w.Body)
		}
		for _, name := range []string{"*errors.", "json:", "handlers.", "runtime error", "goroutine"} {
			if strings.Contains(w.Body.String(), name) && !bytes.Contains(body, []byte(name)) {
				t.Fatalf("%q in %s", name, w.Body)
			}
		}
	})
}
