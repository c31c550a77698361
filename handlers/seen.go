package handlers

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// Seen is what an instrument may count of a request. None of it is a sender's own word, but for a route's there are
// as many values as the program has routes.
type Seen struct {
	Method string // GET, HEAD, POST, PUT, or "other"
	Route  string // as it is written in the route table, or "none"
	Status int
	Took   time.Duration // from the request's headers to its last byte
	// Accept is what came of an event that was sent in: accepted, duplicate, already_decided, refused (the sender's
	// fault), not_now (not promised: send it again) or failed (a defect); "" for any other request.
	Accept string
}

func seen(c echo.Context, took time.Duration) Seen {
	s := Seen{Method: c.Request().Method, Route: c.Path(), Status: c.Response().Status, Took: took}
	switch s.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
	default:
		s.Method = "other"
	}
	if s.Route == "" {
		s.Route = "none"
	}
	if s.Method == http.MethodPost && strings.HasPrefix(c.Request().URL.Path, "/webhooks/") {
		s.Accept = acceptOf(c, s.Status)
	}
	return s
}

func acceptOf(c echo.Context, status int) string {
	a, answered := c.Get(keyAnswer).(Answer)
	switch {
	case answered:
		return a.Status
	case status == http.StatusServiceUnavailable:
		return "not_now"
	case status >= http.StatusInternalServerError:
		return "failed"
	}
	return "refused"
}
