package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

func TestProblems(t *testing.T) {
	r := newRig(t)
	r.get("/nothing").problem(404, "not-found")
	for _, later := range []string{"/metrics", "/schemas/nothing.json", "/api/nothing", "/api/tickets/1/retry", "/api/orders/x/y"} {
		r.get(later).problem(404, "not-found")
	}
	r.do("POST", "/api/tickets/1/retry", "").problem(404, "not-found")
	for path, allow := range map[string]string{
		"/webhooks/orders": "POST", "/api/orders": "GET", "/api/orders/x": "GET", "/api/customers/x/credit": "PUT", "/healthz": "HEAD",
	} {
		a := r.do("DELETE", path, "")
		a.problem(405, "method-not-allowed")
		if !strings.Contains(a.header.Get("Allow"), allow) {
			t.Errorf("%s: Allow %q has no %s", path, a.header.Get("Allow"), allow)
		}
	}
	r.get("/webhooks/orders").problem(405, "method-not-allowed")
}

// What the store says, as the client is told it.
func TestStoreErrors(t *testing.T) {
	full := fmt.Errorf("decide: %w", fmt.Errorf("%w: %w", store.ErrFull, errors.New("database or disk is full (13)")))
	for _, c := range []struct {
		err          error
		status       int
		name, reason string
		detail       string
	}{
		{full, 503, "not-now", "disk-full", "nothing was kept"},
		{fmt.Errorf("decide: %w", store.ErrBusy), 503, "not-now", "busy", "nothing was kept"},
		{fmt.Errorf("decide: %w: it was 2 and is 3", store.ErrOtherSchema), 503, "not-now", "schema", "nothing was kept"},
		{fmt.Errorf("decide: %w: /srv/comanda.db", store.ErrMoved), 503, "not-now", "disk", "nothing was kept"},
		{store.ErrClosed, 503, "not-now", "busy", "stopping"},
		{fmt.Errorf("read a list: %w", store.ErrTooLong), 503, "not-now", "busy", "took too long"},
		{fmt.Errorf("decide: %w: %w", store.ErrUnknownOutcome, errors.New("disk I/O error")), 503, "not-now", "disk", "may have been kept"},
		{fmt.Errorf("decide: %w: %w", store.ErrUnknownOutcome, store.ErrFull), 503, "not-now", "disk-full", "may have been kept"},
		{fmt.Errorf("decide: %w: %w", store.ErrUnknownOutcome, store.ErrBusy), 503, "not-now", "busy", "may have been kept"},
		{context.Canceled, 503, "not-now", "busy", "nothing was kept"},
		{fmt.Errorf("look up: %w", store.ErrNotFound), 404, "not-found", "", "no such row"},
		{errors.New("*errors.errorString"), 500, "internal", "", "log"},
		{echo.NewHTTPError(http.StatusTeapot, "x"), 500, "internal", "", "log"},
	} {
		p := problemOf(c.err)
		if p.Status != c.status || p.Name != c.name || p.Reason != c.reason || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%v: %+v", c.err, p)
		}
		if (p.Status == 503) != (p.RetryAfter > 0) {
			t.Errorf("%v: Retry-After %d", c.err, p.RetryAfter)
		}
		if strings.Contains(p.Detail, "13") || strings.Contains(p.Detail, "errorString") {
			t.Errorf("the detail tells the cause: %s", p.Detail)
		}
		if titles[p.Name] == "" {
			t.Errorf("%s has no title", p.Name)
		}
	}
}

func TestPanicIsAProblem(t *testing.T) {
	r := newClosedRig(t, func(o *Options) {
		o.RunRelay = func(context.Context) (RelayRun, error) { panic("the secret word") }
	})
	open := newRigOn(t, r)
	a := open.do("POST", "/api/relay/run", "")
	a.problem(500, "internal")
	if strings.Contains(a.body, "secret") || strings.Contains(a.body, "panic") {
		t.Errorf("the client is told: %s", a.body)
	}
	if !strings.Contains(r.log.String(), "the secret word") || !strings.Contains(r.log.String(), `"level":"ERROR"`) {
		t.Error("the log is not told")
	}
	open.get("/healthz").wants(200)
}

// A panic inside the deciding transaction is that event's alone.
func TestPanicInTheTransaction(t *testing.T) {
	r := newRig(t)
	r.srv.director.Crash = func(string) { panic("boom") }
	r.post(contractBody).problem(500, "internal")
	r.srv.director.Crash = nil
	r.holds(0, 0, 0)
	r.post(contractBody).wants(200, `"accepted"`)
}
