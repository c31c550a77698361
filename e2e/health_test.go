package e2e

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ranOnce runs the program once and returns its exit code and what it printed. Whoever asks the proxy that its
// environment names is told that all is well.
func ranOnce(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ready":true}`)) }))
	defer proxy.Close()
	cmd := exec.Command(builtProgram(t), args...)
	cmd.Env = append(scrubbed(), "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// A health check that began before the server finds it ready; one of a server whose file is gone says so.
func TestHealthOfAServer(t *testing.T) {
	p := onFile(t, builtProgram(t))
	addr := freeAddr(t)
	if code, _, errs := ranOnce(t, "health", "--addr", addr); code != 1 || !strings.Contains(errs, "no comanda answers at http://"+addr) {
		t.Errorf("before the start: exit %d, %s", code, errs)
	}
	if code, out, errs := ranOnce(t, "health", "--url", "http://nobody.invalid"); code != 1 || !strings.Contains(errs, "no comanda answers") {
		t.Errorf("a proxy was asked: exit %d, %s%s", code, out, errs)
	}
	waiting := make(chan string, 1)
	go func() {
		_, out, errs := ranOnce(t, "health", "--addr", addr, "--wait", "1m")
		waiting <- out + errs
	}()
	must(p.serve("", "--addr", addr))(t)
	if got := <-waiting; got != "ready: http://"+addr+"\n" {
		t.Errorf("while it started: %q", got)
	}
	if err := p.lookAway(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.file, p.file+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	code, out, errs := ranOnce(t, "health", "--addr", addr)
	if code != 1 || out != "" || !strings.Contains(errs, "comanda: not ready: the file, its -wal or its -shm was removed") {
		t.Errorf("without its file: exit %d, %q, %q", code, out, errs)
	}
	if err := os.Rename(p.file+".elsewhere", p.file); err != nil {
		t.Fatal(err)
	}
}
