package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// SampleOrder sends one more order of Cumbre's to a running appliance, and returns its id.
func SampleOrder(ctx context.Context, base string) (orderID string, err error) {
	n := time.Now().UnixMilli()%1_000_000_000*10 + rand.Int64N(10) // not two alike, even if somebody is quick
	orderID = fmt.Sprintf("ORD-%d", n)
	customer := []string{"CUS-7", "CUS-8", "CUS-9"}[rand.IntN(3)]
	order := fmt.Sprintf(`{"event_id":"EVT-%d","order_id":%q,"customer_id":%q,"amount":"%d.00","currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":%d},{"sku":"TE-CHM-100","quantity":%d}]}`,
		n, orderID, customer, 200+rand.IntN(9000), 1+rand.IntN(12), 1+rand.IntN(20))
	return orderID, send(ctx, http.MethodPost, base+"/webhooks/orders", order)
}
