package handlers

import (
	"strings"

	"comanda/handlers/order"
)

// families are the SKU families that the house knows, by what stands before the SKU's first hyphen,
// in any case.
var families = map[string]string{
	"CF": "coffee", "CAF": "coffee", "CAFE": "coffee", "COFFEE": "coffee",
	"TE": "tea", "TEA": "tea",
}

// The sizes in units, all lines together, from which an order is no longer small or is large.
const (
	normalFrom = 10
	highFrom   = 100
)

// classify names an order's category and priority. Both are recorded with the order and shown; they
// decide no effect.
//
// Category: the one family of all its lines, "coffee" or "tea"; "mixed" when lines are of several
// families, "other" when every line is of a family that the house does not know.
// Priority: "low" below 10 units, "normal" below 100, "high" from there on.
func classify(lines []order.Line) (category, priority string) {
	var units int64
	for i, l := range lines {
		units += l.Quantity // at most 1,000 lines of 1,000,000,000
		f := family(l.SKU)
		switch {
		case i == 0:
			category = f
		case category != f:
			category = "mixed"
		}
	}
	switch {
	case units < normalFrom:
		return category, "low"
	case units < highFrom:
		return category, "normal"
	}
	return category, "high"
}

func family(sku string) string {
	head, _, _ := strings.Cut(sku, "-")
	if f := families[strings.ToUpper(head)]; f != "" {
		return f
	}
	return "other"
}
