package hand

import "comanda/store"

// Target is a target as it is shown.
type Target struct {
	store.Target
	State string `json:"state"` // "up", "paused", "offline" or "held"
}

// Targets are the named targets as they stand; one that the file does not know is in the lab.
func Targets(tx *store.Tx, names []string) ([]Target, error) {
	all := make([]Target, 0, len(names))
	for _, name := range names {
		t, err := tx.Target(name)
		if err != nil {
			return nil, err
		}
		all = append(all, Target{t, t.State(tx.Now())})
	}
	return all, nil
}
