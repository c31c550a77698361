package egress

import (
	"fmt"
	"net/netip"
	"slices"
)

// RefusedError says that nothing goes to an address. No byte has left.
type RefusedError struct {
	Addr netip.Addr
	Why  string // "which is link-local"
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused to connect to %s, %s", e.Addr, e.Why)
}

// refused are the networks in which there is no gateway and no warehouse, but there may be what gives away
// credentials to whoever asks. Private networks are not among them: a shop's own gateway may stand there.
// https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-special-registry; the metadata services as
// their clouds document them.
var refused = []struct {
	why string
	in  []netip.Prefix
}{
	{"which is a metadata service of a cloud", prefixes("169.254.169.254/32", "169.254.170.0/24", "100.100.100.200/32",
		"192.0.0.192/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128")},
	{"which is link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"which is no address of a machine", prefixes("0.0.0.0/8", "240.0.0.0/4", "::/96")},
	{"which is multicast", prefixes("224.0.0.0/4", "ff00::/8")},
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// judge refuses an address that nothing goes to. here says that the one who asks has named this machine: then
// nothing but this machine will do, and otherwise anything but it.
func judge(a netip.Addr, here bool) error {
	a = a.WithZone("").Unmap()
	switch {
	case a.IsLoopback() && !here:
		return &RefusedError{a, "which is this machine, and was not asked for by its name: write localhost or 127.0.0.1 into the address if it is meant"}
	case a.IsLoopback():
		return nil
	case here:
		return &RefusedError{a, "which is not this machine, though its name says so"}
	}
	for _, inner := range append([]netip.Addr{a}, embedded(a)...) {
		if inner != a && inner.IsLoopback() {
			return &RefusedError{a, "which is this machine in another form"}
		}
		for _, r := range refused {
			if slices.ContainsFunc(r.in, func(p netip.Prefix) bool { return p.Contains(inner) }) {
				return &RefusedError{a, r.why}
			}
		}
	}
	return nil
}

// The forms in which an IPv6 address stands for an IPv4 one, where a translator or a tunnel takes it there.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")      // RFC 4380
)

// embedded are the IPv4 addresses that an IPv6 address may lead to.
func embedded(a netip.Addr) (all []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	four := func(at ...int) { all = append(all, netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]})) }
	switch {
	case nat64.Contains(a):
		four(12, 13, 14, 15)
	case localNAT64.Contains(a) && b[6] != 0: // as RFC 6052 lays it out for /48
		four(6, 7, 9, 10)
	case localNAT64.Contains(a): // a /96 within it
		four(12, 13, 14, 15)
	case sixToFour.Contains(a):
		four(2, 3, 4, 5)
	case teredo.Contains(a):
		all = append(all, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		four(12, 13, 14, 15)
	}
	return all
}
