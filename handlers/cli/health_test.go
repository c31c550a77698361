package cli

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// says answers every question with one status and body.
func says(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestHealth(t *testing.T) {
	b := newBench()
	for _, want := range []struct {
		status       int
		body         string
		code         int
		out, err, no string
	}{
		{200, `{"ready":true}`, 0, "ready: http://", "", "comanda:"},
		{200, `{"ready":true,"warnings":["the disk is \u001b[31m95 % full"]}`, 0, "ready: http://", `comanda: worth a look: the disk is \x1b[31m95 % full`, "\x1b"},
		{503, `{"ready":false,"reason":"the disk is full","warnings":["no ballast"]}`, 1, "", "comanda: not ready: the disk is full\n", "ready: http"},
		{503, `{"ready":false,"reason":"the disk is full","warnings":["no ballast"]}`, 1, "", "comanda: worth a look: no ballast\n", ""},
		{200, `{"ready":false,"reason":"x"}`, 1, "", "is not a comanda (HTTP 200", ""},
		{503, `{"ready":true}`, 1, "", "is not a comanda", ""},
		{503, `{"ready":false}`, 1, "", "is not a comanda", ""},
		{200, `{"status":"UP"}`, 1, "", "is not a comanda", ""},
		{200, `<html>welcome</html>`, 1, "", "is not a comanda", ""},
		{404, ``, 1, "", "is not a comanda (HTTP 404", ""},
		{200, `{"ready":true,"warnings":["` + strings.Repeat("x", healthLongest) + `"]}`, 1, "", "is not a comanda", ""},
	} {
		code := b.run("health", "--url", says(t, want.status, want.body))
		if code != want.code || !strings.Contains(b.out.String(), want.out) || !strings.Contains(b.err.String(), want.err) {
			t.Errorf("%d %.80s: exit %d, %q, %q", want.status, want.body, code, b.out.String(), b.err.String())
		}
		if want.no != "" && strings.Contains(b.out.String()+b.err.String(), want.no) {
			t.Errorf("%d %.80s: says %q", want.status, want.body, want.no)
		}
	}
}

func TestHealthAsJSON(t *testing.T) {
	b := newBench()
	base := says(t, 503, `{"ready":false,"reason":"the disk is full","warnings":["no ballast"]}`)
	code := b.run("health", "--json", "--url", base+"/")
	var got readinessAnswer
	if err := json.Unmarshal(b.out.Bytes(), &got); err != nil || code != 1 {
		t.Fatalf("exit %d, %v: %s", code, err, b.out.String())
	}
	if diff := cmp.Diff(readinessAnswer{base, false, "the disk is full", []string{"no ballast"}}, got); diff != "" {
		t.Error(diff)
	}
}

// A server that becomes ready while it is waited for is ready, and the wait has an end.
func TestHealthWaits(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(`{"ready":true}`))
	}))
	defer s.Close()
	b := newBench()
	if code := b.run("health", "--url", s.URL, "--wait", "1m"); code != 0 || asked.Load() != 3 {
		t.Errorf("exit %d after %d questions: %s", code, asked.Load(), b.err.String())
	}
	began := time.Now()
	if code := b.run("health", "--url", says(t, 503, `{"ready":false,"reason":"the disk is full"}`), "--wait", "300ms"); code != 1 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("exit %d after %s: %s", code, time.Since(began), b.err.String())
	}
	b.failed(t, exitFailed, "no comanda answers at http://127.0.0.1:1 (", "health", "--addr", "127.0.0.1:1")
}

// Only the server itself is asked, and not where a redirect leads.
func TestHealthFollowsNoRedirect(t *testing.T) {
	b := newBench()
	s := httptest.NewServer(http.RedirectHandler(says(t, 200, `{"ready":true}`)+"/readyz", http.StatusFound))
	defer s.Close()
	b.failed(t, exitFailed, "HTTP 302", "health", "--url", s.URL)
}

func TestHealthOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ready":true}`)) }))
	s.Config.ErrorLog = nil
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench()
	if code := b.run("health", "--url", s.URL, "--ca", ca); code != 0 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	b.failed(t, exitFailed, "with --ca", "health", "--url", s.URL)
	address := strings.TrimPrefix(s.URL, "https://")
	b.failed(t, exitFailed, "speaks TLS: name its certificate", "health", "--addr", address)
	if code := b.run("health", "--addr", address, "--tls-cert", ca); code != 0 {
		t.Errorf("with the server's own certificate: exit %d: %s", code, b.err.String())
	}
	b.failed(t, exitFailed, "--tls-cert can't be read", "health", "--addr", address, "--tls-cert", ca+".missing")
	plain := httptest.NewServer(s.Config.Handler)
	defer plain.Close()
	b.failed(t, exitFailed, "it speaks no TLS", "health", "--addr", strings.TrimPrefix(plain.URL, "http://"), "--tls-cert", ca)
	b.failed(t, exitUsage, "--ca", "health", "--url", s.URL, "--ca", ca+".missing")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.failed(t, exitUsage, "no certificate in PEM form", "health", "--url", s.URL, "--ca", ca)
}

// Where a server listens everywhere, it is asked on this machine.
func TestHealthAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "0.0.0.0:80": "http://127.0.0.1:80", ":80": "http://127.0.0.1:80", "[::]:80": "http://[::1]:80",
		"shop.example:81": "http://shop.example:81", "[::1]:1": "http://[::1]:1",
	} {
		if got, err := (&healthCmd{Addr: addr}).base(); got != want || err != nil {
			t.Errorf("%s is asked at %s %v, want %s", addr, got, err, want)
		}
	}
	b := newBench()
	for _, args := range []string{"--addr 8080", "--url shop.example:80", "--url http://", "--url ftp://a", "--url http://user:secret@a", "--url http://a/?b=c", "--wait -1s", "--wait 2h", "--wait soon"} {
		b.failed(t, exitUsage, "--", append([]string{"health"}, strings.Fields(args)...)...)
	}
	if b.run("health", "--url", "http://user:secret@a"); strings.Contains(b.err.String(), "secret") {
		t.Errorf("a password is repeated: %s", b.err.String())
	}
}
