package door

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// fromHere reports whether a request comes from this machine, and from nobody behind it. A proxy that says nothing
// of itself looks the same; the one that is met most often still speaks HTTP/1.0 to what is behind it.
func fromHere(r *http.Request) bool {
	if !isLoopback(peerOf(r)) || !r.ProtoAtLeast(1, 1) {
		return false
	}
	for name := range r.Header {
		if saysForwarded(name) { // it comes from a proxy here, and from anywhere before that
			return false
		}
	}
	return true
}

// peerOf is the address that a request comes from, "" for none.
func peerOf(r *http.Request) string {
	peer, _, _ := net.SplitHostPort(r.RemoteAddr)
	return peer
}

// addressOf is where somebody is: the peer, or whom a proxy on this machine has seen last. What a proxy elsewhere says
// is not believed.
func addressOf(r *http.Request) string {
	peer := peerOf(r)
	if seen := r.Header.Values("X-Forwarded-For"); isLoopback(peer) && len(seen) > 0 {
		last := seen[len(seen)-1]
		if ip, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); err == nil {
			return ip.Unmap().WithZone("").String()
		}
	}
	if peer == "" {
		return "nowhere"
	}
	return peer
}

// networkOf is what counts as one place for tries to log in: an address of version 4, a /64 of version 6, of which one
// machine may have every address.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	p, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}

// saysForwarded reports whether a header, by its canonical name, is one that proxies and tunnels add, whatever it says.
func saysForwarded(name string) bool {
	switch name {
	case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded") || strings.HasPrefix(name, "X-Original-")
}

// exempt reports whether a request needs no key: it comes from this machine and asks for it by a name of this
// machine. A page of another site whose name was made to lead here (DNS rebinding) asks for that name.
func exempt(r *http.Request) bool {
	return fromHere(r) && isLoopback(hostOf(r.Host))
}

// hostOf is a Host header without its port.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
