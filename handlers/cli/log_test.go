package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile is a text with what breaks a line, acts on a terminal, or hides and turns what stands beside it.
const hostile = "a\r\nlevel=ERROR msg=forged\x1b[2J\x1b]0;title\a\u009b31m\u007f\u0085\u2028\u2029\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\u061c\ufeff\U000e0001\U000f0000ñ日"

// betrayed are the characters of a text that should not have got through.
func betrayed(text string) (found []rune) {
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)) {
			found = append(found, r)
		}
	}
	return found
}

// What others send stays inside its line of the log and its field, and a reader of JSON gets it back as it was.
func TestLogCannotBeForged(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		LogConfig{Format: format, Level: "info"}.Logger(&out).Info("request", "order_id", hostile, "error", hostile)
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "ñ日") {
			t.Errorf("%s: not one line, or more was spelled out than need be: %q", format, &out)
		}
		if found := betrayed(out.String()); found != nil {
			t.Errorf("%s: %+q got through", format, found)
		}
		if format == "text" && strings.Count(out.String(), "level=ERROR") != strings.Count(out.String(), `\nlevel=ERROR`) {
			t.Errorf("a field was forged: %q", &out)
		}
		var line struct {
			OrderID string `json:"order_id"`
		}
		if format != "json" {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.OrderID != hostile {
			t.Errorf("%v: %q is not what was logged", err, line.OrderID)
		}
	}
}
