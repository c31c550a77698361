package effects

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// evil is a gateway of the tests: a real listener that counts the requests whose head arrived.
type evil struct {
	url      string
	requests atomic.Int64
	mu       sync.Mutex
	last     *http.Request
	lastBody string
}

// rawGateway answers each connection with do, which gets the request that was read.
func rawGateway(t *testing.T, do func(c net.Conn, e *evil)) *evil {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	e := &evil{url: "http://" + l.Addr().String() + "/refunds"}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c, e)
			}()
		}
	}()
	return e
}

// readRequest reads one whole request and counts it.
func (e *evil) readRequest(c net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	body, _ := io.ReadAll(req.Body)
	e.requests.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.lastBody = req, string(body)
	return true
}

// says answers every request with these bytes.
func says(text string) func(net.Conn, *evil) {
	return func(c net.Conn, e *evil) {
		if e.readRequest(c) {
			_, _ = io.WriteString(c, text)
		}
	}
}

// answers is an HTTP answer with a body.
func answers(status int, body string, header ...string) func(net.Conn, *evil) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return says(b.String())
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// certificate makes one that is valid, or not, and trusted by nobody.
func certificate(t *testing.T, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The evil gateway: for each way to misbehave, what one send finds out, and that it was one request.
func TestEvilGateway(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		_, _ = io.WriteString(w, `{"id":"stolen"}`)
	}))
	defer other.Close()
	redirect := func(status int) func(net.Conn, *evil) {
		return answers(status, "", "Location: "+other.URL+"/login?next=secret")
	}
	const fine = `{"id":"rf_1","status":"done"}`
	type want struct {
		evidence    store.Evidence
		status      int
		unreachable bool
	}
	for _, c := range []struct {
		name   string
		do     func(net.Conn, *evil)
		change func(*TargetConfig)
		want   want
		detail string // must stand in it
	}{
		{"200 with an object", answers(200, fine), nil, want{store.Happened, 200, false}, ""},
		{"201 with an object", answers(201, `{"reference":42}`), nil, want{store.Happened, 201, false}, ""},
		{"error null is none", answers(200, `{"error":null,"ok":true}`), nil, want{store.Happened, 200, false}, ""},
		{"200 with an error", answers(200, `{"error":{"message":"card gone"}}`), nil, want{store.Unknown, 200, false}, "card gone"},
		{"200 and ok false", answers(200, `{"ok":false}`), nil, want{store.Unknown, 200, false}, "ok is false"},
		{"200 and success false", answers(200, `{"success":false,"id":"x"}`), nil, want{store.Unknown, 200, false}, "success is false"},
		{"200 and declined", answers(200, `{"status":"Declined"}`), nil, want{store.Unknown, 200, false}, "Declined"},
		{"200 and Success false", answers(200, `{"id":"a","Success":false}`), nil, want{store.Unknown, 200, false}, "success is false"},
		{"200 and errors", answers(200, `{"errors":[{"code":1}],"id":"x"}`), nil, want{store.Unknown, 200, false}, "errors"},
		{"200 and no errors", answers(200, `{"errors":[],"id":"x"}`), nil, want{store.Happened, 200, false}, ""},
		{"200 and success as text", answers(200, `{"success":"False"}`), nil, want{store.Unknown, 200, false}, "success is false"},
		{"200 and status error", answers(200, `{"status":"error"}`), nil, want{store.Unknown, 200, false}, "error"},
		{"200 and cancelled", answers(200, `{"status":"canceled","id":"1"}`), nil, want{store.Unknown, 200, false}, "canceled"},
		{"200 and HTML: a captive portal", answers(200, "<html>Log in</html>", "Content-Type: text/html"), nil, want{store.Unknown, 200, true}, "not a JSON object"},
		{"200 and nothing", answers(200, ""), nil, want{store.Unknown, 200, true}, ""},
		{"204", says("HTTP/1.1 204 No Content\r\n\r\n"), nil, want{store.Unknown, 204, true}, ""},
		{"204 where any will do", says("HTTP/1.1 204 No Content\r\n\r\n"), acceptAny, want{store.Happened, 204, false}, ""},
		{"HTML where any will do", answers(200, "<html>ok</html>"), acceptAny, want{store.Happened, 200, false}, ""},
		{"ok false where any will do", answers(200, `{"ok":false}`), acceptAny, want{store.Unknown, 200, false}, "ok is false"},
		{"both where any will do", answers(200, `{"ok":false,"ok":true}`), acceptAny, want{store.Unknown, 200, true}, ""},
		{"200 and an array", answers(200, `[{"id":1}]`), nil, want{store.Unknown, 200, true}, ""},
		{"200 and two objects", answers(200, `{"id":1}{"id":2}`), nil, want{store.Unknown, 200, true}, ""},
		{"200 and a member twice", answers(200, `{"ok":false,"ok":true}`), nil, want{store.Unknown, 200, true}, ""},
		{"200 cut short", says("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"id\":1}"), nil, want{store.Unknown, 200, true}, "did not arrive whole"},
		{"an answer without an end", endless, nil, want{store.Unknown, 200, true}, "longer than 64 KiB"},
		{"one that drips", drip, nil, want{store.Unknown, 200, true}, "no answer in time"},
		{"301", redirect(301), nil, want{store.Unknown, 301, true}, "moved to"},
		{"302", redirect(302), nil, want{store.Unknown, 302, true}, "moved to"},
		{"303", redirect(303), nil, want{store.Unknown, 303, true}, "moved to"},
		{"307", redirect(307), nil, want{store.Unknown, 307, true}, "moved to"},
		{"308", redirect(308), nil, want{store.Unknown, 308, true}, "moved to"},
		{"400", answers(400, `{"message":"no"}`), nil, want{store.Rejected, 400, false}, "no"},
		{"400 in HTML", answers(400, `<html>`), nil, want{store.Unknown, 400, true}, ""},
		{"401", answers(401, ``), nil, want{store.Denied, 401, false}, ""},
		{"402", answers(402, `{}`), nil, want{store.Rejected, 402, false}, ""},
		{"403", answers(403, `<html>`), nil, want{store.Denied, 403, false}, ""},
		{"404", answers(404, `{}`), nil, want{store.NoPlace, 404, false}, ""},
		{"404 in HTML", answers(404, `<html>`), nil, want{store.NoPlace, 404, true}, ""},
		{"405", answers(405, `{}`), nil, want{store.NoPlace, 405, false}, ""},
		{"408", answers(408, `{}`), nil, want{store.Unknown, 408, false}, ""},
		{"409", answers(409, `{}`), nil, want{store.Unknown, 409, false}, ""},
		{"409 for another reason", answers(409, `{"code":"in_flight"}`), rejectOutOfStock, want{store.Unknown, 409, false}, ""},
		{"409 out of stock", answers(409, `{"code":"out_of_stock"}`), rejectOutOfStock, want{store.Rejected, 409, false}, "out_of_stock"},
		{"410", answers(410, `{}`), nil, want{store.Rejected, 410, false}, ""},
		{"413", answers(413, `{}`), nil, want{store.Rejected, 413, false}, ""},
		{"415", answers(415, `{}`), nil, want{store.Rejected, 415, false}, ""},
		{"418", answers(418, `{}`), nil, want{store.Unknown, 418, false}, ""},
		{"422", answers(422, `{"error":"bad card"}`), nil, want{store.Rejected, 422, false}, "bad card"},
		{"422 and an array", answers(422, `["bad"]`), nil, want{store.Unknown, 422, true}, ""},
		{"425", answers(425, ``), nil, want{store.NotYet, 425, false}, ""},
		{"429", answers(429, `<html>`, "Retry-After: 7"), nil, want{store.NotYet, 429, false}, ""},
		{"500", answers(500, `{"error":"oops"}`), nil, want{store.Unknown, 500, true}, "oops"},
		{"502 in HTML", answers(502, `<html>`), nil, want{store.Unknown, 502, true}, ""},
		{"503", answers(503, `{}`, "Retry-After: 7"), nil, want{store.Unknown, 503, true}, ""},
		{"no answer at all", hang, nil, want{store.Unknown, 0, true}, "no answer in time"},
		{"reset after the request", func(c net.Conn, e *evil) { e.readRequest(c); reset(c) }, nil, want{store.Unknown, 0, true}, ""},
		{"closed after the request", func(c net.Conn, e *evil) { e.readRequest(c) }, nil, want{store.Unknown, 0, true}, ""},
		{"not HTTP", says("220 mail.example ESMTP\r\n"), nil, want{store.Unknown, 0, true}, ""},
		{"a head without an end", says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10)), nil, want{store.Unknown, 0, true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := rawGateway(t, c.do)
			conf := TargetConfig{URL: e.url + "?token=secret", Timeout: 400 * time.Millisecond, Token: "s3cr3t"}
			if c.change != nil {
				c.change(&conf)
			}
			r := NewTarget(conf, nil).Send(t.Context(), store.Letter{Key: "refund:ORD-1", Body: []byte(`{"amount":1}`)})
			if got := (want{r.Evidence, r.Status, r.Unreachable}); got != c.want {
				t.Errorf("%+v, want %+v (%s)", got, c.want, r.Detail)
			}
			if n := e.requests.Load(); n != 1 {
				t.Errorf("%d requests on the wire, want 1", n)
			}
			if r.Detail == "" || !strings.Contains(r.Detail, c.detail) || strings.Contains(r.Detail, "s3cr3t") || strings.Contains(r.Detail, "secret") {
				t.Errorf("detail %q, want %q in it and no secret", r.Detail, c.detail)
			}
			if (r.Status == 429 || r.Status == 503) && r.RetryAfter != 7*time.Second {
				t.Errorf("wait %v", r.RetryAfter)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went where a redirect pointed", n)
	}
}

func acceptAny(c *TargetConfig)        { c.AcceptAny = true }
func rejectOutOfStock(c *TargetConfig) { c.RejectCodes = []string{"sold_out", "out_of_stock"} }

func hang(c net.Conn, e *evil) {
	e.readRequest(c)
	_, _ = io.Copy(io.Discard, c) // until the client goes away
}

func endless(c net.Conn, e *evil) {
	e.readRequest(c)
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n{\"id\":1")
	for blank := strings.Repeat(" ", 32<<10); err == nil; {
		_, err = io.WriteString(c, blank)
	}
}

func drip(c net.Conn, e *evil) {
	e.readRequest(c)
	_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
	for err == nil {
		time.Sleep(20 * time.Millisecond)
		_, err = io.WriteString(c, " ")
	}
}

// What is certain to have sent nothing says so, and everything else does not.
func TestNotSent(t *testing.T) {
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}()
	secure := func(until time.Time) string {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate(t, until)}})
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived over TLS that nobody trusts") }),
			ErrorLog: nil}
		srv.ErrorLog = quiet()
		go func() { _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close() })
		return l.Addr().String()
	}
	plainText := rawGateway(t, says("HTTP/1.1 400 Bad Request\r\n\r\n"))
	silent := rawGateway(t, func(c net.Conn, _ *evil) { _, _ = io.Copy(io.Discard, c) })
	for name, address := range map[string]string{
		"refused":                    "http://" + closed,
		"no such host":               "http://nobody.invalid/refunds",
		"expired certificate":        "https://" + secure(time.Now().Add(-time.Hour)),
		"certificate nobody trusts":  "https://" + secure(time.Now().Add(time.Hour)),
		"TLS to a port without it":   strings.Replace(plainText.url, "http:", "https:", 1),
		"TLS to a port that is mute": strings.Replace(silent.url, "http:", "https:", 1),
	} {
		t.Run(name, func(t *testing.T) {
			r := NewTarget(TargetConfig{URL: address, Timeout: 500 * time.Millisecond}, nil).Send(t.Context(), store.Letter{Key: "k", Body: []byte("{}")})
			if r.Evidence != store.NotSent || !r.Unreachable || r.Status != 0 || r.Detail == "" {
				t.Errorf("%+v", r)
			}
		})
	}
	if n := plainText.requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	e := rawGateway(t, answers(200, "{}"))
	if r := NewTarget(TargetConfig{URL: e.url, Timeout: time.Second}, nil).Send(over, store.Letter{}); r.Evidence != store.NotSent || e.requests.Load() != 0 {
		t.Errorf("after its time: %+v", r)
	}
}

// A transport that does not tell about its connections: only errors that are certain count as not sent.
func TestOtherTransport(t *testing.T) {
	for _, c := range []struct {
		err  error
		want store.Evidence
	}{
		{&net.OpError{Op: "dial", Err: errors.New("no route to host")}, store.NotSent},
		{&net.DNSError{Err: "no such host"}, store.NotSent},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, store.Unknown},
		{io.ErrUnexpectedEOF, store.Unknown},
		{context.DeadlineExceeded, store.Unknown},
	} {
		r := NewTarget(TargetConfig{URL: "http://x.example", Timeout: time.Second}, failing{c.err}).Send(t.Context(), store.Letter{})
		if r.Evidence != c.want {
			t.Errorf("%v: %+v, want %s", c.err, r, c.want)
		}
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// net/http sends a POST with an idempotency key again by itself when a connection that it kept breaks. Here a
// transport that keeps connections is given on purpose, and the gateway breaks the second request.
func TestNothingIsSentTwice(t *testing.T) {
	var requests atomic.Int64
	e := rawGateway(t, func(c net.Conn, e *evil) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if requests.Add(1) == 2 {
				return // read, perhaps done, and no answer
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\":1}")
		}
	})
	for name, rt := range map[string]http.RoundTripper{"kept": NewTransport(1), "own": nil} {
		requests.Store(0)
		target := NewTarget(TargetConfig{URL: e.url, Timeout: time.Second}, rt)
		first := target.Send(t.Context(), store.Letter{Key: "a", Body: []byte("{}")})
		second := target.Send(t.Context(), store.Letter{Key: "b", Body: []byte("{}")})
		if first.Evidence != store.Happened || second.Evidence != store.Unknown || requests.Load() != 2 {
			t.Errorf("%s: %+v, then %+v; %d requests on the wire, want 2", name, first, second, requests.Load())
		}
	}
}

// What goes over the wire.
func TestRequest(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for _, quote := range []bool{false, true} {
		e := rawGateway(t, answers(200, `{"id":"rf_1"}`))
		target := NewTarget(TargetConfig{URL: e.url + "?a=b", Timeout: time.Second, Token: "t0k3n", QuoteKey: quote}, nil)
		r := target.Send(t.Context(), store.Letter{Key: WireKey("refund:ORD 1"), Body: []byte(`{"amount":2154.00}`)})
		want := "refund:ORD%201"
		if quote {
			want = `"` + want + `"`
		}
		h := e.last.Header
		if r.Receipt != "rf_1" || e.lastBody != `{"amount":2154.00}` || e.last.Method != "POST" || e.last.RequestURI != "/refunds?a=b" ||
			h.Get("Idempotency-Key") != want || h.Get("Authorization") != "Bearer t0k3n" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%+v; %s %s %v %q", r, e.last.Method, e.last.RequestURI, h, e.lastBody)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name        string
		do          func(net.Conn, *evil)
		want        store.Knowledge
		unreachable bool
	}{
		{"found by id", answers(200, `{"id":"rf_1"}`), store.Found, false},
		{"found by reference", answers(200, `{"reference":7,"status":"done"}`), store.Found, false},
		{"found and failed", answers(200, `{"id":"rf_1","status":"failed"}`), store.Unclear, false},
		{"without an id", answers(200, `{"status":"done"}`), store.Unclear, false},
		{"with an empty id", answers(200, `{"id":" "}`), store.Unclear, false},
		{"a list", answers(200, `[{"id":"rf_1"}]`), store.Unclear, false},
		{"nothing, as JSON", answers(200, `null`), store.Unclear, false},
		{"an empty list in an object", answers(200, `{"data":[]}`), store.Unclear, false},
		{"HTML", answers(200, `<html>`), store.CouldNotAsk, true},
		{"absent", answers(404, `{"code":"not_found"}`), store.Absent, false},
		{"404 in HTML", answers(404, `<html>`), store.CouldNotAsk, true},
		{"401", answers(401, `{}`), store.CouldNotAsk, false},
		{"403", answers(403, `{}`), store.CouldNotAsk, false},
		{"408", answers(408, `{}`), store.CouldNotAsk, true},
		{"410", answers(410, `{}`), store.Unclear, false},
		{"429", answers(429, `{}`), store.CouldNotAsk, false},
		{"302", answers(302, `{}`, "Location: /login"), store.CouldNotAsk, true},
		{"500", answers(500, `{}`), store.CouldNotAsk, true},
		{"hang", hang, store.CouldNotAsk, true},
		{"reset", func(c net.Conn, e *evil) { e.readRequest(c); reset(c) }, store.CouldNotAsk, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := rawGateway(t, c.do)
			f := NewTarget(TargetConfig{URL: e.url, LookupURL: e.url + "/{key}?key={key}", Timeout: 300 * time.Millisecond, Token: "t"}, nil).Lookup(t.Context(), "refund:A%20B&c")
			if f.Knowledge != c.want || f.Unreachable != c.unreachable {
				t.Errorf("%+v, want %s", f, c.want)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.requests.Load() != 1 || e.last.Method != "GET" || e.last.RequestURI != "/refunds/refund:A%2520B&c?key=refund%3AA%2520B%26c" || e.last.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("%d requests, the last %s %s", e.requests.Load(), e.last.Method, e.last.RequestURI)
			}
			if f.Knowledge == store.Found && f.Receipt == "" {
				t.Error("found without a receipt")
			}
		})
	}
	if f := NewTarget(TargetConfig{Timeout: time.Second}, nil).Lookup(t.Context(), "k"); f.Knowledge != store.Unclear {
		t.Errorf("without an address: %+v", f)
	}
}
