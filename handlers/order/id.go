package order

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxIDLength is the longest id or SKU, in code points.
const maxIDLength = 100

// CheckID is the rule for event, order and customer ids and for SKUs: 1 to
// 100 code points of valid UTF-8, none of category Cc, not only white space.
// It returns "" for a good id, else a sentence that starts with name and has
// no full stop: "customer id must not be empty". Ids are compared byte for
// byte and never trimmed or normalised.
func CheckID(name, id string) string {
	if fault := idFault(id); fault != "" {
		return name + " " + fault
	}
	return ""
}

// idFault says what is wrong with an id, or nothing.
func idFault(id string) string {
	switch {
	case id == "":
		return "must not be empty"
	case !utf8.ValidString(id):
		return "must be valid Unicode, without half of a surrogate pair"
	case utf8.RuneCountInString(id) > maxIDLength:
		return "must have at most 100 characters"
	case strings.ContainsFunc(id, unicode.IsControl):
		return "must not hold control characters"
	case strings.TrimFunc(id, unicode.IsSpace) == "":
		return "must not be only white space"
	}
	return ""
}

// shorten cuts a text of the sender's to what fits into a sentence.
func shorten(text string) string {
	const longest = 60
	if len(text) <= longest {
		return text
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
