package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
)

const claimWorld message = "world.claim"

// gatewayKind is a target as it is, and as comanda was told it is.
type gatewayKind struct {
	name  string
	says  message
	ttl   string   // how long the world honours keys
	flags []string // what comanda is told
	// want is what must come of a refund: effects in the world, and the ticket's state.
	want func(fault, crash string) string
}

// The faults of the table, and whether the world carries the effect out all the same.
var worldFaults = []struct {
	name     string
	performs bool
}{
	{"", true}, {"500", false}, {"perform-then-500", true}, {"reset", false}, {"perform-then-reset", true},
	{"hang", false}, {"perform-then-hang", true}, {"captive", false}, {"wrong-json", true},
}

var worldCrashes = []string{"", "effect.before_send", "effect.after_send"}

func performed(fault string) bool {
	for _, f := range worldFaults {
		if f.name == fault {
			return f.performs
		}
	}
	return false
}

// safe: the world can make it right, since it honours the key or can be asked.
func safe(string, string) string { return "1 done" }

// blind: nobody can know what came of an unknown try, so it is never repeated.
func blind(fault, crash string) string {
	switch {
	case crash == "effect.before_send":
		return "0 review"
	case crash == "" && fault == "":
		return "1 done"
	case performed(fault):
		return "1 review"
	}
	return "0 review"
}

// deceived: comanda was told that keys are honoured, and they are not.
func deceived(fault, crash string) string {
	switch {
	case crash == "effect.before_send" && performed(fault) && fault != "",
		crash == "effect.after_send" && performed(fault),
		crash == "" && performed(fault) && fault != "":
		return "2 done"
	}
	return "1 done"
}

func gatewayKinds() []gatewayKind {
	const ask = "--refund-lookup-url"
	return []gatewayKind{
		{"keys", "world.keys", "24h", nil, safe},
		{"keys-expired", "world.keys-expired", "24h", []string{"--refund-key-ttl", "1ms"}, blind},
		{"keys-expired-lookup", "world.lookup", "24h", []string{"--refund-key-ttl", "1ms", ask}, safe},
		{"no-keys", "world.no-keys", "0", []string{"--refund-key-ttl", "0"}, blind},
		{"no-keys-lookup", "world.lookup", "0", []string{"--refund-key-ttl", "0", ask}, safe},
		{"told-wrong", "world.told-wrong", "0", nil, deceived},
	}
}

func proveWorld(ctx context.Context, p *proof) error {
	if err := proveLessonCrash(ctx, p); err != nil {
		return err
	}
	p.say("world.table")
	all := gatewayKinds()
	tables := make([]*table, len(all))
	var running sync.WaitGroup
	next := make(chan int)
	for range 4 { // they mostly wait: for a disk, for a time-out
		running.Go(func() {
			for i := range next {
				tables[i] = p.tabulate(ctx, all[i])
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	running.Wait()
	cells, doubled, false0, review := 0, 0, 0, 0
	for i, t := range tables {
		if t.err != nil {
			return fmt.Errorf("with %s: %w", all[i].name, t.err)
		}
		p.say(all[i].says)
		p.add(Step{Text: fmt.Sprintf("%-20s", p.text("world.fault")), row: true, OK: true, Answer: fmt.Sprintf(worldRow, p.text("world.not-killed"), "before_send", "after_send")})
		for _, row := range t.rows {
			p.add(row)
		}
		if all[i].name == "told-wrong" {
			continue
		}
		cells, doubled, false0, review = cells+t.cells, doubled+t.doubled, false0+t.falselyDone, review+t.review
	}
	p.say("world.review", "Cells", cells, "Review", review)
	p.expect(p.text("world.doubled"), fmt.Sprintf("%d, %d", doubled, false0), "0, 0")
	p.tolls = append(p.tolls, Toll{Class: p.text("toll.gateway"), Tried: cells, Lost: false0, Doubled: doubled, Recovered: p.text("world.wait", "Review", review)})
	return nil
}

const worldRow = "%-11s %-12s %s"

// proveLessonCrash is the lesson's test C, as it breaks the world on purpose: the effect is out, the ledger does
// not know it, and the ticket is tried again.
func proveLessonCrash(ctx context.Context, p *proof) error {
	p.say("world.lesson")
	s, err := p.sub("lesson")
	if err != nil {
		return err
	}
	defer s.end(ctx)
	w, err := s.world("24h")
	if err != nil {
		return err
	}
	if err := s.hang(ctx, "refund:ORD-2041", "ORD-2041"); err != nil {
		return err
	}
	r, err := s.relay("relay", "effect.after_send", s.toWorld(w, nil)...)
	if err != nil {
		return err
	}
	if err := r.waitKilled(ctx); err != nil {
		return err
	}
	state := func(world, ledger, ticket string) {
		n, err := s.worldCount(ctx, w, "refund:ORD-2041")
		if err != nil {
			n = err.Error()
		}
		s.expect(s.text("world.effects"), n, world)
		s.ask(ctx, "SELECT count(*) FROM ledger WHERE effect_key='refund:ORD-2041';", ledger)
		s.ask(ctx, "SELECT status FROM outbox WHERE idempotency_key='refund:ORD-2041';", ticket)
	}
	state("1", "0", "processing")
	s.say("world.same-bytes")
	if _, err := s.relay("relay", "", s.toWorld(w, nil)...); err != nil {
		return err
	}
	if err := s.untilDrained(ctx); err != nil {
		return err
	}
	state("1", "1", "done")
	s.ask(ctx, "SELECT kind, outcome FROM attempts ORDER BY id;", "send | <nil>\nsend | done")
	p.steps = append(p.steps, s.steps...)
	return nil
}

// sub is a proof beside p with a file of its own, whose output is p's.
func (p *proof) sub(name string) (*proof, error) {
	s := *p
	s.file, s.steps, s.children, s.db, s.client = filepath.Join(p.dir, name+".db"), nil, nil, nil, newClient()
	init, err := s.serve("", "--no-relay") // makes the file
	if err != nil {
		return nil, err
	}
	return &s, s.endAll(context.Background(), init)
}

// world starts the lab's world for this proof.
func (p *proof) world(ttl string) (*child, error) {
	if err := p.lookAway(); err != nil {
		return nil, err
	}
	c, err := command{exe: p.exe, dir: p.dir, name: "world", args: []string{"world", "--addr", "127.0.0.1:0", "--key-ttl", ttl, "--db", strings.TrimSuffix(p.file, ".db") + "-world.db"}}.start()
	if c != nil {
		p.children = append(p.children, c)
	}
	return c, err
}

// toWorld are a relay's flags for a world; the lookup flag gets its address.
func (p *proof) toWorld(w *child, flags []string) []string {
	args := []string{"--refund-url", w.url + "/refunds", "--refund-timeout", "300ms", "--refund-rate", "0", "--refund-lookup-grace", "0s",
		"--refund-concurrency", "1", "--lease", "2s", "--retry-base", "10ms", "--retry-max", "50ms"}
	for _, f := range flags {
		args = append(args, f)
		if f == "--refund-lookup-url" {
			args = append(args, w.url+"/refunds?key={key}")
		}
	}
	return args
}

// hang hangs a refund on the rail as the lesson's INSERT does.
func (p *proof) hang(ctx context.Context, key, order string) error {
	return p.byHand(ctx, fmt.Sprintf(`INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status)
VALUES ('%s', 'issue_refund', '{"amount":2154.00,"currency":"MXN"}', '%s', 'pending')
ON CONFLICT (idempotency_key) DO NOTHING;`, order, key), 1)
}

// worldCount asks the world how often an effect happened.
func (p *proof) worldCount(ctx context.Context, w *child, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/effects", nil)
	if err != nil {
		return "", err
	}
	res, err := p.client.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var rows []struct {
		Key string `json:"effect_key"`
	}
	if err := json.NewDecoder(res.Body).Decode(&rows); err != nil {
		return "", fmt.Errorf("read the world's log: %w", err)
	}
	n := 0
	for _, r := range rows {
		if r.Key == key {
			n++
		}
	}
	return fmt.Sprint(n), nil
}

// table is what came of one kind of world.
type table struct {
	rows                                []Step
	cells, doubled, falselyDone, review int
	err                                 error
}

// tabulate tries every fault with every crash point on one world.
func (p *proof) tabulate(ctx context.Context, o gatewayKind) *table {
	t := &table{}
	t.err = p.tabulateInto(ctx, o, t)
	return t
}

func (p *proof) tabulateInto(ctx context.Context, o gatewayKind, t *table) error {
	quiet := *p
	quiet.out = io.Discard
	s, err := quiet.sub(o.name)
	if err != nil {
		return err
	}
	defer s.end(ctx)
	w, err := s.world(o.ttl)
	if err != nil {
		return err
	}
	if _, err := s.cell(ctx, o, w, "control", "", ""); err != nil { // by which a lookup is tested
		return fmt.Errorf("a refund without any fault: %w", err)
	}
	for _, f := range worldFaults {
		var got, want []any
		for i, crash := range worldCrashes {
			key := fmt.Sprintf("refund:%s-%s-%d", o.name, f.name, i)
			cell, err := s.cell(ctx, o, w, key, f.name, crash)
			if err != nil {
				return fmt.Errorf("%s, killed at %q: %w", f.name, crash, err)
			}
			t.count(cell)
			got, want = append(got, cell), append(want, o.want(f.name, crash))
		}
		name := f.name
		if name == "" {
			name = p.text("world.none")
		}
		row := Step{Text: fmt.Sprintf("%-20s", name), row: true, Answer: fmt.Sprintf(worldRow, got...), Want: fmt.Sprintf(worldRow, want...)}
		row.OK = row.Answer == row.Want
		t.rows = append(t.rows, row)
	}
	return nil
}

func (t *table) count(cell string) {
	world, state, _ := strings.Cut(cell, " ")
	t.cells++
	switch {
	case world != "0" && world != "1":
		t.doubled++
	case world == "0" && state == "done":
		t.falselyDone++
	}
	if state == "review" {
		t.review++
	}
}

// cell is one refund: a fault that strikes once, a relay that is killed at the crash point, and one that is not.
func (p *proof) cell(ctx context.Context, o gatewayKind, w *child, key, fault, crash string) (string, error) {
	faults := "[]"
	if fault != "" {
		faults = fmt.Sprintf(`["refund:%s:1"]`, fault)
	}
	if _, err := p.client.do(ctx, http.MethodPut, w.url+"/faults", `{"faults":`+faults+`}`); err != nil {
		return "", err
	}
	if err := p.hang(ctx, key, strings.TrimPrefix(key, "refund:")); err != nil {
		return "", err
	}
	if crash != "" {
		r, err := p.relay("relay", crash, p.toWorld(w, o.flags)...)
		if err != nil {
			return "", err
		}
		if err := r.waitKilled(ctx); err != nil {
			return "", err
		}
	}
	r, err := p.relay("relay", "", p.toWorld(w, o.flags)...)
	if err != nil {
		return "", err
	}
	if err := p.untilDrained(ctx); err != nil {
		return "", err
	}
	state, err := p.query(ctx, fmt.Sprintf(`SELECT status FROM outbox WHERE idempotency_key='%s';`, key))
	if err != nil {
		return "", err
	}
	n, err := p.worldCount(ctx, w, key)
	if err != nil {
		return "", err
	}
	r.expectEnd()
	r.kill()
	<-r.gone
	return n + " " + state, nil
}
