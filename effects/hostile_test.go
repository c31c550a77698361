package effects

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// A switch of protocols hands over the bare connection, which knows no deadline: it is not read.
func TestAnotherProtocolEndsInTime(t *testing.T) {
	e := rawGateway(t, func(c net.Conn, e *evil) {
		e.readRequest(c)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	target := NewTarget(TargetConfig{URL: e.url, LookupURL: e.url + "?key={key}", Timeout: 300 * time.Millisecond}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	ended := make(chan store.Reply, 1)
	go func() { ended <- target.Send(ctx, store.Letter{Key: "k", Body: []byte("{}")}) }()
	select {
	case r := <-ended:
		if r.Evidence != store.Unknown || r.Status != 101 || !r.Unreachable {
			t.Errorf("%+v", r)
		}
	case <-ctx.Done():
		t.Fatal("a send outlived its timeout")
	}
}

// A target that repeats our token finds it in nothing that we keep or show.
func TestTokenIsNotRepeated(t *testing.T) {
	const token = "tok/3f9c"
	for name, do := range map[string]func(net.Conn, *evil){
		"message":     answers(401, `{"message":"Bearer tok\/3f9c is revoked"}`),
		"inner":       answers(422, `{"error":{"message":"tok/3f9c"}}`),
		"at the edge": answers(422, `{"message":"`+strings.Repeat("x", 195)+`tok/3f9c"}`),
		"receipt":     answers(200, `{"id":"tok/3f9c"}`),
		"redirect":    answers(302, ``, "Location: /login/tok/3f9c"),
	} {
		e := rawGateway(t, do)
		r := NewTarget(TargetConfig{URL: e.url, Timeout: time.Second, Token: token}, nil).Send(t.Context(), store.Letter{Key: "k", Body: []byte("{}")})
		if r.Status == 0 || strings.Contains(r.Detail+r.Receipt, "tok/") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What a receiver could read in two ways is not sent.
func TestAmbiguousBodies(t *testing.T) {
	for _, payload := range []string{`{"amount":1,"Amount":2}`, `{"a":{"x":1,"x":2}}`, `{"a":[{"x":1,"X":2}]}`} {
		if b, err := Body(payload, "O", "refund", "k"); !errors.Is(err, store.ErrUndecodable) {
			t.Errorf("%s: %s, %v", payload, b, err)
		}
	}
	if b, err := Body(`{}`, "O\xff", "refund", "k"); !errors.Is(err, store.ErrUndecodable) {
		t.Errorf("an order that is not UTF-8: %s, %v", b, err)
	}
	for _, payload := range []string{`{"Order_ID":"x"}`, `{"effect_Key":"x"}`} {
		if b, err := Body(payload, "O", "refund", "k"); err != nil || string(b) != `{"order_id":"O","effect_type":"refund","effect_key":"k"}` {
			t.Errorf("%s: %s, %v", payload, b, err)
		}
	}
	if _, err := Body(`{"a":[{"x":1},{"x":2}],"b":{"a":1}}`, "O", "refund", "k"); err != nil {
		t.Errorf("the same name in two objects: %v", err)
	}
}
