package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bojanz/currency"

	"comanda/store"
)

// funcs are what the templates call.
func (l *language) funcs() template.FuncMap {
	return template.FuncMap{
		"t": l.say, "tor": l.sayOr, "said": l.said, "n": l.number, "money": l.amount, "when": l.when, "clock": l.clock, "age": l.age,
		"path": url.PathEscape, "list": func(all ...any) []any { return all }, "visible": visible, "pretty": pretty,
		"query":  queryWith,
		"moment": l.moment, "toint64": func(n int) int64 { return int64(n) },
		"ids": idList, "shell": shellQuoted, "orderpath": orderPath, "receiptpath": receiptPath,
		"deref": func(n *int64) int64 {
			if n == nil {
				return 0
			}
			return *n
		},
		"word": func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		},
	}
}

// translated are the names in a moment that have words of their own, and where those begin.
var translated = map[string]string{"Outcome": "outcome.", "Action": "action."}

// moment says what happened then. What others have said of it stays in their words.
func (l *language) moment(m store.Moment) template.HTML {
	names := slices.Clone(m.Names)
	for i := 1; i < len(names); i += 2 {
		if of := translated[fmt.Sprint(names[i-1])]; of != "" {
			names[i] = l.sayOr(of+fmt.Sprint(names[i]), fmt.Sprint(names[i]))
		}
	}
	text := l.said("moment."+m.Phrase, m.Text, names...)
	if m.Detail == "" || text == inWords("en", m.Text) {
		return text
	}
	lang := "en"
	if m.Kind == "operator" || m.Kind == "discarded" {
		lang = "" // a person's own words
	}
	return text + ": " + inWords(lang, m.Detail)
}

// said is a message if there is one, and otherwise a text from below, which is English.
func (l *language) said(id, text string, pairs ...any) template.HTML {
	if words := l.say(id, pairs...); words != id {
		return template.HTML(template.HTMLEscapeString(visible(words)))
	}
	return inWords("en", text)
}

// inWords is a text that is in another language than the page, "" for an unknown one.
func inWords(lang, text string) template.HTML {
	return template.HTML(fmt.Sprintf(`<span lang="%s">%s</span>`, lang, template.HTMLEscapeString(visible(text))))
}

// amount is exact money as the language writes it, with the currency's code: shops of several countries look alike.
func (l *language) amount(number, code string) string {
	a, err := currency.NewAmount(number, code)
	if err != nil {
		return number + " " + code
	}
	return l.money.Format(a)
}

const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// when is a moment, Unix milliseconds, in the shop's zone, with the exact one for programs.
func (l *language) when(ms int64) template.HTML { return l.at(ms, "2006-01-02 15:04:05") }

// clock is when without the date.
func (l *language) clock(ms int64) template.HTML { return l.at(ms, "15:04") }

func (l *language) at(ms int64, layout string) template.HTML {
	if ms <= 0 {
		return "–"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, time.UnixMilli(ms).UTC().Format(isoMillis), l.time(ms, layout))) // nothing but digits
}

func (l *language) time(ms int64, layout string) string {
	return time.UnixMilli(ms).In(l.zone).Format(layout)
}

// age says how long something is, in milliseconds, in its two largest units.
func (l *language) age(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	days, hours, minutes, seconds := int64(d/(24*time.Hour)), int64(d/time.Hour)%24, int64(d/time.Minute)%60, int64(d/time.Second)%60
	switch {
	case days > 0:
		return l.say("age.days", "Days", days, "Hours", hours)
	case hours > 0:
		return l.say("age.hours", "Hours", hours, "Minutes", minutes)
	case minutes > 0:
		return l.say("age.minutes", "Minutes", minutes, "Seconds", seconds)
	}
	return l.say("age.seconds", "Seconds", seconds)
}

// visible makes what can't be seen, or turns the reading direction, visible; the escaping is the template's.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		if r < 0x20 {
			return 0x2400 + r // its symbol
		}
		return '\uFFFD'
	}, s)
}

// pretty indents JSON without touching a number or a string of it; what is no JSON stays as it is.
func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return visible(strings.ToValidUTF8(string(body), "\uFFFD"))
	}
	return visible(b.String())
}

// idList is ids as one field of a form has them.
func idList(ids []int64) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(parts, ",")
}

// shellQuoted is a text as one word for a shell, whatever is in it: it stands in commands that are there to be pasted.
// What can't be seen in one is spelled out, so that what is read is what is run.
func shellQuoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if s != "" && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasSuffix(s, "\n") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return `"$(printf '` + spelledOut(s) + `')"`
}

// spelledOut is a text as printf(1) reads it, with the bytes of what can't be seen in octal.
func spelledOut(s string) string {
	var b strings.Builder
	for i, r := range s {
		size := max(1, utf8.RuneLen(r))
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			size = 1 // a byte of no character
		}
		if strings.ContainsRune(`-%'\`, r) || !unicode.IsPrint(r) || size == 1 && r == utf8.RuneError {
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// queryWith is a query string of pairs of name and value; an empty text and a number 0 are left out.
func queryWith(pairs ...any) template.URL {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := pairs[i+1]; value != "" && value != int64(0) {
			q.Set(fmt.Sprint(pairs[i]), fmt.Sprint(value))
		}
	}
	return template.URL(q.Encode())
}
