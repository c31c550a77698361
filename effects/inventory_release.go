package effects

import (
	"context"

	"comanda/store"
)

// InventoryRelease gives back what inventory-sync took, when the order is taken back for another line's sake:
// payload {"sku":"CF-ARA-500","quantity":12}.
type InventoryRelease struct{}

// Kind implements relay.Effect.
func (InventoryRelease) Kind() store.Kind {
	return store.Kind{
		Name: "inventory-release", TicketType: store.TicketInventoryRelease, LedgerType: store.LedgerRelease, KeyPrefix: "release",
		Mark: "E", Does: "gives stock back", Resource: "warehouse system", SharedWith: "whoever counts the stock",
	}
}

// Carry implements relay.Effect.
func (InventoryRelease) Carry(ctx context.Context, w store.Work) (store.Act, error) {
	return InventorySync{}.Carry(ctx, w) // the same line, the other way
}
