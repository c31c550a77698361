package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair writes a certificate for a name, good for so long, and its key.
func writePair(t *testing.T, dir, name string, left time.Duration) (cert, key string) {
	t.Helper()
	k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
		DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true}
	der := must(x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k))(t)
	secret := must(x509.MarshalPKCS8PrivateKey(k))(t)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// askAs asks a server for a page under a name, trusting one certificate alone, and tells its status and body.
func askAs(t *testing.T, url, name, certFile string) (status int, body string) {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(must(os.ReadFile(certFile))(t))
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: name}}}
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	req.Host = name
	res, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	return res.StatusCode, string(must(io.ReadAll(res.Body))(t))
}

// The built program speaks TLS at both of its addresses and nothing else, answers to the names of its certificate and
// of --host (without a login only to those of this machine), and takes up a new certificate while it runs.
func TestServeOverTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writePair(t, dir, "one.example", 24*time.Hour)
	otherCert, _ := writePair(t, t.TempDir(), "one.example", 24*time.Hour)
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--tls-cert", cert, "--tls-key", key, "--host", "box.lan", "--webhook-addr", "127.0.0.1:0"))(t)
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") {
		t.Fatalf("it says %s", s.url)
	}
	if status, body := askAs(t, s.url+"/readyz", "one.example", cert); status != 200 || !strings.Contains(body, "expires soon") {
		t.Errorf("%d %s", status, body)
	}
	res := must(http.Get(strings.Replace(s.url, "https:", "http:", 1) + "/healthz"))(t)
	if res.Body.Close(); res.StatusCode != 400 {
		t.Errorf("without TLS: %d", res.StatusCode)
	}
	insecure := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the names are what is looked at
	for host, want := range map[string]int{"box.lan": 401, "127.0.0.1": 200, "localhost:1": 200, "evil.example": 421} {
		req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/stats", nil))(t)
		req.Host = host
		res := must(insecure.Do(req))(t)
		if res.Body.Close(); res.StatusCode != want || res.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("as %s: %d %v, want %d", host, res.StatusCode, res.Header, want)
		}
	}
	if stdout, _, code := run(t, nil, builtProgram(t), "doctor", "--db", p.file, "--tls-cert", cert, "--tls-key", key); code != 0 || !strings.Contains(stdout, "warning  certificate") {
		t.Errorf("doctor exits %d:\n%s", code, stdout)
	}
	address := strings.TrimPrefix(s.url, "https://")
	for _, flags := range [][]string{{"--tls-cert", cert}, {"--url", s.url, "--tls-cert", cert}, {"--tls-cert", otherCert}, {}} {
		_, stderr, code := run(t, nil, builtProgram(t), append([]string{"health", "--addr", address}, flags...)...)
		if want := len(flags) == 2 && flags[1] == cert; (code == 0) != want {
			t.Errorf("health %q exits %d: %s", flags, code, stderr)
		}
	}

	writePair(t, dir, "two.example", 100*24*time.Hour)
	for giveUp := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status, body := askAs(t, s.url+"/readyz", "two.example", cert)
		if status == 200 && !strings.Contains(body, "certificate") {
			break
		}
		if time.Now().After(giveUp) {
			t.Fatalf("the new certificate is not in force: %d %s", status, body)
		}
	}
	if status, _ := askAs(t, s.url+"/readyz", "one.example", cert); status != 0 {
		t.Errorf("under the name of the old certificate: %d", status)
	}
}

// Whoever starts with a certificate that can't be used is told so, before there is a file.
func TestServeRefusesCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, _ := writePair(t, dir, "one.example", time.Hour)
	_, other := writePair(t, t.TempDir(), "one.example", time.Hour)
	for _, key := range []string{other, cert, dir, filepath.Join(dir, "none")} {
		p := onFile(t, builtProgram(t))
		if stderr, code := refuses(t, nil, "serve", "--db", p.file, "--tls-cert", cert, "--tls-key", key); code != 2 || !strings.HasPrefix(stderr, "comanda: --tls-") {
			t.Fatalf("serve exits %d: %s", code, stderr)
		}
		if left := listing(t, p.dir); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}
