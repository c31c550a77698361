package relay

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"comanda/store"
)

// Everybody gets an answer, for what is theirs: one that can't be written keeps no other from being written, and what
// comes together is written together.
func TestJoint(t *testing.T) {
	db := openFile(t)
	bad := errors.New("not this one")
	var sets, most atomic.Int64
	j := joint[int]{
		update: func(fn func(*store.Tx) error) error { return db.Update(t.Context(), fn) },
		write: func(tx *store.Tx, set []int) error {
			sets.Add(1)
			most.Store(max(most.Load(), int64(len(set))))
			for _, i := range set {
				if i%10 == 7 {
					return bad
				}
				if _, err := tx.InsertTicket(store.NewTicket{OrderID: "O", EffectType: "test", Payload: "{}", Key: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	const n = 100
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := j.do(i); i%10 == 7 && !errors.Is(err, bad) || i%10 != 7 && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	if c := counts(t, db); c.Pending != n*9/10 || most.Load() < 2 {
		t.Errorf("%+v, at most %d in a set of %d", c, most.Load(), sets.Load())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		all.Go(func() {
			if err := j.do(n + i); !errors.Is(err, store.ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
	all.Wait()
}
