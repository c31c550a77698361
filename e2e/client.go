package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// client is the vendor that sends webhooks, and the operator at the API.
type client struct{ http *http.Client }

func newClient() *client {
	return &client{&http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, Proxy: nil}, // the children are here, not behind a proxy
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// answer is what came back.
type answer struct {
	code int
	text string

	retryAfter string // the header
	body       struct {
		Status   string
		Decision string
		OrderID  string `json:"order_id"`
		CreditOK bool   `json:"credit_ok"`
		Tickets  []string
		Claimed  int
		Done     int
	}
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.code, strings.TrimSpace(a.text)) }

// brief is an order's answer in a few words: "200 accepted, refund, [refund:ORD-2041]".
func (a answer) brief() string {
	return fmt.Sprintf("%d %s, %s, %v", a.code, a.body.Status, a.body.Decision, a.body.Tickets)
}

func (c *client) do(ctx context.Context, method, to, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	a := answer{code: res.StatusCode, text: string(text), retryAfter: res.Header.Get("Retry-After")}
	if a.code != http.StatusOK { // a problem: its text says what
		return a, nil
	}
	if err := json.Unmarshal(text, &a.body); err != nil {
		return a, fmt.Errorf("%s %s answered %s, which is not JSON: %w", method, to, a, err)
	}
	return a, nil
}

func (c *client) order(ctx context.Context, base, body string) (answer, error) {
	return c.do(ctx, http.MethodPost, base+"/webhooks/orders", body)
}

// credit sets a customer's limit in MXN.
func (c *client) credit(ctx context.Context, base, customer, limit string) error {
	a, err := c.do(ctx, http.MethodPut, base+"/api/customers/"+url.PathEscape(customer)+"/credit", fmt.Sprintf(`{"limit":%q,"currency":"MXN"}`, limit))
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("setting a credit limit was answered with %s", a)
	}
	return err
}

// line is one line of an order.
type line struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// orderBody is a webhook as Cumbre's shop sends it.
func orderBody(event, order, customer, amount string, lines ...line) string {
	b, err := json.Marshal(struct {
		EventID    string          `json:"event_id"`
		OrderID    string          `json:"order_id"`
		CustomerID string          `json:"customer_id"`
		Amount     json.RawMessage `json:"amount"`
		Currency   string          `json:"currency"`
		LineItems  []line          `json:"line_items"`
	}{event, order, customer, json.RawMessage(amount), "MXN", lines})
	if err != nil {
		return err.Error() // only an amount that is no number; the product would say so too
	}
	return string(b)
}
