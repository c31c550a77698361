package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// The dials of the file are right at the first scrape after a kill, and tell of both relays; a relay that hangs is told
// by its last pass while the other goes on.
func TestMetricsAfterAKill(t *testing.T) {
	t.Parallel()
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay"))(t)
	for i := range 3 {
		body := orderBody(fmt.Sprintf("EVT-%d", i), fmt.Sprintf("ORD-%d", i), "CUS-7", "2154.00", line{"CF-ARA-500", 12})
		if a, err := p.client.order(t.Context(), s.url, body); err != nil || a.body.Status != "accepted" {
			t.Fatal(a, err)
		}
	}
	s.kill()
	if err := s.waitGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = must(p.serve("", "--no-relay"))(t)
	p.wantDials(t, s, `comanda_outbox_tickets{state="pending",target="refund"} 3`, `comanda_outbox_tickets_created_total 3`, `comanda_file_readable 1`, `comanda_relays 0`)

	quick := must(p.relay("relay 1", "", "--schedule", "@every 1s"))(t)
	hung := must(p.relay("relay 2", "", "--schedule", "@every 1s"))(t)
	p.wantDials(t, s, `comanda_outbox_tickets{state="pending",target="refund"} 0`, `comanda_outbox_tickets{state="done",target="refund"} 3`, `comanda_relays 2`)
	hung.halt()
	defer hung.resume()
	p.await(t, s, "a relay that hangs", func(text string) bool {
		return dial(text, `comanda_relay_last_pass_seconds{relay="oldest"}`) > 5 && dial(text, `comanda_relay_last_pass_seconds{relay="newest"}`) < 4
	})
	hung.resume()
	if err := p.endAll(t.Context(), quick, hung, s); err != nil {
		t.Error(err)
	}
}

// wantDials waits until a scrape has these lines.
func (p *proof) wantDials(t *testing.T, s *child, lines ...string) {
	t.Helper()
	p.await(t, s, strings.Join(lines, ", "), func(text string) bool {
		for _, l := range lines {
			if !strings.Contains(text, l+"\n") {
				return false
			}
		}
		return true
	})
}

func (p *proof) await(t *testing.T, s *child, what string, right func(text string) bool) {
	t.Helper()
	var text []byte
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		answer := must(p.client.http.Get(s.url + "/metrics"))(t)
		text = must(io.ReadAll(answer.Body))(t)
		answer.Body.Close()
		if right(string(text)) {
			return
		}
	}
	t.Fatalf("no %s in\n%s", what, text)
}

// dial is the value of a series, or -1.
func dial(text, series string) float64 {
	_, after, found := strings.Cut(text, "\n"+series+" ")
	if !found {
		return -1
	}
	var value float64
	if _, err := fmt.Sscan(after, &value); err != nil {
		return -1
	}
	return value
}
