package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lender is a credit source of the tests, on a real listener.
type lender struct {
	*httptest.Server
	questions atomic.Int64
	mu        sync.Mutex
	bodies    []string
	header    http.Header
}

func newLender(t *testing.T, answer http.HandlerFunc) *lender {
	t.Helper()
	l := &lender{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.bodies, l.header = append(l.bodies, string(body)), r.Header
		l.mu.Unlock()
		l.questions.Add(1)
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

func answersWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// redirects sends the asker to where the answer would be yes.
func redirects(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/yes" {
		_, _ = io.WriteString(w, `{"credit_ok":true}`)
		return
	}
	http.Redirect(w, r, "/yes", http.StatusFound)
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestRemoteCredit(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string // in the answer; "" is 503
	}{
		"credit":             {answersWith(200, `{"credit_ok":true}`), `"credit_ok":true,"decision":"inventory"`},
		"no credit":          {answersWith(200, `{"credit_ok":false,"why":"late"}`), `"credit_ok":false,"decision":"refund"`},
		"500":                {answersWith(500, `{"credit_ok":true}`), ""},
		"a redirect":         {redirects, ""},
		"HTML":               {answersWith(200, `<html>`), ""},
		"text for true":      {answersWith(200, `{"credit_ok":"true"}`), ""},
		"null":               {answersWith(200, `{"credit_ok":null}`), ""},
		"nothing of it":      {answersWith(200, `{}`), ""},
		"twice":              {answersWith(200, `{"credit_ok":false,"credit_ok":true}`), ""},
		"another spelling":   {answersWith(200, `{"Credit_OK":true}`), ""},
		"something after it": {answersWith(200, `{"credit_ok":true}{}`), ""},
		"too long":           {answersWith(200, `{"credit_ok":true`+strings.Repeat(" ", 70<<10)+`}`), ""},
		"no answer":          {hangs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLender(t, c.answer)
			for _, fallback := range []bool{false, true} {
				r := newRig(t, func(o *Options) {
					o.Credit = NewRemoteCredit(RemoteCreditConfig{URL: l.URL + "/credit?secret=1", Timeout: 200 * time.Millisecond, Token: "t0k3n", FallbackToBook: fallback}, nil)
				})
				a := r.post(body("E", "O", "12.50", oneLine))
				switch {
				case c.want != "":
					a.wants(200, c.want)
					r.wantSource("remote")
				case fallback:
					a.wants(200, `"decision":"refund"`) // the book knows nobody
					r.wantSource("book: remote silent")
				default:
					a.problem(503, "not-now")
					a.wants(503, `"reason":"credit"`)
					if a.header.Get("Retry-After") == "" || strings.Contains(a.body, "secret") {
						t.Errorf("%v %s", a.header, a.body)
					}
					r.holds(0, 0, 0)
				}
			}
			if l.bodies[0] != `{"order_id":"O","customer_id":"CUS-7","amount":12.50,"currency":"MXN"}` || l.header.Get("Authorization") != "Bearer t0k3n" {
				t.Errorf("asked %s, %v", l.bodies[0], l.header)
			}
			if n := l.questions.Load(); n != 2 {
				t.Errorf("%d questions, want one each", n)
			}
		})
	}
}

func (r *rig) wantSource(want string) {
	r.t.Helper()
	if n := r.count(`SELECT count(*) FROM orders WHERE credit_source = '` + want + `'`); n != 1 {
		r.t.Errorf("the decision is not recorded as by %q", want)
	}
}

// The local book's decisions, and those that needed no credit, are recorded as such.
func TestCreditSourceIsRecorded(t *testing.T) {
	r := newRig(t)
	r.post(body("E1", "O1", "1", oneLine)).wants(200)
	r.wantSource("book")
	r.post(body("E2", "O2", "0", oneLine)).wants(200)
	r.wantSource("")
}

// A hanging source: at most so many questions at once, the next is refused at once; what needs no question is
// as fast as ever.
func TestSlowCreditHoldsNobodyElse(t *testing.T) {
	l := newLender(t, hangs)
	r := newRig(t, func(o *Options) {
		o.Credit = NewRemoteCredit(RemoteCreditConfig{URL: l.URL, Timeout: 20 * time.Second, FallbackToBook: true}, nil)
	})
	r.post(body("E0", "O0", "0", oneLine)).wants(200)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	for i := range 64 {
		waiting.Go(func() {
			_, _ = r.srv.director.Triage(ctx, []byte(body(fmt.Sprintf("W%d", i), fmt.Sprintf("WO%d", i), "5", oneLine)))
		})
	}
	for l.questions.Load() < 64 {
		time.Sleep(time.Millisecond) // the questions are on their way
	}
	began := time.Now()
	r.post(body("E65", "O65", "5", oneLine)).wants(503, `"reason":"credit"`)
	r.post(body("E0", "O0", "0", oneLine)).wants(200, `"duplicate"`)
	r.post(body("E00", "O0", "0", oneLine)).wants(200, `"already_decided"`)
	r.post(body("E1", "O1", "0", oneLine)).wants(200, `"accepted"`)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("four answers that need no credit took %v", took)
	}
	if n := l.questions.Load(); n != 64 {
		t.Errorf("%d questions", n)
	}
	cancel()
	waiting.Wait()
	l.CloseClientConnections()
}

// 50 copies of one event at once ask once.
func TestCopiesShareAQuestion(t *testing.T) {
	release := make(chan struct{})
	l := newLender(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"credit_ok":true}`)
	})
	source := NewRemoteCredit(RemoteCreditConfig{URL: l.URL, Timeout: 20 * time.Second, AtOnce: 2}, nil).(*remoteCredit)
	q := CreditQuestion{EventID: "E", OrderID: "O", CustomerID: "C", Currency: "MXN"}
	var asking sync.WaitGroup
	var yes atomic.Int64
	for range 50 {
		asking.Go(func() {
			if ok, err := source.shared(t.Context(), q); ok && err == nil {
				yes.Add(1)
			}
		})
	}
	for l.questions.Load() < 1 {
		time.Sleep(time.Millisecond)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.shared(over, q); !errors.Is(err, context.Canceled) { // who goes away does not wait
		t.Errorf("%v", err)
	}
	close(release)
	asking.Wait()
	if yes.Load() != 50 {
		t.Errorf("%d of 50 were answered yes", yes.Load())
	}
	if n := l.questions.Load(); n > 3 { // one, and perhaps another for copies that came after its answer
		t.Errorf("%d questions for copies of one event", n)
	}
}
