package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// What the gateway of BenchmarkRemote takes for a refund, and how many are under way at once.
const (
	gatewayTakes   = 5 * time.Millisecond
	gatewayWorkers = 64
)

func answerGateway(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(gatewayTakes)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"`+r.Header.Get("Idempotency-Key")+`"}`)
}

// Refunds a second to a gateway that takes 5 ms for each, 64 at once and no limit of rate, each with the row of its
// attempt on disk before a byte leaves. "/ceiling" is the part of what the gateway answers to a bare client with as
// many connections that sends the same and writes nothing down, in turns with the relay. What counts is from the first
// row of an attempt to the last answer that was written down; the start of the process is BenchmarkStart's.
func BenchmarkRemote(b *testing.B) {
	addr := beside(b, "gateway")
	n := 20_000
	if testing.Short() {
		n = 5_000
	}
	bare := load{addr: addr, request: refundRequest, wants: `{"id":"refund:`}
	for range b.N {
		var rates, ceilings, parts []float64
		for range min(3, rounds()) {
			rate := drainedTo(b, addr, n)
			_, took, err := bare.closed(b.Context(), gatewayWorkers, 0, n)
			if err != nil {
				b.Fatal(err)
			}
			ceiling := float64(n) / took.Seconds()
			rates, ceilings, parts = append(rates, rate), append(ceilings, ceiling), append(parts, rate/ceiling)
		}
		b.ReportMetric(median(parts), "/ceiling")
		b.ReportMetric(median(rates), "tickets/s")
		b.ReportMetric(median(ceilings), "ceiling/s")
		b.ReportMetric(0, "ns/op")
	}
}

// drainedTo is how many of n refunds a second a relay of its own, with a file of its own, brings to a gateway.
func drainedTo(b *testing.B, addr string, n int) float64 {
	b.Helper()
	p := onFile(b, builtProgram(b))
	if err := p.endAll(b.Context(), must(p.serve("", "--no-relay"))(b)); err != nil {
		b.Fatal(err)
	}
	if err := p.byHand(b.Context(), manyRefunds(n), int64(n)); err != nil {
		b.Fatal(err)
	}
	r := must(p.relay("relay", "", "--refund-url", "http://"+addr+"/refunds", "--refund-rate", "0", "--refund-concurrency", strconv.Itoa(gatewayWorkers)))(b)
	if err := p.untilDrained(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := p.endAll(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	p.ask(b.Context(), `SELECT count(*) FROM ledger WHERE how = 'remote';`, strconv.Itoa(n))
	p.invariants(b.Context())
	if !p.ok() {
		b.Fatal("not every refund went out once")
	}
	took := must(p.query(b.Context(), `SELECT max(ended_at) - min(begun_at) FROM attempts;`))(b)
	ms := must(strconv.ParseFloat(took, 64))(b)
	return float64(n) / ms * 1000
}

// refundRequest is what the relay sends for the refund of the i-th order.
func refundRequest(i int) []byte {
	key := "refund:ORD-" + strconv.Itoa(i)
	body := fmt.Sprintf(`{"order_id":"ORD-%d","effect_type":"refund","effect_key":%q,"amount":2154.00,"currency":"MXN"}`, i, key)
	return fmt.Appendf(nil, "POST /refunds HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nUser-Agent: comanda\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
}
