package door

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// fromHere reports whether a request comes from this machine, and from nobody behind it. A proxy that says nothing
// of itself looks the same; the one that is met most often still speaks HTTP/1.0 to what is behind it.
func fromHere(r *http.Request) bool {
	if !IsLoopback(peerOf(r)) || !r.ProtoAtLeast(1, 1) {
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
	if seen := r.Header.Values("X-Forwarded-For"); IsLoopback(peer) && len(seen) > 0 {
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
	host, ok := HostIn(r.Host)
	return ok && fromHere(r) && IsLoopback(host)
}

// HostIn is a Host header without its port, in lower case and without the dot that ends a full name. ok is false when it
// is none.
func HostIn(header string) (name string, ok bool) {
	name, port := header, ""
	if i := strings.LastIndexByte(header, ':'); i >= 0 && !strings.HasSuffix(header, "]") {
		name, port = header[:i], header[i+1:]
		if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
			return "", false
		}
	}
	if inner, bracketed := strings.CutPrefix(name, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		return inner, closed && err == nil && a.Is6()
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name, name != "" && !strings.ContainsAny(name, ":[]")
}

// IsLoopback reports whether a host is this machine itself, by name or address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
