package effects

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestNotify(t *testing.T) {
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	e := rawGateway(t, answers(200, "ok"))
	if err := NewNotifier(e.url, false, nil).Notify(t.Context(), "review", "onset", "comanda: review: 1", since); err != nil {
		t.Fatal(err)
	}
	if e.lastBody != `{"cause":"review","since":"2026-11-30T12:00:00Z","state":"onset","text":"comanda: review: 1"}` || e.last.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", e.lastBody, e.last.Header)
	}
	if err := NewNotifier(e.url, true, nil).Notify(t.Context(), "review", "onset", "comanda: review: 1", since); err != nil || e.lastBody != "comanda: review: 1" {
		t.Errorf("%q %v", e.lastBody, err)
	}
	for name, do := range map[string]func(net.Conn, *evil){"500": answers(500, ""), "redirect": answers(302, "", "Location: /x"), "reset": func(c net.Conn, e *evil) { e.readRequest(c); reset(c) }} {
		e := rawGateway(t, do)
		err := NewNotifier(e.url+"?token=secret", false, nil).Notify(t.Context(), "review", "onset", "text", since)
		if err == nil || strings.Contains(err.Error(), "secret") || e.requests.Load() != 1 {
			t.Errorf("%s: %v, %d requests", name, err, e.requests.Load())
		}
	}
	if err := NewNotifier("http://127.0.0.1:1/?token=secret", false, failing{errors.New("dial http://127.0.0.1:1/?token=secret")}).Notify(t.Context(), "c", "onset", "t", since); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
