package store

import (
	"fmt"
	"strings"
	"testing"
)

// The lists of what needs a look run newest first, page by page.
func TestListsOfWhatNeedsALook(t *testing.T) {
	db := openNew(t)
	update(t, db, func(tx *Tx) error {
		for i := range 5 {
			if err := tx.KeepRefused(Refused{Problem: "bad-json", Detail: fmt.Sprint(i), Body: []byte("{")}); err != nil {
				return err
			}
			if err := tx.Log("me", "ticket retried", fmt.Sprint(i), ""); err != nil {
				return err
			}
		}
		return nil
	})
	mustExec(t, raw(t, db.Path()), `INSERT INTO events (event_id, order_id, body, received_at, differs, seq)
		VALUES ('a', 'O', X'7B7D', 1, '["amount"]', 101), ('b', 'O', X'7B7D', 1, '[]', 102), ('c', 'O', X'7B7D', 1, '["amount"]', 103)`)
	var seen []string
	err := db.View(t.Context(), func(tx *Tx) error {
		refused, err := tx.RefusedBodies(0, 2)
		if err != nil {
			return err
		}
		more, err := tx.RefusedBodies(refused[1].ID, 2)
		if err != nil {
			return err
		}
		acts, err := tx.OperatorLog(0, 2)
		if err != nil {
			return err
		}
		older, err := tx.OperatorLog(acts[1].ID, 2)
		if err != nil {
			return err
		}
		events, err := tx.DifferingEvents(0, 1)
		if err != nil {
			return err
		}
		first, err := tx.DifferingEvents(events[0].Seq, 5)
		if err != nil {
			return err
		}
		n, err := tx.RefusedCount()
		if err != nil {
			return err
		}
		d, err := tx.DifferingCount()
		for _, r := range append(refused, more...) {
			seen = append(seen, r.Detail)
		}
		for _, a := range append(acts, older...) {
			seen = append(seen, a.Subject)
		}
		for _, e := range append(events, first...) {
			seen = append(seen, e.EventID)
		}
		seen = append(seen, fmt.Sprint(n, d))
		return err
	})
	if got, want := strings.Join(seen, " "), "4 3 2 1 4 3 2 1 c a 5 2"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}
