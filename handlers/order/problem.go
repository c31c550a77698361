package order

import "fmt"

// The types of a Problem, as they stand in the problem documents of the
// webhook after "/problems/".
const (
	typeBadJSON      = "bad-json"
	typeDuplicateKey = "duplicate-key"
	typeInvalidOrder = "invalid-order"
)

// maxFaults bounds the answer to a body with thousands of wrong lines.
const maxFaults = 100

// Problem is why a body is not an order. It is made for the sender: it names
// bytes, keys and fields of the body, nothing of the program.
type Problem struct {
	Type   string  // "bad-json", "duplicate-key" or "invalid-order"
	Detail string  // a sentence fragment without a full stop
	Faults []Fault // for invalid-order only: 1 to 100, in the contract's order of fields
}

// Error returns the type and the detail in one line.
func (p *Problem) Error() string { return p.Type + ": " + p.Detail }

// Fault is what is wrong with one field of an order.
type Fault struct {
	// Pointer is the field's RFC 6901 pointer, such as /line_items/0/quantity.
	// Its parts are names of the contract and array indices, none of which
	// holds a ~ or a / that would have to be escaped.
	Pointer string `json:"pointer"`
	// Detail goes on where the field's name stops: "is required".
	Detail string `json:"detail"`
}

// badJSON reports that the body stops being JSON at the given byte offset.
func badJSON(offset int, format string, args ...any) *Problem {
	return &Problem{Type: typeBadJSON, Detail: fmt.Sprintf("at byte %d: ", offset) + fmt.Sprintf(format, args...)}
}

// invalidOrder reports the faults that were kept out of total.
func invalidOrder(kept []Fault, total int) *Problem {
	first := kept[0].Pointer
	if first == "" {
		first = "the body"
	}
	detail := first + " " + kept[0].Detail
	switch total {
	case 1:
	case 2:
		detail += ", and 1 more fault"
	default:
		detail += fmt.Sprintf(", and %d more faults", total-1)
	}
	return &Problem{Type: typeInvalidOrder, Detail: detail, Faults: kept}
}
