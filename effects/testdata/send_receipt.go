package effects

import (
	"context"

	"comanda/store"
)

// SendReceipt mails the customer a receipt: payload {"email":"ana@example.com"}.
type SendReceipt struct{}

// Kind names its tickets, its ledger rows and its keys.
func (SendReceipt) Kind() store.Kind {
	return store.Kind{
		Name: "send-receipt", TicketType: "send_receipt", LedgerType: "receipt", KeyPrefix: "receipt",
		Mark: "E", Does: "writes to the customer", Resource: "mail server", SharedWith: "the newsletter",
	}
}

// Carry checks the payload; the row in the lab's world is written when the ticket is settled.
func (SendReceipt) Carry(_ context.Context, w store.Work) (store.Act, error) {
	var p struct {
		Email string `json:"email"`
	}
	if err := decode(w.Payload, &p); err != nil {
		return store.Act{}, err
	}
	if p.Email == "" {
		return store.Act{}, undecodable("it names no email")
	}
	return store.InLab, nil
}
