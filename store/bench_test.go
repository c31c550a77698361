package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// perTicket reports what one ticket of n an iteration costs.
func perTicket(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/ticket")
	b.ReportMetric(0, "ns/op")
}

// What a claim of 100 costs, and that it costs the same however many tickets are done.
func BenchmarkClaim100(b *testing.B) {
	for _, done := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("done=%d", done), func(b *testing.B) {
			db := openNew(b)
			if done > 0 {
				fillDone(b, db, done)
			}
			put(b, db, TicketIssueRefund, 1000)
			for b.Loop() {
				c := claim(b, db, ClaimRequest{})
				if len(c.Tickets) != 100 {
					b.Fatalf("claimed %d", len(c.Tickets))
				}
				b.StopTimer()
				update(b, db, func(tx *Tx) error { _, err := tx.Release(c.Token, idsOf(c.Tickets)); return err })
				b.StartTimer()
			}
			perTicket(b, 100)
		})
	}
}

// What settling 100 local effects in one transaction costs.
func BenchmarkSettle100(b *testing.B) {
	db := openNew(b)
	for b.Loop() {
		b.StopTimer()
		put(b, db, TicketIssueRefund, 100)
		c := claim(b, db, ClaimRequest{})
		b.StartTimer()
		for _, end := range settleAll(b, db, c, c.Tickets...) {
			if end != Done {
				b.Fatal(end)
			}
		}
	}
	perTicket(b, 100)
}

// What an accepted event costs when 64 arrive at a time: look-ups, credit, event, order and ticket.
func BenchmarkAccept(b *testing.B) {
	const group = 64
	db := openNew(b)
	before, n := db.Commits(), 0
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range group {
			wg.Go(func() {
				id := fmt.Sprintf("%d-%d", n, i)
				if err := db.Update(context.Background(), func(tx *Tx) error { return accept(tx, id) }); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		n++
	}
	perTicket(b, group)
	b.ReportMetric(float64(db.Commits()-before)/float64(n), "commits/group")
}
