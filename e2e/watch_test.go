package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"comanda/store"

	"github.com/google/go-cmp/cmp"
)

// watcher is a `comanda watch --json` and what it has told so far.
type watcher struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	all  []store.Change
	done chan struct{}
}

func watch(t *testing.T, p *proof, args ...string) *watcher {
	t.Helper()
	w := &watcher{cmd: exec.Command(p.exe, append([]string{"watch", "--json", "--db", p.file}, args...)...), done: make(chan struct{})}
	w.cmd.Env = scrubbed()
	out := must(w.cmd.StdoutPipe())(t)
	w.cmd.Stderr = os.Stderr
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	go func() {
		defer close(w.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var c store.Change
			d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
			d.DisallowUnknownFields()
			if err := d.Decode(&c); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			w.mu.Lock()
			w.all = append(w.all, c)
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watcher) told() []store.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// count is how many lines of a kind there are.
func (w *watcher) count(kind string) (n int) {
	for _, c := range w.told() {
		if c.Kind == kind {
			n++
		}
	}
	return n
}

func (w *watcher) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s after %d lines", what, len(w.told()))
		}
	}
}

// end interrupts the watcher, which exits with 0, and returns how much CPU it used.
func (w *watcher) end(t *testing.T) time.Duration {
	t.Helper()
	_ = w.cmd.Process.Signal(os.Interrupt)
	<-w.done
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	return w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
}

// Every order and every end of a ticket is told once, in the order of the sequence, though the server is killed in
// between; whoever begins behind a line is told exactly the rest.
func TestWatch(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	w := watch(t, p)
	post := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := p.client.order(t.Context(), s.url, orderBody(fmt.Sprintf("EVT-%d", i), fmt.Sprintf("ORD-%d", i), "CUS-7", "12.00", line{"A", 1})); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.await(t, "its beginning", func() bool { // it begins at some moment: what it is told of is there to be seen
		code, _, _ := ranOnce(t, "targets", "pause", "refund", "--reason", "look\x1b[31m\u202e", "--db", p.file)
		_, _, _ = ranOnce(t, "targets", "resume", "refund", "--db", p.file)
		return code == 0 && w.count("operator") > 0
	})
	post(0, 100)
	s.expectEnd()
	s.kill()
	if err := s.waitKilled(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = must(p.serve(""))(t)
	post(100, 200)
	w.await(t, "200 ends", func() bool { return w.count("decided") == 200 && w.count("done") == 200 })
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "nothing more", func() bool { n := len(w.told()); time.Sleep(300 * time.Millisecond); return len(w.told()) == n })
	all := w.told()
	if !slices.IsSortedFunc(all, func(a, b store.Change) int { return int(a.Seq - b.Seq) }) {
		t.Error("the lines are not in the order of the sequence")
	}
	seen := map[string]bool{}
	for _, c := range all {
		if (c.Kind == "decided" || c.Kind == "done") && seen[c.Kind+c.OrderID] {
			t.Errorf("%s of %s is told twice", c.Kind, c.OrderID)
		}
		seen[c.Kind+c.OrderID] = true
	}
	for i := range 200 {
		if id := fmt.Sprintf("ORD-%d", i); !seen["decided"+id] || !seen["done"+id] {
			t.Errorf("%s is not told", id)
		}
	}
	all = withoutTakenOver(all)
	for _, at := range []int{0, len(all) / 3, len(all) / 2, len(all) - 5} {
		seq := all[at].Seq
		rest := slices.DeleteFunc(slices.Clone(all), func(c store.Change) bool { return c.Seq <= seq })
		again := watch(t, p, "--since", strconv.FormatInt(seq, 10))
		again.await(t, "the rest", func() bool { return len(again.told()) >= len(rest) })
		again.end(t)
		if diff := cmp.Diff(rest, again.told()); diff != "" {
			t.Errorf("since %d: %.2000s", seq, diff)
		}
	}
	t.Logf("%d lines, %s of CPU", len(all), w.end(t))
}

// withoutTakenOver leaves out the claims that a later one of the same ticket took the place of: whoever watches is told of
// each, and the file remembers the last.
func withoutTakenOver(all []store.Change) (kept []store.Change) {
	last := map[int64]int64{}
	for _, c := range all {
		if c.Kind == "claimed" {
			last[c.TicketID] = c.Seq
		}
	}
	for _, c := range all {
		if c.Kind != "claimed" || c.Seq == last[c.TicketID] {
			kept = append(kept, c)
		}
	}
	return kept
}

// A watcher whose reader goes away ends without a word, a place that the file has not come to is refused, and what
// operators wrote can't steer a terminal.
func TestWatchEnds(t *testing.T) {
	p := onFile(t, builtProgram(t))
	s := must(p.serve(""))(t)
	if code, _, errs := ranOnce(t, "targets", "pause", "refund", "--reason", "look\x1b[31m\u202e", "--db", p.file); code != 0 {
		t.Fatal(errs)
	}
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(p.exe, "watch", "--since", "0", "--db", p.file)
	var errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = scrubbed(), out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	text, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || !strings.Contains(text, `target paused by cli`) || !strings.Contains(text, `look\x1b[31m\u202e`) {
		t.Errorf("%q %v", text, err)
	}
	r.Close()
	if _, err := p.client.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "12.00", line{"A", 1})); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("without a reader: %v %s", err, errs.String())
	}
	if code, _, errs := ranOnce(t, "watch", "--since", "99999999", "--db", p.file); code != 2 || !strings.Contains(errs, "has come to place") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
