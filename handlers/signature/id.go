package signature

import (
	"fmt"
	"net/http"
	"strings"
)

// longestID is how much of a sender's id is kept, in bytes.
const longestID = 100

// ID is the webhook-id of a request as it may be kept and logged: visible ASCII alone, everything else and % as %XX,
// at most 100 bytes. It is "" when there is none, or more than one.
func ID(h http.Header) string {
	id, ok := single(h, HeaderID)
	if !ok {
		return ""
	}
	var b strings.Builder
	for _, c := range []byte(id) {
		piece := string(c)
		if c <= ' ' || c >= 0x7F || c == '%' {
			piece = fmt.Sprintf("%%%02X", c)
		}
		if b.Len()+len(piece) > longestID {
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}
