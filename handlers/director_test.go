package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// 200 copies at once: one decision, 199 duplicates, all alike.
func TestParallelCopies(t *testing.T) {
	r := newRig(t)
	const copies = 200
	answers := make([]string, copies)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range copies {
		wg.Go(func() {
			<-start
			answers[i] = r.post(contractBody).wants(200).body
		})
	}
	close(start)
	wg.Wait()
	accepted := 0
	for _, a := range answers {
		if strings.HasPrefix(a, `{"status":"accepted"`) {
			accepted++
			a = strings.Replace(a, "accepted", "duplicate", 1)
		}
		if want := `{"status":"duplicate","event_id":"EVT-1","order_id":"ORD-2041","credit_ok":false,"decision":"refund","tickets":["refund:ORD-2041"]}` + "\n"; a != want {
			t.Fatalf("answer %s", a)
		}
	}
	if accepted != 1 {
		t.Errorf("accepted %d times", accepted)
	}
	r.holds(1, 1, 1)
}

// Many events of one order at once: one decides, the others come late.
func TestParallelEventsOfOneOrder(t *testing.T) {
	r := newRig(t)
	var accepted, late atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			a := r.post(body(fmt.Sprint("E", i), "O", "1", oneLine)).wants(200).body
			switch {
			case strings.Contains(a, `"accepted"`):
				accepted.Add(1)
			case strings.Contains(a, `"already_decided"`) && strings.Contains(a, `"differs":[]`):
				late.Add(1)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 || late.Load() != 49 {
		t.Errorf("accepted %d, already decided %d", accepted.Load(), late.Load())
	}
	r.holds(50, 1, 1)
}

func TestAlreadyDecided(t *testing.T) {
	r := newRig(t)
	const lines = `[{"sku":"B","quantity":1},{"sku":"A","quantity":2}]`
	r.post(body("E1", "O", "100", lines)).wants(200, `"accepted"`, `"refund"`)
	r.setCredit("1000")
	const standing = `"order_id":"O","credit_ok":false,"decision":"refund","tickets":["refund:O"]`
	r.post(body("E2", "O", "100", lines)).is(200, `{"status":"already_decided","event_id":"E2",`+standing+`,"differs":[]}`)
	r.post(body("E3", "O", "101", `[{"sku":"B","quantity":1}]`)).is(200,
		`{"status":"already_decided","event_id":"E3",`+standing+`,"differs":["amount","line_items"]}`)
	other := strings.NewReplacer("CUS-7", "CUS-8", "MXN", "USD").Replace(body("E4", "O", "100", lines))
	r.post(other).is(200, `{"status":"already_decided","event_id":"E4",`+standing+`,"differs":["customer_id","currency"]}`)
	// Their copies are duplicates, with the same differs.
	r.post(body("E2", "O", "100", lines)).is(200, `{"status":"duplicate","event_id":"E2",`+standing+`,"differs":[]}`)
	r.post(other).is(200, `{"status":"duplicate","event_id":"E4",`+standing+`,"differs":["customer_id","currency"]}`)
	r.post(body("E1", "O", "100", lines)).is(200, `{"status":"duplicate","event_id":"E1",`+standing+`}`)
	r.holds(4, 1, 1)
	if n := r.count(`SELECT count(*) FROM events WHERE differs <> '[]'`); n != 2 {
		t.Errorf("%d events that contradict, want 2", n)
	}
	if strings.Contains(r.log.String(), `"level":"ERROR"`) || strings.Contains(r.log.String(), `"level":"WARN"`) {
		t.Errorf("a late event is no error: %s", r.log)
	}
}

func TestEventIDReused(t *testing.T) {
	r := newRig(t)
	r.post(body("E", "O", "1", oneLine)).wants(200)
	for _, b := range []string{
		body("E", "O2", "1", oneLine), body("E", "O", "1.01", oneLine), body("E", "O", "1", `[{"sku":"CF-1","quantity":2}]`),
		strings.Replace(body("E", "O", "1", oneLine), "CUS-7", "cus-7", 1), strings.Replace(body("E", "O", "1", oneLine), "MXN", "USD", 1),
	} {
		r.post(b).problem(422, "event-id-reused")
	}
	r.post(body("E", "O", "1", oneLine)).wants(200, `"duplicate"`)
	r.holds(1, 1, 1)
	r.post(body("E2", "O2", "1", oneLine)).wants(200, `"accepted"`) // nothing was reserved
	_ = r.srv.Close()
	if n := r.count(`SELECT count(*) FROM refused_bodies WHERE problem = 'event-id-reused' AND event_id = 'E'`); n != 1 {
		t.Errorf("%d refused bodies kept, want 1 in the first second", n)
	}
}

// gate is a credit source that holds every question until it is opened.
type gate struct {
	asked chan string // event ids
	open  chan struct{}
}

func newGate() *gate { return &gate{make(chan string, 1000), make(chan struct{})} }

func (g *gate) Check(ctx context.Context, q CreditQuestion) (Verdict, error) {
	g.asked <- q.EventID
	select {
	case <-g.open:
		return Known(Credit{OK: true}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Two orders under one event id, both past the first look-up: the one in the transaction decides.
func TestEventIDReusedInFlight(t *testing.T) {
	g := newGate()
	r := newRig(t, func(o *Options) { o.Credit = g })
	answers := make(chan reply, 2)
	for _, o := range []string{"O1", "O2"} {
		go func() { answers <- r.post(body("E", o, "5", oneLine)) }()
	}
	<-g.asked
	<-g.asked
	close(g.open)
	a, b := <-answers, <-answers
	if a.status == 422 {
		a, b = b, a
	}
	a.wants(200, `"accepted"`)
	b.problem(422, "event-id-reused")
	r.holds(1, 1, 1)
}

func TestMismatchWinsOverInFlight(t *testing.T) {
	g := newGate()
	r := newRig(t, func(o *Options) { o.Credit = g })
	first := make(chan reply, 1)
	go func() { first <- r.post(body("E", "O1", "5", oneLine)) }()
	<-g.asked
	r.post(body("E", "O2", "0", oneLine)).wants(200, `"accepted"`) // needs no credit, and so is first
	close(g.open)
	(<-first).problem(422, "event-id-reused")
	r.holds(1, 1, 1)
}

// While a credit check hangs, duplicates, late events and orders of amount 0 are answered.
func TestSlowCreditSlowsNobodyElse(t *testing.T) {
	g := newGate()
	r := newRig(t, func(o *Options) { o.Credit = g })
	r.post(body("E0", "O0", "0", oneLine)).wants(200, `"accepted"`, `"credit_ok":true`)
	slow := make(chan reply, 1)
	go func() { slow <- r.post(body("E1", "O1", "5", oneLine)) }()
	<-g.asked
	r.post(body("E0", "O0", "0", oneLine)).wants(200, `"duplicate"`)
	r.post(body("E2", "O0", "7", oneLine)).wants(200, `"already_decided"`, `"differs":["amount"]`)
	r.post(body("E3", "O3", "0.00", oneLine)).wants(200, `"accepted"`)
	select {
	case q := <-g.asked:
		t.Fatalf("credit was asked for %s", q)
	default:
	}
	close(g.open)
	(<-slow).wants(200, `"accepted"`)
}

// Nobody knows: nothing is taken, nothing is reserved, and nothing is assumed.
func TestCreditFaultKeepsNothing(t *testing.T) {
	faults := map[string]sourceFunc{
		"error":      func(context.Context, CreditQuestion) (Verdict, error) { return nil, errors.New("no route") },
		"time-out":   func(ctx context.Context, _ CreditQuestion) (Verdict, error) { <-ctx.Done(); return nil, ctx.Err() },
		"no verdict": func(context.Context, CreditQuestion) (Verdict, error) { return nil, nil },
		"yes and no": func(context.Context, CreditQuestion) (Verdict, error) {
			return Known(Credit{OK: true}), errors.New("perhaps")
		},
		"late verdict": func(context.Context, CreditQuestion) (Verdict, error) { return failing, nil },
	}
	for name, source := range faults {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Credit = source })
			r.srv.director.CreditWait = 20 * time.Millisecond
			if m := r.post(contractBody).problem(503, "not-now"); m["reason"] != "credit" {
				t.Errorf("reason %v", m["reason"])
			}
			r.holds(0, 0, 0)
			r.srv.director.Credit = nil
			r.post(contractBody).wants(200, `"accepted"`)
			_ = r.srv.Close()
			if n := r.count(`SELECT count(*) FROM refused_bodies`); n != 0 {
				t.Errorf("%d refused bodies: what was not promised is not refused", n)
			}
		})
	}
}

func failing(*store.Tx) (Credit, error) { return Credit{}, creditUnknown(errors.New("late")) }

func TestLocalBook(t *testing.T) {
	r := newRig(t)
	n := 0
	post := func(amount string) reply {
		n++
		return r.post(body(fmt.Sprint("E", n), fmt.Sprint("O", n), amount, oneLine))
	}
	post("1").wants(200, `"credit_ok":false`) // unknown to the book
	post("0").wants(200, `"credit_ok":true`)
	r.setCredit("100.50")
	post("100.50").wants(200, `"credit_ok":true`)
	post("100.5").wants(200, `"credit_ok":true`) // not drawn down
	post("100.51").wants(200, `"credit_ok":false`)
	post("99").wants(200, `"credit_ok":true`) // by value, not by text
	r.setCredit("999999999999999.98")
	post("999999999999999.98").wants(200, `"credit_ok":true`)
	post("999999999999999.99").wants(200, `"credit_ok":false`)
	r.exec(`UPDATE credit_limits SET limit_amount = 'plenty'`)
	if m := post("1").problem(503, "not-now"); m["reason"] != "credit" {
		t.Errorf("reason %v", m["reason"])
	}
}

// exec writes to the file as another client would.
func (r *rig) exec(query string) {
	r.t.Helper()
	other := r.otherClient()
	defer other.Close()
	if _, err := other.Exec(query); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) otherClient() *sql.DB {
	r.t.Helper()
	other, err := sql.Open("sqlite", "file:"+r.db.Path()+"?_busy_timeout=5000")
	if err != nil {
		r.t.Fatal(err)
	}
	other.SetMaxOpenConns(1)
	return other
}

// Another process holds the write lock: not now, nothing kept, and duplicates are answered all the same.
func TestBusyFile(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200)
	other := r.otherClient()
	defer other.Close()
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	if m := r.post(body("E", "O", "1", oneLine)).problem(503, "not-now"); m["reason"] != "busy" {
		t.Errorf("reason %v", m["reason"])
	}
	r.post(contractBody).wants(200, `"duplicate"`)
	r.get("/readyz").wants(503, `"ready":false`, `"reason":"the last commit failed: busy"`)
	r.do("POST", "/api/relay/pause", "").problem(503, "not-now")
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	r.holds(1, 1, 1)
	r.post(body("E", "O", "1", oneLine)).wants(200, `"accepted"`)
	r.get("/readyz").is(200, `{"ready":true}`)
}

// The first that comes when the file is held, or the disk is full, may be a duplicate: nothing has told of either yet.
func TestDuplicateIsFirstToMeetABusyFile(t *testing.T) {
	r := newRig(t)
	r.post(contractBody).wants(200)
	other := r.otherClient()
	defer other.Close()
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	r.post(contractBody).wants(200, `"duplicate"`)
	r.post(body("EVT-1", "O", "1", oneLine)).problem(422, "event-id-reused")
}

// While a new order waits for a file that another program holds, a duplicate does not.
func TestDuplicateWaitsForNoWriter(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "comanda.db"), store.Options{BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := newRig(t, func(o *Options) { o.DB = db })
	r.db = db
	r.post(contractBody).wants(200)
	other := r.otherClient()
	defer other.Close()
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	waits := make(chan reply, 1)
	go func() { waits <- r.post(body("E", "O", "1", oneLine)) }()
	for db.Writer().Doing != store.Locked {
		runtime.Gosched()
	}
	r.post(contractBody).wants(200, `"duplicate"`)
	select {
	case a := <-waits:
		t.Fatalf("the order that waits was answered %d while the file was held", a.status)
	default:
	}
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	(<-waits).wants(200, `"accepted"`)
}

func TestCrashPoints(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	r := newRig(t)
	r.srv.director.Crash = func(point string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %d", point, r.count(`SELECT count(*) FROM orders`)))
	}
	for _, b := range []string{contractBody, contractBody, body("E2", "ORD-2041", "1", oneLine), body("EVT-1", "X", "1", oneLine)} {
		r.post(b)
	}
	if got := strings.Join(seen, ", "); got != "triage.before_commit 0, triage.after_commit 1" {
		t.Errorf("once an order, around the commit: %s", got)
	}
}

// An event or order that another client wrote without our extra columns is understood as far as it goes.
func TestRowsFromAnotherClient(t *testing.T) {
	r := newRig(t)
	r.exec(`INSERT INTO orders (order_id, event_id, customer_id, amount, currency, category, priority, credit_ok, decision, decided_at)
		VALUES ('ORD-2041', 'EVT-1', 'CUS-7', 'much', 'MXN', 'x', 'x', 1, 'inventory', 1)`)
	r.exec(`INSERT INTO events (event_id, order_id, body, received_at) VALUES ('EVT-1', 'ORD-2041', CAST('` + contractBody + `' AS BLOB), 1)`)
	r.post(contractBody).wants(200, `"duplicate"`, `"tickets":[]`)
	r.post(body("EVT-1", "O", "1", oneLine)).problem(422, "event-id-reused")
	r.post(strings.Replace(contractBody, "EVT-1", "EVT-2", 1)).wants(200, `"already_decided"`, `"differs":["amount","line_items"]`)
}
