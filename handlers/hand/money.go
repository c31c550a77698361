package hand

import (
	"encoding/json"

	"github.com/bojanz/currency"
)

// payloadMoney reads the amount of a refund's payload, {"amount":2154.00,"currency":"MXN"}; false means that it
// can't be read.
func payloadMoney(payload string) (currency.Amount, bool) {
	var p struct {
		Amount   json.Number `json:"amount"`
		Currency string      `json:"currency"`
	}
	if json.Unmarshal([]byte(payload), &p) != nil {
		return currency.Amount{}, false
	}
	a, err := currency.NewAmount(p.Amount.String(), p.Currency)
	return a, err == nil
}
