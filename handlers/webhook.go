package handlers

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// A body is read up to maxBody. What is larger is dropped up to dropBody, so that a sender that writes
// before it reads sees the 413.
const (
	maxBody  = 1 << 20
	dropBody = 4 << 20
)

// postOrder is POST /webhooks/orders, and the same for a sender with a path of its own.
func (s *Server) postOrder(g *intake) echo.HandlerFunc {
	return func(c echo.Context) error {
		leave, err := g.enter(s.opt.Now())
		if err != nil {
			return err
		}
		defer leave()
		return s.takeOrder(c, g)
	}
}

// takeOrder looks first whether the bytes come from the sender, and only then at what they are.
func (s *Server) takeOrder(c echo.Context, g *intake) error {
	r := c.Request()
	from := g.arrival(r.Header, s.doubt(r.Context(), g))
	c.Set(keyArrival, from)
	body, tooLarge, err := readBody(r)
	if err == nil && !tooLarge {
		err = s.verify(g, r.Header, body, from)
	}
	if err == nil {
		err = fits(r.Header, tooLarge)
	}
	var a Answer
	if err == nil {
		a, err = s.director.Triage(r.Context(), from, body)
	}
	if err != nil {
		s.keepRefused(err, body)
		return err
	}
	if a.Status == statusDuplicate {
		s.copies.note(a.EventID)
	}
	c.Set(keyAnswer, a)
	return writeJSON(c, http.StatusOK, a)
}

// keepRefused takes down a body that the sender should not have sent. It waits for nothing.
func (s *Server) keepRefused(err error, body []byte) {
	p := problemOf(err)
	if p.Status >= 400 && p.Status < 500 && !errors.Is(err, errCutShort) {
		s.refused.offer(store.Refused{Problem: p.Name, Detail: p.Detail, EventID: p.eventID, Body: body})
	}
}

// errCutShort: the body did not arrive whole. Whoever sent it knows, and will send it again.
var errCutShort = errors.New("the body was cut short")

// readJSON reads a request's body, which must be application/json as it is and at most maxBody. Next
// to an error it returns what it has of the body.
func readJSON(r *http.Request) ([]byte, error) {
	body, tooLarge, err := readBody(r)
	if err == nil {
		err = fits(r.Header, tooLarge)
	}
	return body, err
}

// readBody reads up to maxBody of a request's body, and says whether that is not all of it.
func readBody(r *http.Request) (body []byte, tooLarge bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	tooLarge = len(body) > maxBody
	if err == nil && tooLarge {
		_, err = io.CopyN(io.Discard, r.Body, dropBody-int64(len(body)))
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	var refused *Problem
	switch {
	case errors.As(err, &refused): // by whoever bounds the bodies
		return body, tooLarge, refused
	case err != nil:
		return body, tooLarge, &Problem{Status: http.StatusBadRequest, Name: "bad-json", Detail: "the body did not arrive whole",
			cause: fmt.Errorf("%w: %w", errCutShort, err)}
	}
	return body, tooLarge, nil
}

// fits refuses a body that is not application/json as it is, or too large.
func fits(h http.Header, tooLarge bool) error {
	switch {
	case !isJSON(h):
		return &Problem{Status: http.StatusUnsupportedMediaType, Name: "not-json",
			Detail: "the Content-Type must be application/json"}
	case isEncoded(h):
		return &Problem{Status: http.StatusUnsupportedMediaType, Name: "not-json",
			Detail: "the body must be sent as it is, without a Content-Encoding"}
	case tooLarge:
		return &Problem{Status: http.StatusRequestEntityTooLarge, Name: "too-large",
			Detail: fmt.Sprintf("the body must be at most %d bytes", maxBody)}
	}
	return nil
}

// isJSON wants application/json itself; parameters, well formed or not, say nothing about the bytes.
func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get(echo.HeaderContentType))
	return kind == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

func isEncoded(h http.Header) bool {
	for _, v := range h.Values(echo.HeaderContentEncoding) {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}
