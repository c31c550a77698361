package order

import (
	"strings"
	"unicode/utf8"
)

// str scans a string from its opening quote to its closing one.
func (s *scanner) str() (token, *Problem) {
	s.pos++
	t := token{kind: kindString, start: s.pos}
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '"':
			t.end = s.pos
			s.pos++
			return t, nil
		case c == '\\':
			t.escaped = true
			if p := s.escape(); p != nil {
				return t, p
			}
		case c < ' ':
			return t, badJSON(s.pos, "expected the control character in a string to be escaped, found %s", s.here())
		case c < utf8.RuneSelf:
			s.pos++
		default:
			if p := s.multibyte(); p != nil {
				return t, p
			}
		}
	}
	return t, s.expected("a closing quote")
}

// multibyte scans one character that is not ASCII. Overlong forms, surrogates
// and what lies beyond U+10FFFF are not valid UTF-8.
func (s *scanner) multibyte() *Problem {
	r, size := utf8.DecodeRuneInString(s.src[s.pos:])
	if r == utf8.RuneError && size == 1 {
		return s.expected("valid UTF-8")
	}
	s.pos += size
	return nil
}

// escape scans a backslash and what belongs to it. Half of a surrogate pair
// is good grammar; whether it is a good value is for the checker to say.
func (s *scanner) escape() *Problem {
	s.pos++
	c := s.peek()
	if c == 'u' {
		s.pos++
		return s.hex()
	}
	if shortEscape(c) == 0 {
		return s.expected(`one of " \ / b f n r t u after the backslash`)
	}
	s.pos++
	return nil
}

// hex scans four hexadecimal digits.
func (s *scanner) hex() *Problem {
	for range 4 {
		if !isHex(s.peek()) {
			return s.expected(`four hexadecimal digits after \u`)
		}
		s.pos++
	}
	return nil
}

// number scans -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (s *scanner) number() (token, *Problem) {
	t := token{kind: kindNumber, start: s.pos}
	s.skip("-")
	first := s.pos
	if p := s.digits("a digit"); p != nil {
		return t, p
	}
	if s.src[first] == '0' && s.pos > first+1 {
		return t, badJSON(first, "expected a number without leading zeros")
	}
	if s.skip(".") {
		if p := s.digits("a digit after the decimal point"); p != nil {
			return t, p
		}
	}
	if s.skip("eE") {
		s.skip("+-")
		if p := s.digits("a digit in the exponent"); p != nil {
			return t, p
		}
	}
	t.end = s.pos
	return t, nil
}

// skip passes over one byte if it is among the ones given, and says so.
func (s *scanner) skip(among string) bool {
	if s.pos < len(s.src) && strings.IndexByte(among, s.src[s.pos]) >= 0 {
		s.pos++
		return true
	}
	return false
}

// digits scans one digit or more.
func (s *scanner) digits(what string) *Problem {
	if !isDigit(s.peek()) {
		return s.expected(what)
	}
	for isDigit(s.peek()) {
		s.pos++
	}
	return nil
}

// literal scans one of the three names that JSON knows.
func (s *scanner) literal(name string, k kind) (token, *Problem) {
	if !strings.HasPrefix(s.src[s.pos:], name) {
		return token{}, s.expected("a value")
	}
	s.pos += len(name)
	return token{kind: k}, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
