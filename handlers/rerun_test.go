package handlers

import (
	"errors"
	"testing"
	"testing/synctest"

	"comanda/store"
)

// A group commit may run the deciding transaction again and find another world: only its last run
// counts. Here the first run meets an event that its group then takes back.
func TestLastRunOfTheTransactionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClosedRig(t)
		points := 0
		r.srv.director.Crash = func(string) { points++ }
		block, results := make(chan struct{}), make(chan error, 3)
		update := func(fn func(*store.Tx) error) {
			go func() { results <- r.db.Update(t.Context(), fn) }()
			synctest.Wait() // it stands in the queue
		}
		update(func(*store.Tx) error { <-block; return nil })
		other := mustDecode(t, body("E", "O1", "5", oneLine))
		digest := other.Digest()
		run, firstErr := 0, error(nil)
		update(func(tx *store.Tx) error {
			if run++; run > 1 {
				return nil
			}
			_, firstErr = tx.Record(store.Decision{Event: incoming{order: other, body: []byte("{}"), digest: digest[:]}.event(outcomeDecided, nil)})
			return firstErr
		})
		answers := make(chan error, 1)
		go func() {
			a, err := r.srv.director.Triage(t.Context(), Arrival{}, []byte(body("E", "O2", "5", oneLine)))
			if err == nil && a.Status != statusAccepted {
				err = errors.New("status " + a.Status)
			}
			answers <- err
		}()
		synctest.Wait()
		update(func(*store.Tx) error { return errors.New("the group is run again one by one") })
		close(block)
		if err := <-answers; err != nil {
			t.Error(err)
		}
		if run != 2 || firstErr != nil || points != 2 {
			t.Errorf("%d runs, the first with %v, %d crash points", run, firstErr, points)
		}
		r.holds(1, 1, 1)
	})
}

// The crash point counts orders, not runs.
func TestCrashPointOnceAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClosedRig(t)
		points := map[string]int{}
		r.srv.director.Crash = func(p string) { points[p]++ }
		block, results := make(chan struct{}), make(chan error, 2)
		go func() { results <- r.db.Update(t.Context(), func(*store.Tx) error { <-block; return nil }) }()
		synctest.Wait()
		answers := make(chan error, 1)
		go func() {
			_, err := r.srv.director.Triage(t.Context(), Arrival{}, []byte(contractBody))
			answers <- err
		}()
		synctest.Wait()
		go func() { results <- r.db.Update(t.Context(), func(*store.Tx) error { return errors.New("again") }) }()
		synctest.Wait()
		close(block)
		if err := <-answers; err != nil {
			t.Error(err)
		}
		if points["triage.before_commit"] != 1 || points["triage.after_commit"] != 1 {
			t.Errorf("%v", points)
		}
	})
}
