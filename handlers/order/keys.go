package order

import (
	"fmt"
	"slices"
	"strings"
)

// linearKeys is up to how many keys of an object are compared one by one.
// Beyond that a map keeps a hostile object from costing the square of its size.
const linearKeys = 16

// The names of the contract, by the place where they are expected.
var (
	orderNames = []string{"event_id", "order_id", "customer_id", "amount", "currency", "line_items"}
	lineNames  = []string{"sku", "quantity"}
)

// field returns the place of a field of an order, nil for any other key.
func (f *fields) field(key string) *token {
	switch key {
	case "event_id":
		return &f.eventID
	case "order_id":
		return &f.orderID
	case "customer_id":
		return &f.customerID
	case "amount":
		return &f.amount
	case "currency":
		return &f.currency
	case "line_items":
		return &f.lineItems
	}
	return nil
}

// field returns the place of a field of a line item, nil for any other key.
func (f *lineFields) field(key string) *token {
	switch key {
	case "sku":
		return &f.sku
	case "quantity":
		return &f.quantity
	}
	return nil
}

// keyring is the keys of one open object: the scanner's keys from base on
// while they are few, all of them in many after that.
type keyring struct {
	base int
	many map[string]struct{}
}

func (s *scanner) openRing() keyring { return keyring{base: len(s.keys)} }

func (s *scanner) closeRing(ring *keyring) { s.keys = s.keys[:ring.base] }

// isNew adds a key to the ring and reports whether it was not there yet.
func (s *scanner) isNew(key string, ring *keyring) bool {
	few := s.keys[ring.base:]
	if ring.many == nil && len(few) < linearKeys {
		s.keys = append(s.keys, key)
		return !slices.Contains(few, key)
	}
	if ring.many == nil {
		ring.many = make(map[string]struct{}, 4*linearKeys)
		for _, k := range few {
			ring.many[k] = struct{}{}
		}
	}
	before := len(ring.many)
	ring.many[key] = struct{}{}
	return len(ring.many) > before
}

// checkKey notes a key that stands twice in its object, or that a reader who
// ignores case would take for a name of the contract. Scanning goes on: that
// the body is not JSON at all would be the worse problem.
func (s *scanner) checkKey(key string, pos int, at place, ring *keyring) {
	detail := ""
	if name := otherSpelling(key, at); name != "" {
		detail = fmt.Sprintf("the key %q at byte %d is another spelling of %q", shorten(key), pos, name)
	}
	if !s.isNew(key, ring) {
		detail = fmt.Sprintf("the key %q at byte %d stands a second time in its object", shorten(key), pos)
	}
	if detail != "" && s.doubtful == nil {
		s.doubtful = &Problem{Type: typeDuplicateKey, Detail: detail}
	}
}

// otherSpelling returns the expected name that key spells in another case, or
// nothing.
func otherSpelling(key string, at place) string {
	var expected []string
	switch at {
	case atDocument:
		expected = orderNames
	case atLine:
		expected = lineNames
	}
	for _, name := range expected {
		if key != name && strings.EqualFold(key, name) {
			return name
		}
	}
	return ""
}
