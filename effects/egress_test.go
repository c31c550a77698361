package effects

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// A connection that is refused on our side is one that never was: nothing is charged, and the story says why.
func TestRefusedConnectionIsNotSent(t *testing.T) {
	target := NewTarget(TargetConfig{URL: "http://169.254.169.254/latest/meta-data?key=s3cret", LookupURL: "http://[fe80::1]/{key}", Timeout: time.Second, Token: "t0k3n"}, nil)
	r := target.Send(t.Context(), store.Letter{Key: "k", Body: []byte("{}")})
	if want := "not sent to http://169.254.169.254: refused to connect to 169.254.169.254, which is a metadata service of a cloud"; r.Evidence != store.NotSent || !r.Unreachable || r.Detail != want {
		t.Errorf("%+v", r)
	}
	f := target.Lookup(t.Context(), "k")
	if want := "asked http://[fe80::1]: refused to connect to fe80::1, which is link-local"; f.Knowledge != store.CouldNotAsk || !f.Unreachable || f.Detail != want {
		t.Errorf("%+v", f)
	}
	if err := NewNotifier("http://169.254.169.254/hook", false, nil).Notify(t.Context(), "review", "onset", "text", time.Now()); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("an alert: %v", err)
	}
	if _, err := NewPooledTransport(1).RoundTrip(httptest.NewRequest(http.MethodGet, "http://169.254.169.254/credit", nil)); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("a question for credit: %v", err)
	}
}

// A token goes to the host that it was given for, whatever that answers and wherever else is asked.
func TestTokenGoesToOneHost(t *testing.T) {
	var strayed, arrived atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		for _, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), "t0k3n") {
				strayed.Add(1)
			}
		}
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{elsewhere, other.URL, "http://169.254.169.254/latest/meta-data", "//" + other.Listener.Addr().String() + "/", "http://t0k3n@127.0.0.1:1/"} {
			e := rawGateway(t, answers(status, "{}", "Location: "+to, "Refresh: 0; url="+to))
			target := NewTarget(TargetConfig{URL: e.url, LookupURL: e.url + "?key={key}", Timeout: time.Second, Token: "t0k3n"}, nil)
			if r := target.Send(t.Context(), store.Letter{Key: "k", Body: []byte("{}")}); r.Evidence != store.Unknown || r.Status != status || strings.Contains(r.Detail, "t0k3n") {
				t.Errorf("%d to %s: %+v", status, to, r)
			}
			if f := target.Lookup(t.Context(), "k"); f.Knowledge != store.CouldNotAsk || f.Status != status {
				t.Errorf("%d to %s: %+v", status, to, f)
			}
			if e.requests.Load() != 2 {
				t.Errorf("%d requests", e.requests.Load())
			}
		}
	}
	if arrived.Load() != 0 {
		t.Errorf("%d redirects were followed", arrived.Load())
	}
	e := rawGateway(t, answers(200, `{"id":"1"}`))
	NewTarget(TargetConfig{URL: e.url, LookupURL: elsewhere + "/{key}", Timeout: time.Second, Token: "t0k3n"}, nil).Lookup(t.Context(), "k")
	if arrived.Load() != 1 || strayed.Load() != 0 {
		t.Errorf("another host was asked %d times, and saw the token %d times", arrived.Load(), strayed.Load())
	}
}
