package effects

import (
	"context"
	"errors"
	"testing"

	"comanda/store"
)

// carrier is what the relay asks of an effect.
type carrier interface {
	Kind() store.Kind
	Carry(ctx context.Context, w store.Work) (store.Act, error)
}

func TestPayloads(t *testing.T) {
	tests := []struct {
		effect  carrier
		payload string
		ok      bool
	}{
		{IssueRefund{}, `{"amount":2154.00,"currency":"MXN"}`, true},
		{IssueRefund{}, `{"amount":"90071992547409.93","currency":"MXN","note":"by hand"}`, true},
		{IssueRefund{}, `{"amount":0,"currency":"JPY"}`, true},
		{IssueRefund{}, `{"amount":-1,"currency":"MXN"}`, false},
		{IssueRefund{}, `{"amount":1e3,"currency":"MXN"}`, false},
		{IssueRefund{}, `{"currency":"MXN"}`, false},
		{IssueRefund{}, `{"amount":1,"currency":""}`, false},
		{IssueRefund{}, `{"amount":1,"currency":"MXN"} {}`, false},
		{IssueRefund{}, ``, false},
		{IssueRefund{}, `null`, false},
		{IssueRefund{}, `[]`, false},
		{IssueRefund{}, "\x00\xff", false},
		{InventorySync{}, `{"sku":"CF-ARA-500","quantity":12}`, true},
		{InventorySync{}, `{"sku":"CF-ARA-500","quantity":0}`, false},
		{InventorySync{}, `{"sku":"CF-ARA-500","quantity":1.5}`, false},
		{InventorySync{}, `{"sku":"","quantity":1}`, false},
		{InventorySync{}, `{"quantity":1}`, false},
		{InventorySync{}, `{"sku":7,"quantity":1}`, false},
	}
	for _, tt := range tests {
		act, err := tt.effect.Carry(t.Context(), store.Work{OrderID: "ORD-1", Payload: tt.payload, EffectKey: "k"})
		if tt.ok && (err != nil || act != store.InLab) {
			t.Errorf("%s %s: %v, %v", tt.effect.Kind().Name, tt.payload, act, err)
		}
		if !tt.ok && !errors.Is(err, store.ErrUndecodable) {
			t.Errorf("%s %s: %v, want undecodable", tt.effect.Kind().Name, tt.payload, err)
		}
	}
}

// The names under which the lesson and the contract know the effects.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		effect                     carrier
		name, ticket, ledger, mark string
	}{
		{IssueRefund{}, "issue-refund", "issue_refund", "refund", "E"},
		{InventorySync{}, "inventory-sync", "inventory_sync", "inventory", "E"},
	} {
		k := tt.effect.Kind()
		if k.Name != tt.name || k.TicketType != tt.ticket || k.LedgerType != tt.ledger || k.KeyPrefix != tt.ledger || k.Mark != tt.mark {
			t.Errorf("%+v", k)
		}
		if k.Does == "" || k.Resource == "" {
			t.Errorf("%s does not say what it does or shares", k.Name)
		}
	}
}
