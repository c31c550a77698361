package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Endpoint is an open listener and what serves it.
type Endpoint struct {
	net.Listener
	Base   string // "http://127.0.0.1:8080", or "https:" with a TLSConfig
	Server *http.Server
}

// OpenEndpoints opens all of the addresses or none, each for the server in the same place. They speak TLS by speak;
// nil is without.
func OpenEndpoints(addresses []string, servers []*http.Server, speak *tls.Config) (all []Endpoint, err error) {
	for i, addr := range addresses {
		l, base, err := Listen(addr, len(addresses))
		if err != nil {
			for _, e := range all {
				err = errors.Join(err, e.Close())
			}
			return nil, err
		}
		e := Endpoint{l, base, servers[i]}
		if speak != nil {
			e.Base, e.Server.TLSConfig = "https://"+l.Addr().String(), speak
		}
		all = append(all, e)
	}
	return all, nil
}

func (e Endpoint) serve() error {
	if e.Server.TLSConfig != nil {
		return e.Server.ServeTLS(e, "", "")
	}
	return e.Server.Serve(e)
}

// ServeEndpoints calls opened, if there is one, while it serves. It serves until ctx ends, tells stopping, and lets what
// is under way finish within grace.
func ServeEndpoints(ctx context.Context, all []Endpoint, opened func(base string) error, stopping func(), grace time.Duration) error {
	failed := make(chan error, len(all))
	for _, e := range all {
		go func() { failed <- e.serve() }()
	}
	if opened != nil {
		if err := opened(all[0].Base); err != nil {
			return errors.Join(err, closeEndpoints(all))
		}
	}
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), closeEndpoints(all))
	case <-ctx.Done():
	}
	stopping()
	shutDown(all, grace)
	return nil
}

func shutDown(all []Endpoint, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var under sync.WaitGroup
	for _, e := range all {
		under.Go(func() {
			if e.Server.Shutdown(ctx) != nil { // a client that is too slow: being stopped is not failing
				_ = e.Server.Close()
			}
		})
	}
	under.Wait()
}

func closeEndpoints(all []Endpoint) (err error) {
	for _, e := range all {
		err = errors.Join(err, e.Server.Close())
	}
	return err
}
