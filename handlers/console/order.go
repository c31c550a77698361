package console

import (
	"net/http"
	"net/url"

	"comanda/handlers/receipt"
	"comanda/store"
)

// orderSheet is the story of an order.
type orderSheet struct {
	ID      string
	Story   store.Story
	Verdict receipt.V
	Hash    string // of the receipt
	Now     int64
}

func (c *Console) order(v *visit) error {
	s := orderSheet{ID: v.id()}
	err := v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		s.Story, err = tx.Story(s.ID)
		return err
	})
	if err != nil {
		return err
	}
	s.Verdict, s.Hash = receipt.Verdict(s.Story), receipt.Of(s.Story).SHA256
	return v.show(http.StatusOK, "order", sheet{Live: true, Every: 30, Order: s.ID, Title: v.lang.say("order.heading", "ID", visible(s.ID)), Body: &s})
}

// receiptSheet is the proof receipt of an order, to be printed.
type receiptSheet struct {
	Receipt receipt.Receipt
	Verdict receipt.V
}

func (c *Console) receipt(v *visit) error {
	var story store.Story
	err := v.view(func(tx *store.Tx) (err error) {
		story, err = tx.Story(v.id())
		return err
	})
	if err != nil {
		return err
	}
	s := receiptSheet{receipt.Of(story), receipt.Verdict(story)}
	return v.show(http.StatusOK, "receipt", sheet{Title: v.lang.say("receipt.heading", "ID", visible(v.id())), Body: &s})
}

func orderPath(id string) string { return "/orders/" + url.PathEscape(id) }
