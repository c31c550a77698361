package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// newRigOn opens a listener on a rig that has none.
func newRigOn(t testing.TB, r *rig) *rig {
	t.Helper()
	r.http = httptest.NewUnstartedServer(r.srv)
	r.http.Config = r.srv.HTTPServer()
	r.http.Start()
	t.Cleanup(r.http.Close)
	return r
}

func TestEveryTimeoutIsSet(t *testing.T) {
	h := newClosedRig(t).srv.HTTPServer()
	for _, name := range []string{"ReadHeaderTimeout", "ReadTimeout", "WriteTimeout", "IdleTimeout", "MaxHeaderBytes"} {
		if reflect.ValueOf(h).Elem().FieldByName(name).Int() <= 0 {
			t.Errorf("%s is not set", name)
		}
	}
	if h.ReadTimeout <= creditWait+5e9 {
		t.Error("ReadTimeout ends requests that still wait for credit and a busy file")
	}
}

func TestTooManyAtOnce(t *testing.T) {
	r := newRig(t)
	r.srv.inFlight.Store(512)
	r.post(contractBody).wants(200)
	r.srv.inFlight.Store(maxInFlight)
	if m := r.post(contractBody).problem(503, "not-now"); m["reason"] != "busy" {
		t.Errorf("reason %v", m["reason"])
	}
	r.get("/healthz").wants(200)
	r.get("/readyz").wants(200)
	r.srv.inFlight.Store(0)
	r.post(contractBody).wants(200)
	if n := r.srv.inFlight.Load(); n != 0 {
		t.Errorf("%d in flight at rest", n)
	}
}

// A client that hangs up is no error of ours.
func TestClientGone(t *testing.T) {
	g := newGate()
	r := newRig(t, func(o *Options) { o.Credit = g })
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.http.URL+"/webhooks/orders", strings.NewReader(contractBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := r.http.Client().Do(req); err == nil {
			_ = res.Body.Close()
		}
	})
	<-g.asked
	cancel()
	wg.Wait()
	r.http.Close() // waits for the handler
	log := r.log.String()
	if !strings.Contains(log, `"problem":"not-now"`) || strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, `"level":"WARN"`) {
		t.Errorf("log: %s", log)
	}
	r.holds(0, 0, 0)
}
