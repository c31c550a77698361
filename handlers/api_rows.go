package handlers

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// pathID returns the id in a path, percent-decoded exactly once. echo routes on RawPath when there is
// one and then hands the id out as it was sent; otherwise net/http has decoded it.
func pathID(c echo.Context) string {
	id := c.Param("id")
	if c.Request().URL.RawPath == "" {
		return id
	}
	plain, err := url.PathUnescape(id)
	if err != nil { // net/http has refused such a path already
		return id
	}
	return plain
}

// getOrder is GET /api/orders/{order_id}: the story of an order.
func (s *Server) getOrder(c echo.Context) error {
	var story store.Story
	err := s.opt.DB.View(c.Request().Context(), func(tx *store.Tx) (err error) {
		story, err = tx.Story(pathID(c))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("nothing is known of this order")
	}
	return ok(c, story, err)
}

// ticketStory is a ticket's row with its attempts; the column attempts is their number.
type ticketStory struct {
	store.Ticket
	History []store.Attempt `json:"history"`
}

// getTicket is GET /api/tickets/{id}: the ticket's row, and its attempts as "history".
func (s *Server) getTicket(c echo.Context) error {
	id, err := strconv.ParseInt(pathID(c), 10, 64)
	if err != nil {
		return notFound("a ticket's id is a whole number")
	}
	var t ticketStory
	err = s.opt.DB.View(c.Request().Context(), func(tx *store.Tx) (err error) {
		if t.Ticket, err = tx.Ticket(id); err != nil {
			return err
		}
		t.History, err = tx.Attempts(id)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no ticket with this id")
	}
	return ok(c, t, err)
}

// getGraph is GET /api/graph: the program's own wiring.
func (s *Server) getGraph(c echo.Context) error {
	if s.opt.Graph == nil {
		return notFound("this server was built without a graph")
	}
	return ok(c, s.opt.Graph, nil)
}
