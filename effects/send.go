package effects

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"comanda/store"
)

// Send posts a letter once and tells what that found out.
func (t *Target) Send(ctx context.Context, l store.Letter) store.Reply {
	r := t.send(ctx, l)
	if r.Evidence != store.Happened {
		t.startAfresh()
	}
	return r
}

func (t *Target) send(ctx context.Context, l store.Letter) store.Reply {
	ctx, cancel := context.WithTimeout(ctx, t.conf.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.conf.URL, bytes.NewReader(l.Body))
	if err != nil {
		return store.Reply{Evidence: store.NotSent, Detail: "the request can't be made for " + host(t.conf.URL), Unreachable: true}
	}
	t.header(req)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", t.keyHeader(l.Key))
	x := t.roundTrip(ctx, t.letters, req)
	switch {
	case x.kept && x.answer != nil && x.answer.isToAnother(l.Key):
		return store.Reply{Evidence: store.Unknown, Status: x.answer.status, Detail: "what came back is the answer to another key", Unreachable: true}
	case x.answer != nil:
		return t.weigh(x.answer)
	case !x.sent:
		return store.Reply{Evidence: store.NotSent, Detail: "not sent to " + host(t.conf.URL) + ": " + plain(x.err), Unreachable: true}
	}
	return store.Reply{Evidence: store.Unknown, Detail: "sent to " + host(t.conf.URL) + ": " + plain(x.err), Unreachable: true}
}

func (t *Target) header(req *http.Request) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "comanda")
	if t.conf.Token != "" && sameHost(req.URL, t.conf.URL) {
		req.Header.Set("Authorization", "Bearer "+t.conf.Token)
	}
}

// sameHost reports whether u is at the host of an address, at whatever port.
func sameHost(u *url.URL, address string) bool {
	a, err := url.Parse(address)
	return err == nil && strings.EqualFold(u.Hostname(), a.Hostname())
}

// keyHeader is the key as the header's value. A wire key holds no quote and no backslash.
func (t *Target) keyHeader(key string) string {
	if t.conf.QuoteKey {
		return `"` + key + `"`
	}
	return key
}

// weigh tells what one answer is worth on its own.
func (t *Target) weigh(a *answer) store.Reply {
	r := store.Reply{Evidence: store.Unknown, Status: a.status, Detail: a.says(), RetryAfter: a.retryAfter, Unreachable: !a.isJSON()}
	switch {
	case a.ok():
		return t.weighSuccess(a, r)
	case a.status == http.StatusTooEarly, a.status == http.StatusTooManyRequests:
		r.Evidence, r.Unreachable = store.NotYet, false
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		r.Evidence, r.Unreachable = store.Denied, false
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		r.Evidence = store.NoPlace
	case a.status >= 500, a.status < 400:
		r.Unreachable = true
	case a.isJSON() && t.rejects(a):
		r.Evidence = store.Rejected
	}
	return r
}

func (t *Target) weighSuccess(a *answer, r store.Reply) store.Reply {
	against := a.saysOtherwise()
	switch {
	case a.isJSON() && against == "", t.conf.AcceptAny && against == "" && !a.ambiguous:
		r.Evidence, r.Receipt, r.Unreachable = store.Happened, a.receipt(), false
	case a.isJSON():
		r.Detail += ", but " + against
	case a.cut != nil:
		r.Detail += ", but its body did not arrive whole: " + plain(a.cut)
	}
	return r
}

// rejecting are the statuses by which a target says that it will not do this, whoever asks and when.
var rejecting = []int{http.StatusBadRequest, http.StatusPaymentRequired, http.StatusGone, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

func (t *Target) rejects(a *answer) bool {
	if a.status == http.StatusConflict {
		code := strings.TrimSpace(a.text("code"))
		return code != "" && slices.Contains(t.conf.RejectCodes, code)
	}
	return slices.Contains(rejecting, a.status)
}
