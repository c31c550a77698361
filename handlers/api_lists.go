package handlers

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// How long a page is.
const (
	defaultLimit = 50
	mostLimit    = 500
)

// page is one page of a list. Next is the cursor of the following one, nil on the last page.
type page[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

// list is a request for a page.
type list struct {
	values url.Values
	limit  int
}

// readList reads cursor, limit and the filters that the list knows. A name that it does not know is an
// error: a filter that is ignored would show everybody's rows.
func readList(c echo.Context, filters ...string) (list, error) {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return list{}, badRequest("the query string is not well formed")
	}
	for name := range values {
		if name != "cursor" && name != "limit" && !slices.Contains(filters, name) {
			return list{}, badRequest(fmt.Sprintf("there is no parameter %q here", name))
		}
	}
	l := list{values: values, limit: defaultLimit}
	if given := values.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > mostLimit {
			return list{}, badRequest(fmt.Sprintf("limit must be a whole number from 1 to %d", mostLimit))
		}
		l.limit = n
	}
	return l, nil
}

// A cursor is opaque to the client: the kind of list and the key of the last row seen, in base64url.
// A cursor of another list is an error, not a wrong page.
func cursor(kind, key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + key))
}

// after returns the key after which the page begins, "" for the first page.
func (l list) after(kind string) (string, error) {
	given := l.values.Get("cursor")
	if given == "" {
		return "", nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(given)
	key, mine := strings.CutPrefix(string(plain), kind+":")
	if err != nil || !mine {
		return "", badRequest("cursor must be the next of a page of this same list")
	}
	return key, nil
}

// before is after for lists that run down by number; 0 is the first page.
func (l list) before(kind string) (int64, error) {
	key, err := l.after(kind)
	if err != nil || key == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(key, 10, 64)
	if err != nil || n < 1 {
		return 0, badRequest("cursor must be the next of a page of this same list")
	}
	return n, nil
}

// readPage runs read for one row more than the page holds; that row tells whether there is a next page.
func readPage[T any](ctx context.Context, db *store.DB, l list, kind string, key func(T) string,
	read func(tx *store.Tx, limit int) ([]T, error)) (page[T], error) {
	var rows []T
	err := db.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = read(tx, l.limit+1)
		return err
	})
	if err != nil {
		return page[T]{}, fmt.Errorf("read a list: %w", err)
	}
	p := page[T]{Items: rows}
	if len(rows) > l.limit {
		p.Items = rows[:l.limit]
		next := cursor(kind, key(p.Items[l.limit-1]))
		p.Next = &next
	}
	return p, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// listOrders is GET /api/orders, newest decision first. With ?q= it is the orders whose id begins with
// that text, by id.
func (s *Server) listOrders(c echo.Context) error {
	l, err := readList(c, "q")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if q := l.values.Get("q"); q != "" {
		after, err := l.after("search")
		if err != nil {
			return err
		}
		p, err := readPage(ctx, s.opt.DB, l, "search", func(o store.Order) string { return o.OrderID },
			func(tx *store.Tx, limit int) ([]store.Order, error) { return tx.SearchOrders(q, after, limit) })
		return ok(c, p, err)
	}
	before, err := l.before("orders")
	if err != nil {
		return err
	}
	p, err := readPage(ctx, s.opt.DB, l, "orders", func(o store.Order) string { return number(o.Seq) },
		func(tx *store.Tx, limit int) ([]store.Order, error) { return tx.Orders(before, limit) })
	return ok(c, p, err)
}

// listTickets is GET /api/tickets, newest first, with ?status=, ?effect_type= and ?order_id=.
func (s *Server) listTickets(c echo.Context) error {
	l, err := readList(c, "status", "effect_type", "order_id")
	if err != nil {
		return err
	}
	f := store.TicketFilter{Status: l.values.Get("status"), EffectType: l.values.Get("effect_type"), OrderID: l.values.Get("order_id")}
	if f.Status != "" && !store.IsStatus(f.Status) {
		return badRequest("status must be pending, processing, done, dead, review or discarded")
	}
	if f.Before, err = l.before("tickets"); err != nil {
		return err
	}
	p, err := readPage(c.Request().Context(), s.opt.DB, l, "tickets", func(t store.Ticket) string { return number(t.ID) },
		func(tx *store.Tx, limit int) ([]store.Ticket, error) {
			f.Limit = limit
			return tx.Tickets(f)
		})
	return ok(c, p, err)
}

// listLedger is GET /api/ledger, by key.
func (s *Server) listLedger(c echo.Context) error {
	l, err := readList(c)
	if err != nil {
		return err
	}
	after, err := l.after("ledger")
	if err != nil {
		return err
	}
	p, err := readPage(c.Request().Context(), s.opt.DB, l, "ledger", func(r store.LedgerRow) string { return r.EffectKey },
		func(tx *store.Tx, limit int) ([]store.LedgerRow, error) { return tx.Ledger(after, limit) })
	return ok(c, p, err)
}

// listEffects is GET /api/effects, newest first.
func (s *Server) listEffects(c echo.Context) error {
	l, err := readList(c)
	if err != nil {
		return err
	}
	before, err := l.before("effects")
	if err != nil {
		return err
	}
	p, err := readPage(c.Request().Context(), s.opt.DB, l, "effects", func(r store.EffectRow) string { return number(r.ID) },
		func(tx *store.Tx, limit int) ([]store.EffectRow, error) { return tx.Effects(before, limit) })
	return ok(c, p, err)
}
