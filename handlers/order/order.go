package order

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Order is one decoded and checked order. Decode makes it; whoever fills one
// by hand keeps to the same rules, above all one line per SKU.
type Order struct {
	EventID    string // 1 to 100 code points, as CheckID wants them; so OrderID and CustomerID
	OrderID    string
	CustomerID string
	Amount     Amount // the deposit that a refund would return
	Currency   string // ISO 4217, upper case
	Lines      []Line // one per SKU, quantities summed, in order of the SKU's first appearance
	RawLines   int    // lines as they were sent, before summing: 1 to 1,000
}

// Line is how much of one SKU an order takes.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"` // 1 to 1,000,000,000
}

// Sender is who sends an order, as far as its ids tell.
type Sender struct {
	Prefix   string   // stands before its event and order ids, "shop2/"; "" leaves them as they are
	Reserved []string // prefixes of others: an id that begins with one would be theirs
}

// Decode reads one order from the body of a webhook. The order shares no
// memory with body. The error, if any, is a *Problem.
func Decode(body []byte) (*Order, error) { return DecodeFrom(body, Sender{}) }

// DecodeFrom is Decode for a sender with ids of its own: the event's and the
// order's come with its prefix, and the bound on their length is for both
// together.
func DecodeFrom(body []byte, from Sender) (*Order, error) {
	// One copy makes every key and every unescaped text a substring.
	s := scanner{src: string(body), keys: make([]string, 0, linearKeys)}
	if p := s.document(); p != nil {
		return nil, p
	}
	if s.doubtful != nil {
		return nil, s.doubtful
	}
	c := checker{src: s.src, from: from}
	o := c.order(&s.found)
	if c.total > 0 {
		return nil, invalidOrder(c.faults, c.total)
	}
	return o, nil
}

// digestVersion opens every digest, so that another form never meets an old
// digest by accident.
const digestVersion = "comanda order 1"

// Digest returns the SHA-256 of what the order says: its id, customer, amount
// by value, currency and quantity per SKU. The event id, the order of lines
// and the spelling of the body are not in it. Two events with one id carry
// the same order exactly when their digests are equal.
func (o *Order) Digest() [sha256.Size]byte {
	form := make([]byte, 0, 512)
	form = appendText(form, digestVersion)
	form = appendText(form, o.OrderID)
	form = appendText(form, o.CustomerID)
	form = appendText(form, o.Amount.value())
	form = appendText(form, o.Currency)
	form = binary.BigEndian.AppendUint64(form, uint64(len(o.Lines)))
	for _, line := range bySKU(o.Lines) {
		form = appendText(form, line.SKU)
		form = binary.BigEndian.AppendUint64(form, uint64(line.Quantity))
	}
	return sha256.Sum256(form)
}

// appendText writes the length before the text: no two lists of texts then
// give the same bytes, whatever the texts hold.
func appendText(form []byte, text string) []byte {
	form = binary.BigEndian.AppendUint64(form, uint64(len(text)))
	return append(form, text...)
}

// bySKU returns a copy of lines sorted by the bytes of the SKU.
func bySKU(lines []Line) []Line {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b Line) int { return strings.Compare(a.SKU, b.SKU) })
	return lines
}

// Differs names what b says otherwise than a, in this order: "customer_id",
// "amount" (by value), "currency", "line_items" (quantity per SKU, whatever
// the order of lines). It returns nil when b says the same.
func Differs(a, b *Order) []string {
	var names []string
	if a.CustomerID != b.CustomerID {
		names = append(names, "customer_id")
	}
	if a.Amount.Cmp(b.Amount) != 0 {
		names = append(names, "amount")
	}
	if a.Currency != b.Currency {
		names = append(names, "currency")
	}
	if !slices.Equal(bySKU(a.Lines), bySKU(b.Lines)) {
		names = append(names, "line_items")
	}
	return names
}
