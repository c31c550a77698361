package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Sample puts Cumbre's sample customers and orders into a running appliance, through its own doors.
func Sample(ctx context.Context, base string) error {
	limits := map[string]string{"CUS-7": "1000.00", "CUS-8": "50000.00", "CUS-9": "12000.00"}
	for customer, limit := range limits {
		body := fmt.Sprintf(`{"limit":%q,"currency":"MXN"}`, limit)
		if err := send(ctx, http.MethodPut, base+"/api/customers/"+url.PathEscape(customer)+"/credit", body); err != nil {
			return err
		}
	}
	orders := []string{
		`{"event_id":"EVT-3040","order_id":"ORD-3040","customer_id":"CUS-8","amount":1180.50,"currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":4},{"sku":"TE-CHM-100","quantity":10},{"sku":"CF-DEC-250","quantity":2}]}`,
		`{"event_id":"EVT-3041","order_id":"ORD-3041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":12}]}`,
		`{"event_id":"EVT-3042","order_id":"ORD-3042","customer_id":"CUS-9","amount":860.00,"currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":2},{"sku":"CF-ARA-500","quantity":1}]}`,
		`{"event_id":"EVT-3041","order_id":"ORD-3041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":12}]}`,
	}
	for _, order := range orders {
		if err := send(ctx, http.MethodPost, base+"/webhooks/orders", order); err != nil {
			return err
		}
	}
	return nil
}

func send(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("send a sample: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("send a sample: %s: %s (%v)", res.Status, answer, err)
	}
	return nil
}
