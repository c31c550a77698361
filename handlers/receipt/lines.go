package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"comanda/store"
)

// placed is a line with its place in the sequence.
type placed struct {
	seq  int64
	text string
}

// rowLines is one line a row. Rows are added in the order of cause and effect, which a stable sort keeps among
// those that one transaction wrote under one number. Columns that go on changing after the end (claims, leases,
// due times) are left out.
func rowLines(s store.Story) []string {
	var all []placed
	add := func(seq int64, at, format string, args ...any) {
		all = append(all, placed{seq, fmt.Sprintf("%d %s ", seq, at) + fmt.Sprintf(format, args...)})
	}
	for _, e := range s.Events {
		sum := sha256.Sum256(e.Body)
		add(e.Seq, instant(e.ReceivedAt), "event %s outcome=%s differs=%s body_bytes=%d body_sha256=%s",
			quote(e.EventID), quote(e.Outcome), quote(string(e.Differs)), len(e.Body), hex.EncodeToString(sum[:]))
	}
	if o := s.Order; o != nil {
		add(o.Seq, instant(o.DecidedAt), "decision %s because=%s asked=%s customer=%s amount=%s currency=%s event=%s category=%s priority=%s",
			quote(o.Decision), quote(why(*o)), quote(o.CreditSource), quote(o.CustomerID), quote(o.Amount), quote(o.Currency),
			quote(o.EventID), quote(o.Category), quote(o.Priority))
	}
	for _, t := range s.Tickets {
		add(t.Seq, instant(t.CreatedAt), "ticket %d %s effect=%s payload=%s state=%s ended=%s detail=%s",
			t.ID, quote(t.Key), quote(t.EffectType), quote(t.Payload), quote(t.Status), instantOr(t.ProcessedAt), endDetail(t))
	}
	wire := wireKeys(s)
	for _, a := range s.Attempts {
		add(a.Seq, instant(a.BegunAt), "%s %d ticket=%d key=%s target=%s address=%s ended=%s outcome=%s http=%d receipt=%s detail=%s cleared_up=%t",
			kind(a.Kind), a.ID, a.TicketID, quoteOr(wire[a.TicketID]), quote(a.Target), quote(a.Address), instantOr(a.EndedAt),
			quoteOr(a.Outcome), a.HTTPStatus, quote(a.Receipt), quote(a.Detail), a.ClosedSeq != 0)
	}
	for _, e := range s.Effects {
		add(e.Seq, instant(e.OccurredAt), "effect %d %s type=%s", e.ID, quote(e.EffectKey), quote(e.EffectType))
	}
	for _, l := range s.Ledger {
		add(l.Seq, instant(l.CreatedAt), "ledger %s type=%s how=%s", quote(l.EffectKey), quote(l.EffectType), quote(l.How))
	}
	for _, a := range s.Acts {
		add(a.Seq, instant(a.At), "act %s who=%s on=%s detail=%s", quote(a.Action), quote(a.Who), quote(a.Subject), quote(a.Detail))
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.seq, b.seq) })
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p.text
	}
	return lines
}

func why(o store.Order) string {
	if o.CreditOK {
		return "credit"
	}
	return "no credit"
}

// wireKeys are the keys as they go over the wire, which the first send froze.
func wireKeys(s store.Story) map[int64]*string {
	keys := map[int64]*string{}
	for _, t := range s.Tickets {
		keys[t.ID] = t.WireKey
	}
	return keys
}

// kind is a word of the form, and in quotes if it is none of the three.
func kind(k string) string {
	if k == "claim" || k == "send" || k == "lookup" {
		return k
	}
	return quote(k)
}

// endDetail is why a ticket ended as it did. What is on the rail has one too, which changes with each try.
func endDetail(t store.Ticket) string {
	if waits(t) {
		return "-"
	}
	return quote(t.Detail)
}

func waits(t store.Ticket) bool { return t.Status == "pending" || t.Status == "processing" }

// openLine names what is not at its end and may still change; "" when nothing is.
func openLine(s store.Story) string {
	var tickets, attempts []string
	for _, t := range s.Tickets {
		if waits(t) || wantsPerson(s, t) {
			tickets = append(tickets, strconv.FormatInt(t.ID, 10))
		}
	}
	for _, a := range s.Attempts {
		if a.Outcome == nil {
			attempts = append(attempts, strconv.FormatInt(a.ID, 10))
		}
	}
	var parts []string
	if len(tickets) > 0 {
		parts = append(parts, "tickets not at their end: "+strings.Join(tickets, " "))
	}
	if len(attempts) > 0 {
		parts = append(parts, "attempts of which nobody noted what came: "+strings.Join(attempts, " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "open: " + strings.Join(parts, "; ")
}

// instant is a time in Unix milliseconds as RFC 3339 in UTC, always with three digits.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func instantOr(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return instant(*ms)
}

// quote is a text in quotes and in ASCII, so that it is one word of one line and nothing in it is hidden, turned
// round or looks like another letter. It escapes by code point alone: which characters a later Unicode calls
// printable changes no receipt.
func quote(s string) string { return strconv.QuoteToASCII(s) }

func quoteOr(s *string) string {
	if s == nil {
		return "-"
	}
	return quote(*s)
}
