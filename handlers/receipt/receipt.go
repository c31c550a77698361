package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"comanda/store"
)

// form is the first line. Another form of the lines, or of a verdict's words, is another version.
const form = "comanda receipt 1"

// Receipt is the proof receipt of one order.
type Receipt struct {
	OrderID string
	Lines   []string
	Text    string   // the lines, each with its "\n"
	SHA256  string   // hex, of Text
	SQL     []string // the queries that list the very rows, for `comanda sql`
	Verdict Verdict
}

// Of makes the receipt of a story that store.Tx.Story told.
func Of(s store.Story) Receipt {
	r := Receipt{OrderID: orderID(s), Verdict: Judge(s)}
	r.Lines = append([]string{form, "order " + quote(r.OrderID)}, rowLines(s)...)
	if open := openLine(s); open != "" {
		r.Lines = append(r.Lines, open)
	}
	r.Lines = append(r.Lines, "verdict: "+r.Verdict.Text)
	r.Text = strings.Join(r.Lines, "\n") + "\n"
	sum := sha256.Sum256([]byte(r.Text))
	r.SHA256 = hex.EncodeToString(sum[:])
	r.SQL = queries(r.OrderID)
	return r
}

// orderID is the order that the rows of a story name, also where no decision does.
func orderID(s store.Story) string {
	switch {
	case s.Order != nil:
		return s.Order.OrderID
	case len(s.Events) > 0:
		return s.Events[0].OrderID
	case len(s.Tickets) > 0:
		return s.Tickets[0].AggregateID
	case len(s.Ledger) > 0:
		return s.Ledger[0].OrderID
	case len(s.Effects) > 0:
		return s.Effects[0].OrderID
	}
	return ""
}
