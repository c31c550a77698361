package handlers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// RemoteCreditConfig is a credit source outside.
type RemoteCreditConfig struct {
	URL            string        // POSTed to: {"order_id","customer_id","amount","currency"}; answers {"credit_ok":true}
	Timeout        time.Duration // of one question; 0 means 2 s
	Token          string        // sent as a bearer token; "" sends none
	FallbackToBook bool          // ask the local book when there is no answer
	AtOnce         int           // questions at once, beyond which the answer is "not now" at once; 0 means DefaultCreditAtOnce
}

// DefaultCreditAtOnce is RemoteCreditConfig.AtOnce unless it is given.
const DefaultCreditAtOnce = 64

// remoteCredit asks over HTTP. Copies of one event that come at once share a question.
type remoteCredit struct {
	conf   RemoteCreditConfig
	client *http.Client
	places chan struct{} // one in it for each question that may be asked now

	mu    sync.Mutex
	asked map[CreditQuestion]*sharedAnswer
}

// sharedAnswer is what those wait for who ask the same.
type sharedAnswer struct {
	done chan struct{}
	ok   bool
	err  error
}

// NewRemoteCredit returns a source that asks over HTTP, by rt.
func NewRemoteCredit(c RemoteCreditConfig, rt http.RoundTripper) CreditSource {
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.AtOnce == 0 {
		c.AtOnce = DefaultCreditAtOnce
	}
	r := &remoteCredit{conf: c, places: make(chan struct{}, c.AtOnce), asked: map[CreditQuestion]*sharedAnswer{}}
	r.client = &http.Client{Transport: rt, Timeout: c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for range c.AtOnce {
		r.places <- struct{}{}
	}
	return r
}

// errTooMany: as many questions are under way as may be.
var errTooMany = errors.New("too many credit questions at once")

// Check implements CreditSource. Without a clear answer nobody knows; never is one made up.
func (r *remoteCredit) Check(ctx context.Context, q CreditQuestion) (Verdict, error) {
	ok, err := r.shared(ctx, q)
	switch {
	case err == nil:
		return Known(Credit{OK: ok, Source: SourceRemote}), nil
	case r.conf.FallbackToBook && !errors.Is(err, errTooMany):
		return localBook{SourceSilent}.Check(ctx, q)
	}
	return nil, err
}

// shared asks, or waits for the answer to the same question.
func (r *remoteCredit) shared(ctx context.Context, q CreditQuestion) (bool, error) {
	r.mu.Lock()
	a, under := r.asked[q]
	if !under {
		select {
		case <-r.places:
		default:
			r.mu.Unlock()
			return false, errTooMany
		}
		a = &sharedAnswer{done: make(chan struct{})}
		r.asked[q] = a
		go r.answer(context.WithoutCancel(ctx), q, a) // whoever asked first may go away; the others still wait
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.ok, a.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (r *remoteCredit) answer(ctx context.Context, q CreditQuestion, a *sharedAnswer) {
	a.ok, a.err = r.ask(ctx, q)
	r.mu.Lock()
	delete(r.asked, q)
	r.mu.Unlock()
	r.places <- struct{}{}
	close(a.done)
}

const maxCreditAnswer = 64 << 10

// ask sends one question, once, and reads its answer. Its errors hold nothing that came back: that may repeat
// our address or our token.
func (r *remoteCredit) ask(ctx context.Context, q CreditQuestion) (bool, error) {
	req, err := r.request(ctx, q)
	if err != nil {
		return false, errors.New("the address of the credit source can't be used")
	}
	res, err := r.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask for credit: %w", plain(err))
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 { // its body is not read: that of a 101 ends at no time-out
		return false, fmt.Errorf("the credit source answered %d", res.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxCreditAnswer+1))
	switch {
	case err != nil:
		return false, fmt.Errorf("read the credit answer: %w", plain(err))
	case len(answer) > maxCreditAnswer:
		return false, errors.New("the credit answer is too long")
	}
	return readCredit(answer)
}

func (r *remoteCredit) request(ctx context.Context, q CreditQuestion) (*http.Request, error) {
	body := `{"order_id":` + text(q.OrderID) + `,"customer_id":` + text(q.CustomerID) +
		`,"amount":` + q.Amount.String() + `,"currency":` + text(q.Currency) + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.conf.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // with it net/http may send again by itself
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "comanda")
	if r.conf.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.conf.Token)
	}
	return req, nil
}

// readCredit wants one JSON object in which credit_ok stands once and is true or false.
func readCredit(answer []byte) (bool, error) {
	fields, err := readObject(answer, "credit_ok")
	if err != nil {
		return false, errors.New("the credit answer is not one clear JSON object")
	}
	ok, isBool := fields["credit_ok"].(bool)
	if !isBool {
		return false, errors.New("the credit answer does not say whether there is credit")
	}
	return ok, nil
}

// plain is why there is no answer, as far as the log may know: without the address, which url.Error names, and
// without what came back, which net/http quotes when it is not HTTP.
func plain(err error) error {
	var timed interface{ Timeout() bool }
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &timed) && timed.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &op):
		return op
	case errors.As(err, &cert):
		return cert
	}
	return errors.New("the connection broke, or what came back is not HTTP")
}
