package order

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects may lie in one another. It keeps
// the scanner's recursion, and so its stack, small.
const maxDepth = 512

// kind is what a JSON value is.
type kind uint8

const (
	kindMissing kind = iota // no value at all: the zero token
	kindNull
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// token is where a value stands in the source: src[start:end], for a string
// what lies between its quotes, for an array or object nothing.
type token struct {
	kind       kind
	escaped    bool // a string that holds a backslash
	start, end int
}

// text returns the literal of a number or what a string says.
func (t token) text(src string) string {
	if t.escaped {
		return unescape(src[t.start:t.end])
	}
	return src[t.start:t.end]
}

// fields is where the fields of an order stand in the source.
type fields struct {
	kind                         kind // of the document itself
	eventID, orderID, customerID token
	amount, currency, lineItems  token
	lines                        []lineFields // the first maxLines
	lineCount                    int          // all of them
}

// lineFields is where the fields of one line item stand.
type lineFields struct {
	kind          kind
	sku, quantity token
}

// place is where in an order a value stands, so which names are expected in it.
type place uint8

const (
	elsewhere   place = iota // in what is ignored
	atDocument               // the order itself
	atLineItems              // the value of line_items
	atLine                   // one element of line_items
)

// scanner reads a document once, by the grammar of RFC 8259.
type scanner struct {
	src      string
	pos      int
	depth    int
	keys     []string // of the objects that are open, innermost last; see keyring
	found    fields
	doubtful *Problem // the first key that stands twice or in another case
}

// document scans all of the source.
func (s *scanner) document() *Problem {
	if strings.HasPrefix(s.src, "\uFEFF") {
		return badJSON(0, "the body must start with its JSON, not with a byte order mark")
	}
	s.space()
	top, p := s.value(atDocument)
	if p != nil {
		return p
	}
	s.found.kind = top.kind
	s.space()
	if s.pos < len(s.src) {
		return badJSON(s.pos, "expected nothing after the end of the JSON value, found %s", s.here())
	}
	return nil
}

// space skips the four bytes that are white space in JSON.
func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end of the source. A byte 0 of the
// source itself is no part of any JSON token either.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// here describes what stands at the scanner's place.
func (s *scanner) here() string {
	if s.pos >= len(s.src) {
		return "the end of the body"
	}
	r, size := utf8.DecodeRuneInString(s.src[s.pos:])
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("the byte 0x%02X, which is not valid UTF-8", s.src[s.pos])
	}
	return fmt.Sprintf("%q", r)
}

// expected reports that something else than what stands here was expected.
func (s *scanner) expected(what string) *Problem {
	return badJSON(s.pos, "expected %s, found %s", what, s.here())
}

// value scans one value of any kind.
func (s *scanner) value(at place) (token, *Problem) {
	switch c := s.peek(); {
	case c == '{':
		return s.nested(kindObject, at)
	case c == '[':
		return s.nested(kindArray, at)
	case c == '"':
		return s.str()
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.literal("true", kindBool)
	case c == 'f':
		return s.literal("false", kindBool)
	case c == 'n':
		return s.literal("null", kindNull)
	}
	return token{}, s.expected("a value")
}

// nested scans an array or object one level deeper.
func (s *scanner) nested(k kind, at place) (token, *Problem) {
	if s.depth == maxDepth {
		return token{}, badJSON(s.pos, "expected at most %d arrays and objects inside one another", maxDepth)
	}
	s.depth++
	scan := s.array
	if k == kindObject {
		scan = s.object
	}
	p := scan(at)
	s.depth--
	return token{kind: k}, p
}

// array scans from the opening bracket to the closing one.
func (s *scanner) array(at place) *Problem {
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if p := s.element(at); p != nil {
			return p
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case ']':
			s.pos++
			return nil
		default:
			return s.expected("a comma or ] after the element")
		}
	}
}

// element scans one element of an array and notes it if it is a line item.
func (s *scanner) element(at place) *Problem {
	if at != atLineItems {
		_, p := s.value(elsewhere)
		return p
	}
	s.found.lineCount++
	if s.found.lineCount > maxLines {
		_, p := s.value(atLine)
		return p
	}
	s.found.lines = append(s.found.lines, lineFields{})
	t, p := s.value(atLine)
	s.found.lines[len(s.found.lines)-1].kind = t.kind
	return p
}

// object scans from the opening brace to the closing one.
func (s *scanner) object(at place) *Problem {
	ring := s.openRing()
	defer s.closeRing(&ring)
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if p := s.member(at, &ring); p != nil {
			return p
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.pos++
			return nil
		default:
			return s.expected("a comma or } after the value")
		}
	}
}

// member scans one key and its value, and notes the value if the contract
// names it.
func (s *scanner) member(at place, ring *keyring) *Problem {
	keyPos := s.pos
	if s.peek() != '"' {
		return s.expected("a key in quotes")
	}
	t, p := s.str()
	if p != nil {
		return p
	}
	key := t.text(s.src)
	s.checkKey(key, keyPos, at, ring)
	s.space()
	if s.peek() != ':' {
		return s.expected("a colon after the key")
	}
	s.pos++
	s.space()
	in := elsewhere
	if at == atDocument && key == "line_items" {
		in = atLineItems
	}
	t, p = s.value(in)
	if field := s.field(at, key); field != nil {
		*field = t
	}
	return p
}

// field returns where to note the value of a key, nil for what is ignored.
func (s *scanner) field(at place, key string) *token {
	switch at {
	case atDocument:
		return s.found.field(key)
	case atLine:
		if s.found.lineCount <= maxLines {
			return s.found.lines[len(s.found.lines)-1].field(key)
		}
	}
	return nil
}
