package handlers

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
)

// hosts are the names under which the server is asked for. A page of another site whose name was made to lead here (DNS
// rebinding) asks for that name, and is told nothing.
type hosts struct {
	names     map[string]bool        // lower case
	certified func(name string) bool // by the certificate, without which no browser would go on
}

func newHosts(opt Options) hosts {
	h := hosts{names: map[string]bool{}, certified: opt.Certified}
	for _, name := range opt.Hosts {
		h.names[strings.ToLower(name)] = true
	}
	if h.certified == nil {
		h.certified = func(string) bool { return false }
	}
	return h
}

// know reports whether a request is for this server: for this machine by its own names, for the address that it came in
// by, or for a name that was given.
func (h hosts) know(r *http.Request) bool {
	name, ok := door.HostIn(r.Host)
	if !ok {
		return false
	}
	if a, err := netip.ParseAddr(name); err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a == cameInBy(r) || h.names[a.String()]
	}
	return name == "localhost" || h.names[name] || h.certified(name)
}

// cameInBy is the address of this machine at which the connection arrived.
func cameInBy(r *http.Request) netip.Addr {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// knownHost refuses what was meant for another server, but for whether the process lives, and for orders: those come
// through tunnels and proxies under names of theirs, and their door is the signature. No browser brings those.
func (s *Server) knownHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		path := echo.GetPath(r)
		if path == "/healthz" || strings.HasPrefix(path, "/webhooks/") && !fromBrowser(r) || s.hosts.know(r) {
			return next(c)
		}
		return foreignHost(r)
	}
}

// noBrowser refuses what a browser sends under a foreign name. It is enough where there are orders alone.
func (s *Server) noBrowser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := c.Request(); fromBrowser(r) && !s.hosts.know(r) {
			return foreignHost(r)
		}
		return next(c)
	}
}

// fromBrowser: every browser says where a page comes from that POSTs.
func fromBrowser(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0
}

func foreignHost(r *http.Request) *Problem {
	const most = 100
	return &Problem{Status: http.StatusMisdirectedRequest, Name: "foreign-host",
		Detail: "this server is not asked for by that name: use its address, or start it with --host",
		cause:  fmt.Errorf("the Host header is %.*q", most, r.Host)}
}
