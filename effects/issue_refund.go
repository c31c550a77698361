package effects

import (
	"context"
	"encoding/json"
	"regexp"

	"comanda/store"
)

// IssueRefund gives a deposit back: payload {"amount":2154.00,"currency":"MXN"}.
type IssueRefund struct{}

// Kind implements relay.Effect.
func (IssueRefund) Kind() store.Kind {
	return store.Kind{
		Name: "issue-refund", TicketType: store.TicketIssueRefund, LedgerType: store.LedgerRefund, KeyPrefix: "refund",
		Mark: "E", Does: "moves money", Resource: "payment gateway", SharedWith: "the original charge",
	}
}

var plainAmount = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// Carry implements relay.Effect.
func (IssueRefund) Carry(_ context.Context, w store.Work) (store.Act, error) {
	var p struct {
		Amount   json.Number `json:"amount"`
		Currency string      `json:"currency"`
	}
	if err := decode(w.Payload, &p); err != nil {
		return store.Act{}, err
	}
	if !plainAmount.MatchString(p.Amount.String()) {
		return store.Act{}, undecodable("its amount is not a plain decimal number")
	}
	if len(p.Currency) != 3 {
		return store.Act{}, undecodable("its currency is not a three-letter code")
	}
	return store.InLab, nil
}
