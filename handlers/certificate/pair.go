package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// mostBytes is how large a file with a certificate and its chain, or a key, may be.
const mostBytes = 256 << 10

// every is how often the files are read again.
const every = time.Second

// soon is how long before its end a certificate is complained of.
const soon = 14 * 24 * time.Hour

// Pair is a certificate, with its chain, and its key.
type Pair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	trouble           atomic.Pointer[string] // why what the files hold now is not in force; nil when it is

	// Of the one that watches.
	read  contents // that are in force
	wrong string   // what the last look found; "" nothing
}

// contents are those of the two files.
type contents struct{ cert, key []byte }

func (c contents) equal(o contents) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key)
}

// Open reads a certificate and its key from two PEM files. The error says what to do and holds nothing of the key.
func Open(certFile, keyFile string) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile}
	read, err := p.files()
	if err != nil {
		return nil, err
	}
	cert, err := parse(read)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s and --tls-key %s %w", certFile, keyFile, err)
	}
	p.read = read
	p.current.Store(cert)
	return p, nil
}

func (p *Pair) files() (c contents, err error) {
	if c.cert, err = ReadFile("--tls-cert", p.certFile); err != nil {
		return c, err
	}
	c.key, err = ReadFile("--tls-key", p.keyFile)
	return c, err
}

// ReadFile reads a file of certificates or keys, of 256 KiB at most. It takes plain files only, and opens none that is too large: it might be a database.
func ReadFile(flag, path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s can't be read: %w", flag, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s %s is not a plain file: put the PEM into one, so that it can be read again when it changes", flag, path)
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("%s %s is larger than %d KiB, and no certificate or key is", flag, path, mostBytes>>10)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", flag, err)
	}
	return text, nil
}

// parse reads a pair that fits. The error goes on from the names of both.
func parse(c contents) (*tls.Certificate, error) {
	cert, err := tls.X509KeyPair(c.cert, c.key)
	if err == nil {
		return &cert, nil
	}
	why := strings.TrimPrefix(err.Error(), "tls: ")
	if strings.Contains(why, "does not match") {
		return nil, errors.New("don't belong together: give the key that the certificate was made for")
	}
	return nil, fmt.Errorf("can't be used (%s): give a certificate with its chain, and its key without a passphrase, both as PEM", why)
}

// Config is what a server needs to speak TLS by the pair as it is at each new connection.
func (p *Pair) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current.Load(), nil }}
}

// Certifies reports whether the certificate in force is for a host, by its name or address.
func (p *Pair) Certifies(host string) bool { return p.current.Load().Leaf.VerifyHostname(host) == nil }

// Name is a name that the certificate in force is for, or "" if it has only addresses and patterns.
func (p *Pair) Name() string {
	for _, name := range p.current.Load().Leaf.DNSNames {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return ""
}

// NameFor is the name under which a server at an address has to be asked for, where the certificate is not for that
// address; "" where it is, and of a nil Pair.
func (p *Pair) NameFor(at net.Addr) string {
	host, _, err := net.SplitHostPort(at.String())
	if p == nil || err != nil || p.Certifies(host) {
		return ""
	}
	return p.Name()
}

// Warnings are what a person should see to, though the server goes on: each a cause, which stays the same, and a
// sentence.
func (p *Pair) Warnings(now time.Time) (causes, details []string) {
	add := func(cause, format string, args ...any) {
		causes, details = append(causes, cause), append(details, fmt.Sprintf(format, args...))
	}
	if why := p.trouble.Load(); why != nil {
		add("certificate not replaced", "the certificate and key in the files %s; the ones of before are in force", *why)
	}
	leaf := p.current.Load().Leaf
	until := leaf.NotAfter.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case now.After(leaf.NotAfter):
		add("certificate expired", "the certificate of --tls-cert has expired (%s): put a new one into its file", until)
	case now.Add(soon).After(leaf.NotAfter):
		add("certificate expires", "the certificate of --tls-cert expires soon (%s): put a new one into its file", until)
	case now.Before(leaf.NotBefore):
		add("certificate not valid yet", "the certificate of --tls-cert is not valid before %s: is the clock right?", leaf.NotBefore.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return causes, details
}

// Until is when the certificate in force ends.
func (p *Pair) Until() time.Time { return p.current.Load().Leaf.NotAfter }

// Watch reads the files again each second until ctx ends, so that a certificate is replaced without a restart. A pair
// that can't be used changes nothing. It is said once, and not at the first look, which may fall between the two files.
func (p *Pair) Watch(ctx context.Context, log *slog.Logger) {
	p.warnIfOpen(log)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.reread(log)
		}
	}
}

func (p *Pair) reread(log *slog.Logger) {
	read, err := p.files()
	if err == nil && read.equal(p.read) {
		if p.trouble.Swap(nil) != nil {
			log.Info("the certificate's files are as before again")
		}
		p.wrong = ""
		return
	}
	var cert *tls.Certificate
	if err == nil {
		cert, err = parse(read)
	}
	if err != nil {
		p.complain(log, err.Error())
		return
	}
	p.read, p.wrong = read, ""
	p.current.Store(cert)
	p.trouble.Store(nil)
	log.Info("the certificate has changed and is in force", "until", p.Until())
	p.warnIfOpen(log)
}

func (p *Pair) complain(log *slog.Logger, why string) {
	if p.wrong != why { // perhaps one file is new and the other not yet
		p.wrong = why
		return
	}
	if told := p.trouble.Load(); told == nil || *told != why {
		p.trouble.Store(&why)
		log.Warn("the certificate was not replaced; the one of before stays in force", "error", why)
	}
}

// warnIfOpen does not refuse: what mounts secrets into a container often makes them readable.
func (p *Pair) warnIfOpen(log *slog.Logger) {
	if info, err := os.Stat(p.keyFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may read the key: chmod 600 the file", "setting", "--tls-key", "file", p.keyFile, "mode", info.Mode().Perm().String())
	}
}
