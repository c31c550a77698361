package effects

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"comanda/store"
)

// RetryAfter reads the header of that name in both of its forms (RFC 9110, 10.2.3): seconds, or a date. More
// than 24 h becomes 24 h; what is missing, past or can't be read is 0.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0 // more digits than fit mean nothing
		}
		return min(time.Duration(min(n, int64(store.LongestWait/time.Second)))*time.Second, store.LongestWait)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), store.LongestWait))
}
