//go:build comanda_mutants

package store

import (
	"os"
	"slices"
	"strings"
)

// In this build COMANDA_WITHOUT names the guards to leave out, separated by commas.
var (
	withDedupe      = has("dedupe")
	withUniqueKey   = has("unique-key")
	withFence       = has("fence")
	withLedgerCheck = has("ledger-check")
	withFullSync    = has("full-sync")
	withOneDecision = has("one-decision")
)

func has(guard string) bool {
	return !slices.Contains(strings.Split(os.Getenv("COMANDA_WITHOUT"), ","), guard)
}

func mutateSchema(text string) string {
	if !withUniqueKey {
		text = strings.Replace(text, "CONSTRAINT outbox_key_once UNIQUE ", "", 1)
	}
	return text
}

// splitDecision commits what was written so far and begins anew, as two nodes would.
func (tx *Tx) splitDecision() error {
	if withOneDecision {
		return nil
	}
	if err := tx.writeSeq(); err != nil {
		return err
	}
	if _, err := tx.exec(sqlCommit); err != nil {
		return err
	}
	_, err := tx.exec(sqlBeginWrite)
	return err
}
