package order

import (
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/bojanz/currency"
	"pgregory.net/rapid"
)

func TestAmountsAreExact(t *testing.T) {
	for _, c := range []struct{ text, code, want string }{
		{`2154.00`, "MXN", "2154.00"},
		{`"2154.00"`, "MXN", "2154.00"},
		{`"21\u00354"`, "MXN", "2154.00"},
		{`0.30`, "MXN", "0.30"},
		{`0.3`, "MXN", "0.30"},
		{`0`, "MXN", "0.00"},
		{`"0"`, "JPY", "0"},
		{`5`, "JPY", "5"},
		{`5.000`, "JPY", "5"},
		{`"5.0"`, "JPY", "5"},
		{`1.2340000`, "KWD", "1.234"},
		{`90071992547409.93`, "MXN", "90071992547409.93"},
		{`"90071992547409.93"`, "MXN", "90071992547409.93"},
		{`999999999999999.9999`, "CLF", "999999999999999.9999"},
		{`999999999999999`, "JPY", "999999999999999"},
		{`1e0`, "MXN", "1.00"},
		{`1E2`, "MXN", "100.00"},
		{`1.5e+1`, "MXN", "15.00"},
		{`12345e-2`, "MXN", "123.45"},
		{`1e-2`, "MXN", "0.01"},
		{`9.99999999999999e14`, "MXN", "999999999999999.00"},
		{`0.000000000000001e29`, "MXN", "100000000000000.00"},
		{`0e99999999999999999999`, "MXN", "0.00"},
		{`0.000e-99999999999999999999`, "JPY", "0"},
		{`1` + strings.Repeat("0", 9000) + `e-9000`, "MXN", "1.00"},
		{`0.` + strings.Repeat("0", 9000) + `1e9001`, "MXN", "1.00"},
	} {
		o := mustDecode(t, with("amount", c.text, "currency", `"`+c.code+`"`))
		if got := o.Amount.String(); got != c.want {
			t.Errorf("%.40s %s became %s, want %s", c.text, c.code, got, c.want)
		}
	}
}

func TestAmountsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		`-1`, `-0`, `-0.0`, `-0e5`, `-0.00e-3`, `-1e-400`, // signs
		`1e15`, `1000000000000000`, `1e400`, `1e99999999999999999999`, `0.1e16`, // too large
		`0.001`, `1.005`, `1e-3`, `1e-400`, `1e-99999999999999999999`, `2154.000000000000000000001`, // too fine
		`""`, `"-1"`, `"-0"`, `"+1"`, `" 1"`, `"1 "`, `"1\n"`, `"01"`, `"00"`, `"1."`, `".5"`, `"1.2.3"`, `"1,5"`,
		`"1e2"`, `"1_000"`, `"0x10"`, `"NaN"`, `"Infinity"`, `"１"`, `"1\u0000"`, `"1000000000000000"`, `"0.001"`,
		`null`, `true`, `[1]`, `{}`,
	} {
		wantPointers(t, with("amount", text), "/amount")
	}
	wantPointers(t, with("amount", "5.1", "currency", `"JPY"`), "/amount")
	wantPointers(t, with("amount", "5.0001", "currency", `"KWD"`), "/amount")
}

func TestParseAmount(t *testing.T) {
	a, err := ParseAmount("5000", "MXN")
	if err != nil || a.String() != "5000.00" {
		t.Errorf("ParseAmount = %s, %v", a, err)
	}
	for _, c := range []struct{ text, code, want string }{
		{"5,0", "MXN", "must be a plain decimal number"},
		{"-5", "MXN", "must be a plain decimal number"},
		{"1e3", "MXN", "must be a plain decimal number"},
		{"0.001", "MXN", "must have no digits beyond the 2 decimals of MXN"},
		{"1000000000000000", "MXN", "must have at most 15 digits"},
		{"5", "", `needs a currency that ISO 4217 knows, in upper case such as MXN, not ""`},
		{"5", "mxn", "needs a currency"},
	} {
		a, err := ParseAmount(c.text, c.code)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || a != (Amount{}) {
			t.Errorf("ParseAmount(%q, %q) = %q, %v; want %q", c.text, c.code, a, err, c.want)
		}
	}
}

func TestZeroAmounts(t *testing.T) {
	for _, text := range []string{"0", "0.00", "0.000"} {
		a, err := ParseAmount(text, "MXN")
		if err != nil || !a.IsZero() || a.Cmp(Amount{}) != 0 {
			t.Errorf("%s: %q, %v", text, a, err)
		}
	}
	a, _ := ParseAmount("0.01", "MXN")
	if a.IsZero() || (Amount{}).String() != "0" || !(Amount{}).IsZero() {
		t.Error("0.01 is zero or the zero value is not")
	}
}

// contractForm is the contract's own expression for an amount as a string.
var contractForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]+)?$`)

// drawAmountText draws texts in the form of the contract and texts next to it.
func drawAmountText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringMatching(`(0|[1-9][0-9]{0,14})(\.[0-9]{1,4}0{0,3})?`),
		rapid.StringMatching(`[0-9]{0,17}(\.[0-9]{0,5})?`),
		rapid.StringMatching(`[-+ ]?[0-9]{0,3}[.e]{0,2}[0-9]{0,3}[ \n]?`),
	).Draw(t, "amount")
}

func TestAmountFormIsTheContracts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawAmountText(t)
		code := rapid.SampledFrom([]string{"JPY", "MXN", "KWD", "CLF"}).Draw(t, "currency")
		digits, _ := currency.GetDigits(code)
		_, part, _ := strings.Cut(text, ".")
		want := contractForm.MatchString(text) && len(strings.TrimRight(part, "0")) <= int(digits)
		a, err := ParseAmount(text, code)
		if (err == nil) != want {
			t.Fatalf("ParseAmount(%q, %s): %v, want accepted = %t", text, code, err, want)
		}
		if err != nil {
			return
		}
		_, part, _ = strings.Cut(a.String(), ".")
		if len(part) != int(digits) || !contractForm.MatchString(a.String()) {
			t.Fatalf("%q became %q with %d decimals", text, a, digits)
		}
	})
}

// TestCmpIsByValue compares with big.Rat, which is exact as well.
func TestCmpIsByValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Amount, *big.Rat) {
			text := rapid.StringMatching(`(0|[1-9][0-9]{0,2}|9007199254740[0-9]{2})\.[0-9]{2}0?[1-3]?`).Draw(t, name)
			a, err := ParseAmount(text, "CLF")
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, name+" shorter") {
				a.text = a.value()
			}
			value, _ := new(big.Rat).SetString(text)
			return a, value
		}
		a, aValue := draw("a")
		b, bValue := draw("b")
		if got, want := a.Cmp(b), aValue.Cmp(bValue); got != want {
			t.Fatalf("%s.Cmp(%s) = %d, want %d", a, b, got, want)
		}
	})
	long, _ := ParseAmount("999999999999999.9999", "CLF")
	less, _ := ParseAmount("999999999999999.9998", "CLF")
	if long.Cmp(less) != 1 || less.Cmp(long) != -1 || long.Cmp(long) != 0 {
		t.Error("an amount beyond int64 is not compared exactly")
	}
}

// TestNumberFormIsExact compares spellings with exponents with big.Rat.
func TestNumberFormIsExact(t *testing.T) {
	limit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(15), nil))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		value, _ := new(big.Rat).SetString(text)
		cents := new(big.Rat).Mul(value, big.NewRat(100, 1))
		want := !strings.HasPrefix(text, "-") && value.Cmp(limit) < 0 && cents.IsInt()
		o, err := Decode([]byte(with("amount", text)))
		if (err == nil) != want {
			t.Fatalf("%s: %v, want accepted = %t", text, err, want)
		}
		if err == nil && o.Amount.String() != value.FloatString(2) {
			t.Fatalf("%s became %s, want %s", text, o.Amount, value.FloatString(2))
		}
	})
}

func FuzzAmount(f *testing.F) {
	for _, text := range []string{"2154.00", "0.30", "90071992547409.93", "-0", "1e400", "0e99999999999999999999", "999999999999999.999"} {
		f.Add(text, "MXN")
		f.Add(text, "JPY")
	}
	f.Fuzz(func(t *testing.T, text, code string) {
		a, err := ParseAmount(text, code)
		if err != nil {
			if err.Error() == "" || a != (Amount{}) {
				t.Fatalf("ParseAmount(%q, %q) = %q, %q", text, code, a, err)
			}
			return
		}
		if !contractForm.MatchString(text) || !contractForm.MatchString(a.String()) {
			t.Fatalf("ParseAmount(%q, %q) = %q", text, code, a)
		}
		was, _ := new(big.Rat).SetString(text)
		is, _ := new(big.Rat).SetString(a.String())
		again, err := ParseAmount(a.String(), code)
		if was.Cmp(is) != 0 || err != nil || again != a {
			t.Fatalf("ParseAmount(%q, %q) = %q, then %q, %v", text, code, a, again, err)
		}
	})
}
