package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"comanda/handlers/certificate"
)

// The bounds of asking a server how it is.
const (
	healthTimeout = 5 * time.Second // of one question; the server answers its own doubts within 3 s
	healthEvery   = 200 * time.Millisecond
	healthLongest = 64 << 10 // bytes of an answer
	maxHealthWait = time.Hour
)

// readinessAnswer is what GET /readyz says, and what --json prints with the address that was asked.
type readinessAnswer struct {
	URL      string   `json:"url"`
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Run asks until the server is ready or the wait is over. Not ready is an error: its code is 1.
func (c *healthCmd) Run(s *session) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	if c.Wait < 0 || c.Wait > maxHealthWait {
		return Usage(fmt.Errorf("--wait must be between 0 and 1h, not %s", c.Wait))
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	answer := askUntil(s.ctx, client, base, c.Wait)
	if s.ctx.Err() != nil {
		return errors.New("the wait was interrupted: " + answer.Reason)
	}
	if c.JSON {
		if err := s.json(answer); err != nil {
			return err
		}
	} else if answer.Ready {
		s.printf("ready: %s\n", s.show(answer.URL))
	}
	for _, w := range answer.Warnings {
		fmt.Fprintf(s.program.Stderr, "comanda: worth a look: %s\n", visible(w, true))
	}
	if !answer.Ready {
		return fmt.Errorf("not ready: %s", answer.Reason)
	}
	return nil
}

// base is the address to ask at, without a slash at its end. A server that listens everywhere listens here too.
func (c *healthCmd) base() (string, error) {
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return "", Usage(errors.New("--url must be the server's base address such as https://shop.example:8443"))
		}
		return strings.TrimRight(u.String(), "/"), nil
	}
	host, err := checkHostPort("--addr", c.Addr)
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(c.Addr) // checked
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	scheme := "http"
	if c.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// client goes straight to the server: through no proxy, and where no redirect leads.
func (c *healthCmd) client() (*http.Client, error) {
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	switch {
	case c.CA != "":
		roots, err := readCA(c.CA)
		if err != nil {
			return nil, Usage(err)
		}
		t.TLSClientConfig.RootCAs = roots
	case c.URL == "" && c.Cert != "":
		t.TLSClientConfig.InsecureSkipVerify = true // VerifyConnection asks for more than a name: this very certificate
		t.TLSClientConfig.VerifyConnection = c.hasCertificate
	}
	return &http.Client{Transport: t, Timeout: healthTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

var errCertificate = errors.New("the certificate can't be believed")

// hasCertificate reads the file anew for each connection: it may be replaced while health waits.
func (c *healthCmd) hasCertificate(server tls.ConnectionState) error {
	text, err := certificate.ReadFile("--tls-cert", c.Cert)
	if err != nil {
		return fmt.Errorf("%w: %w", errCertificate, err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && bytes.Equal(block.Bytes, server.PeerCertificates[0].Raw) {
			return nil
		}
	}
	return fmt.Errorf("%w: it is not that of --tls-cert %s", errCertificate, c.Cert)
}

func readCA(path string) (*x509.CertPool, error) {
	text, err := certificate.ReadFile("--ca", path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca %s holds no certificate in PEM form", path)
	}
	return roots, nil
}

// askUntil asks again and again for as long as wait, and once at least. It returns the last answer.
func askUntil(ctx context.Context, client *http.Client, base string, wait time.Duration) readinessAnswer {
	deadline := time.Now().Add(wait)
	for {
		answer := ask(ctx, client, base)
		left := time.Until(deadline)
		if answer.Ready || left <= 0 {
			return answer
		}
		select {
		case <-ctx.Done():
			return answer
		case <-time.After(min(left, healthEvery)):
		}
	}
}

// ask asks once. What keeps it from an answer is the reason why the server is not ready.
func ask(ctx context.Context, client *http.Client, base string) readinessAnswer {
	answer := readinessAnswer{URL: base}
	fail := func(format string, args ...any) readinessAnswer {
		answer.Reason = fmt.Sprintf(format, args...)
		return answer
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return fail("%s is no address", base)
	}
	res, err := client.Do(req)
	if err != nil {
		return fail("no comanda answers at %s (%s): %s", base, plainly(err), remedy(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, healthLongest))
	if err != nil {
		return fail("the answer of %s broke off (%s)", base, plainly(err))
	}
	said, ok := readiness(res.StatusCode, body)
	if !ok && strings.Contains(string(body), "HTTP request to an HTTPS server") {
		return fail("what answers at %s speaks TLS: name its certificate with --tls-cert, or its address with --url https://…", base)
	}
	if !ok {
		return fail("what answers at %s is not a comanda (HTTP %d to /readyz): look which program listens there", base, res.StatusCode)
	}
	said.URL = base
	return said
}

// readiness reads the answer of a comanda: 200 and ready, or 503 and why not. Nothing else is one.
func readiness(status int, body []byte) (readinessAnswer, bool) {
	var said struct {
		Ready    *bool    `json:"ready"`
		Reason   string   `json:"reason"`
		Warnings []string `json:"warnings"`
	}
	if json.Unmarshal(body, &said) != nil || said.Ready == nil {
		return readinessAnswer{}, false
	}
	ok := *said.Ready && status == http.StatusOK && said.Reason == "" || !*said.Ready && status == http.StatusServiceUnavailable && said.Reason != ""
	return readinessAnswer{Ready: *said.Ready, Reason: said.Reason, Warnings: said.Warnings}, ok
}

// remedy is what to do about a question that was not answered.
func remedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(err, errCertificate):
		return "give the certificate that the server has"
	case errors.As(err, &unknown):
		return "name the certificate, or its issuer's, with --ca"
	case errors.As(err, &plain), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return "it speaks no TLS: leave --tls-cert and COMANDA_TLS_CERT out, or give --url http://…"
	}
	return "is it running, and is this its address?"
}

// plainly is what kept a question from its answer, without the method and the address around it.
func plainly(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		if u.Timeout() {
			return fmt.Sprintf("no answer within %s", healthTimeout)
		}
		err = u.Err
	}
	return err.Error()
}
