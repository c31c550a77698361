package order

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/bojanz/currency"
)

// maxWholeDigits is how many digits an amount may have before its decimal
// point. With the four decimals of some currencies that is more than an int64
// of minor units can hold, so amounts stay text.
const maxWholeDigits = 15

// Amount is an exact, non-negative decimal amount in one currency. Its zero
// value is 0.
type Amount struct {
	text string // with exactly the currency's decimals: "2154.00"
}

// String returns the amount with exactly the decimals of its currency:
// "2154.00" for MXN, "5" for JPY.
func (a Amount) String() string {
	if a.text == "" {
		return "0"
	}
	return a.text
}

// IsZero reports whether the amount is 0.
func (a Amount) IsZero() bool { return a.value() == "0" }

// Cmp compares by value, exactly: -1 if a is less than b, 0 if they are the
// same number ("5" and "5.00"), 1 if a is more. Currencies are the caller's.
func (a Amount) Cmp(b Amount) int {
	aWhole, aPart, _ := strings.Cut(a.value(), ".")
	bWhole, bPart, _ := strings.Cut(b.value(), ".")
	// Without leading zeros the longer whole number is the larger one.
	return cmp.Or(
		cmp.Compare(len(aWhole), len(bWhole)),
		strings.Compare(aWhole, bWhole),
		strings.Compare(aPart, bPart),
	)
}

// value returns the shortest text of the number: no decimals that are 0. It
// stays the same should a currency get other decimals one day.
func (a Amount) value() string {
	text := a.String()
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// ParseAmount reads an amount from its string form, at most 15 digits before
// the decimal point: "2154", "2154.00", "0.30". Zeros beyond the currency's
// decimals are dropped; other digits there, signs, exponents, spaces and
// leading zeros are errors. The error's text goes on where the field's name
// stops: "must not be negative".
func ParseAmount(text, code string) (Amount, error) {
	a, fault := amountFromText(text, code)
	if fault == "" && !isCurrency(code) {
		fault = fmt.Sprintf("needs a currency that ISO 4217 knows, in upper case such as MXN, not %q", shorten(code))
	}
	if fault != "" {
		return Amount{}, errors.New(fault)
	}
	return a, nil
}

// amountFromText reads the string form. See newAmount for the results.
func amountFromText(text, code string) (Amount, string) {
	if !isPlainDecimal(text) {
		return Amount{}, "must be a plain decimal number such as 2154.00: no sign, space, exponent or leading zero"
	}
	return newAmount(parseDecimal(text), code)
}

// newAmount checks that d is an amount in the currency. The second result
// says what is wrong with it, or is empty. An unknown currency is not the
// amount's fault: the range is checked all the same, the decimals can't be.
func newAmount(d decimal, code string) (Amount, string) {
	decimals, known := currency.GetDigits(code)
	switch {
	case d.negative:
		return Amount{}, "must not be negative, not even -0"
	case d.point > maxWholeDigits:
		return Amount{}, fmt.Sprintf("must have at most %d digits before the decimal point", maxWholeDigits)
	case !known:
		return Amount{}, ""
	case d.decimals() > int64(decimals):
		return Amount{}, fmt.Sprintf("must have no digits beyond the %d decimals of %s", decimals, code)
	}
	return Amount{text: d.fixed(int(decimals))}, ""
}

// isCurrency reports whether code is a currency of today's ISO 4217, in upper
// case. Not currency.IsValid, which takes the empty code for a good one.
func isCurrency(code string) bool {
	_, known := currency.GetDigits(code)
	return known
}

// isPlainDecimal reports whether text is (0|[1-9][0-9]*)(\.[0-9]+)? and no
// byte more.
func isPlainDecimal(text string) bool {
	whole, part, hasPoint := strings.Cut(text, ".")
	if whole != "0" && strings.HasPrefix(whole, "0") {
		return false
	}
	return isDigits(whole) && (!hasPoint || isDigits(part))
}

// isDigits reports whether text is one ASCII digit or more, and nothing else.
func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
