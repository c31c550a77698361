package cli

import (
	"context"
	"fmt"

	"comanda/store"
)

// Modes tells where each of the named targets' effects go: "lab", to the lab's table, or "real", to an address.
func Modes(names []string, targets []TargetConfig) map[string]string {
	modes := map[string]string{}
	for _, name := range names {
		modes[name] = "lab"
	}
	for _, t := range targets {
		modes[t.Name] = "real"
		if t.Name == store.LedgerInventory { // see marks
			modes[store.LedgerRelease] = "real"
		}
	}
	return modes
}

// marks are what a file remembers of its targets. What is really taken is never given back in the lab.
func marks(targets []TargetConfig) (all []store.Mark) {
	given := map[string]bool{}
	for _, t := range targets {
		given[t.Name] = true
		all = append(all, store.Mark{Name: t.Name, URL: t.URL, Credential: t.Token})
	}
	if given[store.LedgerInventory] && !given[store.LedgerRelease] {
		all = append(all, store.Mark{Name: store.LedgerRelease})
	}
	return all
}

// MarkTargets makes sure that what this file once sent out for real goes out for real, or not at all: the error is
// then a *UsageError.
func MarkTargets(ctx context.Context, db *store.DB, targets []TargetConfig) error {
	var missing []string
	err := db.Update(ctx, func(tx *store.Tx) (err error) {
		missing, err = tx.MarkTargets(marks(targets), "start")
		return err
	})
	if err != nil {
		return fmt.Errorf("mark the targets: %w", err)
	}
	if len(missing) > 0 {
		return Usage(fmt.Errorf("this file sends its %[1]s effects out for real, and nothing may simulate them: give --%[1]s-url, or make them local with `comanda targets local %[1]s --i-know`", missing[0]))
	}
	return nil
}
