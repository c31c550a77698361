package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Transport returns a transport that asks no proxy and no environment, speaks HTTP/1.1, and connects to no address that
// is never right. The caller may set its pool.
func Transport() *http.Transport { return transport(nil) }

// transport asks resolver for names; nil is the machine's own.
func transport(resolver *net.Resolver) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer{resolver}.dial,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false, // HTTP/2 sends again by itself what a server refused, and multiplexes what should fail apart
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}

type dialer struct{ resolver *net.Resolver }

// dial connects to host:port. Each address that the host's name leads to is judged right before the system connects
// to it, so that a name which leads elsewhere a moment later gains nothing.
func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	here := namesThisMachine(host)
	to := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second, Resolver: d.resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return err
			}
			return judge(at.Addr(), here)
		}}
	return to.DialContext(ctx, network, address)
}
