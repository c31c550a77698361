package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"comanda/handlers/hand"
	"comanda/store"
)

// sendAgain is what must be typed to have something sent of which nobody knows whether it happened.
const sendAgain = "send again"

// actOn is POST /api/tickets/{id}/retry|discard|resolve: it answers the ticket as it stands then, or 409.
func (s *Server) actOn(do string) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := strconv.ParseInt(pathID(c), 10, 64)
		if err != nil {
			return notFound("a ticket's id is a whole number")
		}
		if c.QueryParams().Has("preview") {
			return badRequest("one ticket is not previewed here: POST /api/tickets/" + do + "?preview=1 with its id in ids")
		}
		act, _, err := s.readAct(c, do)
		if err != nil {
			return err
		}
		act.IDs = []int64{id}
		r, err := act.Carry(c.Request().Context(), s.opt.DB)
		switch {
		case err != nil:
			return actProblem(err)
		case len(r.Refused) > 0 && r.Refused[0].State == "unknown":
			return notFound(r.Refused[0].Why)
		case len(r.Refused) > 0:
			return &Problem{Status: http.StatusConflict, Name: "conflict", State: r.Refused[0].State, Detail: r.Refused[0].Why}
		}
		return s.getTicket(c)
	}
}

// actOnMany is POST /api/tickets/retry|discard|resolve {"ids":[…]}: over exactly these tickets, each of which
// may be refused for itself; with "preview":true or ?preview=1 it only tells what it would do.
func (s *Server) actOnMany(do string) echo.HandlerFunc {
	return func(c echo.Context) error {
		act, preview, err := s.readAct(c, do, "ids", "preview")
		if err != nil {
			return err
		}
		asked, err := previewAsked(c)
		if err != nil {
			return err
		}
		var r hand.Report
		if preview || asked {
			r, err = act.Preview(c.Request().Context(), s.opt.DB)
		} else {
			r, err = act.Carry(c.Request().Context(), s.opt.DB)
		}
		return ok(c, r, actProblem(err))
	}
}

// previewAsked reads ?preview=1. What it can't read must not pass for an order to act.
func previewAsked(c echo.Context) (bool, error) {
	if !c.QueryParams().Has("preview") {
		return false, nil
	}
	switch c.QueryParam("preview") {
	case "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, badRequest(`"preview" must be 1 or 0`)
}

// actProblem tells an act that makes no sense from a fault of ours.
func actProblem(err error) error {
	var p hand.Problem
	if errors.As(err, &p) {
		return badRequest(p.Error())
	}
	return err
}

// actFields are what the body of each act may hold.
var actFields = map[string][]string{
	store.ActRetry:   {"confirm", "reason", "seen"},
	store.ActDiscard: {"reason", "seen"},
	store.ActResolve: {"happened", "reference", "reason", "seen"},
}

// readAct reads the body of an act. Nothing but the fields of that act may stand in it: a mistyped "confirm"
// must not pass for none.
func (s *Server) readAct(c echo.Context, do string, more ...string) (act hand.Act, preview bool, err error) {
	known := append(append([]string{}, actFields[do]...), more...)
	fields, err := s.readOptional(c, known)
	if err != nil {
		return act, false, err
	}
	act = hand.Act{HandAct: store.HandAct{Do: do, Who: who(c)}, LedgerTypes: s.opt.LedgerTypes}
	var confirm string
	for name, into := range map[string]any{"confirm": &confirm, "reason": &act.Reason, "reference": &act.Reference,
		"happened": &act.Happened, "preview": &preview, "ids": &act.IDs, "seen": &act.Seen} {
		value, given := fields[name]
		if !given {
			continue
		}
		if err := json.Unmarshal([]byte(text(value)), into); err != nil || holdsNull(value) {
			return act, false, badRequest(fmt.Sprintf("%q is not what it should be", name))
		}
	}
	for _, mark := range act.Seen {
		if mark == "" { // an empty one would let the ticket stand as it may
			return act, false, badRequest(`"seen" names the mark of each ticket, as a preview shows it`)
		}
	}
	if confirm != "" && confirm != sendAgain {
		return act, false, badRequest(fmt.Sprintf("to confirm, %q must be %q", "confirm", sendAgain))
	}
	act.SendAgain = confirm != ""
	if _, given := fields["happened"]; do == store.ActResolve && !given {
		return act, false, badRequest(`say whether it happened: "happened" must be true or false`)
	}
	return act, preview, nil
}

// holdsNull: encoding/json takes null for false, 0 or "", and nobody said that it did not happen.
func holdsNull(value any) bool {
	list, _ := value.([]any)
	return value == nil || slices.Contains(list, nil)
}

// readOptional reads a JSON object of known names; no body at all is an empty one.
func (s *Server) readOptional(c echo.Context, known []string) (map[string]any, error) {
	r := c.Request()
	if r.ContentLength == 0 {
		return map[string]any{}, nil
	}
	body, err := readJSON(r)
	if err != nil {
		return nil, err
	}
	fields, err := readObject(body, known...)
	if err != nil {
		return nil, err
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return nil, badRequest(fmt.Sprintf("%q is not known here; known are %v", name, known))
		}
	}
	return fields, nil
}

// listTargets is GET /api/targets: every target of this program, and what the file knows of it.
func (s *Server) listTargets(c echo.Context) error {
	var rows []hand.Target
	err := s.opt.DB.View(c.Request().Context(), func(tx *store.Tx) (err error) {
		rows, err = hand.Targets(tx, s.opt.TargetNames)
		return err
	})
	return ok(c, map[string]any{"items": rows, "next": nil}, err)
}

// pauseTarget is POST /api/targets/{name}/pause: nothing is sent there until it is resumed.
func (s *Server) pauseTarget(c echo.Context) error { return s.setTarget(c, true) }

// resumeTarget is POST /api/targets/{name}/resume.
func (s *Server) resumeTarget(c echo.Context) error { return s.setTarget(c, false) }

func (s *Server) setTarget(c echo.Context, pause bool) error {
	name := pathID(c)
	if !slices.Contains(s.opt.TargetNames, name) {
		return notFound(fmt.Sprintf("there is no such target; the targets are %v", s.opt.TargetNames))
	}
	fields, err := s.readOptional(c, []string{"reason"})
	if err != nil {
		return err
	}
	reason, isText := fields["reason"].(string)
	if _, given := fields["reason"]; given && !isText {
		return badRequest(`"reason" must be a string`)
	}
	if err := hand.CheckReason(reason); err != nil {
		return actProblem(err)
	}
	var rows []hand.Target
	err = s.opt.DB.Update(c.Request().Context(), func(tx *store.Tx) (err error) {
		if pause {
			err = tx.PauseTarget(name, who(c), reason)
		} else {
			err = tx.ResumeTarget(name, who(c))
		}
		if err != nil {
			return err
		}
		rows, err = hand.Targets(tx, []string{name})
		return err
	})
	if err != nil {
		return err
	}
	return ok(c, rows[0], nil)
}
