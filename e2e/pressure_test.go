//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"comanda/store"
)

// limitedTo returns a program that runs the built one under a limit of ulimit(1).
func limitedTo(t *testing.T, limit string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "comanda")
	text := fmt.Sprintf("#!/bin/sh\nulimit %s || exit 99\nexec %s \"$@\"\n", limit, builtProgram(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// acks are the orders of which a client was told that they are on disk.
type acks struct {
	mu      sync.Mutex
	tickets map[string][]string
	took    []time.Duration
	busy    int // answers 503, each with Retry-After
	wrong   []string
}

// send sends one order and notes what came of it.
func (a *acks) send(ctx context.Context, c *client, base, order string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/webhooks/orders",
		strings.NewReader(orderBody("EVT-"+order, order, "CUS-7", "100.00", line{"CF-ARA-500", 1})))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case res.StatusCode == 200:
		a.tickets[order] = []string{"refund:" + order}
		a.took = append(a.took, time.Since(began))
	case res.StatusCode == 503 && res.Header.Get("Retry-After") != "":
		a.busy++
	default:
		a.wrong = append(a.wrong, fmt.Sprintf("%d %s", res.StatusCode, text))
	}
	return res.StatusCode == 200
}

// p99 is how long all but a hundredth of the accepted orders took at most.
func (a *acks) p99() time.Duration {
	if len(a.took) == 0 {
		return 0
	}
	slices.Sort(a.took)
	return a.took[(len(a.took)-1)*99/100]
}

// judge kills the server, starts it again, lets it drain, and looks whether all that was acknowledged is
// there, once.
func (a *acks) judge(t *testing.T, p *proof, server *child) {
	t.Helper()
	server.kill()
	if err := server.waitKilled(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := must(p.serve(""))(t)
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.endAll(t.Context(), again); err != nil {
		t.Error(err)
	}
	db := must(store.Open(t.Context(), p.file, store.Options{MustExist: true}))(t)
	defer db.Close()
	found := must(audit(t.Context(), db, "ORD-", a.tickets))(t)
	t.Logf("%d acknowledged, p99 %s; %d told to come again; after kill -9: %s", len(a.tickets), a.p99().Round(time.Millisecond), a.busy, found)
	if !found.ok() || len(a.wrong) > 0 {
		t.Errorf("wrong answers: %.3q; the file: %s", a.wrong, found)
	}
}

// memory is a line of the process's own account, in KiB.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	text := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	for l := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(l, name+":"); ok {
			return must(strconv.Atoi(strings.Fields(rest)[0]))(t)
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	return 0
}

// Somebody opens connections until the server has no more to give, and keeps them. What was accepted stays,
// the file and the relay go on working, nothing is answered with 500, and when the connections go the server
// takes orders again with no hand.
func TestDescriptorsUsedUp(t *testing.T) {
	p := onFile(t, limitedTo(t, "-n 200"))
	server := must(p.serve(""))(t)
	a := &acks{tickets: map[string][]string{}}
	if !a.send(t.Context(), p.client, server.url, "ORD-BEFORE") {
		t.Fatal("no order is taken")
	}
	p.client.close()
	addr := strings.TrimPrefix(server.url, "http://")
	var held []net.Conn
	for range 400 {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			break // not even the queue of the kernel has room
		}
		held = append(held, c)
	}
	fds := len(must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.pid)))(t))
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	a.send(short, p.client, server.url, "ORD-DURING")
	cancel()
	relay := must(p.relay("relay", ""))(t) // the file can be opened and worked on
	for _, c := range held {
		c.Close()
	}
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		ok := a.send(ctx, p.client, server.url, fmt.Sprintf("ORD-AFTER-%d", n))
		cancel()
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not recover")
		}
	}
	if err := server.unexpected(); err != nil {
		t.Error(err)
	}
	t.Logf("%d connections against 200 descriptors, of which the server had %d in use", len(held), fds)
	if fds >= 200 {
		t.Errorf("the server had %d descriptors in use: none was left for the file", fds)
	}
	if err := p.endAll(t.Context(), relay); err != nil {
		t.Error(err)
	}
	a.judge(t, p, server)
}

// holdUpWriters has another client hold the file's write lock for some time.
func (p *proof) holdUpWriters(t *testing.T, lasts time.Duration) {
	t.Helper()
	o := must(openOutside(p.file))(t)
	must(o.exec(t.Context(), "BEGIN IMMEDIATE"))(t)
	time.Sleep(lasts)
	must(o.exec(t.Context(), "ROLLBACK"))(t)
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// Ten times as many clients as the server takes at once, and large bodies among them, in a process that is to
// make do with 64 MiB: who can't be served is told to come again, who is served is served soon, the memory stays
// sane, and after kill -9 everything that was acknowledged is there.
func TestFlood(t *testing.T) {
	clients, lasts := 1200, 3*time.Second
	if given := os.Getenv("COMANDA_PRESSURE"); given != "" {
		clients, lasts = 2000, must(time.ParseDuration(given))(t)
	} else if testing.Short() {
		t.Skip("takes some seconds")
	}
	p := onFile(t, limitedTo(t, "-n 4096; export GOMEMLIMIT=64MiB; :"))
	server := must(p.serve(""))(t)
	a := &acks{tickets: map[string][]string{}}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				a.send(ctx, p.client, server.url, fmt.Sprintf("ORD-%d-%d", i, n))
			}
		})
	}
	var large, refused int
	big := strings.Repeat(" ", 1<<20-1)
	var mu sync.Mutex
	for range 40 { // each holds a megabyte until it is told what comes of it
		all.Go(func() {
			for ctx.Err() == nil {
				got, _ := p.client.order(ctx, server.url, big)
				if got.code == 0 {
					continue // the flood is over
				}
				mu.Lock()
				if large++; got.code == 503 {
					refused++
				} else if got.code != 400 {
					a.wrong = append(a.wrong, got.String())
				}
				mu.Unlock()
			}
		})
	}
	p.holdUpWriters(t, time.Second) // so that more pile up than are taken at once, on a fast machine too
	all.Wait()
	if a.busy == 0 {
		t.Error("nobody was told to come again: this was no flood")
	}
	if err := server.unexpected(); err != nil {
		t.Error(err)
	}
	hwm := memory(t, server.pid, "VmHWM")
	t.Logf("%d large bodies, %d of them told to come again; the process held %d MiB at most", large, refused, hwm>>10)
	if hwm > 300<<10 {
		t.Errorf("the process held %d KiB", hwm)
	}
	if len(a.took) < 20 || a.p99() > 10*time.Second {
		t.Errorf("%d orders were accepted, p99 %s", len(a.took), a.p99())
	}
	a.judge(t, p, server)
}
