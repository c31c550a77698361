package handlers

import (
	"encoding/json"

	"comanda/handlers/order"
	"comanda/store"
)

// The two ways an order can be decided.
const (
	decisionRefund    = "refund"
	decisionInventory = "inventory"
)

// decision is what is to happen with an order.
type decision struct {
	name    string
	tickets []store.NewTicket
}

// keys are the idempotency keys of the tickets, in their order.
func (d decision) keys() []string {
	keys := make([]string, len(d.tickets))
	for i, t := range d.tickets {
		keys[i] = t.Key
	}
	return keys
}

// decide is the whole rule: with credit the goods are reserved, one ticket a SKU in the order of first
// appearance; without it the deposit goes back, one ticket. It is a pure function of the order and the
// credit, so a standing decision's tickets can be told again at any time.
func decide(o *order.Order, creditOK bool) decision {
	if !creditOK {
		return decision{decisionRefund, []store.NewTicket{{
			OrderID:    o.OrderID,
			EffectType: store.TicketIssueRefund,
			Payload:    store.RefundPayload(o.Amount.String(), o.Currency),
			Key:        store.Key(store.LedgerRefund, o.OrderID),
		}}}
	}
	d := decision{decisionInventory, make([]store.NewTicket, len(o.Lines))}
	for i, l := range o.Lines {
		d.tickets[i] = store.NewTicket{
			OrderID:    o.OrderID,
			EffectType: store.TicketInventorySync,
			Payload:    text(l),
			Key:        store.Key(store.LedgerInventory, o.OrderID, l.SKU),
		}
	}
	return d
}

// row is how an order is kept with its decision.
func row(o *order.Order, credit Credit, d decision) *store.Order {
	category, priority := classify(o.Lines)
	return &store.Order{
		OrderID:    o.OrderID,
		EventID:    o.EventID,
		CustomerID: o.CustomerID,
		Amount:     o.Amount.String(),
		Currency:   o.Currency,
		Category:   category,
		Priority:   priority,
		CreditOK:   credit.OK,
		Decision:   d.name,

		CreditSource: credit.Source,
		LineItems:    store.JSON(text(o.Lines)),
	}
}

// standingOrder is row the other way round. What can't be read, because another client wrote it,
// stays empty and so differs from what any event says.
func standingOrder(r store.Order) *order.Order {
	o := &order.Order{EventID: r.EventID, OrderID: r.OrderID, CustomerID: r.CustomerID, Currency: r.Currency}
	if a, err := order.ParseAmount(r.Amount, r.Currency); err == nil {
		o.Amount = a
	}
	if json.Unmarshal(r.LineItems, &o.Lines) != nil {
		o.Lines = nil
	}
	return o
}
