package certificate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// files are where a pair lies, in a directory of the test.
type files struct {
	t         *testing.T
	cert, key string
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// pair makes a certificate for a name and 127.0.0.1, as PEM.
func pair(t *testing.T, name string, from, until time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: from, NotAfter: until, DNSNames: []string{"*.lan", name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func (f files) write(path string, text []byte) {
	f.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// put writes a pair for a name that is good for so long.
func (f files) put(name string, left time.Duration) {
	f.t.Helper()
	cert, key := pair(f.t, name, time.Now().Add(-time.Hour), time.Now().Add(left))
	f.write(f.cert, cert)
	f.write(f.key, key)
}

func (f files) open() *Pair {
	f.t.Helper()
	p, err := Open(f.cert, f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

const year = 365 * 24 * time.Hour

// What can't be used is refused, by the name of the flag that is to blame, and nothing of the key is repeated.
func TestOpen(t *testing.T) {
	f := newFiles(t)
	cert, key := pair(t, "a.example", time.Now(), time.Now().Add(year))
	_, other := pair(t, "a.example", time.Now(), time.Now().Add(year))
	for name, try := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"good": {cert, key, ""}, "the other key": {cert, other, "don't belong together"}, "swapped": {key, cert, "can't be used"}, "empty": {nil, key, "can't be used"},
		"no key": {cert, nil, "can't be used"}, "garbage": {[]byte("garbage"), key, "can't be used"}, "half": {cert[:len(cert)/2], key, "can't be used"},
		"a key with a passphrase": {cert, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n"), "can't be used"},
		"too large":               {append(bytes.Repeat([]byte("\n"), mostBytes), cert...), key, "larger than"},
	} {
		f.write(f.cert, try.cert)
		f.write(f.key, try.key)
		_, err := Open(f.cert, f.key)
		if (err == nil) != (try.want == "") || err != nil && (!strings.Contains(err.Error(), try.want) || !strings.HasPrefix(err.Error(), "--tls-") || strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "BEGIN")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir(), f.key); err == nil || !strings.Contains(err.Error(), "plain file") {
		t.Errorf("a directory: %v", err)
	}
	f.write(f.cert, cert)
	if _, err := Open(f.cert, f.key+"x"); err == nil || !strings.HasPrefix(err.Error(), "--tls-key") {
		t.Errorf("a key that is not there: %v", err)
	}
}

// What a person should see to, while there is time and when there is none.
func TestWarnings(t *testing.T) {
	f := newFiles(t)
	now := time.Now()
	for name, try := range map[string]struct {
		from, until time.Duration
		want        string
	}{
		"good": {-time.Hour, year, ""}, "two weeks and a day": {-time.Hour, soon + 24*time.Hour, ""}, "under two weeks": {-time.Hour, soon - time.Hour, "certificate expires"},
		"over": {-2 * time.Hour, -time.Hour, "certificate expired"}, "not yet": {time.Hour, year, "certificate not valid yet"},
	} {
		cert, key := pair(t, "a.example", now.Add(try.from), now.Add(try.until))
		f.write(f.cert, cert)
		f.write(f.key, key)
		causes, details := f.open().Warnings(now)
		if strings.Join(causes, ";") != try.want || len(details) != len(causes) {
			t.Errorf("%s: %q %q", name, causes, details)
		}
	}
	f.put("a.example", year)
	p := f.open()
	for host, want := range map[string]bool{"a.example": true, "box.lan": true, "127.0.0.1": true, "b.example": false, "127.0.0.2": false, "x.box.lan": false} {
		if p.Certifies(host) != want {
			t.Errorf("certified for %s: %v", host, !want)
		}
	}
	if p.Name() != "a.example" {
		t.Errorf("the name is %q", p.Name())
	}
}

// log is written to by one and read by another.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), part)
}

// serve serves by a pair and tells the address.
func serve(t *testing.T, p *Pair, change func(*http.Server)) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.Config.TLSConfig, s.Config.ErrorLog = p.Config(), slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	change(s.Config)
	go func() { _ = s.Config.ServeTLS(s.Listener, "", "") }()
	t.Cleanup(func() { _ = s.Config.Close() })
	return s.Listener.Addr().String()
}

// visitor keeps its connection, and tells what it was answered and by whom.
func visitor() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test looks at the certificate itself
}

func ask(t *testing.T, c *http.Client, addr string) (proto, name string) {
	t.Helper()
	res, err := c.Get("https://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), res.TLS.PeerCertificates[0].DNSNames[1]
}

// A new pair is in force for the next connection, while the one that stands goes on; one that can't be used changes
// nothing, is said once, and is a warning until it is put right.
func TestRotation(t *testing.T) {
	f := newFiles(t)
	f.put("one.example", year)
	p := f.open()
	var said log
	logger := slog.New(slog.NewTextHandler(&said, nil))
	addr := serve(t, p, func(*http.Server) {})
	stays := visitor()
	if proto, name := ask(t, stays, addr); proto != "HTTP/2.0" || name != "one.example" {
		t.Fatalf("%s from %s", proto, name)
	}

	f.put("two.example", year)
	p.reread(logger)
	if _, name := ask(t, visitor(), addr); name != "two.example" {
		t.Errorf("a new connection meets %s", name)
	}
	if _, name := ask(t, stays, addr); name != "one.example" {
		t.Errorf("the connection that stood meets %s", name)
	}

	three, key := pair(t, "three.example", time.Now(), time.Now().Add(year))
	f.write(f.cert, three) // and its key not yet
	p.reread(logger)
	if causes, _ := p.Warnings(time.Now()); len(causes) != 0 || said.count("not replaced") != 0 {
		t.Errorf("between the two files: %q, said %d times", causes, said.count("not replaced"))
	}
	for range 3 {
		p.reread(logger)
	}
	if causes, details := p.Warnings(time.Now()); len(causes) != 1 || causes[0] != "certificate not replaced" || !strings.Contains(details[0], "belong together") || said.count("not replaced") != 1 {
		t.Errorf("a pair that does not fit: %q %q, said %d times", causes, details, said.count("not replaced"))
	}
	if _, name := ask(t, visitor(), addr); name != "two.example" {
		t.Errorf("with a pair that does not fit: %s", name)
	}
	f.write(f.key, key)
	p.reread(logger)
	if _, name := ask(t, visitor(), addr); name != "three.example" {
		t.Errorf("with its key too: %s", name)
	}
	if causes, _ := p.Warnings(time.Now()); len(causes) != 0 {
		t.Errorf("after that: %q", causes)
	}
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	p.reread(logger)
	p.reread(logger)
	f.write(f.key, key) // as it was
	if causes, _ := p.Warnings(time.Now()); len(causes) != 1 {
		t.Errorf("without its key: %q", causes)
	}
	p.reread(logger)
	if causes, _ := p.Warnings(time.Now()); len(causes) != 0 || said.count("as before") != 1 {
		t.Errorf("with it again: %q", causes)
	}
}

// Watch finds by itself what has changed, and ends with its context.
func TestWatch(t *testing.T) {
	f := newFiles(t)
	f.put("one.example", year)
	p := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	var said log
	ended := make(chan struct{})
	go func() { defer close(ended); p.Watch(ctx, slog.New(slog.NewTextHandler(&said, nil))) }()
	f.put("two.example", year)
	if err := os.Chmod(f.key, 0o644); err != nil {
		t.Fatal(err)
	}
	for giveUp := time.Now().Add(20 * time.Second); !p.Certifies("two.example") || said.count("chmod 600") == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(giveUp) {
			t.Fatal("the new certificate is not in force, or the open key not complained of")
		}
	}
	cancel()
	<-ended
}

// Old versions of TLS are refused, and what speaks no TLS is told so or let go.
func TestSlowHandshakes(t *testing.T) {
	f := newFiles(t)
	f.put("one.example", year)
	addr := serve(t, f.open(), func(s *http.Server) { s.ReadHeaderTimeout = 300 * time.Millisecond })
	if c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil { //nolint:gosec // that is what is tried
		_ = c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	for name, first := range map[string]string{"nothing": "", "half a hello": "\x16\x03\x01\x02\x00\x01"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, first)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("whoever says %s keeps the connection: %v", name, err)
		}
		_ = c.Close()
	}
}
