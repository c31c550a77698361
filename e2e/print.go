package e2e

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// lineWidth is how wide the output is; only SQL, which is shown as it was run, may be wider.
const lineWidth = 96

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

// print shows a step: what was asked, exactly as it was run, and what came of it.
func (s Step) print(w io.Writer, in words) {
	switch {
	case s.row:
		sign := mark(s.OK)
		if s.Want == "" {
			sign = " " // the table's head
		}
		fmt.Fprintf(w, "   %s %s  %s\n", sign, s.Text, s.Answer)
		return
	case !s.isCheck() && s.SQL == "":
		fmt.Fprintf(w, "\n   %s\n", wrap(s.Text, 3))
		return
	}
	if s.Text != "" && s.SQL != "" {
		fmt.Fprintf(w, "     %s\n", wrap(s.Text, 5))
	}
	head := s.SQL
	if head == "" {
		head = s.Text
	}
	sign := mark(s.OK)
	if !s.isCheck() {
		sign = "·"
	}
	fmt.Fprintf(w, "   %s %s\n", sign, strings.ReplaceAll(head, "\n", "\n     "))
	if s.Answer != "" {
		fmt.Fprintf(w, "       → %s\n", strings.ReplaceAll(in.answer(s.Answer), "\n", "\n         "))
	}
	if !s.OK && s.Want != "" {
		head := "       " + in.text("proof.wanted") + " "
		fmt.Fprintf(w, "%s%s\n", head, strings.ReplaceAll(in.answer(s.Want), "\n", "\n"+strings.Repeat(" ", utf8.RuneCountInString(head))))
	}
}

// answer is a query's answer as it is printed.
func (w words) answer(text string) string {
	if text == noRow {
		return w.text("proof.no-row")
	}
	return text
}

// breakJSON breaks a long line of JSON after commas. No string in it holds one.
func breakJSON(text string) string {
	var b strings.Builder
	column := 0
	for _, part := range strings.SplitAfter(text, ",") {
		if column > 0 && column+len(part) > lineWidth-6 {
			b.WriteString("\n ")
			column = 1
		}
		b.WriteString(part)
		column += len(part)
	}
	return b.String()
}

// wrap breaks text that begins in column indent, with the same indent for each further line.
func wrap(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Split(text, " ") {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// rowsChanged says how many rows a statement changed.
func (w words) rowsChanged(n int64) string { return w.count("proof.rows-changed", int(n)) }

// thousands writes 60000 as 60,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
