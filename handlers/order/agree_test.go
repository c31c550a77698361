package order

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// isJSON is what the scanner must agree with: encoding/json, held to valid
// UTF-8 and to our depth.
func isJSON(body string) bool {
	return json.Valid([]byte(body)) && utf8.ValidString(body) && depthOf(body) <= maxDepth
}

// depthOf returns how deep a valid document is nested.
func depthOf(body string) int {
	deepest, depth := 0, 0
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber() // as a float64, 1e400 would be an error
	for {
		token, err := decoder.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			deepest = max(deepest, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

// scannerAccepts reports whether a body is JSON, be it an order or not.
func scannerAccepts(body string) bool {
	s := scanner{src: body}
	return s.document() == nil
}

// drawJSON draws a valid document, now and then deeper than we allow.
func drawJSON(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t\r"}).Draw(t, "space")
	most := 6
	if depth > 4 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return space + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal") + space
	case 1:
		return space + rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number")
	case 2, 3:
		return drawString(t) + space
	case 4:
		n := rapid.IntRange(500, 520).Draw(t, "depth")
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	case 5:
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawJSON(t, depth+1) }), 0, 4).Draw(t, "items")
		return "[" + space + strings.Join(items, ",") + "]"
	default:
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return drawString(t) + space + ":" + drawJSON(t, depth+1)
		}), 0, 4).Draw(t, "members")
		return space + "{" + space + strings.Join(items, ",") + "}"
	}
}

func drawString(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "é", "€", "😀", "\x7f", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\uD800`, `\udfff`, `\u20AC`,
	}), 0, 5).Draw(t, "parts")
	return `"` + strings.Join(parts, "") + `"`
}

// spoil changes one place of a document; the result may still be good.
func spoil(t *rapid.T, body string) string {
	piece := rapid.SampledFrom([]string{
		"", "{", "}", "[", "]", ":", ",", `"`, `\`, "u", "0", "1", "-", "+", ".", "e", "E", "x", " ", "\n", "\x00", "\x1f",
		"\x80", "\xff", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\uFEFF", "null", "tru", `\ud800`, "\v",
	}).Draw(t, "piece")
	at := rapid.IntRange(0, len(body)).Draw(t, "at")
	cut := rapid.IntRange(0, min(2, len(body)-at)).Draw(t, "cut")
	return body[:at] + piece + body[at+cut:]
}

func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawJSON(t, 0)
		for range rapid.IntRange(0, 3).Draw(t, "spoilt") {
			body = spoil(t, body)
		}
		if got, want := scannerAccepts(body), isJSON(body); got != want {
			t.Fatalf("the scanner says %t, encoding/json %t of %.300q", got, want, body)
		}
	})
}

// TestUnescapeAgreesWithEncodingJSON covers what encoding/json can say: texts
// without lone surrogates.
func TestUnescapeAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := drawString(t)
		got := token{kind: kindString, escaped: true, start: 1, end: len(raw) - 1}.text(raw)
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(got) && got != want {
			t.Fatalf("%s became %q, want %q", raw, got, want)
		}
		if !utf8.ValidString(got) && !strings.Contains(want, "\uFFFD") {
			t.Fatalf("%s became %q, which is not valid UTF-8", raw, got)
		}
	})
}
