//go:build !comanda_mutants

package store

// A build with the tag comanda_mutants can run without one of its guards, so that the proofs show
// what each of them is for. In every other build the guards are constants that can't be taken out.
const (
	withDedupe      = true // look-ups of event and order before a decision
	withUniqueKey   = true // outbox.idempotency_key UNIQUE and ON CONFLICT DO NOTHING
	withFence       = true // settling names the claim's token
	withLedgerCheck = true // an effect only if its ledger row was new
	withFullSync    = true // synchronous=FULL
	withOneDecision = true // event, decision and tickets in one transaction
)

func mutateSchema(text string) string { return text }

// splitDecision does nothing: event, decision and tickets are one transaction.
func (tx *Tx) splitDecision() error { return nil }
