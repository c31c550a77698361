package handlers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"comanda/handlers/door"
	"comanda/handlers/signature"
	"comanda/store"
)

var (
	shopSecret  = secretOf(1)
	otherSecret = secretOf(2)
)

func secretOf(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

// senderWith is a sender whose secrets stand in a real file.
func senderWith(t testing.TB, name string, secrets ...string) Sender {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := signature.Open("--webhook-secret-file", path)
	if err != nil {
		t.Fatal(err)
	}
	return Sender{Name: name, Secrets: ring}
}

// asks is a server that wants signatures.
func asks(senders ...Sender) func(*Options) {
	return func(o *Options) { o.Senders, o.SignatureWindow = senders, 5*time.Minute }
}

// headersOf are what the project's own library sends along with a body: name, value, name, value.
func headersOf(t testing.TB, secret, id string, at time.Time, body string) []string {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	s, err := wh.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Content-Type", "application/json", signature.HeaderID, id, signature.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10), signature.HeaderSignature, s}
}

// send signs a body as a sender does and posts it.
func (r *rig) send(path, secret, id string, at time.Time, body string) reply {
	r.t.Helper()
	return r.do("POST", path, body, headersOf(r.t, secret, id, at, body)...)
}

// Whatever is wrong with a signature, the answer is one and the same, nothing is kept, and no secret is told.
func TestUnsigned(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", shopSecret), senderWith(t, "shop2", otherSecret)))
	now := time.Now()
	good := func() map[string]string {
		h := map[string]string{}
		pairs := headersOf(t, shopSecret, "msg_1", now, contractBody)
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = pairs[i+1]
		}
		return h
	}
	at := func(when time.Time) func(map[string]string) {
		return func(h map[string]string) {
			pairs := headersOf(t, shopSecret, "msg_1", when, contractBody)
			for i := 0; i < len(pairs); i += 2 {
				h[pairs[i]] = pairs[i+1]
			}
		}
	}
	answers := map[string]string{}
	id := regexp.MustCompile(`"request_id":"[^"]+"`)
	for name, a := range map[string]struct {
		change func(map[string]string)
		body   string
	}{
		"no signature":             {func(h map[string]string) { delete(h, signature.HeaderSignature) }, contractBody},
		"no headers at all":        {func(h map[string]string) { clear(h); h["Content-Type"] = "application/json" }, contractBody},
		"an altered body":          {func(map[string]string) {}, strings.Replace(contractBody, "2154.00", "9154.00", 1)},
		"a body decoded and again": {func(map[string]string) {}, strings.Replace(contractBody, "2154.00", "2154", 1)},
		"not even JSON":            {func(map[string]string) {}, "{"},
		"an altered id":            {func(h map[string]string) { h[signature.HeaderID] = "msg_2" }, contractBody},
		"an altered time":          {func(h map[string]string) { h[signature.HeaderTimestamp] = strconv.FormatInt(now.Unix()-1, 10) }, contractBody},
		"a signature cut short":    {func(h map[string]string) { h[signature.HeaderSignature] = h[signature.HeaderSignature][:30] }, contractBody},
		"garbage":                  {func(h map[string]string) { h[signature.HeaderSignature] = strings.Repeat("v1,AAAA ", 7000) }, contractBody},
		"stale":                    {at(now.Add(-6 * time.Minute)), contractBody},
		"from the future":          {at(now.Add(6 * time.Minute)), contractBody},
		"not JSON by its type":     {func(h map[string]string) { h["Content-Type"] = "text/plain"; h[signature.HeaderID] = "x" }, contractBody},
		"another sender's secret": {func(h map[string]string) {
			h[signature.HeaderSignature] = headersOf(t, otherSecret, "msg_1", now, contractBody)[7]
		}, contractBody},
	} {
		h := good()
		a.change(h)
		var pairs []string
		for k, v := range h {
			pairs = append(pairs, k, v)
		}
		got := r.do("POST", "/webhooks/orders", a.body, pairs...)
		got.problem(401, "unsigned")
		got.header.Del("X-Request-Id")
		got.header.Del("Date")
		answers[id.ReplaceAllString(got.body, "")+fmt.Sprint(got.header)] = name
	}
	if len(answers) != 1 {
		t.Errorf("there are %d different answers: %v", len(answers), answers)
	}
	r.holds(0, 0, 0)
	r.send("/webhooks/orders", shopSecret, "msg_1", now, contractBody).wants(200, `"accepted"`) // nothing was reserved
	if log := r.log.String(); strings.Contains(log, shopSecret[6:]) || !strings.Contains(log, "it was signed 6m") || !strings.Contains(log, `"problem":"unsigned"`) {
		t.Errorf("the log must say what was wrong, and no secret: %s", log)
	}
}

// A message that is sent again as it was, or signed anew as a sender's retries are, changes nothing.
func TestReplayedSignature(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", shopSecret)))
	now := time.Now()
	r.send("/webhooks/orders", shopSecret, "msg_1", now.Add(-4*time.Minute), contractBody).wants(200, `"accepted"`)
	for try := range 7 { // the same id, a fresh time
		r.send("/webhooks/orders", shopSecret, "msg_1", now.Add(time.Duration(try)*time.Second), contractBody).wants(200, `"duplicate"`)
	}
	r.send("/webhooks/orders", shopSecret, "msg_1", now.Add(-4*time.Minute), contractBody).wants(200, `"duplicate"`)
	r.send("/webhooks/orders", shopSecret, "msg_2", now, contractBody).wants(200, `"duplicate"`) // the event's id decides
	r.send("/webhooks/orders", shopSecret, "msg_1", now, body("EVT-2", "ORD-2", "1", oneLine)).wants(200, `"accepted"`)
	r.holds(2, 2, 2)
	if r.count(`SELECT count(*) FROM events WHERE event_id = 'EVT-1' AND webhook_id = 'msg_1' AND source = '' AND clock_untrusted = ''`) != 1 {
		t.Error("the event does not keep its sender's id")
	}
}

// Two hundred signed copies at once are one decision.
func TestParallelSignedCopies(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", otherSecret, shopSecret)))
	var all sync.WaitGroup
	replies := make([]reply, 200)
	for i := range replies {
		headers := headersOf(t, shopSecret, fmt.Sprintf("msg_%d", i), time.Now(), contractBody)
		all.Go(func() { replies[i] = r.do("POST", "/webhooks/orders", contractBody, headers...) })
	}
	all.Wait()
	accepted := 0
	for _, a := range replies {
		if a.wants(200); strings.Contains(a.body, `"accepted"`) {
			accepted++
		}
	}
	if accepted != 1 {
		t.Errorf("%d of 200 were accepted", accepted)
	}
	r.holds(1, 1, 1)
}

// What was signed are the bytes; what they say is looked at afterwards, and decided there.
func TestSignedAsItIsWritten(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", shopSecret)))
	const rest = `,"customer_id":"C","currency":"MXN","line_items":[{"sku":"A","quantity":1}]}`
	for i, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"event_id":"é","order_id":"1","amount":1.0` + rest, 200, `"accepted"`},
		{`{"event_id":"\u00e9","order_id":"1","amount":1` + rest, 200, `"duplicate"`},
		{`{"amount":1e0,"order_id":"1","event_id":"\u00E9"` + rest, 200, `"duplicate"`},
		{`{"event_id":"é","order_id":"1","amount":"1.00"` + rest + "\n\r\n", 200, `"duplicate"`},
		{"{\"event_id\":\"e\u0301\",\"order_id\":\"2\",\"amount\":1" + rest, 200, `"accepted"`},
		{"\ufeff" + `{"event_id":"b","order_id":"3","amount":1` + rest, 400, "bad-json"},
		{`{"event_id":"b","order_id":"3","amount":1` + rest + "{}", 400, "bad-json"},
		{"\xff", 400, "bad-json"}, {"", 400, "bad-json"},
		{`{"event_id":"b","event_id":"b","order_id":"3","amount":1` + rest, 400, "duplicate-key"},
		{`{}`, 422, "invalid-order"},
	} {
		r.send("/webhooks/orders", shopSecret, fmt.Sprint("msg_", i), time.Now(), c.body).wants(c.status, c.says)
	}
	r.do("POST", "/webhooks/orders", contractBody, append(headersOf(t, shopSecret, "m", time.Now(), contractBody), "Content-Type", "text/plain")...).problem(415, "not-json")
	r.holds(2, 2, 2)
}

// By a clock that is not to be trusted nothing is too old, what is known stays known, and the event says so.
func TestClockInDoubt(t *testing.T) {
	doubt := store.ClockUnsynchronised
	r := newRig(t, asks(senderWith(t, "", shopSecret), senderWith(t, "shop2", otherSecret)), func(o *Options) {
		o.ClockDoubt = func(context.Context) string { return doubt }
	})
	old := time.Now().AddDate(-1, 0, 0)
	r.send("/webhooks/orders", shopSecret, "msg_1", old, contractBody).wants(200, `"accepted"`)
	r.send("/webhooks/orders", shopSecret, "msg_1", old, contractBody).wants(200, `"duplicate"`)
	r.send("/webhooks/orders", otherSecret, "msg_1", old, contractBody).problem(401, "unsigned") // a signature all the same
	doubt = store.ClockBehindFile
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", time.Unix(1, 0), contractBody).wants(200, `"accepted"`)
	doubt = ""
	r.send("/webhooks/orders", shopSecret, "msg_2", old, body("E", "O", "1", oneLine)).problem(401, "unsigned")
	r.holds(2, 2, 2)
	r.get("/api/orders/ORD-2041").wants(200, `"clock_untrusted":"not synchronised"`, `"kind":"clock"`, "the clock was not to be trusted when event EVT-1 came: not synchronised")
	r.get("/api/orders/shop2%2FORD-2041").wants(200, `"clock_untrusted":"before the newest row"`, `"source":"shop2"`, `"webhook_id":"msg_1"`)
}

// Where nothing is signed no age is told by the clock: it is doubted only when its times are surely wrong.
func TestClockInDoubtUnsigned(t *testing.T) {
	doubt := store.ClockUnsynchronised
	r := newRig(t, func(o *Options) { o.ClockDoubt = func(context.Context) string { return doubt } })
	r.post(body("E1", "O1", "1", oneLine)).wants(200)
	doubt = store.ClockBeforeBuild
	r.post(body("E2", "O2", "1", oneLine)).wants(200)
	if r.count(`SELECT count(*) FROM events WHERE event_id = 'E1' AND clock_untrusted = '' OR event_id = 'E2' AND clock_untrusted = 'before the build'`) != 2 {
		t.Error("the events say otherwise of the clock")
	}
}

// Two senders may share every number: what is kept, answered and sent out carries the sender's name. Neither gets at
// what is the other's.
func TestTwoSenders(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", shopSecret), senderWith(t, "shop2", otherSecret)))
	now := time.Now()
	r.send("/webhooks/orders", shopSecret, "msg_1", now, contractBody).is(200,
		`{"status":"accepted","event_id":"EVT-1","order_id":"ORD-2041","credit_ok":false,"decision":"refund","tickets":["refund:ORD-2041"]}`)
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, contractBody).is(200,
		`{"status":"accepted","event_id":"shop2/EVT-1","order_id":"shop2/ORD-2041","credit_ok":false,"decision":"refund","tickets":["refund:shop2/ORD-2041"]}`)
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, contractBody).wants(200, `"duplicate"`)
	r.holds(2, 2, 2)

	r.send("/webhooks/shop2/orders", shopSecret, "msg_1", now, contractBody).problem(401, "unsigned")
	r.send("/webhooks/orders", otherSecret, "msg_1", now, contractBody).problem(401, "unsigned")
	for _, path := range []string{"/webhooks/shop3/orders", "/webhooks/SHOP2/orders", "/webhooks//orders", "/webhooks/orders/orders", "/webhooks/shop2%2Forders", "/webhooks/shop2"} {
		r.send(path, otherSecret, "msg_1", now, contractBody).problem(404, "not-found")
	}
	r.get("/webhooks/shop2/orders").problem(405, "method-not-allowed")

	theirs := body("shop2/EVT-9", "shop2/ORD-9", "1", oneLine)
	m := r.send("/webhooks/orders", shopSecret, "msg_1", now, theirs).problem(422, "invalid-order")
	if fmt.Sprint(m["errors"]) != "[map[detail:must not begin with shop2/, as the ids of another sender do pointer:/event_id] map[detail:must not begin with shop2/, as the ids of another sender do pointer:/order_id]]" {
		t.Errorf("errors %v", m["errors"])
	}
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, theirs).wants(200, `"order_id":"shop2/shop2/ORD-9"`)

	long := strings.Repeat("é", 94)
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, body(long, long, "1", oneLine)).wants(200, `"accepted"`)
	m = r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, body("E", long+"x", `"x"`, oneLine)).problem(422, "invalid-order")
	if errors := fmt.Sprint(m["errors"]); !strings.Contains(errors, "must have at most 94 characters from this sender, before which shop2/ stands pointer:/order_id") || !strings.Contains(errors, "/amount") {
		t.Errorf("errors %v, want all at once", errors)
	}
	r.send("/webhooks/orders", shopSecret, "msg_1", now, body("E", long+"x", "1", oneLine)).wants(200, `"accepted"`)
	r.send("/webhooks/orders", shopSecret, "msg_1", now, strings.Replace(contractBody, `"CUS-7"`, `"shop2/CUS-7"`, 1)).problem(422, "event-id-reused") // a customer is no sender's own
}

// What another client put in of a sender is compared by its body, under the sender's name.
func TestSendersEventWithoutDigest(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "shop2", otherSecret)))
	now := time.Now()
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, contractBody).wants(200, `"accepted"`)
	r.outside(`UPDATE events SET digest = X''`)
	r.send("/webhooks/shop2/orders", otherSecret, "msg_1", now, contractBody).wants(200, `"duplicate"`)
	r.post(body("E", "O", "1", oneLine)).wants(200) // no secret for this one: it asks for none
}

// The address for webhooks has the senders' paths and nothing else of all that there is.
func TestWebhookServerServesWebhooksAlone(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "shop2", otherSecret)), func(o *Options) { o.Console = pagesAt("/", "/orders/:id") })
	alone := httptest.NewServer(r.srv.WebhookServer().Handler)
	defer alone.Close()
	tried := 0
	for _, route := range r.srv.echo.Routes() {
		path := strings.NewReplacer(":id", "1", ":name", "1", "*", "x").Replace(route.Path)
		req, err := http.NewRequestWithContext(t.Context(), route.Method, alone.URL+path, strings.NewReader("{}"))
		if err != nil {
			continue // no method of HTTP: echo's own mark of a route that is none
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		tried++
		want := 404
		if strings.HasPrefix(path, "/webhooks/") {
			want = map[bool]int{true: 401, false: 415}[path == "/webhooks/shop2/orders"]
		}
		if res.StatusCode != want {
			t.Errorf("%s %s: %d, want %d", route.Method, path, res.StatusCode, want)
		}
	}
	if tried < 20 {
		t.Errorf("only %d routes were tried", tried)
	}
	for _, path := range []string{"/", "/webhooks/../api/stats", "/webhooks/%2e%2e/api/stats", "//api/stats", "/webhooks/orders/../../healthz", "/WEBHOOKS/orders"} {
		res, err := http.Get(alone.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 404 {
			t.Errorf("GET %s: %d", path, res.StatusCode)
		}
	}
}

// A sender that asks for more than it may is told so before anything of its body is read, another one is not.
func TestSenderRate(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	r := newRig(t, asks(senderWith(t, "shop2", otherSecret)), func(o *Options) { o.SenderRate, o.Now = 2, c.now })
	r.post(body("E1", "O1", "1", oneLine)).wants(200)
	r.post(body("E2", "O2", "1", oneLine)).wants(200)
	if m := r.post(body("E3", "O3", "1", oneLine)).problem(503, "not-now"); m["reason"] != "busy" {
		t.Errorf("reason %v", m["reason"])
	}
	unread(t, r, "HTTP/1.1 503")
	r.send("/webhooks/shop2/orders", otherSecret, "m", c.at, contractBody).wants(200)
	c.at = c.at.Add(time.Second)
	r.post(body("E3", "O3", "1", oneLine)).wants(200)
}

// unread announces a body that never comes: who is answered all the same was refused before it was read.
func unread(t *testing.T, r *rig, want string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 300000\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		t.Errorf("the answer to a body that does not come is %q, %v", line, err)
	}
}

// As many as may be under way of one sender are; the next one is told to come again, and another sender is served.
func TestSenderConcurrency(t *testing.T) {
	g := newGate()
	r := newRig(t, asks(senderWith(t, "shop2", otherSecret)), func(o *Options) { o.Credit, o.SenderConcurrency = g, 2 })
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { r.post(body(fmt.Sprint("E", i), fmt.Sprint("O", i), "1", oneLine)).wants(200) })
	}
	for range 2 {
		<-g.asked
	}
	if m := r.post(contractBody).problem(503, "not-now"); m["reason"] != "busy" {
		t.Errorf("reason %v", m["reason"])
	}
	unread(t, r, "HTTP/1.1 503")
	r.send("/webhooks/shop2/orders", otherSecret, "m", time.Now(), "{}").problem(422, "invalid-order")
	close(g.open)
	all.Wait()
	r.post(contractBody).wants(200)
}

// Without a setting nobody is refused as busy while 512 requests are under way.
func TestFiveHundredAndTwelveAtOnce(t *testing.T) {
	const n = 512
	r := newRig(t, asks(senderWith(t, "", shopSecret)))
	r.http.Client().Transport.(*http.Transport).MaxConnsPerHost = 0
	var headers, sent, all sync.WaitGroup
	codes := make([]int, n)
	headers.Add(1)
	for i := range n {
		text := body(fmt.Sprint("E", i), fmt.Sprint("O", i), "1", oneLine)
		pairs := headersOf(t, shopSecret, fmt.Sprint("m", i), time.Now(), text)
		sent.Add(1)
		all.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
			if err != nil {
				t.Error(err)
				sent.Done()
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "POST /webhooks/orders HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", len(text))
			for j := 0; j < len(pairs); j += 2 {
				fmt.Fprintf(c, "%s: %s\r\n", pairs[j], pairs[j+1])
			}
			_, _ = io.WriteString(c, "\r\n"+text[:10])
			sent.Done()
			headers.Wait() // until all of them are under way
			_, _ = io.WriteString(c, text[10:])
			if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				codes[i] = res.StatusCode
				res.Body.Close()
			}
		})
	}
	sent.Wait()
	await(t, "all to be under way", func() bool { return r.srv.inFlight.Load() == n })
	headers.Done()
	all.Wait()
	for i, code := range codes {
		if code != 200 {
			t.Fatalf("request %d of %d at once was answered %d", i, n, code)
		}
	}
	r.holds(n, n, n)
}

// What nobody has signed is kept now and then for a person to look at, and takes no place from the rest.
func TestUnsignedBodiesAreKeptSeldom(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	r := newRig(t, asks(senderWith(t, "", shopSecret)), func(o *Options) { o.Now = c.now })
	for range 30 {
		r.post(contractBody).problem(401, "unsigned")
		c.at = c.at.Add(10 * time.Second)
	}
	r.send("/webhooks/orders", shopSecret, "m", c.at, "{").problem(400, "bad-json")
	_ = r.srv.Close()
	if unsigned, all := r.count(`SELECT count(*) FROM refused_bodies WHERE problem = 'unsigned'`), r.count(`SELECT count(*) FROM refused_bodies`); unsigned != 1 || all != 2 {
		t.Errorf("in five minutes %d unsigned bodies were kept, and %d others", unsigned, all-unsigned)
	}
}

// Headers that are too large or too many end before anything is hashed; a body that is too large is 413 as ever.
func TestOversizedRequests(t *testing.T) {
	r := newRig(t, asks(senderWith(t, "", shopSecret)))
	huge := strings.Repeat("a", 80<<10)
	if got := r.do("POST", "/webhooks/orders", contractBody, "Content-Type", "application/json", signature.HeaderSignature, huge); got.status != 431 {
		t.Errorf("80 KiB of signatures: %d", got.status)
	}
	headers := []string{"Content-Type", "application/json"}
	for i := range 5000 {
		headers = append(headers, fmt.Sprint("X-H-", i), "0123456789")
	}
	if got := r.do("POST", "/webhooks/orders", contractBody, headers...); got.status != 431 {
		t.Errorf("5,000 headers: %d", got.status)
	}
	large := strings.Repeat(" ", maxBody+1)
	r.do("POST", "/webhooks/orders", large, "Content-Type", "application/json").problem(413, "too-large")
	r.send("/webhooks/orders", shopSecret, "m", time.Now(), large).problem(413, "too-large")
	exact := contractBody + strings.Repeat(" ", maxBody-len(contractBody))
	r.send("/webhooks/orders", shopSecret, "m", time.Now(), exact).wants(200, `"accepted"`)
	r.holds(1, 1, 1)
}

// pages are a console's addresses, without a console.
type pages []string

func pagesAt(paths ...string) Pages { return pages(paths) }

func (p pages) Routes(_ *door.Gate, _ func() (reasons, warnings []string)) (all []door.Route) {
	for _, path := range p {
		page := func(c echo.Context) error { return c.String(http.StatusOK, "a page") }
		all = append(all, door.Route{Method: http.MethodGet, Path: path, Door: door.View, Handler: page})
	}
	return all
}
