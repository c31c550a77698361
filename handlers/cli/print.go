package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// json prints one document, indented, with no HTML escaping. It reads the same wherever it goes; for a terminal what
// that would obey is spelled out.
func (s *session) json(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("the answer can't be written as JSON: %w", err)
	}
	text := b.Bytes()
	if s.program.Terminal {
		text = spellOut(text)
	}
	s.out.Write(text)
	return nil
}

// spellOut writes as \uXXXX what hides in a text of JSON, where such a character can only stand inside a string. So it
// reads as the same document. What is below a space is layout: in a string the encoder has spelled it out.
func spellOut(text []byte) []byte {
	spell := func(r rune) bool { return r >= 0x7f && hides(r, true) }
	if !bytes.ContainsFunc(text, spell) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !spell(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// table prints aligned rows; every cell is made visible.
func (s *session) table(fill func(row func(...string))) error {
	w := tabwriter.NewWriter(&s.out, 0, 8, 2, ' ', 0)
	fill(func(cells ...string) {
		for i, cell := range cells {
			cells[i] = s.show(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	})
	return w.Flush()
}

// printf prints a line of its own making; values in it are made visible by the caller.
func (s *session) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// show is a value as it may be printed.
func (s *session) show(value string) string { return visible(value, s.program.Terminal) }

// visible spells out what a terminal would obey instead of showing: control characters always, and
// for a terminal also the marks that turn the direction of writing or hide characters.
func visible(s string, terminal bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return hides(r, terminal) }) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hides(r, terminal):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hides(r rune, terminal bool) bool {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return true
	}
	return terminal && unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs)
}

// instant is a time in Unix milliseconds as ISO 8601 text in UTC.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func instantOr(ms *int64, none string) string {
	if ms == nil {
		return none
	}
	return instant(*ms)
}

func textOr(s *string, none string) string {
	if s == nil {
		return none
	}
	return *s
}

// plural is "1 effect", "3 effects".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
