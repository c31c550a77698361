package store

import "errors"

// Kind is what an effect says of itself: how its tickets and its ledger rows are called, and what
// the graph shows.
type Kind struct {
	Name       string // "issue-refund"
	TicketType string // outbox.effect_type, "issue_refund"
	LedgerType string // ledger.effect_type, "refund"
	KeyPrefix  string // of the idempotency keys, "refund"
	Mark       string // "E" acts on the world, "L" only reads
	Does       string // "moves money"
	Resource   string // what it shares with others without saying so: "payment gateway"
	SharedWith string // who else uses the resource: "the original charge"
}

// Work is what an effect is given: everything it may know of a ticket.
type Work struct {
	OrderID   string
	Payload   string // JSON text as it lies in the outbox
	EffectKey string // the idempotency key: the same at every try
}

// Act is what carrying a ticket out came to, for the settlement to write down. The settlement says
// whether that was Done or AlreadyDone.
type Act struct {
	// How is "local": the lab's world is a table, and its row is written by the settlement itself,
	// together with the ledger's. For a target outside, what is written is what its send found out.
	How string
}

// InLab is the act of a local effect.
var InLab = Act{How: "local"}

// ErrUndecodable is what an effect returns, wrapped, for a payload that it can't read: no further
// try would change that.
var ErrUndecodable = errors.New("undecodable payload")
