package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"comanda/store"
)

// How many rows a page of a list has.
const pageRows = 50

// statuses in the order in which the rail shows them.
var statuses = []string{"pending", "processing", "review", "dead", "done", "discarded"}

// railSheet is a page of tickets.
type railSheet struct {
	Filter  store.TicketFilter
	Tabs    []tab
	Types   []string // effect types to choose from
	Tickets []store.Ticket
	Older   int64 // the id that the next page begins below; 0 on the last page
	Now     int64
}

// tab is a status with the number of its tickets under the other filters.
type tab struct {
	Status string // "" is all of them
	N      int64
	Here   bool
}

func (c *Console) rail(v *visit) error {
	f := store.TicketFilter{Status: v.QueryParam("status"), EffectType: v.QueryParam("type"), OrderID: v.QueryParam("order"), Limit: pageRows + 1}
	if f.Status != "" && !store.IsStatus(f.Status) {
		return refusal{http.StatusBadRequest, "error.filter", ""}
	}
	var err error
	if f.Before, err = before(v); err != nil {
		return err
	}
	s := railSheet{Filter: f}
	for t := range c.opt.LedgerTypes {
		s.Types = append(s.Types, t)
	}
	slices.Sort(s.Types)
	if f.EffectType != "" && !slices.Contains(s.Types, f.EffectType) {
		s.Types = append(s.Types, f.EffectType) // of a ticket put in by hand
	}
	err = v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		counts, err := tx.TicketCounts(f)
		if err != nil {
			return err
		}
		s.tabs(counts)
		s.Tickets, err = tx.Tickets(f)
		return err
	})
	if err != nil {
		return err
	}
	if len(s.Tickets) > pageRows {
		s.Tickets = s.Tickets[:pageRows]
		s.Older = s.Tickets[pageRows-1].ID
	}
	return v.show(http.StatusOK, "rail", sheet{Live: f.Before == 0, Every: 30, Body: &s})
}

func (s *railSheet) tabs(c store.Counts) {
	by := map[string]int64{"pending": c.Pending, "processing": c.Processing, "review": c.Review, "dead": c.Dead, "done": c.Done, "discarded": c.Discarded}
	all := tab{Here: s.Filter.Status == ""}
	for _, status := range statuses {
		all.N += by[status]
		s.Tabs = append(s.Tabs, tab{status, by[status], status == s.Filter.Status})
	}
	s.Tabs = append([]tab{all}, s.Tabs...)
}

// before reads where a page begins; 0 is the newest.
func before(v *visit) (int64, error) {
	given := v.QueryParam("before")
	if given == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 1 {
		return 0, refusal{http.StatusBadRequest, "error.filter", ""}
	}
	return n, nil
}

// ticketSheet is one ticket with what was tried for it.
type ticketSheet struct {
	Ticket   store.Ticket
	Attempts []store.Attempt
	Now      int64
}

func (c *Console) ticket(v *visit) error {
	id, err := strconv.ParseInt(v.id(), 10, 64)
	if err != nil {
		return store.ErrNotFound
	}
	var s ticketSheet
	err = v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		if s.Ticket, err = tx.Ticket(id); err != nil {
			return err
		}
		s.Attempts, err = tx.Attempts(id)
		return err
	})
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "ticket", sheet{Live: true, Every: 30, Order: s.Ticket.AggregateID,
		Title: v.lang.say("ticket.heading", "ID", strconv.FormatInt(id, 10)), Body: &s})
}

// ordersSheet is a page of orders: newest first, or those whose id begins with what was searched for.
type ordersSheet struct {
	Query  string
	Orders []store.Order
	Next   string // query of the next page; "" on the last one
}

func (c *Console) orders(v *visit) error {
	if given := v.QueryParams(); given.Has("id") {
		if given.Has("receipt") {
			return c.receiptOf(v, given.Get("id"))
		}
		return c.orderOf(v, given.Get("id"))
	}
	s := ordersSheet{Query: v.QueryParam("q")}
	first, err := before(v)
	if err != nil {
		return err
	}
	err = v.view(func(tx *store.Tx) (err error) {
		if s.Query == "" {
			s.Orders, err = tx.Orders(first, pageRows+1)
		} else {
			s.Orders, err = tx.SearchOrders(s.Query, v.QueryParam("after"), pageRows+1)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(s.Orders) > pageRows {
		s.Orders = s.Orders[:pageRows]
		last := s.Orders[pageRows-1]
		next := url.Values{"before": {strconv.FormatInt(last.Seq, 10)}}
		if s.Query != "" {
			next = url.Values{"q": {s.Query}, "after": {last.OrderID}}
		}
		s.Next = next.Encode()
	}
	return v.show(http.StatusOK, "orders", sheet{Live: first == 0 && s.Query == "", Every: 30, Query: s.Query, Body: &s})
}

// search is GET /search?q=: it leads to what the text names, or to the orders whose id begins with it.
func (c *Console) search(v *visit) error {
	q := v.QueryParam("q")
	if q == "" {
		return v.back("/orders")
	}
	var hit store.Hit
	var found bool
	err := v.view(func(tx *store.Tx) (err error) {
		if hit, found, err = tx.Find(q); err != nil || !found || hit.Kind != "event" {
			return err
		}
		e, _, err := tx.Event(hit.ID)
		hit.ID = e.OrderID
		return err
	})
	switch {
	case err != nil:
		return err
	case !found:
		return v.back("/orders?" + url.Values{"q": {q}}.Encode())
	case hit.Kind == "ticket":
		return v.back("/tickets/" + url.PathEscape(hit.ID))
	}
	return v.back(orderPath(hit.ID))
}
