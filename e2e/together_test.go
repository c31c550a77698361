package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"comanda/store"
)

// Two servers on one file are safe: both take orders, an order or an event that comes to both is decided once, and no
// ticket is claimed by both. Looking at the file with the program's other commands in the meantime loses no commit.
// When one is killed the other goes on, and what the dead one had claimed is carried out.
func TestTwoServersOnOneFile(t *testing.T) {
	p := onFile(t, builtProgram(t))
	first := must(p.serve("", "--batch", "3"))(t)
	link := filepath.Join(t.TempDir(), "link.db") // another name for it, which leads to the same -wal and the same locks
	if err := os.Symlink(p.file, link); err != nil {
		t.Fatal(err)
	}
	second := must(p.start("serve 2", "", []string{"serve", "--db", link, "--addr", "127.0.0.1:0", "--batch", "3"}))(t)
	if err := p.client.credit(t.Context(), first.url, "CUS-8", "50000.00"); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string][]string{}
	var mu sync.Mutex
	send := func(to *child, order string) error {
		body := orderBody("EVT-"+order, order, "CUS-8", "100.00", line{"A", 1}, line{"B", 2})
		a, err := p.client.order(t.Context(), to.url, body)
		if err != nil || a.code != http.StatusOK {
			return fmt.Errorf("%s: %s, %w", to.name, a, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if before := acknowledged[order]; before != nil && fmt.Sprint(before) != fmt.Sprint(a.body.Tickets) {
			return fmt.Errorf("%s was answered with %v and with %v", order, before, a.body.Tickets)
		}
		acknowledged[order] = a.body.Tickets
		return nil
	}
	var looks atomic.Int64
	stop := make(chan struct{})
	var lookers, senders sync.WaitGroup
	for _, args := range [][]string{{"doctor", "--json"}, {"sql", "SELECT count(*) FROM outbox"}, {"tickets", "list"}} {
		lookers.Go(func() {
			for {
				if _, stderr, code := run(t, nil, p.exe, append(args, "--db", p.file)...); code != 0 {
					t.Errorf("%v beside two servers exits %d: %s", args, code, stderr)
				}
				looks.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 4 {
		senders.Go(func() {
			for n := range 40 {
				order := fmt.Sprintf("ORD-%d-%d", i, n)
				var both sync.WaitGroup
				for _, to := range []*child{first, second} {
					both.Go(func() {
						if err := send(to, order); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
			}
		})
	}
	senders.Wait()
	close(stop)
	lookers.Wait()
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT count(*) FROM orders`:                       "160",
		`SELECT count(*) FROM outbox`:                       "320",
		`SELECT count(*) FROM external_effects_log`:         "320",
		`SELECT count(*) FROM outbox WHERE attempts <> 1`:   "0",
		`SELECT count(*) >= 2 FROM relays`:                  "1",
		`SELECT count(*) FROM events WHERE differs <> '[]'`: "0",
	} {
		if got := must(p.query(t.Context(), query))(t); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for n := range 50 { // some of them claimed by the one that dies
		if err := send(first, fmt.Sprintf("ORD-LAST-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	first.kill()
	if err := first.waitKilled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := send(second, "ORD-AFTER"); err != nil {
		t.Error(err)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.endAll(t.Context(), second); err != nil {
		t.Error(err)
	}
	db := must(store.Open(t.Context(), p.file, store.Options{MustExist: true}))(t)
	defer db.Close()
	a := must(audit(t.Context(), db, "", acknowledged))(t)
	t.Logf("%d looks by other commands; %s", looks.Load(), a)
	if !a.ok() || a.orders != 211 || looks.Load() < 6 {
		t.Errorf("%d looks; the file: %s", looks.Load(), a)
	}
}

// A server whose file, -wal or -shm is taken away says so to whoever asks and to whoever sends, and when it ends: it does
// not say that all is well. What was promised before is there when what was taken away is put back; and if only the
// -wal was removed, ending the server brings it into the file.
func TestFileTakenAwayUnderAServer(t *testing.T) {
	for _, tail := range []string{"", "-wal", "-shm"} {
		t.Run("file"+tail, func(t *testing.T) {
			p := onFile(t, builtProgram(t))
			s := must(p.serve(""))(t)
			if a := postTo(t, s, "ORD-1"); !strings.HasPrefix(a, "200") {
				t.Fatal(a)
			}
			if err := p.untilDrained(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.lookAway(); err != nil {
				t.Fatal(err)
			}
			aside := filepath.Join(t.TempDir(), "aside")
			if err := os.Rename(p.file+tail, aside); err != nil {
				t.Fatal(err)
			}
			for _, order := range []string{"ORD-1", "ORD-2"} {
				if a := postTo(t, s, order); !strings.HasPrefix(a, "503") {
					t.Errorf("%s is answered with %s", order, a)
				}
			}
			if a := said(t, must(http.Get(s.url+"/readyz"))(t)); !strings.HasPrefix(a, "503") || !strings.Contains(a, "removed, moved or replaced") {
				t.Errorf("readiness: %s", a)
			}
			well, bad := s.watch("nothing is lost"), s.watch("nothing was written back")
			s.expectEnd()
			s.terminate()
			if err := s.waitGone(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(well) > 0 || (len(bad) == 1) != (tail != "-wal") || (s.code == 0) != (tail == "-wal") {
				t.Errorf("it ended with %d; said that all is well: %t, that something is not: %t", s.code, len(well) > 0, len(bad) > 0)
			}
			if tail != "-wal" {
				if err := os.Rename(aside, p.file+tail); err != nil {
					t.Fatal(err)
				}
			}
			s = must(p.serve(""))(t)
			if a := postTo(t, s, "ORD-1"); !strings.Contains(a, `"duplicate"`) {
				t.Errorf("what was promised is answered with %s", a)
			}
			if err := p.endAll(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// newerProgram builds a program whose schema has one step more.
func newerProgram(t *testing.T) string {
	t.Helper()
	root, dir := must(filepath.Abs(".."))(t), t.TempDir()
	step := filepath.Join(dir, "next.sql")
	if err := os.WriteFile(step, []byte("ALTER TABLE outbox ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := must(os.ReadDir(filepath.Join(root, "schema", "steps")))(t)
	name := fmt.Sprintf("%04d_colour.sql", len(steps)+1)
	overlay := must(json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, "schema", "steps", name): step}}))(t)
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "comanda")
	goTool(t, root, "build", "-overlay", file, "-o", exe, ".")
	return exe
}

// postTo sends a refund's order to a server and returns its answer's status and body.
func postTo(t *testing.T, to *child, order string) string {
	t.Helper()
	body := orderBody("EVT-"+order, order, "CUS-7", "100.00", line{"A", 1})
	return said(t, must(http.Post(to.url+"/webhooks/orders", "application/json", strings.NewReader(body)))(t))
}

// said is an answer's status and body.
func said(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	return fmt.Sprintf("%d %s", res.StatusCode, must(io.ReadAll(res.Body))(t))
}

// A newer program brings the file up to date while an older one serves it: the older one promises and carries out
// nothing more and says why, the newer one goes on with what waits, and the older one is refused when it starts again.
func TestNewerProgramUnderAnOlderOne(t *testing.T) {
	p := onFile(t, builtProgram(t))
	older := must(p.serve(""))(t)
	if a := postTo(t, older, "ORD-OLD"); !strings.HasPrefix(a, "200") {
		t.Fatal(a)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.lookAway(); err != nil { // this test is an older program too
		t.Fatal(err)
	}
	refused := older.watch("pass failed") // it is said once
	p.exe = newerProgram(t)
	newer := must(p.serve("", "--no-relay"))(t)
	for _, order := range []string{"ORD-OLD", "ORD-NEW"} {
		if a := postTo(t, older, order); !strings.HasPrefix(a, "503") || !strings.Contains(a, `"reason":"schema"`) {
			t.Errorf("the older program answers %s with %s", order, a)
		}
	}
	if a := said(t, must(http.Get(older.url+"/readyz"))(t)); !strings.HasPrefix(a, "503") || !strings.Contains(a, "another comanda has brought the file up to date") {
		t.Errorf("the older program's readiness: %s", a)
	}
	if a := postTo(t, newer, "ORD-OLD"); !strings.Contains(a, `"duplicate"`) {
		t.Errorf("the newer program answers an old event with %s", a)
	}
	if a := postTo(t, newer, "ORD-NEW"); !strings.Contains(a, `"accepted"`) {
		t.Errorf("the newer program answers a new event with %s", a)
	}
	if line := must(older.await(t.Context(), refused, "a pass"))(t); !strings.Contains(line, "schema was changed by another comanda") {
		t.Errorf("the older program's relay says %s", line)
	}
	waiting := func() string {
		stdout, stderr, code := run(t, nil, p.exe, "sql", "--db", p.file, "SELECT status, attempts, colour FROM outbox ORDER BY id")
		if code != 0 {
			t.Fatalf("sql exits %d: %s", code, stderr)
		}
		return strings.Join(strings.Fields(stdout), " ")
	}
	if got := waiting(); !strings.Contains(got, "done") || !strings.Contains(got, "pending") {
		t.Errorf("the outbox is %s, want the older program's ticket done and the newer one's pending", got)
	}
	if err := p.endAll(t.Context(), older); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"serve", "relay", "doctor"} {
		_, stderr, code := run(t, nil, builtProgram(t), command, "--db", p.file)
		if code != 2 || !strings.Contains(stderr, "was written by a newer comanda") {
			t.Errorf("the older program's %s exits %d: %s", command, code, stderr)
		}
	}
	relay := must(p.relay("relay", ""))(t)
	for deadline := time.Now().Add(patience); strings.Contains(waiting(), "pending"); {
		if time.Now().After(deadline) {
			t.Fatal("the newer program does not carry out what waits")
		}
	}
	if err := p.endAll(t.Context(), relay, newer); err != nil {
		t.Error(err)
	}
}

// A serve that comes to nothing, since its address is taken, leaves the file as it was: in the lab, with the shop's
// server going on.
func TestServeOnATakenAddressChangesNothing(t *testing.T) {
	p := onFile(t, builtProgram(t))
	first := must(p.serve(""))(t)
	_, stderr, code := run(t, nil, p.exe, "serve", "--db", p.file, "--addr", strings.TrimPrefix(first.url, "http://"), "--refund-url", "http://127.0.0.1:9/refunds")
	if code != 1 || !strings.Contains(stderr, "can't listen on ") || strings.Contains(stderr, "msg=stopped") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	out, _, _ := run(t, nil, p.exe, "targets", "list", "--db", p.file)
	if !strings.Contains(out, "refund") || strings.Contains(out, "REAL") {
		t.Errorf("the targets are now:\n%s", out)
	}
	if _, err := p.client.order(t.Context(), first.url, orderBody("EVT-1", "ORD-1", "CUS-7", "100.00", line{"A", 1})); err != nil {
		t.Fatal(err)
	}
	if err := p.untilDrained(t.Context()); err != nil {
		t.Error(err)
	}
}
