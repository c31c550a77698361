package effects

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"comanda/effects/egress"
)

// TargetConfig is one target outside.
type TargetConfig struct {
	Name        string        // "refund", "inventory", "release"
	URL         string        // the complete address that is POSTed to
	Timeout     time.Duration // of one send or lookup, from before its first byte to the last of the answer
	Token       string        // sent as a bearer token to the host of URL and to no other; "" sends none. It stands in no error and no detail
	LookupURL   string        // {key} in it becomes the key; "" when the target can't be asked
	AcceptAny   bool          // a 2xx is done, whatever it says
	RejectCodes []string      // what "code" of a 409 makes it a rejection
	QuoteKey    bool          // the key as a structured field string, as draft-ietf-httpapi-idempotency-key-header has it
	Keep        int           // connections that are kept for the next letters; 0 gives each letter one of its own
}

// Target sends to one target. It sends once: it repeats nothing by itself, follows no redirect, and takes
// credentials to no other host.
type Target struct {
	conf    TargetConfig
	letters http.RoundTripper
	lookups http.RoundTripper // never on a connection that carried something else
	now     func() time.Time
}

// NewTarget returns a Target. rt nil means transports of its own, which keep connections as c says.
func NewTarget(c TargetConfig, rt http.RoundTripper) *Target {
	t := &Target{conf: c, letters: rt, lookups: rt, now: time.Now}
	if rt == nil {
		t.letters, t.lookups = NewTransport(c.Keep), NewTransport(0)
	}
	return t
}

// idleLetters is how long a connection is kept for the next letter. Servers wait longer before they close theirs:
// Node.js 5 s (https://nodejs.org/docs/latest-v22.x/api/http.html#serverkeepalivetimeout).
const idleLetters = time.Second

// NewTransport returns a transport for letters, which keeps so many idle connections. With none each request has a
// connection of its own: of one that was idle nobody can tell whether the target had closed it before the letter or
// after. So only a target that honours keys may be sent to on one.
func NewTransport(keep int) *http.Transport {
	t := egress.Transport()
	t.DisableKeepAlives = keep == 0
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = keep, idleLetters
	return t
}

// startAfresh closes the connections that are kept: after an answer that was not plainly a success, the next letter
// has one that nothing was said on before.
func (t *Target) startAfresh() {
	if kept, ok := t.letters.(interface{ CloseIdleConnections() }); ok {
		kept.CloseIdleConnections()
	}
}

// NewPooledTransport returns a transport for questions that may be asked again, which keeps so many idle connections
// to a host for its next ones.
func NewPooledTransport(idle int) *http.Transport {
	t := egress.Transport()
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = idle, time.Minute
	return t
}

// exchange is one request and what became of it.
type exchange struct {
	answer *answer // nil when there was none
	err    error
	sent   bool // bytes of the request may have left
	kept   bool // on a connection that had carried another
}

// roundTrip makes one request. It knows whether a byte of it can have left: a connection was handed to it.
func (t *Target) roundTrip(ctx context.Context, rt http.RoundTripper, req *http.Request) exchange {
	if ctx.Err() != nil {
		return exchange{err: ctx.Err()}
	}
	var connected, kept atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		kept.Store(c.Reused)
		connected.Store(true)
	}}
	req = req.WithContext(httptrace.WithClientTrace(ctx, trace))
	req.GetBody = nil // with it net/http would send again by itself what carries an idempotency key
	res, err := rt.RoundTrip(req)
	if err != nil {
		_, traced := rt.(*http.Transport)
		return exchange{err: err, sent: connected.Load() || !traced && !beforeFirstByte(err)}
	}
	defer res.Body.Close()
	return exchange{answer: t.read(ctx, res), sent: true, kept: kept.Load()}
}

// beforeFirstByte reports whether err says by itself that the request never left, where the transport does not
// tell about its connections.
func beforeFirstByte(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	switch {
	case errors.As(err, &dns), errors.As(err, &record), errors.As(err, &alert), errors.As(err, &verify),
		errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &host):
		return true
	case errors.As(err, &op):
		return op.Op == "dial"
	}
	return false
}

// host is the address as it may be shown: without user, path or query.
func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the target"
	}
	return u.Scheme + "://" + u.Host
}

// plain says an error without the URL, which may hold a secret.
func plain(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var refused *egress.RefusedError
	if errors.As(err, &refused) {
		err = refused
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "the process stopped before an answer came"
	}
	return clean(err.Error(), 200)
}

// clean is text for the story of a ticket: one line, nothing that acts on a terminal, at most n runes.
func clean(s string, n int) string {
	var b strings.Builder
	count := 0
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if count == n {
			b.WriteString("…")
			break
		}
		count++
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) { // what breaks lines, turns or hides
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}
