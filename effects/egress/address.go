package egress

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// ErrPlain is what Check returns for an address that nothing protects on the way.
var ErrPlain = errors.New("is plain http, which anybody on the way reads and answers")

// Check tells before anything is sent why nothing will go to an address. plain says that http will do, which it always
// does for this machine. Its errors hold nothing of the address but its host, and go on from the name of a setting.
func Check(address string, plain bool) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("is not an address that can be read")
	}
	name := strings.TrimSuffix(u.Hostname(), ".")
	if name == "" || endsInNumber(name) && !isAddr(name) {
		return errors.New("must name its host by a name or by an address as it is usually written, such as 192.168.1.5")
	}
	here := namesThisMachine(name)
	if a, err := netip.ParseAddr(name); err == nil {
		if err := judge(a, here); err != nil {
			return errors.New("can't be used: " + err.Error())
		}
	}
	if u.Scheme != "https" && !plain && !here {
		return ErrPlain
	}
	return nil
}

func isAddr(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// number is a last label that makes some resolvers read the whole as an IPv4 address: 2130706433, 127.1, 0x7f.0.0.1
// (https://url.spec.whatwg.org/#ends-in-a-number-checker).
var number = regexp.MustCompile(`^([0-9]+|0[xX][0-9a-fA-F]*)$`)

func endsInNumber(name string) bool {
	return number.MatchString(name[strings.LastIndexByte(name, '.')+1:])
}

// namesThisMachine reports whether a host says by itself that it is this machine: localhost and names below it, which
// RFC 6761 gives to nobody else, and loopback addresses.
func namesThisMachine(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}
