package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

// What the targets of the model are like in time.
const (
	modelTimeout = 20 * time.Second
	modelGrace   = 30 * time.Second
	modelLease   = 2 * time.Minute
	modelBackoff = 30 * time.Second
	modelHold    = 90 * time.Second // what a 429 asks for
	modelLate    = 10 * time.Second // how long after the time-out a slow target still acts; less than the grace
)

// fault is one way in which an exchange with a target can go, and what its sender can know of it then.
type fault struct {
	name        string
	does        bool   // the effect happens before the answer
	late        bool   // the effect happens, and only after the sender has given up
	silent      bool   // there is no answer
	status      int    // of the answer
	body        string // of the answer
	heard       string // done, unknown, not sent, rejected, denied, not yet, no place
	unreachable bool   // as far as the sender can tell, nobody who speaks for the target was there
}

const modelReceipt = `{"id":"rf_1"}`

var fine = fault{name: "ok", does: true, status: 200, body: modelReceipt, heard: "done"}

// What a send can meet, and what the contract says that it is worth.
var faults = []fault{
	fine,
	{name: "did it, and no answer", does: true, silent: true, heard: "unknown", unreachable: true},
	{name: "no answer", silent: true, heard: "unknown", unreachable: true},
	{name: "did it after the time-out", late: true, silent: true, heard: "unknown", unreachable: true},
	{name: "connection refused", heard: "not sent", unreachable: true},
	{name: "500", status: 500, body: `{"error":"oops"}`, heard: "unknown", unreachable: true},
	{name: "did it and 500", does: true, status: 500, body: "oops", heard: "unknown", unreachable: true},
	{name: "did it, and the answer is cut off", does: true, status: 200, body: `{"id":`, heard: "unknown", unreachable: true},
	{name: "409", status: 409, body: `{"code":"in-use"}`, heard: "unknown"},
	{name: "422", status: 422, body: `{"error":"no such card"}`, heard: "rejected"},
	{name: "401", status: 401, body: `{"error":"who are you"}`, heard: "denied"},
	{name: "404", status: 404, body: `{"error":"nothing here"}`, heard: "no place"},
	{name: "429", status: 429, body: `{"error":"slower"}`, heard: "not yet"},
	{name: "302", status: 302, body: "moved", heard: "unknown", unreachable: true},
	{name: "200 in HTML", status: 200, body: "<html>log in</html>", heard: "unknown", unreachable: true},
	{name: "200 that names an error", status: 200, body: `{"error":"declined"}`, heard: "unknown"},
}

var (
	noAnswer          = faults[2]
	refusedConnection = faults[4]
	rejection         = faults[9]
)

// What a lookup can meet beside the truth.
var lookupFaults = []fault{
	{name: "no answer", silent: true, heard: "could not ask", unreachable: true},
	{name: "500", status: 500, body: `{}`, heard: "could not ask", unreachable: true},
	{name: "401", status: 401, body: `{}`, heard: "could not ask"},
	{name: "200 in HTML", status: 200, body: "<html>log in</html>", heard: "could not ask", unreachable: true},
	{name: "connection refused", heard: "could not ask", unreachable: true},
}

// letter is one request that reached the edge of the network.
type letter struct {
	relay  *modelRelay
	target string
	key    string
	lookup bool
	fault  fault
	at     time.Time
	ended  bool // its sender has its answer, or an error
}

// modelGateway is one target. It honours a key for keyTTL after it first acted on it, or never.
type modelGateway struct {
	w       *modelWorld
	name    string
	keyTTL  time.Duration
	lookup  bool
	did     map[string]int       // effects, by key
	since   map[string]time.Time // of the first one
	body    map[string]string    // as it came first
	slow    map[string]time.Time // effects that happen then
	letters []*letter
}

func newModelGateway(w *modelWorld, name string, keyTTL time.Duration, lookup bool) *modelGateway {
	return &modelGateway{w: w, name: name, keyTTL: keyTTL, lookup: lookup, did: map[string]int{}, since: map[string]time.Time{}, body: map[string]string{}, slow: map[string]time.Time{}}
}

// honours reports whether a repeated key would be known here.
func (g *modelGateway) honours(key string) bool {
	since, known := g.since[key]
	return known && time.Since(since) < g.keyTTL
}

// perform does the effect of a key, unless the key is known.
func (g *modelGateway) perform(key string) {
	if g.honours(key) {
		g.w.saw("gateway knew the key")
		return
	}
	if g.did[key]++; g.did[key] > 1 {
		g.w.breaks("%s happened %d times at the gateway", key, g.did[key])
	}
	if _, known := g.since[key]; !known {
		g.since[key] = time.Now()
	}
}

// catchUp does what a slow target has done by now.
func (g *modelGateway) catchUp() {
	for key, at := range g.slow {
		if !time.Now().Before(at) {
			delete(g.slow, key)
			g.perform(key)
		}
	}
}

// happened is the truth about a key; settled is false while it can still happen.
func (g *modelGateway) happened(key string) (did, settled bool) {
	g.catchUp()
	_, slow := g.slow[key]
	return g.did[key] > 0, !slow
}

// modelDoor is the network between one relay and one target.
type modelDoor struct {
	r *modelRelay
	g *modelGateway
}

var errCutOff = errors.New("the connection broke")

// RoundTrip implements http.RoundTripper.
func (d modelDoor) RoundTrip(req *http.Request) (*http.Response, error) {
	l := d.g.arrives(d.r, req)
	if l == nil {
		return nil, errCutOff
	}
	if l.fault.heard != "not sent" {
		d.r.point("gateway.before")
	}
	return d.answer(l, req)
}

// arrives notes a request; nil when its sender is dead.
func (g *modelGateway) arrives(r *modelRelay, req *http.Request) *letter {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if r.dead {
		return nil
	}
	g.catchUp()
	l := &letter{relay: r, target: g.name, at: time.Now(), lookup: req.Method == http.MethodGet}
	if l.lookup {
		l.key, l.fault = path.Base(req.URL.Path), g.tells(path.Base(req.URL.Path), r.luck[g.name])
	} else {
		body, _ := io.ReadAll(req.Body)
		l.key, l.fault = req.Header.Get("Idempotency-Key"), g.w.weather.send(r.luck[g.name])
		g.checkBody(l.key, string(body))
		g.checkBlind(l.key)
	}
	g.letters = append(g.letters, l)
	return l
}

func (g *modelGateway) checkBody(key, body string) {
	if first, ok := g.body[key]; ok && first != body {
		g.w.breaks("%s was sent with %s and with %s", key, first, body)
	}
	g.body[key] = body
	if t := g.w.m.byKey[key]; t != nil && t.noted {
		g.w.breaks("%s was sent, and the ledger knew it", key)
	}
	if t := g.w.m.byKey[key]; t == nil || body != t.body {
		g.w.breaks("%s was sent with %s, and no ticket says so", key, body)
	}
}

// checkBlind: once the target may have forgotten a key, nothing goes out under it before somebody who could know
// has said that it did not happen.
func (g *modelGateway) checkBlind(key string) {
	var open *letter
	for _, l := range g.letters {
		switch {
		case l.key != key:
		case l.lookup && l.fault.heard == "absent":
			open = nil
		case !l.lookup && (l.fault.heard == "unknown" || !l.ended) && open == nil && l.at.After(g.w.m.byKey[key].cleared):
			open = l
		}
	}
	if open != nil && time.Since(open.at) >= g.keyTTL {
		g.w.breaks("%s was sent blindly %v after a send of which nobody knew what came; keys are honoured for %v", key, time.Since(open.at), g.keyTTL)
	}
}

// tells is the truth about a key, or a fault that hides it.
func (g *modelGateway) tells(key string, luck *rand.Rand) fault {
	if f, bad := g.w.weather.lookup(luck); bad {
		return f
	}
	if g.did[key] > 0 {
		return fault{name: "found", status: 200, body: modelReceipt, heard: "found"}
	}
	return fault{name: "absent", status: 404, body: `{"error":"never seen"}`, heard: "absent"}
}

func (d modelDoor) answer(l *letter, req *http.Request) (*http.Response, error) {
	d.g.w.mu.Lock()
	if d.r.dead {
		l.ended = true
		d.g.w.mu.Unlock()
		return nil, errCutOff
	}
	f := l.fault
	if req.Context().Err() != nil && f.heard != "not sent" { // the sender stood still for too long, and its bytes with it
		f = fault{name: "stood still past the time-out", silent: true, heard: silence(l), unreachable: true}
		l.fault = f
	}
	if f.does {
		d.g.perform(l.key)
	}
	if f.late {
		d.g.slow[l.key] = l.at.Add(modelTimeout + modelLate)
	}
	d.g.w.mu.Unlock()
	if f.does {
		d.r.point("gateway.did")
	}
	switch {
	case f.heard == "not sent", f.name == refusedConnection.name:
		d.end(l)
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case f.silent:
		<-req.Context().Done()
		d.end(l)
		return nil, req.Context().Err()
	}
	d.end(l)
	return respond(req, f), nil
}

func silence(l *letter) string {
	if l.lookup {
		return "could not ask"
	}
	return "unknown"
}

func (d modelDoor) end(l *letter) {
	d.g.w.mu.Lock()
	defer d.g.w.mu.Unlock()
	l.ended = true
}

func respond(req *http.Request, f fault) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	if f.status == http.StatusTooManyRequests {
		h.Set("Retry-After", fmt.Sprint(int(modelHold.Seconds())))
	}
	if f.status == http.StatusFound {
		h.Set("Location", "https://elsewhere.example/login")
	}
	return &http.Response{StatusCode: f.status, Header: h, Body: io.NopCloser(strings.NewReader(f.body)), Request: req}
}

// weather is how the network and the targets are disposed.
type weather string

const (
	calm    weather = "calm"
	stormy  weather = "stormy"
	offline weather = "offline"
)

func (w weather) send(luck *rand.Rand) fault {
	switch {
	case w == offline:
		return []fault{refusedConnection, noAnswer}[luck.IntN(2)]
	case luck.IntN(12) == 0: // or there would be few dead letters
		return rejection
	case w == stormy, luck.IntN(10) < 3:
		return faults[luck.IntN(len(faults))]
	}
	return fine
}

func (w weather) lookup(luck *rand.Rand) (f fault, bad bool) {
	if w == calm && luck.IntN(10) > 0 || w == stormy && luck.IntN(10) < 6 {
		return f, false
	}
	return lookupFaults[luck.IntN(len(lookupFaults))], true
}
