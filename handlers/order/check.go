package order

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of an order's lines.
const (
	maxLines    = 1_000
	maxQuantity = 1_000_000_000
)

// checker makes an order of the fields that the scanner found, and collects
// every fault on the way.
type checker struct {
	src    string
	from   Sender
	faults []Fault // the first maxFaults
	total  int
}

// fault notes one fault. The parts of the pointer come apart, so that nothing
// is joined for an order that is fine.
func (c *checker) fault(detail string, path ...any) {
	c.total++
	if len(c.faults) == maxFaults {
		return
	}
	var pointer strings.Builder
	for _, part := range path {
		fmt.Fprintf(&pointer, "/%v", part)
	}
	c.faults = append(c.faults, Fault{Pointer: pointer.String(), Detail: detail})
}

// order checks the fields in the contract's order. The result means nothing
// if there are faults.
func (c *checker) order(f *fields) *Order {
	if f.kind != kindObject {
		c.fault("must be a JSON object")
		return nil
	}
	o := &Order{RawLines: f.lineCount}
	o.EventID = c.ownID(f.eventID, "event_id")
	o.OrderID = c.ownID(f.orderID, "order_id")
	o.CustomerID = c.id(f.customerID, "customer_id")
	code, codeFault := c.code(f.currency)
	o.Amount = c.amount(f.amount, code)
	if codeFault != "" {
		c.fault(codeFault, "currency")
	}
	o.Currency = code
	o.Lines = c.lines(f)
	return o
}

// id reads one of the order's ids. It returns "" for one that has a fault.
func (c *checker) id(t token, name string) string {
	id, detail := readID(t, c.src)
	if detail != "" {
		c.fault(detail, name)
	}
	return id
}

// ownID reads an id that each sender gives for itself, and says whose it is.
func (c *checker) ownID(t token, name string) string {
	id := c.id(t, name)
	if id == "" {
		return ""
	}
	for _, prefix := range c.from.Reserved {
		if strings.HasPrefix(id, prefix) {
			c.fault("must not begin with "+prefix+", as the ids of another sender do", name)
		}
	}
	if c.from.Prefix == "" {
		return id
	}
	if most := maxIDLength - utf8.RuneCountInString(c.from.Prefix); utf8.RuneCountInString(id) > most {
		c.fault(fmt.Sprintf("must have at most %d characters from this sender, before which %s stands", most, c.from.Prefix), name)
	}
	return c.from.Prefix + id
}

// code reads the currency. It leaves its fault to the caller, since the
// amount, which needs the currency, comes first in the contract.
func (c *checker) code(t token) (code, fault string) {
	if detail := wrongKind(t, kindString, "must be a string"); detail != "" {
		return "", detail
	}
	code = t.text(c.src)
	if !isCurrency(code) {
		return "", "must be a currency code of ISO 4217 in upper case, such as MXN"
	}
	return strings.Clone(code), ""
}

// amount reads the amount, a JSON string or a JSON number. An empty code
// stands for a currency that has a fault of its own.
func (c *checker) amount(t token, code string) Amount {
	var a Amount
	var detail string
	switch t.kind {
	case kindString:
		a, detail = amountFromText(t.text(c.src), code)
	case kindNumber:
		a, detail = newAmount(parseDecimal(t.text(c.src)), code)
	default:
		detail = wrongKind(t, kindNumber, "must be a number, or a string with a decimal number")
	}
	if detail != "" {
		c.fault(detail, "amount")
	}
	return a
}

// lines reads the line items and sums the quantities of each SKU.
func (c *checker) lines(f *fields) []Line {
	if detail := wrongKind(f.lineItems, kindArray, "must be an array"); detail != "" {
		c.fault(detail, "line_items")
		return nil
	}
	if f.lineCount < 1 || f.lineCount > maxLines {
		c.fault(fmt.Sprintf("must hold 1 to 1,000 lines, not %d", f.lineCount), "line_items")
	}
	lines := make([]Line, 0, len(f.lines))
	index := make(map[string]int, len(f.lines))
	for i := range f.lines {
		line, ok := c.line(&f.lines[i], i)
		if !ok {
			continue
		}
		at, known := index[line.SKU]
		if !known {
			index[line.SKU] = len(lines)
			lines = append(lines, line)
			continue
		}
		c.add(&lines[at], line.Quantity, i)
	}
	return lines
}

// line reads the i-th line item and reports whether it has no fault.
func (c *checker) line(f *lineFields, i int) (Line, bool) {
	before := c.total
	if f.kind != kindObject {
		c.fault("must be an object with sku and quantity", "line_items", i)
		return Line{}, false
	}
	sku, detail := readID(f.sku, c.src)
	if detail != "" {
		c.fault(detail, "line_items", i, "sku")
	}
	quantity, detail := readQuantity(f.quantity, c.src)
	if detail != "" {
		c.fault(detail, "line_items", i, "quantity")
	}
	return Line{SKU: sku, Quantity: quantity}, c.total == before
}

// add sums a further line of a SKU. The line at which the sum passes the
// bound has the fault, once; 1,000 lines can't make an int64 overflow.
func (c *checker) add(line *Line, quantity int64, i int) {
	within := line.Quantity <= maxQuantity
	line.Quantity += quantity
	if within && line.Quantity > maxQuantity {
		c.fault("must not bring the sum of its sku beyond 1,000,000,000", "line_items", i, "quantity")
	}
}

// readID reads an id or a SKU. The second result says what is wrong with it,
// or is empty.
func readID(t token, src string) (string, string) {
	if detail := wrongKind(t, kindString, "must be a string"); detail != "" {
		return "", detail
	}
	id := t.text(src)
	if detail := idFault(id); detail != "" {
		return "", detail
	}
	// A short id must not keep a whole body in memory.
	return strings.Clone(id), ""
}

// readQuantity reads a whole number by value, so 12, 12.0 and 1.2e1 alike.
// The second result says what is wrong with it, or is empty.
func readQuantity(t token, src string) (int64, string) {
	if detail := wrongKind(t, kindNumber, "must be a number"); detail != "" {
		return 0, detail
	}
	d := parseDecimal(t.text(src))
	if d.decimals() > 0 {
		return 0, "must be a whole number"
	}
	const outside = "must be 1 to 1,000,000,000"
	if d.negative || d.digits == "" || d.point > 10 {
		return 0, outside
	}
	n, err := strconv.ParseInt(d.fixed(0), 10, 64)
	if err != nil || n > maxQuantity {
		return 0, outside
	}
	return n, ""
}

// wrongKind says that a field is missing, or else, when it is of another kind
// than wanted, what it must be.
func wrongKind(t token, want kind, mustBe string) string {
	switch t.kind {
	case want:
		return ""
	case kindMissing:
		return "is required"
	}
	return mustBe
}
