package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a filesystem of its own in memory, mib MiB large. Who may not mount runs the whole test again
// where he may: in a user namespace. It returns "" when that has been done.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	if err == nil {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	const within = "COMANDA_TEST_IN_NAMESPACE"
	if os.Getenv(within) != "" {
		t.Skipf("no filesystem can be mounted here: %v", err)
	}
	if err := exec.Command("unshare", "-Urm", "true").Run(); err != nil {
		t.Skipf("no filesystem can be mounted here, nor a namespace made: %v", err)
	}
	cmd := exec.Command("unshare", "-Urm", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), within+"=1")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	return ""
}

// serverOn serves a file in dir without a relay; CUS-7 has credit.
func serverOn(t *testing.T, dir string) (*proof, *child) {
	t.Helper()
	p := newProof(Config{Exe: builtProgram(t), JSON: true}, entry{name: "test"}, dir)
	t.Cleanup(func() { p.end(context.Background()) })
	s := must(p.serve("", "--no-relay"))(t)
	if err := p.client.credit(t.Context(), s.url, "CUS-7", "100.00"); err != nil {
		t.Fatal(err)
	}
	return p, s
}

// wideOrder has so many lines that it takes some room.
func wideOrder(i int) (order, body string) {
	order = fmt.Sprintf("ORD-F%d", i)
	lines := make([]line, 40)
	for n := range lines {
		lines[n] = line{SKU: fmt.Sprintf("SKU-%04d", n), Quantity: 1}
	}
	return order, orderBody("EVT-"+order, order, "CUS-7", "10.00", lines...)
}

// A disk runs full under a server: orders are answered 503 with a time to come back, never 200 without being
// there. A relay that is started on the full disk finishes everything that was accepted, in the room of the
// ballast, while orders are still refused. When there is room again the same processes go on by themselves.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, 40)
	if dir == "" {
		return
	}
	ctx := t.Context()
	p, s := serverOn(t, dir)
	filler := filepath.Join(dir, "filler")
	fillUp(t, filler, 3<<20)
	taken, owed := []string{}, []int{}
	for i := 0; len(owed) < 5; i++ {
		order, body := wideOrder(i)
		a := must(p.client.order(ctx, s.url, body))(t)
		switch {
		case a.code == http.StatusOK:
			taken = append(taken, order)
		case a.code != http.StatusServiceUnavailable || a.retryAfter == "" || !strings.Contains(a.text, `"reason":"disk-full"`):
			t.Fatalf("order %d on a full disk: %s", i, a)
		default:
			owed = append(owed, i)
		}
	}
	if len(taken) < 5 {
		t.Fatalf("only %d orders fitted: this test shows nothing", len(taken))
	}
	if st := must(os.Stat(p.file + ".ballast"))(t); st.Size() != 0 || st.Mode().Perm() != 0o600 {
		t.Errorf("the ballast on a full disk: %d bytes, %s", st.Size(), st.Mode())
	}
	if a := must(p.client.do(ctx, http.MethodGet, s.url+"/readyz", ""))(t); a.code != http.StatusServiceUnavailable || !strings.Contains(a.text, "the disk is full") {
		t.Errorf("/readyz on a full disk: %s", a)
	}
	waiting := p.show(ctx, "SELECT count(*) FROM outbox WHERE status='pending';")
	if err := p.lookAway(); err != nil {
		t.Fatal(err)
	}
	r := must(p.relay("relay", ""))(t)
	if err := p.untilDrained(ctx); err != nil {
		t.Fatal(err)
	}
	if a := must(p.client.order(ctx, s.url, orderBody("EVT-L", "ORD-L", "CUS-7", "1.00", line{"A", 1})))(t); a.code != http.StatusServiceUnavailable || a.retryAfter == "" {
		t.Errorf("an order while the ballast is given up: %s", a)
	}
	t.Logf("%d orders taken, %s tickets waited on the full disk and are done", len(taken), waiting)

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, i := range owed {
		order, body := wideOrder(i)
		for {
			a := must(p.client.order(ctx, s.url, body))(t)
			if a.code == http.StatusOK {
				taken = append(taken, order)
				break
			}
			if time.Since(began) > patience {
				t.Fatalf("there is room again and order %d is answered %s", i, a)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Logf("taken again %s after there was room", time.Since(began).Round(time.Millisecond))
	if a := must(p.client.do(ctx, http.MethodGet, s.url+"/readyz", ""))(t); a.code != http.StatusOK {
		t.Errorf("/readyz with room again: %s", a)
	}
	if st := must(os.Stat(p.file + ".ballast"))(t); st.Sys().(*syscall.Stat_t).Blocks*512 < 2<<20 {
		t.Errorf("the ballast with room again: %d bytes, %d blocks", st.Size(), st.Sys().(*syscall.Stat_t).Blocks)
	}
	if err := p.untilDrained(ctx); err != nil {
		t.Fatal(err)
	}
	for _, order := range taken {
		p.ask(ctx, fmt.Sprintf("SELECT (SELECT count(*) FROM orders WHERE order_id='%[1]s'), (SELECT count(*) FROM outbox WHERE aggregate_id='%[1]s' AND status='done'), (SELECT count(*) FROM external_effects_log WHERE order_id='%[1]s');", order), "1 | 40 | 40")
	}
	p.invariants(ctx)
	if err := p.endAll(ctx, r, s); err != nil {
		t.Error(err)
	}
	if !p.ok() {
		t.Errorf("not as it should be: %s", failed(Result{Steps: p.steps}))
	}
}

// fillUp leaves as many bytes free as told beside a file of that name.
func fillUp(t *testing.T, path string, leave uint64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		t.Fatal(err)
	}
	f := must(os.Create(path))(t)
	defer f.Close()
	if n := st.Bavail*uint64(st.Bsize) - leave; st.Bavail*uint64(st.Bsize) > leave {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// A server is started on a disk without a byte of room: it gives up its ballast, comes up, finishes what waits and
// refuses what is new; with room again it takes orders. A first start there says what is wrong, and leaves nothing
// that a later one stumbles over.
func TestStartOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, 40)
	if dir == "" {
		return
	}
	ctx := t.Context()
	p, s := serverOn(t, dir)
	for i := range 3 {
		_, body := wideOrder(i)
		if a := must(p.client.order(ctx, s.url, body))(t); a.code != http.StatusOK {
			t.Fatal(a)
		}
	}
	if err := p.endAll(ctx, s); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	fillUp(t, filler, 0)

	first := exec.CommandContext(ctx, p.exe, "serve", "--db", filepath.Join(dir, "first.db"), "--addr", "127.0.0.1:0")
	first.Env = scrubbed()
	if out, err := first.CombinedOutput(); err == nil || !strings.Contains(string(out), "the disk is full") {
		t.Errorf("a first start on a full disk: %v: %s", err, out)
	}

	s = must(p.serve(""))(t)
	if err := p.untilDrained(ctx); err != nil {
		t.Fatal(err)
	}
	order := orderBody("EVT-L", "ORD-L", "CUS-7", "1.00", line{"A", 1})
	if a := must(p.client.order(ctx, s.url, order))(t); a.code != http.StatusServiceUnavailable || a.retryAfter == "" {
		t.Errorf("an order while the ballast is given up: %s", a)
	}
	if err := p.lookAway(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		a := must(p.client.order(ctx, s.url, order))(t)
		if a.code == http.StatusOK {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("there is room again and an order is answered %s", a)
		}
	}
	if err := p.untilDrained(ctx); err != nil {
		t.Fatal(err)
	}
	p.invariants(ctx)
	if err := p.endAll(ctx, s); err != nil {
		t.Error(err)
	}
	p.file = filepath.Join(dir, "first.db")
	if err := p.lookAway(); err != nil {
		t.Fatal(err)
	}
	s = must(p.serve(""))(t)
	if a := must(p.client.order(ctx, s.url, order))(t); a.code != http.StatusOK {
		t.Errorf("where a first start had failed: %s", a)
	}
	if err := p.endAll(ctx, s); err != nil {
		t.Error(err)
	}
	if !p.ok() {
		t.Errorf("not as it should be: %s", failed(Result{Steps: p.steps}))
	}
}

// A server that was killed is started again on a disk without a byte of room. Its -wal is there, so no statement
// meets the full disk before the lock file does: the ballast is given up for that too.
func TestStartOnAFullDiskAfterAKill(t *testing.T) {
	dir := smallDisk(t, 40)
	if dir == "" {
		return
	}
	ctx := t.Context()
	p, s := serverOn(t, dir)
	for i := range 3 {
		_, body := wideOrder(i)
		if a := must(p.client.order(ctx, s.url, body))(t); a.code != http.StatusOK {
			t.Fatal(a)
		}
	}
	s.kill()
	<-s.gone
	filler := filepath.Join(dir, "filler")
	fillUp(t, filler, 0)
	s = must(p.serve(""))(t)
	if err := p.untilDrained(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.lookAway(); err != nil {
		t.Fatal(err)
	}
	p.invariants(ctx)
	if err := p.endAll(ctx, s); err != nil {
		t.Error(err)
	}
	if !p.ok() {
		t.Errorf("not as it should be: %s", failed(Result{Steps: p.steps}))
	}
}
