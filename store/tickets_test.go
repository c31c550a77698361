package store

import (
	"cmp"
	"slices"
	"testing"
)

const insertMixed = `INSERT INTO outbox (id, aggregate_id, effect_type, payload, idempotency_key, status, created_at, processed_at, claim_token, lease_holder, lease_ms, detail)
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600),
	s(i, status) AS (SELECT i, CASE i * 7 % 12 WHEN 0 THEN 'pending' WHEN 1 THEN 'processing' WHEN 2 THEN 'dead' WHEN 3 THEN 'review' WHEN 4 THEN 'discarded' ELSE 'done' END FROM n)
	SELECT i, 'ORD-' || (i % 37), CASE WHEN i % 149 = 3 THEN 'rare' WHEN i % 3 = 0 THEN 'inventory_sync' ELSE 'issue_refund' END, '{}', 'k:' || i, status, i,
	CASE WHEN status IN ('done', 'dead', 'discarded') THEN i END, CASE status WHEN 'processing' THEN 't' || i END,
	CASE status WHEN 'processing' THEN 'h' END, CASE status WHEN 'processing' THEN 1 END, '' FROM s`

// chosen are the tickets of a filter as one would choose them without any index.
func chosen(all []Ticket, f TicketFilter) (ids []int64, c Counts) {
	of := map[string]*int64{"pending": &c.Pending, "processing": &c.Processing, "done": &c.Done, "dead": &c.Dead, "review": &c.Review, "discarded": &c.Discarded}
	ids = []int64{}
	for _, t := range slices.SortedFunc(slices.Values(all), func(a, b Ticket) int { return cmp.Compare(b.ID, a.ID) }) {
		if f.EffectType != "" && t.EffectType != f.EffectType || f.OrderID != "" && t.AggregateID != f.OrderID {
			continue
		}
		*of[t.Status]++
		if (f.Status == "" || t.Status == f.Status) && (f.Before == 0 || t.ID < f.Before) && len(ids) < f.Limit {
			ids = append(ids, t.ID)
		}
	}
	return ids, c
}

// Every combination of a filter chooses what it says, newest first, and the counts follow its type and order.
func TestTicketListsChooseByIndexes(t *testing.T) {
	db := openNew(t)
	mustExec(t, raw(t, db.Path()), insertMixed)
	all := view(t, db, func(tx *Tx) ([]Ticket, error) {
		return collect(tx, `SELECT `+ticketColumns+` FROM outbox`, nil, scanTicket)
	})
	for status := range ticketLists {
		for _, effect := range []string{"", "issue_refund", "rare", "none"} {
			for _, order := range []string{"", "ORD-5", "ORD-none"} {
				for _, before := range []int64{0, 300, 1} {
					f := TicketFilter{Status: status, EffectType: effect, OrderID: order, Before: before, Limit: 7}
					want, counts := chosen(all, f)
					got := view(t, db, func(tx *Tx) ([]Ticket, error) { return tx.Tickets(f) })
					if ids := idsOf(got); !slices.Equal(ids, want) {
						t.Errorf("%+v: got %v, want %v", f, ids, want)
					}
					if got := view(t, db, func(tx *Tx) (Counts, error) { return tx.TicketCounts(f) }); got != counts {
						t.Errorf("%+v: counts %+v, want %+v", f, got, counts)
					}
				}
			}
		}
	}
	_, counts := chosen(all, TicketFilter{})
	if got := view(t, db, (*Tx).Counts); got != counts {
		t.Errorf("counts %+v, want %+v", got, counts)
	}
}
