package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"comanda/handlers/certificate"
	"comanda/store"
)

// tlsFlags name a certificate and its key.
type tlsFlags struct {
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"The certificate, with its chain, as PEM: every address speaks TLS, and nothing else. Read again when it changes."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert, without a passphrase, as PEM."`
}

// wireFlags are serve's about the wire to it.
type wireFlags struct {
	Host []string `placeholder:"NAME" help:"A name or address under which the server is asked for, beside those of this machine, of the certificate and the address that it listens on. Can be given more than once, or with commas between."`
	tlsFlags
}

// TLSConfig names the files of a certificate and its key; both are "" without TLS.
type TLSConfig struct{ Cert, Key string }

func (f tlsFlags) config() (TLSConfig, error) {
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return TLSConfig{}, Usage(errors.New("--tls-cert and --tls-key belong together: give both, or neither"))
	}
	return TLSConfig{f.TLSCert, f.TLSKey}, nil
}

// hostName is a name as browsers send it: in ASCII, of labels.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$`)

// hosts checks the names, and returns addresses as they are usually written.
func (f wireFlags) hosts() (all []string, err error) {
	for _, name := range f.Host {
		name = strings.TrimSuffix(strings.TrimSpace(name), ".")
		a, err := netip.ParseAddr(strings.Trim(name, "[]"))
		switch {
		case err == nil && a.Zone() == "" && !a.IsUnspecified():
			all = append(all, a.Unmap().String())
		case err != nil && len(name) <= 253 && hostName.MatchString(name):
			all = append(all, strings.ToLower(name))
		default:
			return nil, Usage(fmt.Errorf("--host %q is no name or address alone: leave out the scheme, the port and patterns, and write other letters as browsers do (xn--…)", name))
		}
	}
	return all, nil
}

// checkCertificate is doctor's look at the certificate, if there is to be one.
func (f tlsFlags) checkCertificate(now time.Time) ([]store.Check, error) {
	c, err := f.config()
	if err != nil || c.Cert == "" {
		return nil, err
	}
	pair, err := certificate.Open(c.Cert, c.Key)
	if err != nil {
		return []store.Check{{Name: "certificate", Level: store.LevelWrong, Answer: err.Error()}}, nil
	}
	check := store.Check{Name: "certificate", Level: store.LevelOK, Answer: "good until " + pair.Until().UTC().Format("2006-01-02 15:04 UTC")}
	if _, details := pair.Warnings(now); len(details) > 0 {
		check.Level, check.Detail = store.LevelWarning, strings.Join(details, "; ")
	}
	return []store.Check{check}, nil
}
