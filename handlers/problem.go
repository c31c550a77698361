package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/handlers/order"
	"comanda/store"
)

// Problem is an error as the client is told it, RFC 9457. The cause goes to the log and nowhere else.
type Problem struct {
	Status int
	Name   string // the last part of type: "/problems/NAME"
	Detail string
	Reason string        // not-now: "busy", "disk-full", "disk" or "credit"
	State  string        // conflict: the state that stands in the way
	Faults []order.Fault // invalid-order, invalid-credit
	// RetryAfter is in seconds; 0 sends no such header.
	RetryAfter int

	eventID string // of the event that was refused, when it could be read
	cause   error
}

// Error is for the log: it names the cause too.
func (p *Problem) Error() string {
	if p.cause != nil {
		return p.Name + ": " + p.Detail + ": " + p.cause.Error()
	}
	return p.Name + ": " + p.Detail
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.cause }

// titles are the same for every occurrence of a problem, as RFC 9457 wants it.
var titles = map[string]string{
	"bad-json":           "The body is not JSON",
	"duplicate-key":      "A key stands twice",
	"too-large":          "The body is too large",
	problemUnsigned:      "The request is not signed",
	"not-json":           "The body is not application/json",
	"invalid-order":      "The order is not valid",
	"invalid-credit":     "The credit limit is not valid",
	"event-id-reused":    "The event id was used for another order",
	"not-now":            "Not now, send it again",
	"not-found":          "Not found",
	"method-not-allowed": "The method is not allowed here",
	"bad-request":        "The request is not understood",
	door.LoginRequired:   "A login or a token is needed",
	door.Forbidden:       "The role is not enough",
	door.CrossOrigin:     "The request came from another origin",
	"foreign-host":       "The request was meant for another server",
	"conflict":           "The state does not allow it",
	"internal":           "A defect in comanda",
}

func notFound(detail string) *Problem {
	return &Problem{Status: http.StatusNotFound, Name: "not-found", Detail: detail}
}

func badRequest(detail string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Name: "bad-request", Detail: detail}
}

func notNow(reason string, retryAfter int, detail string, cause error) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Name: "not-now", Reason: reason,
		RetryAfter: retryAfter, Detail: detail, cause: cause}
}

// problemOf finds the problem that an error is for the client. It knows what the store and echo
// return; anything else is a defect.
func problemOf(err error) *Problem {
	var p *Problem
	var fromEcho *echo.HTTPError
	var refused *door.Refusal
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused):
		return &Problem{Status: refused.Status, Name: refused.Name, Detail: refused.Detail}
	case errors.As(err, &fromEcho):
		return echoProblem(fromEcho)
	case errors.Is(err, ErrPaused):
		return &Problem{Status: http.StatusConflict, Name: "conflict", State: "paused",
			Detail: "the relay is paused; POST /api/relay/resume lets it go on", cause: err}
	case errors.Is(err, store.ErrNotFound):
		return notFound("there is no such row")
	case errors.Is(err, store.ErrUnknownOutcome):
		return notNow(diskReason(err), 1, "the commit failed and may have been kept or not; send it again: if it was kept the answer will be duplicate", err)
	case errors.Is(err, store.ErrFull):
		return notNow("disk-full", 30, "the disk is full; nothing was kept", err)
	case errors.Is(err, store.ErrMoved):
		return notNow("disk", 30, "the file was removed, moved or replaced under the running server; nothing was kept", err)
	case errors.Is(err, store.ErrOtherSchema):
		return notNow("schema", 30, "a newer comanda has brought the file up to date under the running server; nothing was kept", err)
	case errors.Is(err, store.ErrBusy):
		return notNow("busy", 1, "another program holds the file; nothing was kept", err)
	case errors.Is(err, store.ErrTooLong):
		return notNow("busy", 5, "reading took too long and was given up, so that orders are not held up; ask for less at once", err)
	case errors.Is(err, store.ErrClosed):
		return notNow("busy", 5, "the server is stopping; nothing was kept", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return notNow("busy", 1, "the request ended before its turn came; nothing was kept", err)
	case store.IsDiskFault(err):
		return notNow("disk", 5, "the disk or the file is at fault; nothing was kept", err)
	}
	return &Problem{Status: http.StatusInternalServerError, Name: "internal",
		Detail: "something went wrong inside comanda; its log has the details under this request id", cause: err}
}

// diskReason is the reason behind a commit whose outcome is unknown.
func diskReason(err error) string {
	switch {
	case errors.Is(err, store.ErrFull):
		return "disk-full"
	case errors.Is(err, store.ErrBusy):
		return "busy"
	}
	return "disk"
}

func echoProblem(err *echo.HTTPError) *Problem {
	switch err.Code {
	case http.StatusNotFound:
		return notFound("there is nothing at this address")
	case http.StatusMethodNotAllowed:
		return &Problem{Status: err.Code, Name: "method-not-allowed", Detail: "the Allow header names the methods that this address knows"}
	}
	return &Problem{Status: http.StatusInternalServerError, Name: "internal",
		Detail: "something went wrong inside comanda; its log has the details under this request id", cause: err}
}

// opening is what would open the door to a request that was answered 401, which RFC 9110 wants to be told.
var opening = map[string]string{problemUnsigned: "Standard-Webhooks", door.LoginRequired: door.Challenge}

// problemBody is the document of RFC 9457 with our members after the standard ones.
type problemBody struct {
	Type      string        `json:"type"`
	Title     string        `json:"title"`
	Status    int           `json:"status"`
	Detail    string        `json:"detail"`
	Reason    string        `json:"reason,omitempty"`
	State     string        `json:"state,omitempty"`
	Errors    []order.Fault `json:"errors,omitempty"`
	RequestID string        `json:"request_id"`
}

// writeProblem is the one place where an error becomes an answer.
func writeProblem(c echo.Context, p *Problem) error {
	if c.Response().Committed {
		return nil // half an answer is out; the log line tells the rest
	}
	if opens := opening[p.Name]; opens != "" {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, opens)
	}
	if p.RetryAfter > 0 {
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	b, err := encode(problemBody{Type: "/problems/" + p.Name, Title: titles[p.Name], Status: p.Status, Detail: p.Detail,
		Reason: p.Reason, State: p.State, Errors: p.Faults, RequestID: requestID(c)})
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", append(b, '\n'))
}
