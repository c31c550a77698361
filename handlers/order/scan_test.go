package order

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBadJSON(t *testing.T) {
	for name, body := range map[string]string{
		"empty":                  ``,
		"only white space":       " \n\t\r",
		"byte order mark":        "\uFEFF" + contractBody,
		"UTF-16":                 "\xff\xfe{\x00}\x00",
		"trailing data":          contractBody + `x`,
		"second value":           contractBody + contractBody,
		"trailing NUL":           contractBody + "\x00",
		"trailing comma":         `{"a":1,}`,
		"trailing comma in list": `[1,]`,
		"no comma":               `{"a":1 "b":2}`,
		"double comma":           `[1,,2]`,
		"leading comma":          `{,"a":1}`,
		"no colon":               `{"a" 1}`,
		"no value":               `{"a":}`,
		"key without quotes":     `{a:1}`,
		"single quotes":          `{'a':1}`,
		"number as key":          `{1:1}`,
		"comment":                `{} // done`,
		"cut in object":          `{"a":1`,
		"cut in array":           `[1`,
		"cut in key":             `{"a`,
		"cut in value":           `{"a":"b`,
		"cut in escape":          `{"a":"\`,
		"cut in hex":             `{"a":"\u00`,
		"wrong bracket":          `[1}`,
		"closing alone":          `]`,
		"single escape":          `"\x"`,
		"escaped quote mark":     `"\'"`,
		"capital escape":         `"\U0041"`,
		"hex":                    `"\u00g0"`,
		"sign in hex":            `"\u+041"`,
		"NUL in string":          "\"\x00\"",
		"newline in string":      "\"\n\"",
		"tab in key":             "{\"\t\":1}",
		"unit separator":         "\"\x1f\"",
		"leading zero":           `01`,
		"leading zeros":          `{"amount":-007}`,
		"plus":                   `+1`,
		"minus alone":            `-`,
		"minus and letter":       `-a`,
		"no digit before point":  `.5`,
		"no digit after point":   `5.`,
		"no digit in exponent":   `5e`,
		"sign alone in exponent": `5e+`,
		"two exponents":          `5e1e1`,
		"hex number":             `0x10`,
		"NaN":                    `NaN`,
		"Infinity":               `-Infinity`,
		"capital literal":        `True`,
		"cut literal":            `tru`,
		"longer literal":         `nullx`,
		"vertical tab":           "\v{}",
		"form feed":              "{}\f",
		"no-break space":         "\u00a0{}",
		"lone continuation":      "\"\x80\"",
		"overlong slash":         "\"\xc0\xaf\"",
		"overlong NUL":           "\"\xe0\x80\x80\"",
		"encoded surrogate":      "\"\xed\xa0\x80\"",
		"beyond U+10FFFF":        "\"\xf4\x90\x80\x80\"",
		"cut rune":               "{\"a\":\"\xe2\x82\"}",
		"Latin-1":                "{\"a\":\"caf\xe9\"}",
		"invalid UTF-8 in key":   "{\"\xff\":1}",
		"invalid UTF-8 outside":  "{\xff}",
	} {
		t.Run(name, func(t *testing.T) {
			if p := problemOf(t, body); p.Type != "bad-json" || p.Faults != nil {
				t.Errorf("got %v", p)
			}
		})
	}
}

func TestBadJSONSaysWhereAndWhat(t *testing.T) {
	for body, want := range map[string]string{
		``:               "at byte 0: expected a value, found the end of the body",
		`{"a" 1}`:        "at byte 5: expected a colon after the key, found '1'",
		`{"é":1,}`:       "at byte 8: expected a key in quotes, found '}'",
		`{} x`:           "at byte 3: expected nothing after the end of the JSON value, found 'x'",
		"\"a\xff\"":      "at byte 2: expected valid UTF-8, found the byte 0xFF, which is not valid UTF-8",
		`{"amount":007}`: "at byte 10: expected a number without leading zeros",
		"\uFEFF{}":       "at byte 0: the body must start with its JSON, not with a byte order mark",
	} {
		if p := problemOf(t, body); p.Detail != want {
			t.Errorf("Decode(%q): detail\n%s, want\n%s", body, p.Detail, want)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) string {
		return with("line_items", "-")[:1] + `"deep":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "," + with()[1:]
	}
	mustDecode(t, nested(511)) // in an object that is the first of 512
	if p := problemOf(t, nested(512)); p.Type != "bad-json" || !strings.Contains(p.Detail, "512") {
		t.Errorf("513 deep: %v", p)
	}
	mustDecode(t, with("line_items", `[{"sku":"S","quantity":1,"x":[`+strings.Repeat("{},", 9000)+`{}]}]`))
}

func TestHostileBodies(t *testing.T) {
	manyKeys := make([]string, 100_000)
	for i := range manyKeys {
		manyKeys[i] = fmt.Sprintf(`"%x":0`, i)
	}
	for name, body := range map[string]string{
		"10,000 deep":           strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		"1,000,000 deep":        strings.Repeat("[", 1_000_000),
		"1,000,000 deep, keyed": strings.Repeat(`{"a":`, 1_000_000),
		"many keys":             "{" + strings.Join(manyKeys, ",") + "}",
		"many lines":            with("line_items", "["+strings.Repeat("0,", 500_000)+"0]"),
		"large exponent":        with("amount", "1e"+strings.Repeat("9", 1_000_000)),
		"small exponent":        with("amount", "1e-"+strings.Repeat("9", 1_000_000)),
		"many digits":           with("amount", strings.Repeat("9", 1_000_000)),
		"many decimals":         with("amount", "0."+strings.Repeat("0", 1_000_000)+"1"),
		"large quantity":        withQuantity("1e999999999"),
		"many escapes":          with("event_id", `"`+strings.Repeat(`\u00e9`, 170_000)+`"`),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			problemOf(t, body)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestExponentsAreNotWrittenOut holds a number with a large exponent to the
// memory of any other number.
func TestExponentsAreNotWrittenOut(t *testing.T) {
	for _, number := range []string{"1e400", "1e-400", "0e99999999999999999999", "1e999999999", "1e-999999999"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		newAmount(parseDecimal(number), "MXN")
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
			t.Errorf("%s took %d bytes", number, bytes)
		}
	}
}

func TestDuplicateKeys(t *testing.T) {
	const surrogates = `{"\ud800":1,"\udc00":2,"\ud801":3,"\ud800\udc00":4,"\ufffd":5,"𐀁":6}`
	for _, inner := range []string{
		`{"a":1,"A":2,"á":3,"a\u0301":4," a":5,"a\u0000":6,"":7}`,
		surrogates,
		`[{"a":1},{"a":1}]`,
		`{"a":{"a":{"a":1}},"b":{"a":1}}`,
		`{"SKU":1,"Event_ID":2,"sku":3}`, // not where these names are expected
	} {
		mustDecode(t, with()[:1]+`"x":`+inner+`,`+with()[1:])
	}
	for _, inner := range []string{
		`{"a":1,"a":1}`,
		`{"a":1,"\u0061":2}`,
		`{"\u00e9":1,"é":2}`,
		`{"\ud83d\ude00":1,"😀":2}`,
		`{"\/":1,"/":2}`,
		`{"\ud800":1,"\uD800":2}`,
		`{"":1,"":2}`,
		`{"b":{"c":[[{"a":1,"d":2,"a":null}]]}}`,
		`[{"a":[],"a":[]}]`,
	} {
		wantDuplicate(t, with()[:1]+`"x":`+inner+`,`+with()[1:])
		wantDuplicate(t, inner)
		wantDuplicate(t, with("line_items", `[{"sku":"S","quantity":1,"x":`+inner+`}]`))
	}
	for _, name := range orderNames {
		wantDuplicate(t, with()[:1]+fmt.Sprintf("%q:%s,", name, good[name])+with()[1:])
	}
	wantDuplicate(t, with("line_items", `[{"sku":"S","quantity":1,"sku":"S"}]`))
	wantDuplicate(t, with("line_items", `[{"sku":"S","quantity":1},{"quantity":1,"sku":"S","quantity":1}]`))
}

// TestDuplicateKeysAmongMany passes the number of keys at which a map takes over.
func TestDuplicateKeysAmongMany(t *testing.T) {
	for n := range 4 * linearKeys {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"k%d":{"k0":0}`, i))
		}
		mustDecode(t, with()[:1]+strings.Join(append(members, with()[1:]), ","))
		for i := range n {
			again := append(members[:n:n], fmt.Sprintf(`"\u006b%d":0`, i))
			wantDuplicate(t, "{"+strings.Join(again, ",")+"}")
		}
	}
}

func TestOtherSpellingsOfExpectedNames(t *testing.T) {
	for _, name := range orderNames {
		for _, other := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], fmt.Sprintf(`\u%04x`, name[0]-32) + name[1:]} {
			wantDuplicate(t, with()[:1]+`"`+other+`":null,`+with()[1:])            // beside the name
			wantDuplicate(t, strings.Replace(with(), `"`+name, `"`+other, 1))      // alone
			wantDuplicate(t, strings.Replace(with(), `"`+name, `"`+other, 1)+"\n") // alone
		}
	}
	for _, item := range []string{
		`{"SKU":"S","quantity":1}`, `{"sku":"S","Quantity":1}`, `{"sku":"S","quantity":1,"Sku":"T"}`,
		`{"\u017fku":"S","sku":"S","quantity":1}`, `{"s\u212au":"S","sku":"S","quantity":1}`, // ſ and K fold as well
	} {
		wantDuplicate(t, with("line_items", `[{"sku":"S","quantity":1},`+item+`]`))
	}
	wantDuplicate(t, with("line_items", "["+strings.Repeat(`{"sku":"S","quantity":1},`, 1000)+`{"SKU":"S"}]`))
}

func TestTheWorseProblemWins(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1,"a":2,"amount":-1}`:    "duplicate-key",
		`{"a":1,"a":2,"amount":-1`:     "bad-json",
		`{"Amount":1,"amount":-1} x`:   "bad-json",
		`[{"a":1,"a":2}]`:              "duplicate-key",
		`{"amount":-1,"x":[1,]}`:       "bad-json",
		`{"event_id":"\ud800","x":01}`: "bad-json",
	} {
		if p := problemOf(t, body); p.Type != want {
			t.Errorf("Decode(%s): %v, want %s", body, p, want)
		}
	}
}

func TestTheFirstDoubtfulKeyIsNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1,"a":2,"b":1,"b":2}`:     `the key "a" at byte 7 stands a second time in its object`,
		`{"x":{"\u0000":1,"\u0000":2}}`: `the key "\x00" at byte 17 stands a second time in its object`,
		`{"Event_ID":1,"b":1,"b":2}`:    `the key "Event_ID" at byte 1 is another spelling of "event_id"`,
		`{"` + strings.Repeat("é", 500) + `":1,"` + strings.Repeat("é", 500) + `":1}`: `the key "` + strings.Repeat("é", 30) + `…" at byte 1006 stands a second time in its object`,
	} {
		if p := problemOf(t, body); p.Detail != want {
			t.Errorf("Decode(%.100q): detail\n%s, want\n%s", body, p.Detail, want)
		}
	}
}

func wantDuplicate(t testing.TB, body string) {
	t.Helper()
	if p := problemOf(t, body); p.Type != "duplicate-key" || p.Faults != nil {
		t.Errorf("Decode(%.300q): %v, want duplicate-key", body, p)
	}
}
