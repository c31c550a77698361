package handlers

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"regexp"

	"github.com/labstack/echo/v4"
)

// front is the page at /, until the console takes its place.
var front = template.Must(template.New("front").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>comanda</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}pre{overflow:auto;background:#f4f4f4;padding:1rem}</style>
</head><body><h1>comanda</h1>
<p>An order comes in by webhook, is decided once and becomes tickets on a rail; the relay carries each ticket out once.</p>
<pre>curl -sS http://{{.}}/webhooks/orders -H 'Content-Type: application/json' -d '{
  "event_id":"EVT-1","order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN",
  "line_items":[{"sku":"CF-ARA-500","quantity":12}]}'
curl -sS http://{{.}}/api/orders/ORD-2041</pre>
<ul>
<li><a href="/api/orders">/api/orders</a>: decisions, newest first; <code>?q=</code> finds by the beginning of an id</li>
<li><a href="/api/tickets">/api/tickets</a>: the rail; <code>?status=&amp;effect_type=&amp;order_id=</code></li>
<li><a href="/api/ledger">/api/ledger</a>: what has been done</li>
<li><a href="/api/effects">/api/effects</a>: what went out into the lab's world</li>
<li><a href="/api/stats">/api/stats</a>, <a href="/api/graph">/api/graph</a>, <a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a></li>
</ul></body></html>
`))

var plainHost = regexp.MustCompile(`^[A-Za-z0-9.\-\[\]:]+$`)

// getFront is GET /: what this is and how to send an order. It loads nothing from anywhere.
func (s *Server) getFront(c echo.Context) error {
	host := c.Request().Host
	if !plainHost.MatchString(host) { // it goes into a command that people paste
		host = "127.0.0.1:8080"
	}
	var b bytes.Buffer
	if err := front.Execute(&b, host); err != nil {
		return fmt.Errorf("write the front page: %w", err)
	}
	c.Response().Header().Set(echo.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'")
	return c.HTMLBlob(http.StatusOK, b.Bytes())
}
