package relay

import (
	"sync"

	"comanda/store"
)

// joint has what several workers want to write at the same time written in one go: whoever comes first asks for a
// transaction, and takes into it everything that has come until it begins. Nobody waits for more.
type joint[T any] struct {
	update func(fn func(*store.Tx) error) error
	write  func(tx *store.Tx, set []T) error // it may be run again, and sets its results anew each time

	mu    sync.Mutex
	queue []seat[T]
}

type seat[T any] struct {
	one  T
	done chan error
}

// do returns once one is written down, or is not for the reason that it returns. If the set can't be written for the sake
// of one in it, each is written alone.
func (j *joint[T]) do(one T) error {
	s := seat[T]{one, make(chan error, 1)}
	j.mu.Lock()
	j.queue = append(j.queue, s)
	first := len(j.queue) == 1
	j.mu.Unlock()
	if first {
		j.writeAll()
	}
	return <-s.done
}

// writeAll writes what has come, and tells everybody.
func (j *joint[T]) writeAll() {
	var seats []seat[T]
	var set []T
	join := func() {
		for _, s := range j.take() {
			seats, set = append(seats, s), append(set, s.one)
		}
	}
	began := false
	err := j.update(func(tx *store.Tx) error {
		began = true
		join()
		return j.write(tx, set)
	})
	if !began {
		join()
	}
	alone := err != nil && len(set) > 1 && !waitsForOthers(err)
	for _, s := range seats {
		if alone {
			err = j.update(func(tx *store.Tx) error { return j.write(tx, []T{s.one}) })
		}
		s.done <- err
	}
}

func (j *joint[T]) take() []seat[T] {
	j.mu.Lock()
	defer j.mu.Unlock()
	took := j.queue
	j.queue = nil
	return took
}
