package handlers

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

// lender is a credit source of the tests, on a real listener.
type lender struct {
	*httptest.Server
	asked chan question
}

// question is what came over the wire.
type question struct {
	method, path, body string
	header             http.Header
}

func newLender(t *testing.T, answer http.HandlerFunc) *lender {
	t.Helper()
	l := &lender{asked: make(chan question, 1000)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.asked <- question{r.Method, r.RequestURI, string(body), r.Header}
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

// askedOver makes a rig whose credit is asked at url, and says which source that is.
func askedOver(t *testing.T, c RemoteCreditConfig) (*rig, *remoteCredit) {
	t.Helper()
	source := NewRemoteCredit(c, &http.Transport{}).(*remoteCredit)
	return newRig(t, func(o *Options) { o.Credit = source }), source
}

func answersWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// redirects sends the asker to where the answer would be yes.
func redirects(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/yes" {
			_, _ = io.WriteString(w, `{"credit_ok":true}`)
			return
		}
		http.Redirect(w, r, "/yes", status)
	}
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drips sends a byte now and then, for ever.
func drips(w http.ResponseWriter, r *http.Request) {
	for {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// raw answers with bytes as they stand and, if it holds, keeps the connection until the other side lets go.
func raw(holds bool, bytes func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, bytes(r))
		if holds {
			_, _ = io.Copy(io.Discard, c)
		}
	}
}

func always(s string) func(*http.Request) string { return func(*http.Request) string { return s } }

// echoes repeats what it was sent.
func echoes(r *http.Request) string {
	return r.Method + " " + r.RequestURI + " " + r.Header.Get("Authorization") + "\r\n\r\n"
}

// bomb is small on the wire and long when it is unpacked.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, `{"credit_ok":true`+strings.Repeat(" ", 10<<20)+`}`)
	_ = z.Close()
}

func padded(length int) string {
	const head, tail = `{"credit_ok":true`, `}`
	return head + strings.Repeat(" ", length-len(head)-len(tail)) + tail
}

const yes, no, nobodyKnows = `"credit_ok":true,"decision":"inventory"`, `"credit_ok":false,"decision":"refund"`, ""

// creditAnswers is what a source may do, and what the sender of the event is then told.
var creditAnswers = map[string]struct {
	answer http.HandlerFunc
	want   string
}{
	"credit":                  {answersWith(200, `{"credit_ok":true}`), yes},
	"no credit":               {answersWith(200, `{"credit_ok":false,"why":"late"}`), no},
	"201":                     {answersWith(201, `{"limit":{"credit_ok":false},"credit_ok":true}`), yes},
	"as long as may be":       {answersWith(200, padded(64<<10)), yes},
	"a byte longer":           {answersWith(200, padded(64<<10+1)), nobodyKnows},
	"long when unpacked":      {bomb, nobodyKnows},
	"204":                     {answersWith(204, ""), nobodyKnows},
	"400":                     {answersWith(400, `{"credit_ok":true}`), nobodyKnows},
	"401":                     {answersWith(401, `{"credit_ok":false}`), nobodyKnows},
	"404":                     {answersWith(404, `{"credit_ok":false}`), nobodyKnows},
	"429":                     {answersWith(429, `{"credit_ok":false}`), nobodyKnows},
	"500":                     {answersWith(500, `{"credit_ok":true}`), nobodyKnows},
	"503":                     {answersWith(503, `{"credit_ok":false}`), nobodyKnows},
	"300":                     {answersWith(300, `{"credit_ok":true}`), nobodyKnows},
	"a redirect":              {redirects(302), nobodyKnows},
	"another redirect":        {redirects(303), nobodyKnows},
	"a redirect of the post":  {redirects(307), nobodyKnows},
	"a captive portal":        {answersWith(200, `<html>Welcome</html>`), nobodyKnows},
	"nothing":                 {answersWith(200, ``), nobodyKnows},
	"true alone":              {answersWith(200, `true`), nobodyKnows},
	"an array":                {answersWith(200, `[{"credit_ok":true}]`), nobodyKnows},
	"an inner object":         {answersWith(200, `{"data":{"credit_ok":true}}`), nobodyKnows},
	"text for true":           {answersWith(200, `{"credit_ok":"true"}`), nobodyKnows},
	"1 for true":              {answersWith(200, `{"credit_ok":1}`), nobodyKnows},
	"null":                    {answersWith(200, `{"credit_ok":null}`), nobodyKnows},
	"nothing of it":           {answersWith(200, `{"ok":true}`), nobodyKnows},
	"twice":                   {answersWith(200, `{"credit_ok":false,"credit_ok":true}`), nobodyKnows},
	"twice the same":          {answersWith(200, `{"credit_ok":true,"credit_ok":true}`), nobodyKnows},
	"another spelling":        {answersWith(200, `{"Credit_OK":true}`), nobodyKnows},
	"two spellings":           {answersWith(200, `{"credit_ok":true,"Credit_OK":false}`), nobodyKnows},
	"something after it":      {answersWith(200, `{"credit_ok":true}{}`), nobodyKnows},
	"not closed":              {answersWith(200, `{"credit_ok":true`), nobodyKnows},
	"not UTF-8":               {answersWith(200, "{\"credit_ok\":true,\"who\":\"\xff\"}"), nobodyKnows},
	"less than it says":       {raw(false, always("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"credit_ok\":true}")), nobodyKnows},
	"closed after the asking": {raw(false, always("")), nobodyKnows},
	"not HTTP":                {raw(false, echoes), nobodyKnows},
	"a status that repeats":   {raw(false, func(r *http.Request) string { return "HTTP/1.1 " + echoes(r) }), nobodyKnows},
	"a trailer that repeats": {raw(false, func(r *http.Request) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + echoes(r)
	}), nobodyKnows},
	"another protocol": {raw(true, always("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")), nobodyKnows},
}

// creditSilences are answers that are never over.
var creditSilences = map[string]http.HandlerFunc{
	"no answer":           hangs,
	"a slow drip":         drips,
	"only its head":       raw(true, always("HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n")),
	"a head without end":  raw(true, always("HTTP/1.1 200 OK\r\nX-A: b\r\n")),
	"never quite begins":  raw(true, always("HTTP/1.1 100 Continue\r\n\r\n")),
	"an answer kept open": raw(true, always("HTTP/1.1 200 OK\r\n\r\n{\"credit_ok\":true}")),
}

// Only a clear answer counts. Without one nothing is kept and nothing assumed, unless the book is to be asked.
func TestRemoteCredit(t *testing.T) {
	refusing, falling := newLenderRig(t, false), newLenderRig(t, true)
	for name, c := range creditAnswers {
		t.Run(name, func(t *testing.T) {
			l := newLender(t, c.answer)
			refusing.ask(t, l, name, c.want, 10*time.Second)
			falling.ask(t, l, name, c.want, 10*time.Second)
			if n := len(l.asked); n != 2 {
				t.Errorf("%d questions, want one each", n)
			}
		})
	}
	for name, answer := range creditSilences {
		t.Run(name, func(t *testing.T) {
			l := newLender(t, answer)
			refusing.ask(t, l, name, nobodyKnows, 150*time.Millisecond)
			falling.ask(t, l, name, nobodyKnows, 150*time.Millisecond)
		})
	}
	refusing.keepsSecrets(t, "s3cret", "t0k3n")
	falling.keepsSecrets(t, "s3cret", "t0k3n")
}

// lenderRig is a server that asks one source after the other.
type lenderRig struct {
	*rig
	source   atomic.Pointer[remoteCredit]
	fallback bool
}

func newLenderRig(t *testing.T, fallback bool) *lenderRig {
	r := &lenderRig{fallback: fallback}
	ask := sourceFunc(func(ctx context.Context, q CreditQuestion) (Verdict, error) { return r.source.Load().Check(ctx, q) })
	r.rig = newRig(t, func(o *Options) { o.Credit = ask })
	r.srv.director.CreditWait = 12 * time.Second
	return r
}

// ask sends an order that l is asked about, and wants it answered as the table says.
func (r *lenderRig) ask(t *testing.T, l *lender, id, want string, timeout time.Duration) {
	t.Helper()
	r.t = t
	source := NewRemoteCredit(RemoteCreditConfig{URL: l.URL + "/credit?key=s3cret", Timeout: timeout, Token: "t0k3n", FallbackToBook: r.fallback}, &http.Transport{}).(*remoteCredit)
	r.source.Store(source)
	a := r.post(body(id, id, "12.50", oneLine))
	switch {
	case want != nobodyKnows:
		a.wants(200, want)
		r.wantSource(id, SourceRemote)
	case r.fallback:
		a.wants(200, no) // the book knows nobody
		r.wantSource(id, SourceSilent)
	default:
		if m := a.problem(503, "not-now"); m["reason"] != "credit" {
			t.Errorf("reason %v", m["reason"])
		}
		if n := r.count(`SELECT (SELECT count(*) FROM events WHERE event_id = $1) + (SELECT count(*) FROM orders WHERE order_id = $1)`, id); n != 0 {
			t.Errorf("%d rows were kept", n)
		}
	}
	if n := len(source.places); n != 64 {
		t.Errorf("%d of 64 places are free after the answer", n)
	}
	for _, secret := range []string{"s3cret", "t0k3n", l.URL} {
		if strings.Contains(a.body+fmt.Sprint(a.header), secret) {
			t.Errorf("%s is told: %s %v", secret, a.body, a.header)
		}
	}
}

// wantSource checks who is recorded to have said whether there is credit, in what the API shows.
func (r *rig) wantSource(orderID, want string) {
	r.t.Helper()
	r.get("/api/orders/"+url.PathEscape(orderID)).wants(200, `"credit_source":`+text(want))
}

// keepsSecrets stops the server, so that its log is complete, and wants none of the secrets in it.
func (r *rig) keepsSecrets(t *testing.T, secrets ...string) {
	t.Helper()
	r.http.Close()
	lines := r.log.String()
	if !strings.Contains(lines, `"path":"/webhooks/orders"`) {
		t.Errorf("no line about the request: %s", lines)
	}
	for line := range strings.Lines(lines) {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%s is told: %s", secret, line)
			}
		}
	}
}

// What goes over the wire, once a question.
func TestCreditQuestion(t *testing.T) {
	l := newLender(t, answersWith(200, `{"credit_ok":true}`))
	r, _ := askedOver(t, RemoteCreditConfig{URL: l.URL + "/credit?key=s3cret", Token: "t0k3n"})
	r.post(contractBody).wants(200, yes)
	q := <-l.asked
	if q.method != "POST" || q.path != "/credit?key=s3cret" || q.body != `{"order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN"}` {
		t.Errorf("%+v", q)
	}
	if q.header.Get("Authorization") != "Bearer t0k3n" || q.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", q.header)
	}
	r.post(strings.ReplaceAll(body(`E"2`, `O"<2`, "5e0", oneLine), "MXN", "JPY")).wants(200)
	if q := <-l.asked; q.body != `{"order_id":"O\"<2","customer_id":"CUS-7","amount":5,"currency":"JPY"}` {
		t.Errorf("%s", q.body)
	}
	bare := NewRemoteCredit(RemoteCreditConfig{URL: l.URL}, &http.Transport{})
	if _, err := bare.Check(t.Context(), CreditQuestion{}); err != nil {
		t.Error(err)
	}
	if q := <-l.asked; q.header.Values("Authorization") != nil {
		t.Errorf("a token out of nowhere: %v", q.header)
	}
}

// Nobody is there, or not who we think: the same as no answer, with a cause that the log can name.
func TestCreditSourceAway(t *testing.T) {
	gone := newLender(t, hangs)
	gone.Close()
	stranger := httptest.NewUnstartedServer(answersWith(200, `{"credit_ok":true}`))
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer stranger.Close()
	for address, cause := range map[string]string{gone.URL: "connection refused", stranger.URL: "certificate", "http://[::1": "can't be used"} {
		r, _ := askedOver(t, RemoteCreditConfig{URL: address, Token: "t0k3n"})
		if m := r.post(contractBody).problem(503, "not-now"); m["reason"] != "credit" {
			t.Errorf("reason %v", m["reason"])
		}
		r.holds(0, 0, 0)
		r.keepsSecrets(t, "t0k3n", "http")
		if lines := r.log.String(); !strings.Contains(lines, cause) {
			t.Errorf("the log does not say %q: %s", cause, lines)
		}
	}
}

// transport is a credit source without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// net/http has nothing that it could send again by itself.
func TestCreditIsAskedOnce(t *testing.T) {
	asked := 0
	source := NewRemoteCredit(RemoteCreditConfig{URL: "http://lender"}, transport(func(r *http.Request) (*http.Response, error) {
		asked++
		if r.GetBody != nil {
			t.Error("the body can be sent again")
		}
		return nil, errors.New("reset")
	}))
	if v, err := source.Check(t.Context(), CreditQuestion{}); v != nil || err == nil || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

// The local book's decisions, and those that needed no credit, are recorded as such.
func TestCreditSourceIsRecorded(t *testing.T) {
	r := newRig(t)
	r.post(body("E1", "O1", "1", oneLine)).wants(200)
	r.wantSource("O1", "book")
	r.post(body("E2", "O2", "0", oneLine)).wants(200)
	r.wantSource("O2", "")
}

// The book that takes the place of a silent source is read in the deciding transaction, not before.
func TestFallbackReadsTheBookLast(t *testing.T) {
	failNow := make(chan struct{})
	l := newLender(t, func(w http.ResponseWriter, _ *http.Request) {
		<-failNow
		w.WriteHeader(500)
	})
	r, _ := askedOver(t, RemoteCreditConfig{URL: l.URL, Timeout: 10 * time.Second, FallbackToBook: true})
	first := make(chan reply, 1)
	go func() { first <- r.post(body("E", "O", "12.50", oneLine)) }()
	<-l.asked
	r.setCredit("12.50")
	close(failNow)
	(<-first).wants(200, yes)
	r.wantSource("O", SourceSilent)
	r.post(body("E", "O", "12.50", oneLine)).wants(200, `"duplicate"`)
}

// 64 questions hang. The next one is refused at once, whatever the book would say; what needs no question is
// answered, and nothing holds the file. When they are answered, the next one is asked.
func TestSlowCreditHoldsNobodyElse(t *testing.T) {
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	l := newLender(t, func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		_, _ = io.WriteString(w, `{"credit_ok":true}`)
	})
	t.Cleanup(release) // before the lender closes
	r, _ := askedOver(t, RemoteCreditConfig{URL: l.URL, Timeout: 20 * time.Second, FallbackToBook: true})
	r.srv.director.CreditWait = 20 * time.Second
	r.post(body("E0", "O0", "0", oneLine)).wants(200)
	var slow sync.WaitGroup
	var ended, credited atomic.Int64
	for i := range 64 {
		slow.Go(func() {
			a, err := r.srv.director.Triage(t.Context(), Arrival{}, []byte(body(fmt.Sprint("W", i), fmt.Sprint("WO", i), "5", oneLine)))
			ended.Add(1)
			if err == nil && a.CreditOK {
				credited.Add(1)
			}
		})
	}
	for range 64 {
		<-l.asked
	}
	if m := r.post(body("E65", "O65", "5", oneLine)).problem(503, "not-now"); m["reason"] != "credit" {
		t.Errorf("reason %v", m["reason"])
	}
	r.post(body("E0", "O0", "0", oneLine)).wants(200, `"duplicate"`)
	r.post(body("E00", "O0", "7", oneLine)).wants(200, `"already_decided"`)
	for i := range 50 {
		r.post(body(fmt.Sprint("Z", i), fmt.Sprint("ZO", i), "0", oneLine)).wants(200, `"accepted"`)
	}
	r.exec(`UPDATE orders SET priority = 'low' WHERE order_id = 'O0'`) // fails at once on a file that is held
	r.holds(52, 51, 51)
	if n := ended.Load(); n != 0 || len(l.asked) != 0 {
		t.Errorf("%d of the 64 ended meanwhile, %d questions more", n, len(l.asked))
	}
	release()
	slow.Wait()
	if n := credited.Load(); n != 64 {
		t.Errorf("%d of the 64 were answered", n)
	}
	r.post(body("E65", "O65", "5", oneLine)).wants(200, `"accepted"`, yes)
}

// Another process decides while the source thinks: its decision stands, whatever the answer is.
func TestCreditAnswerComesTooLate(t *testing.T) {
	answer := make(chan struct{})
	l := newLender(t, func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		_, _ = io.WriteString(w, `{"credit_ok":true}`)
	})
	r, _ := askedOver(t, RemoteCreditConfig{URL: l.URL, Timeout: 10 * time.Second})
	db, err := store.Open(t.Context(), r.db.Path(), store.Options{BusyTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other := Director{DB: db} // asks the book, which knows nobody
	same, late := make(chan reply, 1), make(chan reply, 1)
	go func() { same <- r.post(body("E", "O", "5", oneLine)) }()
	go func() { late <- r.post(body("E2", "O", "6", oneLine)) }()
	<-l.asked
	<-l.asked
	if a, err := other.Triage(t.Context(), Arrival{}, []byte(body("E", "O", "5", oneLine))); err != nil || a.Status != "accepted" {
		t.Fatal(a, err)
	}
	close(answer)
	(<-same).wants(200, `"duplicate"`, no)
	(<-late).wants(200, `"already_decided"`, no, `"differs":["amount"]`)
	r.wantSource("O", SourceBook)
	r.holds(2, 1, 1)
}

// Copies at once and a source that changes its mind: one decision, and every answer tells it.
func TestCopiesAreAnsweredAlike(t *testing.T) {
	var said atomic.Bool
	l := newLender(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"credit_ok":%t}`, said.CompareAndSwap(false, true))
	})
	r, _ := askedOver(t, RemoteCreditConfig{URL: l.URL, Timeout: 10 * time.Second})
	answers := make(chan reply, 200)
	for range cap(answers) {
		go func() { answers <- r.post(contractBody) }()
	}
	accepted, first := 0, ""
	for range cap(answers) {
		a := (<-answers).wants(200)
		if strings.Contains(a.body, `"status":"accepted"`) {
			accepted++
		}
		told := strings.Replace(a.body, `"accepted"`, `"duplicate"`, 1)
		if first == "" {
			first = told
		}
		if told != first {
			t.Fatalf("%s\n%s", told, first)
		}
	}
	if accepted != 1 {
		t.Errorf("%d decisions", accepted)
	}
	r.holds(1, 1, 1)
}

// Copies at once share a question and its place; each waits no longer than it wants to, and the answer is for
// those who asked while it was on its way, not for later ones.
func TestCopiesShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		answer := make(chan struct{})
		source := NewRemoteCredit(RemoteCreditConfig{URL: "http://lender", AtOnce: 1}, transport(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			select {
			case <-answer:
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"credit_ok":true}`))}, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}))
		q := CreditQuestion{EventID: "E", OrderID: "O", CustomerID: "C", Currency: "MXN"}
		check := func(ctx context.Context) error {
			v, err := source.Check(ctx, q)
			if err != nil {
				return err
			}
			c, err := v(nil)
			if c != (Credit{OK: true, Source: SourceRemote}) {
				t.Errorf("%+v", c)
			}
			return err
		}
		firstCtx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- check(firstCtx) }()
		synctest.Wait()
		var copies sync.WaitGroup
		for range 49 {
			copies.Go(func() {
				if err := check(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := check(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits a second: %v", err)
		}
		leave() // who asked first goes away, and the others are answered all the same
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		other := q
		other.EventID = "E2"
		if _, err := source.Check(t.Context(), other); !errors.Is(err, errTooMany) {
			t.Errorf("another event shares the question: %v", err)
		}
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("%d questions for copies of one event", n)
		}
		close(answer)
		copies.Wait()
		if err := check(t.Context()); err != nil || asked.Load() != 2 {
			t.Errorf("a later copy: %v, %d questions", err, asked.Load())
		}
	})
}

// A source that never answers is given up after 2 s if nothing else is said, and its place is free again.
func TestCreditTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := NewRemoteCredit(RemoteCreditConfig{URL: "http://lender", AtOnce: 1}, transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		for range 3 {
			began := time.Now()
			if v, err := source.Check(t.Context(), CreditQuestion{}); v != nil || err == nil || errors.Is(err, errTooMany) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("took %v", took)
			}
		}
	})
}
