package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"comanda/store"
)

// worldEffects is what the world says that it did: effect key → how often.
func worldEffects(t *testing.T, w *child) map[string]int {
	t.Helper()
	res := must(http.Get(w.url + "/effects"))(t)
	defer res.Body.Close()
	var rows []struct {
		Key string `json:"effect_key"`
	}
	if err := json.NewDecoder(res.Body).Decode(&rows); err != nil {
		t.Fatal(err)
	}
	did := map[string]int{}
	for _, r := range rows {
		did[r.Key]++
	}
	return did
}

// toWarehouse are a relay's flags for a world that is gateway and warehouse.
func toWarehouse(p *proof, w *child) []string {
	args := p.toWorld(w, nil)
	for _, name := range []string{"inventory", "release"} {
		path := map[string]string{"inventory": "/inventory-movements", "release": "/releases"}[name]
		args = append(args, "--"+name+"-url", w.url+path, "--"+name+"-timeout", "300ms", "--"+name+"-rate", "0", "--"+name+"-concurrency", "1")
	}
	return append(args, "--on-line-failure", "compensate", "--retry-budget", "2",
		"--inventory-lookup-url", w.url+"/inventory-movements?key={key}", "--inventory-lookup-grace", "0s")
}

// A rejected line takes its order back, wherever the relay is killed on the way: what went out is released once,
// the deposit is refunded once, and nothing else happens.
func TestCompensationSurvivesKills(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay"))(t)
	if err := p.client.credit(t.Context(), s.url, "CUS-8", "50000.00"); err != nil {
		t.Fatal(err)
	}
	w := must(p.world("24h"))(t)
	kills := 0
	for _, point := range []string{"relay.claimed", "effect.before_send", "effect.after_send"} {
		for n := 1; n <= 7; n++ {
			order := fmt.Sprintf("ORD-%s-%d", strings.ReplaceAll(point, ".", "-"), n)
			body := orderBody("EVT-"+order, order, "CUS-8", "1180.50", line{"A", 1}, line{"B", 2}, line{"OUT-1", 1}, line{"C", 3})
			if a := must(p.client.order(t.Context(), s.url, body))(t); a.body.Decision != "inventory" {
				t.Fatalf("%s", a)
			}
			r := must(p.relay("relay", fmt.Sprintf("%s:%d", point, n), toWarehouse(p, w)...))(t)
			r.expectEnd()
			select {
			case <-r.gone:
				kills++
			case <-waitDrained(t, p): // it never came to its n-th
				r.kill()
				<-r.gone
			}
			r = must(p.relay("relay", "", toWarehouse(p, w)...))(t)
			if err := p.untilDrained(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.expectEnd()
			r.kill()
			<-r.gone
			did := worldEffects(t, w)
			if did["refund:"+order] != 1 || did["inventory:"+order+":OUT-1"] != 0 {
				t.Errorf("%s: %d refunds; %v", order, did["refund:"+order], did)
			}
			released := 0
			for _, sku := range []string{"A", "B", "C"} {
				line := order + ":" + sku
				released += did["release:"+line]
				if did["inventory:"+line] > 1 || did["release:"+line] != did["inventory:"+line] {
					t.Errorf("%s went out %d times and was released %d times", line, did["inventory:"+line], did["release:"+line])
				}
			}
			if r := receiptOf(t, p, order); r.Verdict.Code != "taken_back" || r.Verdict.N != released {
				t.Errorf("%d lines were released, and the receipt says\n%s", released, strings.Join(r.Lines, "\n"))
			}
		}
	}
	if kills < 15 {
		t.Errorf("only %d kills", kills)
	}
	for _, query := range store.Invariants() {
		if got := must(p.query(t.Context(), query))(t); got != noRow {
			t.Errorf("%s\n%s", query, got)
		}
	}
}

// waitDrained is closed when nothing waits any more.
func waitDrained(t *testing.T, p *proof) <-chan struct{} {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if err := p.untilDrained(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}()
	return drained
}

// What a shop has configured is never reached from the lab.
func TestLabReachesNoTarget(t *testing.T) {
	shop := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer shop.Close()
	var connections atomic.Int64
	go func() {
		for {
			c, err := shop.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = c.Close()
		}
	}()
	address := "http://" + shop.Addr().String() + "/"
	var env []string
	for _, name := range []string{"REFUND", "INVENTORY", "RELEASE", "CREDIT", "ALERT"} {
		env = append(env, "COMANDA_"+name+"_URL="+address)
	}
	if _, stderr, code := run(t, env, builtProgram(t), "prove", "A", "D"); code != 0 {
		t.Errorf("prove exits %d: %s", code, stderr)
	}
	for _, args := range [][]string{{"demo"}, {"world", "--addr", "127.0.0.1:0"}} {
		cmd := exec.CommandContext(t.Context(), builtProgram(t), args...)
		var said bytes.Buffer
		cmd.Dir, cmd.Env = t.TempDir(), append(cmd.Environ(), env...)
		pipe := cmd.StderrPipe
		if args[0] == "demo" { // it says on the other stream that its orders are in
			pipe, cmd.Stderr = cmd.StdoutPipe, &said
		}
		out := must(pipe())(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it is at work
			t.Error(err)
		}
		time.Sleep(500 * time.Millisecond) // in which a relay would send what it should not
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v ended with %v: %s", args, err, &said)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to the shop's targets", n)
	}
}

// Where effects go is a property of the file: without the address nobody starts, and who runs already claims
// nothing for the target from the moment that another process has sent for real.
func TestRealFileIsNotSimulated(t *testing.T) {
	p := onFile(t, builtProgram(t))
	lab := must(p.serve("", "--schedule", "@every 1s"))(t) // runs, without an address
	w := must(p.world("24h"))(t)
	real := must(p.relay("relay", "", p.toWorld(w, nil)...))(t)
	if err := p.endAll(t.Context(), real); err != nil {
		t.Fatal(err)
	}
	if a := must(p.client.order(t.Context(), lab.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t); a.code != 200 {
		t.Fatal(a)
	}
	for range 3 {
		a := must(p.client.do(t.Context(), http.MethodPost, lab.url+"/api/relay/run", ""))(t)
		if a.body.Claimed != 0 {
			t.Errorf("the process without the address claimed: %s", a)
		}
	}
	if got := must(p.query(t.Context(), `SELECT status || (SELECT count(*) FROM external_effects_log) FROM outbox`))(t); got != "pending0" {
		t.Errorf("%s", got)
	}
	if err := p.endAll(t.Context(), lab); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "relay"} {
		_, stderr, code := run(t, nil, builtProgram(t), command, "--db", p.file)
		if code != 2 || !strings.Contains(stderr, "--refund-url") {
			t.Errorf("%s exits %d: %s", command, code, stderr)
		}
	}
	_, stderr, code := run(t, nil, builtProgram(t), "tickets", "list", "--db", p.file) // carries nothing out and does not ask
	if code != 0 {
		t.Errorf("tickets list exits %d: %s", code, stderr)
	}
	if _, stderr, code = run(t, nil, builtProgram(t), "targets", "local", "refund", "--i-know", "--db", p.file); code != 0 {
		t.Errorf("targets local exits %d: %s", code, stderr)
	}
	must(p.serve("", "--schedule", "@every 1s"))(t)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := must(p.query(t.Context(), `SELECT status || (SELECT count(*) FROM external_effects_log) FROM outbox`))(t); got != "done1" {
		t.Errorf("%s", got)
	}
}

// Whatever is done to a ticket, what goes over the wire is the same, byte for byte.
func TestSameLetterWhateverHappens(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay"))(t)
	w := must(p.world("24h"))(t)
	order := "ORD \"1\" ñ"
	if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-1", order, "CUS-7", "2154.10", line{"A", 1})))(t); a.code != 200 {
		t.Fatal(a)
	}
	faults := func(list string) {
		t.Helper()
		if a := must(p.client.do(t.Context(), http.MethodPut, w.url+"/faults", `{"faults":[`+list+`]}`))(t); a.code != 200 {
			t.Fatal(a)
		}
	}
	relayUntil := func(state, crash string) {
		t.Helper()
		r := must(p.relay("relay", crash, p.toWorld(w, nil)...))(t)
		if crash != "" {
			if err := r.waitKilled(t.Context()); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := p.until(t.Context(), `SELECT status FROM outbox`, state); err != nil {
			t.Fatal(err)
		}
		r.expectEnd()
		r.kill()
		<-r.gone
	}
	act := func(path, body string) {
		t.Helper()
		if a := must(p.client.do(t.Context(), http.MethodPost, s.url+"/api/tickets/1/"+path, body))(t); a.code != 200 {
			t.Fatal(a)
		}
	}
	faults(`"refund:422:1"`) // rejected at first: dead, and retried by hand
	relayUntil("dead", "")
	act("retry", "")
	faults(`"refund:perform-then-hang:1","refund:422:*"`) // then it happens without an answer, and is refused from then on
	relayUntil("", "effect.after_send")
	relayUntil("review", "")
	faults(``)
	act("retry", `{"confirm":"send again"}`)
	relayUntil("done", "")
	res := must(http.Get(w.url + "/requests"))(t)
	defer res.Body.Close()
	var requests []struct {
		Method, Path, Key string
		Hash              string `json:"body_hash"`
	}
	if err := json.NewDecoder(res.Body).Decode(&requests); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range requests {
		seen[r.Key+" "+r.Hash]++
	}
	if len(seen) != 1 || len(requests) < 5 || requests[0].Key != "refund:ORD%20%221%22%20%C3%B1" {
		t.Errorf("%d requests, letters %v", len(requests), seen)
	}
	if did := worldEffects(t, w); did["refund:"+order] != 1 {
		t.Errorf("%v", did)
	}
}

// Killed again and again after the gateway's answer and before it is written down: requests repeat with the same
// key, effects do not, and the queue empties.
func TestKilledAfterEveryAnswer(t *testing.T) {
	const tickets = 40
	p := onFile(t, builtProgram(t))
	if err := p.endAll(t.Context(), must(p.serve("", "--no-relay"))(t)); err != nil {
		t.Fatal(err)
	}
	w := must(p.world("24h"))(t)
	for i := range tickets {
		if err := p.hang(t.Context(), fmt.Sprintf("refund:O-%d", i), fmt.Sprintf("O-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	kills := 0
	for i := 0; ; i++ {
		r := must(p.relay("relay", fmt.Sprintf("effect.after_send:%d", 1+i%4), append(p.toWorld(w, nil), "--refund-concurrency", "4")...))(t)
		r.expectEnd()
		select {
		case <-r.gone:
			kills++
			continue
		case <-waitDrained(t, p):
		}
		r.kill()
		<-r.gone
		break
	}
	did := worldEffects(t, w)
	for i := range tickets {
		if n := did[fmt.Sprintf("refund:O-%d", i)]; n != 1 {
			t.Errorf("refund:O-%d happened %d times", i, n)
		}
	}
	if got := must(p.query(t.Context(), `SELECT count(*) FROM outbox WHERE status = 'done'`))(t); got != fmt.Sprint(tickets) || kills < 5 {
		t.Errorf("%s done after %d kills", got, kills)
	}
}

// The program refuses what can't be safe, in one sentence that names both settings.
func TestLeaseUnderTwiceTheTimeout(t *testing.T) {
	_, stderr, code := run(t, nil, builtProgram(t), "relay", "--db", filepath.Join(t.TempDir(), "x.db"), "--lease", "20s", "--refund-url", "http://127.0.0.1:1/", "--refund-timeout", "30s")
	if code != 2 || !strings.Contains(stderr, "--lease 20s") || !strings.Contains(stderr, "--refund-timeout 30s") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Rows of the file are for a person too: the story of a refund that went out for real.
func TestStoryOfARemoteRefund(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--no-relay"))(t)
	w := must(p.world("24h"))(t)
	if a := must(p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t); a.code != 200 {
		t.Fatal(a)
	}
	if a := must(p.client.do(t.Context(), http.MethodPut, w.url+"/faults", `{"faults":["refund:perform-then-500:1"]}`))(t); a.code != 200 {
		t.Fatal(a)
	}
	must(p.relay("relay", "", p.toWorld(w, nil)...))(t)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := run(t, nil, builtProgram(t), "order", "show", "ORD-1", "--db", p.file)
	for _, want := range []string{"ticket 1: sent to " + w.url + "/refunds", "unknown: 500", "receipt refund_000001", "noted as done (remote)", "refund: 1 effect"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q does not stand in the story (exit %d, %s):\n%s", want, code, stderr, stdout)
		}
	}
}

// breaking is a gateway that honours keys and lets connections stand; the first letter of a key meets what brk makes
// of its number.
type breaking struct {
	*httptest.Server
	connections atomic.Int64
	mu          sync.Mutex
	asked       map[string]int // letters by key
	did         map[string]bool
}

func newBreaking(t *testing.T, brk func(n int, connection net.Conn, perform func())) *breaking {
	t.Helper()
	g := &breaking{asked: map[string]int{}, did: map[string]bool{}}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		key := r.Header.Get("Idempotency-Key")
		g.mu.Lock()
		g.asked[key]++
		first, n := g.asked[key] == 1, len(g.asked)
		g.mu.Unlock()
		perform := func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.did[key] = true
		}
		if first && brk != nil && n%10 == 0 {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			brk(n/10, c, perform)
			return
		}
		perform()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"rf_`+key+`"}`)
	}))
	g.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			g.connections.Add(1)
		}
	}
	g.Start()
	t.Cleanup(g.Close)
	return g
}

// refundsTo lets a relay bring n refunds to a gateway, and returns the proof whose file it was.
func refundsTo(t *testing.T, g *breaking, n int, flags ...string) *proof {
	t.Helper()
	p := onFile(t, builtProgram(t))
	if err := p.endAll(t.Context(), must(p.serve("", "--no-relay"))(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.byHand(t.Context(), manyRefunds(n), int64(n)); err != nil {
		t.Fatal(err)
	}
	r := must(p.relay("relay", "", append([]string{"--refund-url", g.URL + "/refunds", "--refund-rate", "0"}, flags...)...))(t)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.endAll(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return p
}

// manyRefunds writes the tickets of n refunds by hand.
func manyRefunds(n int) string {
	return fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key)
SELECT 'ORD-' || i, 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', 'refund:ORD-' || i FROM n;`, n)
}

// A target that honours no keys gets each letter on a connection that carried nothing before.
func TestConnectionsOfATargetWithoutKeys(t *testing.T) {
	const letters = 20
	for ttl, shared := range map[string]bool{"24h": true, "0s": false} {
		g := newBreaking(t, nil)
		refundsTo(t, g, letters, "--refund-key-ttl", ttl, "--refund-concurrency", "1")
		if n := g.connections.Load(); shared != (n < letters) || n > letters {
			t.Errorf("--refund-key-ttl %s: %d connections for %d letters", ttl, n, letters)
		}
	}
}

// A gateway whose connections break as they are used again, with and without the refund: all go out, each once, and
// nobody is asked.
func TestConnectionsThatBreak(t *testing.T) {
	const refunds = 500
	g := newBreaking(t, func(n int, c net.Conn, perform func()) {
		switch n % 5 {
		case 0: // not done, and closed
		case 1: // not done, and reset
			_ = c.(*net.TCPConn).SetLinger(0)
		case 2: // done, and closed
			perform()
		case 3: // done, and half an answer
			perform()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"id\":")
		case 4: // done and answered, and closed without a word
			perform()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"id\":1}")
		}
	})
	p := refundsTo(t, g, refunds, "--refund-concurrency", "16", "--retry-base", "10ms", "--retry-max", "50ms")
	p.ask(t.Context(), `SELECT count(*) FROM outbox WHERE status = 'done';`, fmt.Sprint(refunds))
	p.invariants(t.Context())
	if !p.ok() {
		t.Errorf("not every refund is done")
	}
	again := 0
	for key, n := range g.asked {
		if !g.did[key] || n > 2 {
			t.Errorf("%s: %d letters, done: %t", key, n, g.did[key])
		}
		again += n - 1
	}
	if want := refunds / 10 * 4 / 5; len(g.asked) != refunds || again != want {
		t.Errorf("%d refunds, %d sent again, want the %d that had no answer", len(g.asked), again, want)
	}
	if n := g.connections.Load(); n >= refunds {
		t.Errorf("%d connections: none was used again", n)
	}
}
