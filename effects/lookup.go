package effects

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"comanda/store"
)

// Lookup asks the target whether it knows a key, in its form for the wire.
func (t *Target) Lookup(ctx context.Context, key string) store.Finding {
	if t.conf.LookupURL == "" {
		return store.Finding{Knowledge: store.Unclear, Detail: "no lookup is configured"}
	}
	ctx, cancel := context.WithTimeout(ctx, t.conf.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, lookupAddress(t.conf.LookupURL, key), nil)
	if err != nil {
		return store.Finding{Knowledge: store.Unclear, Detail: "the lookup's address can't be read"}
	}
	t.header(req)
	x := t.roundTrip(ctx, t.lookups, req)
	if x.answer == nil {
		return store.Finding{Knowledge: store.CouldNotAsk, Detail: "asked " + host(t.conf.LookupURL) + ": " + plain(x.err), Unreachable: true}
	}
	return tell(x.answer)
}

// lookupAddress puts the key in, escaped for where it stands.
func lookupAddress(pattern, key string) string {
	path, query, hasQuery := strings.Cut(pattern, "?")
	path = strings.ReplaceAll(path, "{key}", url.PathEscape(key))
	if !hasQuery {
		return path
	}
	return path + "?" + strings.ReplaceAll(query, "{key}", url.QueryEscape(key))
}

// couldNotAsk are answers that are about the asking.
var couldNotAsk = map[int]bool{
	http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusRequestTimeout: true,
	http.StatusTooEarly: true, http.StatusTooManyRequests: true,
}

// tell says what an answer to a lookup means.
func tell(a *answer) store.Finding {
	f := store.Finding{Knowledge: store.Unclear, Status: a.status, Detail: "the lookup answered " + a.says(), RetryAfter: a.retryAfter}
	switch {
	case couldNotAsk[a.status]:
		f.Knowledge, f.Unreachable = store.CouldNotAsk, a.status == http.StatusRequestTimeout
	case a.status >= 500, a.status >= 300 && a.status < 400, !a.json:
		f.Knowledge, f.Unreachable = store.CouldNotAsk, true
	case a.ok() && a.receipt() != "" && a.saysOtherwise() == "":
		f.Knowledge, f.Receipt = store.Found, a.receipt()
	case a.status == http.StatusNotFound:
		f.Knowledge = store.Absent
	}
	return f
}
