package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// kind is one way to keep the promise.
type kind struct {
	name   string
	module string // whose version is told
	how    string // its settings
	less   string // what it does less or more than comanda
	noKeys bool   // it knows no unique key: a ticket sent twice is two
	work   int    // tickets of one measurement of working, if not the plan's

	acceptOnly bool // it works nothing
	open       func(ctx context.Context, path string) (peer, error)
}

// peer is one of them on a fresh file.
type peer interface {
	// put promises the tickets of one order, all or none: they are on disk when it returns.
	put(ctx context.Context, o order) error
	// work carries out the n tickets there are and returns when the file says that all are done.
	work(ctx context.Context, n int) error
	// rows says what the file holds.
	rows(ctx context.Context) (rows, error)
	close() error
}

// rows are what a file holds.
type rows struct {
	put  int // tickets, waiting or done
	keys int // different ones among them
	done int // tickets that were worked
	most int // times that any one of them was worked
}

// order is what comes in: three tickets, each under a key of its own.
type order struct{ id string }

// ticket is one job.
type ticket struct {
	Key     string          `json:"key" river:"unique"`
	Order   string          `json:"order_id"`
	Payload json.RawMessage `json:"payload"`
}

const perOrder = 3

var skus = [perOrder]string{"CF-ARA-500", "CF-ROB-250", "FI-V60-100"}

func (o order) tickets() []ticket {
	all := make([]ticket, 0, perOrder)
	for _, sku := range skus {
		all = append(all, ticket{"inventory:" + o.id + ":" + sku, o.id, json.RawMessage(`{"sku":"` + sku + `","quantity":12}`)})
	}
	return all
}

// body is the order as a shop's webhook brings it.
func (o order) body() []byte {
	return fmt.Appendf(nil, `{"event_id":"EVT-%[1]s","order_id":"%[1]s","customer_id":"CUS-7","amount":2154.00,"currency":"MXN","line_items":[`+
		`{"sku":"%[2]s","quantity":12},{"sku":"%[3]s","quantity":12},{"sku":"%[4]s","quantity":12}]}`, o.id, skus[0], skus[1], skus[2])
}

// tally counts how often each ticket was worked.
type tally struct {
	mu    sync.Mutex
	times map[string]int
	all   chan struct{} // closed once want were
	want  int
}

func newTally(want int) *tally {
	return &tally{times: map[string]int{}, all: make(chan struct{}), want: want}
}

func (t *tally) worked(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times[key]++
	if len(t.times) == t.want && t.times[key] == 1 {
		close(t.all)
	}
}

// seen returns how many tickets were worked, and how often the one that was worked most.
func (t *tally) seen() (done, most int) {
	if t == nil {
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.times {
		most = max(most, n)
	}
	return len(t.times), most
}
