package effects

import (
	"testing"

	"comanda/store"
)

func TestSendReceipt(t *testing.T) {
	e := SendReceipt{}
	if _, err := e.Carry(t.Context(), store.Work{Payload: `{"email":"ana@example.com"}`}); err != nil {
		t.Error(err)
	}
	if _, err := e.Carry(t.Context(), store.Work{Payload: `{}`}); err == nil {
		t.Error("a receipt for nobody was accepted")
	}
}
