package cli

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Over TLS the line to try works as it is pasted: it trusts the server's own certificate, and asks nobody for its name.
func TestBannerOverTLS(t *testing.T) {
	var asked atomic.Pointer[http.Request]
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r) }))
	defer s.Close()
	cert := filepath.Join(t.TempDir(), "shop's cert.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	for name, host := range map[string]string{"": "127.0.0.1" + port, "example.com": "example.com" + port} {
		asked.Store(nil)
		b := BannerInfo{URL: s.URL, Cert: cert, Name: name}
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", b.try()).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", b.try(), err, out)
		}
		if r := asked.Load(); r == nil || r.Host != host || r.URL.Path != "/webhooks/orders" {
			t.Errorf("%s: %+v", b.try(), r)
		}
		var text strings.Builder
		Banner(&text, b)
		if !strings.Contains(text.String(), "https://"+host+"/\n") || strings.Count(text.String(), "curl -sS --cacert") != map[string]int{"": 2, "example.com": 1}[name] {
			t.Errorf("it says\n%s", &text)
		}
	}
}
