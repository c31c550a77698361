package order

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// shortEscapes are the escapes of one letter, each letter before its meaning.
const shortEscapes = "\"\"\\\\//b\bf\fn\nr\rt\t"

// unescape returns what a JSON string says. It is given the text between the
// quotes, which the scanner has found to be good. Half of a surrogate pair
// becomes the three bytes that UTF-8 forbids for it (WTF-8): since the scanner
// lets no such bytes through, it can't be taken for anything else, and two
// texts are equal exactly when their code units are.
func unescape(raw string) string {
	text := make([]byte, 0, len(raw))
	for {
		plain, rest, found := strings.Cut(raw, `\`)
		text = append(text, plain...)
		if !found {
			return string(text)
		}
		if rest[0] != 'u' {
			text = append(text, shortEscape(rest[0]))
			raw = rest[1:]
			continue
		}
		r, size := unicodeEscape(rest)
		text = appendWTF8(text, r)
		raw = rest[size:]
	}
}

// shortEscape returns what a backslash before letter means, or 0 if nothing.
func shortEscape(letter byte) byte {
	for i := 0; i < len(shortEscapes); i += 2 {
		if shortEscapes[i] == letter {
			return shortEscapes[i+1]
		}
	}
	return 0
}

// unicodeEscape reads uXXXX, or uXXXX\uXXXX if the two are a surrogate pair,
// at the start of rest. It returns the code point, or a lone surrogate, and
// how many bytes it took.
func unicodeEscape(rest string) (rune, int) {
	first := hexUnit(rest[1:5])
	if len(rest) >= 11 && rest[5:7] == `\u` {
		if r := utf16.DecodeRune(first, hexUnit(rest[7:11])); r != utf8.RuneError {
			return r, 11
		}
	}
	return first, 5
}

// hexUnit reads four hexadecimal digits that the scanner has seen.
func hexUnit(digits string) rune {
	n, _ := strconv.ParseUint(digits, 16, 16)
	return rune(n)
}

// appendWTF8 is utf8.AppendRune that keeps surrogates.
func appendWTF8(text []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(text, r)
	}
	return append(text, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}
