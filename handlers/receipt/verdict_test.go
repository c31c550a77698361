package receipt

import (
	"slices"
	"strings"
	"testing"

	"comanda/store"
)

// after is a story that was played and then spoilt.
func after(t *testing.T, name string, spoil func(s *store.Story)) store.Story {
	t.Helper()
	for _, p := range plays {
		if p.name == name {
			s := newShop(t)
			p.play(s)
			story := s.story(p.order)
			spoil(&story)
			return story
		}
	}
	t.Fatalf("there is no play %q", name)
	return store.Story{}
}

// attempt is a send of ticket 1 that began at the very end.
func attempt(outcome store.Evidence, receipt string) store.Attempt {
	a := store.Attempt{ID: 9, TicketID: 1, Kind: "send", Receipt: receipt, Seq: 99}
	if outcome != "" {
		text := string(outcome)
		a.Outcome, a.EndedAt = &text, new(int64)
	}
	return a
}

// "exactly once" needs a ledger row that says that it was carried out here, one row of the effect, a ticket that says
// nothing else, and no target that did it or may have done it. Each is taken away alone.
func TestNeverOnceWithoutProof(t *testing.T) {
	for _, c := range []struct {
		what, play, code string
		spoil            func(s *store.Story)
	}{
		{"no ledger row", "refund", Contradiction, func(s *store.Story) { s.Ledger = nil }},
		{"no ledger row and no effect", "refund", Contradiction, func(s *store.Story) { s.Ledger, s.Effects = nil, nil }},
		{"no ledger row and no ticket", "refund", Contradiction, func(s *store.Story) { s.Ledger, s.Tickets = nil, nil }},
		{"nothing but the order", "refund", Contradiction, func(s *store.Story) { s.Ledger, s.Tickets, s.Effects = nil, nil, nil }},
		{"no effect", "refund", Contradiction, func(s *store.Story) { s.Effects = nil }},
		{"two effects", "refund", Doubled, func(s *store.Story) { s.Effects = append(s.Effects, s.Effects[0]) }},
		{"an effect under another key", "refund", Contradiction, func(s *store.Story) { s.Effects[0].EffectKey = "refund:other" }},
		{"one more effect under another key", "refund", Contradiction, func(s *store.Story) {
			s.Effects = append(s.Effects, store.EffectRow{EffectKey: "refund:other", EffectType: "refund"})
		}},
		{"the ledger says remote", "refund", Contradiction, func(s *store.Story) { s.Ledger[0].How = "remote" }},
		{"the ledger says by hand", "refund", RefundedByHand, func(s *store.Story) { s.Ledger[0].How = "by hand" }},
		{"the ledger says otherwise", "refund", Contradiction, func(s *store.Story) { s.Ledger[0].EffectType = "receipt" }},
		{"a second refund", "refund", Doubled, func(s *store.Story) {
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "refund:again", EffectType: "refund", How: "local"})
			s.Effects = append(s.Effects, store.EffectRow{EffectKey: "refund:again", EffectType: "refund"})
		}},
		{"inventory too", "refund", Contradiction, func(s *store.Story) {
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "inventory:x", EffectType: "inventory", How: "by hand"})
		}},
		{"inventory too, of an order without a decision", "hand-made ticket", Contradiction, func(s *store.Story) {
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "inventory:x", EffectType: "inventory", How: "by hand"})
		}},
		{"a target did it too", "refund", Contradiction, func(s *store.Story) { s.Attempts = append(s.Attempts, attempt(store.Happened, "rf_1")) }},
		{"a target may have done it too", "refund", Contradiction, func(s *store.Story) { s.Attempts = append(s.Attempts, attempt("", "")) }},
		{"somebody says that no target did it", "refund", RefundedByHand, func(s *store.Story) {
			a := attempt(store.Unknown, "")
			a.ClosedSeq = 5
			s.Attempts = append(s.Attempts, a)
		}},
		{"the ticket waits", "refund", InProgress, func(s *store.Story) { s.Tickets[0].Status = "pending" }},
		{"the ticket is in review", "refund", NeedsPerson, func(s *store.Story) { s.Tickets[0].Status = "review" }},
		{"the ticket is dead", "refund", NeedsPerson, func(s *store.Story) { s.Tickets[0].Status = "dead" }},
		{"the ticket was discarded", "refund", Contradiction, func(s *store.Story) { s.Tickets[0].Status = "discarded" }},
		{"inventory was decided", "refund", Contradiction, func(s *store.Story) { s.Order.Decision = "inventory" }},

		{"a line without an effect", "inventory", Contradiction, func(s *store.Story) { s.Effects = s.Effects[1:] }},
		{"a line that waits", "inventory", InProgress, func(s *store.Story) { s.Tickets[1].Status = "pending" }},
		{"a line of which there is nothing", "inventory", Contradiction, func(s *store.Story) {
			s.Tickets, s.Ledger, s.Effects = s.Tickets[1:], s.Ledger[1:], s.Effects[1:]
		}},
		{"a line that is done, and nothing more", "inventory", Contradiction, func(s *store.Story) { s.Ledger, s.Effects = s.Ledger[1:], s.Effects[1:] }},
		{"a line by hand", "inventory", InventoryMixed, func(s *store.Story) { s.Ledger[1].How = "by hand" }},
		{"a line that was not decided", "inventory", Contradiction, func(s *store.Story) { s.Order.LineItems = store.JSON(`[{"sku":"A"},{"sku":"B"}]`) }},
		{"refunded too", "inventory", Contradiction, func(s *store.Story) {
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "refund:ORD-2", EffectType: "refund", How: "by hand"})
		}},

		{"two receipts", "remote refund", Doubled, func(s *store.Story) { s.Attempts = append(s.Attempts, attempt(store.Happened, "rf_2")) }},
		{"one receipt twice", "remote refund", RefundedConfirmed, func(s *store.Story) { s.Attempts = append(s.Attempts, attempt(store.Happened, "rf_1")) }},
		{"another receipt of a send that was rejected", "remote refund", RefundedConfirmed, func(s *store.Story) { s.Attempts = append(s.Attempts, attempt(store.Rejected, "no_1")) }},
		{"no attempt", "remote refund", Contradiction, func(s *store.Story) { s.Attempts = nil }},
		{"an attempt that was rejected", "remote refund", Contradiction, func(s *store.Story) { s.Attempts = []store.Attempt{attempt(store.Rejected, "")} }},
		{"another ticket's attempt", "remote refund", Contradiction, func(s *store.Story) { s.Attempts[0].TicketID = 2 }},
		{"found by a lookup", "remote refund", RefundedConfirmed, func(s *store.Story) {
			found := string(store.Found)
			s.Attempts[0].Kind, s.Attempts[0].Outcome = "lookup", &found
		}},
		{"unclear after it was sent again", "sent again", RefundedConfirmed, func(s *store.Story) { s.Attempts[0].Seq = 99 }},
		{"in the lab too", "remote refund", Contradiction, func(s *store.Story) {
			s.Effects = append(s.Effects, store.EffectRow{EffectKey: "refund:ORD-1", EffectType: "refund"})
		}},

		{"not released", "taken back", Contradiction, func(s *store.Story) {
			s.Ledger = slices.DeleteFunc(s.Ledger, func(l store.LedgerRow) bool { return l.EffectType == "release" })
			s.Tickets = slices.DeleteFunc(s.Tickets, func(t store.Ticket) bool { return t.EffectType == store.TicketInventoryRelease })
		}},
		{"not refunded", "taken back", Contradiction, func(s *store.Story) {
			s.Ledger = slices.DeleteFunc(s.Ledger, func(l store.LedgerRow) bool { return l.EffectType == "refund" })
			s.Tickets = slices.DeleteFunc(s.Tickets, func(t store.Ticket) bool { return t.EffectType == store.TicketIssueRefund })
		}},
		{"the refund was given up", "taken back", Discarded, func(s *store.Story) {
			s.Ledger, s.Tickets[4].Status = s.Ledger[:2], "discarded"
		}},
		{"a release is dead", "taken back", NeedsPerson, func(s *store.Story) { s.Tickets[3].Status = "dead" }},
		{"the rejected line may have gone out", "taken back", NeedsPerson, func(s *store.Story) { s.Attempts[1].Outcome = nil }},
		{"the rejected line happened", "taken back", Contradiction, func(s *store.Story) {
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "inventory:ORD-3:B", EffectType: "inventory", How: "by hand"})
		}},
		{"the rejected line happened, and the refund was given up", "taken back", Contradiction, func(s *store.Story) {
			s.Ledger, s.Tickets[4].Status = s.Ledger[:2], "discarded"
			s.Ledger = append(s.Ledger, store.LedgerRow{EffectKey: "inventory:ORD-3:B", EffectType: "inventory", How: "by hand"})
		}},
		{"not taken back at all", "taken back", Contradiction, func(s *store.Story) { s.Order.Compensating = false }},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := Judge(after(t, c.play, c.spoil))
			if v.Code != c.code || c.code != InventoryMixed && strings.Contains(v.Text, "exactly once") {
				t.Errorf("%+v, want %s", v, c.code)
			}
		})
	}
}

// The time of a verdict is that of the last effect, and there is none where nothing happened.
func TestVerdictAt(t *testing.T) {
	for _, p := range plays {
		s := newShop(t)
		p.play(s)
		story := s.story(p.order)
		want := int64(0)
		for _, l := range story.Ledger {
			want = max(want, l.CreatedAt)
		}
		if got := Judge(story).At; got != want {
			t.Errorf("%s: %d, want %d", p.name, got, want)
		}
	}
	if v := Judge(store.Story{}); v.Code != Contradiction || v.At != 0 {
		t.Errorf("of nothing: %+v", v)
	}
}
