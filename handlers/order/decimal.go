package order

import "strings"

// maxExponent is where a decimal exponent stops counting: farther than any
// body has digits to make up for, near enough that sums never overflow.
const maxExponent = 1 << 40

// decimal is a number as it was written, exact, in the one form
// ±0.DIGITS × 10^point. However large its exponent is, it is never written
// out before it is known to be in range.
type decimal struct {
	negative bool
	digits   string // without leading and trailing zeros; empty for 0
	point    int64  // digits before the decimal point; 0 or less for 0.1, 0.01, …
}

// parseDecimal reads a number that follows the grammar of JSON.
func parseDecimal(literal string) decimal {
	literal, negative := strings.CutPrefix(literal, "-")
	mantissa, exponent := literal, ""
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], literal[i+1:]
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	all := whole + part
	significant := strings.TrimLeft(all, "0")
	d := decimal{negative: negative, digits: strings.TrimRight(significant, "0")}
	if d.digits != "" {
		leadingZeros := len(all) - len(significant)
		d.point = int64(len(whole)-leadingZeros) + parseExponent(exponent)
	}
	return d
}

// parseExponent reads [+-]?[0-9]* and stops counting at maxExponent.
func parseExponent(text string) int64 {
	digits, negative := strings.CutPrefix(text, "-")
	digits = strings.TrimPrefix(digits, "+")
	n := int64(0)
	for i := range len(digits) {
		n = min(n*10+int64(digits[i]-'0'), maxExponent)
	}
	if negative {
		return -n
	}
	return n
}

// decimals is how many digits stand after the decimal point, trailing zeros
// left out; 0 for a whole number.
func (d decimal) decimals() int64 { return max(0, int64(len(d.digits))-d.point) }

// digit returns the digit at position i of digits, endless zeros around them.
func (d decimal) digit(i int64) byte {
	if i < 0 || i >= int64(len(d.digits)) {
		return '0'
	}
	return d.digits[i]
}

// fixed writes the number without its sign and with n decimals. The caller
// has made sure that point is small and that no digit is lost.
func (d decimal) fixed(n int) string {
	text := make([]byte, 0, 24)
	if d.point <= 0 {
		text = append(text, '0')
	}
	for i := int64(0); i < d.point; i++ {
		text = append(text, d.digit(i))
	}
	if n > 0 {
		text = append(text, '.')
	}
	for i := range int64(n) {
		text = append(text, d.digit(d.point+i))
	}
	return string(text)
}
