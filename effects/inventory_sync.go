package effects

import (
	"context"
	"encoding/json"
	"strconv"

	"comanda/store"
)

// InventorySync takes one SKU of an order off the stock: payload {"sku":"CF-ARA-500","quantity":12}.
type InventorySync struct{}

// Kind implements relay.Effect.
func (InventorySync) Kind() store.Kind {
	return store.Kind{
		Name: "inventory-sync", TicketType: store.TicketInventorySync, LedgerType: store.LedgerInventory, KeyPrefix: "inventory",
		Mark: "E", Does: "changes stock", Resource: "warehouse system", SharedWith: "whoever counts the stock",
	}
}

// Carry implements relay.Effect.
func (InventorySync) Carry(_ context.Context, w store.Work) (store.Act, error) {
	var p struct {
		SKU      string      `json:"sku"`
		Quantity json.Number `json:"quantity"`
	}
	if err := decode(w.Payload, &p); err != nil {
		return store.Act{}, err
	}
	if p.SKU == "" {
		return store.Act{}, undecodable("it names no sku")
	}
	if n, err := strconv.ParseInt(p.Quantity.String(), 10, 64); err != nil || n < 1 {
		return store.Act{}, undecodable("its quantity is not a whole number above 0")
	}
	return store.InLab, nil
}
