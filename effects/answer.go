package effects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64 << 10

// answer is what a target said.
type answer struct {
	status     int
	object     map[string]json.RawMessage // nil when the body is not one JSON object
	json       bool                       // it is JSON of some kind
	ambiguous  bool                       // it is an object that names a member twice, and may say anything
	retryAfter time.Duration
	location   string   // of a redirect, without its query
	key        string   // the idempotency key that it says it belongs to; "" when it names none
	cut        error    // the body did not arrive whole, or is too long
	secrets    []string // of ours, which are not repeated if the target does
}

func (t *Target) read(ctx context.Context, res *http.Response) *answer {
	a := &answer{status: res.StatusCode, retryAfter: RetryAfter(res.Header, t.now()), secrets: t.conf.secrets(),
		key: strings.Trim(res.Header.Get("Idempotency-Key"), `"`)}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		a.location = a.hide(whereTo(res))
	}
	if res.StatusCode < 200 { // a switch of protocols: the body is the bare connection, which knows no deadline
		a.cut = errors.New("it speaks another protocol")
		return a
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		a.cut = ctx.Err()
	case err != nil:
		a.cut = err
	case len(body) > maxAnswer:
		a.cut = fmt.Errorf("its answer is longer than %d KiB", maxAnswer>>10)
	default:
		a.object, a.json = object(body), json.Valid(body)
		a.ambiguous = a.json && a.object == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{"))
	}
	return a
}

// whereTo is where a redirect points, without a query.
func whereTo(res *http.Response) string {
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil || u.String() == "" {
		return "an address that can't be read"
	}
	if res.Request != nil && res.Request.URL != nil {
		u = res.Request.URL.ResolveReference(u)
	}
	return clean(u.Scheme+"://"+u.Host+u.EscapedPath(), 200)
}

// object reads one JSON object with nothing after it and no name twice; anything else is nil.
func object(body []byte) map[string]json.RawMessage {
	members, err := objectMembers(string(body))
	if err != nil {
		return nil
	}
	o := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		o[m.name] = m.value
	}
	return o
}

// member is a member as it stands, whatever the case of its name; "" when there is none.
func (a *answer) member(name string) string {
	for n, raw := range a.object {
		if strings.EqualFold(n, name) {
			return string(raw)
		}
	}
	return ""
}

// isToAnother reports whether the answer says that it belongs to another key. On a connection that is used again a
// target, or a proxy before it, that answers one request twice would otherwise answer the letter after it too.
func (a *answer) isToAnother(key string) bool { return a.key != "" && a.key != key }

func (a *answer) isJSON() bool { return a.object != nil }

func (a *answer) ok() bool { return a.status >= 200 && a.status < 300 }

// text is a member as text: a string, or a number as it stands; "" for anything else.
func (a *answer) text(name string) string {
	raw := a.object[name]
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return a.hide(s)
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// hide leaves out of what a target says what it has of our secrets.
func (a *answer) hide(s string) string {
	for _, secret := range a.secrets {
		s = strings.ReplaceAll(s, secret, "[token]")
	}
	return s
}

// shortestKey is how long a value in the query of an address must be to count as a secret, in bytes: shorter ones
// would blank out common words.
const shortestKey = 8

// secrets are the token, and what may be one in the queries of the addresses, as it stands there and decoded.
func (c TargetConfig) secrets() (all []string) {
	if c.Token != "" {
		all = append(all, c.Token)
	}
	for _, address := range []string{c.URL, c.LookupURL} {
		u, err := url.Parse(address)
		if err != nil {
			continue
		}
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, value, _ := strings.Cut(pair, "=")
			decoded, _ := url.QueryUnescape(value)
			for _, v := range []string{value, decoded} {
				if len(v) >= shortestKey && !strings.Contains(v, "{key}") {
					all = append(all, v)
				}
			}
		}
	}
	return all
}

// empty are the ways to say that there is none.
var empty = map[string]bool{"null": true, "[]": true, "{}": true, "0": true, `""`: true, "false": true}

// failedStatus are the words by which an answer in the 2xx range says that it did not happen.
var failedStatus = map[string]bool{"failed": true, "declined": true, "rejected": true, "canceled": true, "cancelled": true, "error": true, "failure": true, "voided": true}

// saysOtherwise tells what in a 2xx speaks against its status; "" when nothing does.
func (a *answer) saysOtherwise() string {
	if e := a.member("error"); e != "" && e != "null" {
		return "it names an error"
	}
	if e := a.member("errors"); e != "" && !empty[e] {
		return "it names errors"
	}
	for _, name := range []string{"ok", "success"} {
		if no := strings.ToLower(a.member(name)); no == "false" || no == `"false"` || no == "0" {
			return name + " is false"
		}
	}
	var s string
	if _ = json.Unmarshal([]byte(a.member("status")), &s); failedStatus[strings.ToLower(strings.TrimSpace(s))] {
		return "its status is " + clean(s, 20)
	}
	return ""
}

// receipt is the target's own id of what it did.
func (a *answer) receipt() string {
	for _, name := range []string{"id", "reference"} {
		if s := clean(a.text(name), 200); s != "" {
			return s
		}
	}
	return ""
}

// says is the status and what the target said about it.
func (a *answer) says() string {
	s := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	if a.location != "" {
		return fmt.Sprintf("the target moved to %s (%s)", a.location, strings.TrimSpace(s))
	}
	for _, name := range []string{"message", "error", "detail", "title", "code"} {
		if m := clean(a.text(name), 200); m != "" {
			return strings.TrimSpace(s) + ": " + m
		}
	}
	var inner struct{ Message string }
	if json.Unmarshal(a.object["error"], &inner) == nil && inner.Message != "" {
		return strings.TrimSpace(s) + ": " + clean(a.hide(inner.Message), 200)
	}
	if a.cut == nil && !a.isJSON() && a.status != http.StatusNoContent {
		s += ", and not a JSON object"
	}
	return strings.TrimSpace(s)
}
