package handlers

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
)

const (
	keyRequestID = "comanda.request_id"
	keyAnswer    = "comanda.answer"
	keyArrival   = "comanda.arrival"
)

// requestID returns the id that observe gave to the request.
func requestID(c echo.Context) string {
	id, _ := c.Get(keyRequestID).(string)
	return id
}

// chooseRequestID takes the sender's id if it is one that can stand in a log and a header, else makes
// one.
func chooseRequestID(sent string) string {
	const longest = 100
	if sent == "" || len(sent) > longest || strings.ContainsFunc(sent, notInRequestID) {
		return rand.Text()
	}
	return sent
}

func notInRequestID(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_.:/+=", r)
}

// observe is outermost: it names the request, writes its error if there is one, and logs one line.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begun := s.opt.Now()
		id := chooseRequestID(c.Request().Header.Get(echo.HeaderXRequestID))
		c.Set(keyRequestID, id)
		h := c.Response().Header()
		h.Set(echo.HeaderXRequestID, id)
		h.Set(echo.HeaderXContentTypeOptions, "nosniff")
		h.Set(echo.HeaderCacheControl, "no-store")
		h.Set(echo.HeaderReferrerPolicy, "no-referrer")
		var p *Problem
		if err := next(c); err != nil {
			p = problemOf(err)
			c.Error(p) // through echo's hook to writeProblem
		}
		took := s.opt.Now().Sub(begun)
		s.opt.Observe(seen(c, took))
		s.logRequest(c, p, took)
		return nil
	}
}

// logRequest writes the one line of a request. Its fields are the same for every request of a kind.
func (s *Server) logRequest(c echo.Context, p *Problem, took time.Duration) {
	r := c.Request()
	fields := []slog.Attr{
		slog.String("request_id", requestID(c)),
		slog.String("method", r.Method),
		slog.String("path", shorten(r.URL.EscapedPath())),
		slog.Int("status", c.Response().Status),
		slog.Int64("bytes", c.Response().Size),
		slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("remote", r.RemoteAddr),
	}
	if who := door.VisitorOf(c).Who; who != "" {
		fields = append(fields, slog.String("who", who))
	}
	if from, found := c.Get(keyArrival).(Arrival); found {
		fields = append(fields, from.fields()...)
	}
	if a, found := c.Get(keyAnswer).(Answer); found {
		fields = append(fields, slog.String("result", a.Status), slog.String("event_id", a.EventID), slog.String("order_id", a.OrderID))
	}
	if p != nil {
		fields = append(fields, slog.String("problem", p.Name), slog.String("error", p.Error()))
	}
	s.opt.Log.LogAttrs(context.WithoutCancel(r.Context()), level(r, c.Response().Status), "request", fields...)
}

// level is Error for defects alone. A client that went away is not one, and health checks are noise.
func level(r *http.Request, status int) slog.Level {
	switch {
	case status >= 500 && r.Context().Err() != nil:
		return slog.LevelInfo
	case status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	case status >= 500:
		return slog.LevelError
	case isProbe(r):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func isProbe(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics"
}

func shorten(s string) string {
	const longest = 300
	if len(s) <= longest {
		return s
	}
	return s[:longest] + "…"
}

// guard turns a panic into a problem; what it said is for the log alone.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // net/http's own sentinel is panicked as it is
					panic(p)
				}
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

// limit refuses what is more than the process should hold at once. Probes always get through.
func (s *Server) limit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer s.inFlight.Add(-1)
		if s.inFlight.Add(1) > maxInFlight && !isProbe(c.Request()) {
			return notNow("busy", 1, "too many requests at once; nothing was kept", nil)
		}
		return next(c)
	}
}
