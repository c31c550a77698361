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

// Notifier posts short texts to whoever tells a person: a Slack or n8n webhook, which take {"text":…}, or an ntfy
// topic, which takes the text itself.
type Notifier struct {
	URL   string
	Plain bool // the text itself instead of JSON
	rt    http.RoundTripper
}

// NewNotifier returns a Notifier; rt nil means NewTransport(0).
func NewNotifier(address string, plain bool, rt http.RoundTripper) *Notifier {
	if rt == nil {
		rt = NewTransport(0)
	}
	return &Notifier{URL: address, Plain: plain, rt: rt}
}

// Notify posts one text. Anything but a 2xx is an error, which does not name the address: it may hold a secret.
func (n *Notifier) Notify(ctx context.Context, cause, state, text string, since time.Time) error {
	body, kind := []byte(text), "text/plain; charset=utf-8"
	if !n.Plain {
		kind = "application/json"
		var err error
		if body, err = json.Marshal(map[string]string{
			"text": text, "cause": cause, "state": state, "since": since.UTC().Format(time.RFC3339),
		}); err != nil {
			return fmt.Errorf("make the alert: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the alert address can't be used")
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "comanda")
	res, err := n.rt.RoundTrip(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("post the alert: %s", strings.ReplaceAll(err.Error(), n.URL, "the address"))
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("the alert address answered %d", res.StatusCode)
	}
	return nil
}
