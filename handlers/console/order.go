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
	Verdict receipt.Verdict
	Hash    string // of the receipt
	Now     int64
}

func (c *Console) order(v *visit) error {
	return c.orderOf(v, v.id())
}

func (c *Console) orderOf(v *visit, id string) error {
	s := orderSheet{ID: id}
	err := v.view(func(tx *store.Tx) (err error) {
		s.Now = tx.Now()
		s.Story, err = tx.Story(s.ID)
		return err
	})
	if err != nil {
		return err
	}
	s.Verdict, s.Hash = receipt.Judge(s.Story), receipt.Of(s.Story).SHA256
	return v.show(http.StatusOK, "order", sheet{Live: true, Every: 30, Order: s.ID, Title: v.lang.say("order.heading", "ID", visible(s.ID)), Body: &s})
}

// receiptSheet is the proof receipt of an order, to be printed.
type receiptSheet struct {
	Receipt receipt.Receipt
	Verdict receipt.Verdict
	File    string
}

func (c *Console) receipt(v *visit) error { return c.receiptOf(v, v.id()) }

func (c *Console) receiptOf(v *visit, id string) error {
	var story store.Story
	err := v.view(func(tx *store.Tx) (err error) {
		story, err = tx.Story(id)
		return err
	})
	if err != nil {
		return err
	}
	s := receiptSheet{receipt.Of(story), receipt.Judge(story), c.opt.DB.Path()}
	return v.show(http.StatusOK, "receipt", sheet{Title: v.lang.say("receipt.heading", "ID", visible(id)), Body: &s})
}

// orderPath leads to an order. A browser takes "." and ".." for steps in the path, however they are written.
func orderPath(id string) string {
	if id == "." || id == ".." {
		return "/orders?" + url.Values{"id": {id}}.Encode()
	}
	return "/orders/" + url.PathEscape(id)
}

func receiptPath(id string) string {
	if id == "." || id == ".." {
		return orderPath(id) + "&receipt=1"
	}
	return orderPath(id) + "/receipt"
}
