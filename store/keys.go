package store

import "strings"

// The effect types of the tickets and what the ledger calls the same effects.
const (
	TicketIssueRefund   = "issue_refund"
	TicketInventorySync = "inventory_sync"
	LedgerRefund        = "refund"
	LedgerInventory     = "inventory"

	// What a compensation writes for a line that went out.
	TicketInventoryRelease = "inventory_release"
	LedgerRelease          = "release"
)

// Key builds an idempotency key: the prefix and its parts joined by colons, "inventory:ORD-1:SKU-9".
// '%' and ':' inside a part are percent-encoded, so that two lists of parts never share a key
// (TestKeyIsInjective).
func Key(prefix string, parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, p := range parts {
		b.WriteByte(':')
		keyEscaper.WriteString(&b, p)
	}
	return b.String()
}

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")
