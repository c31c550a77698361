package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestHostNames(t *testing.T) {
	b := newBench()
	if code := b.run("serve", "--host", "Shop.Lan.,xn--caf-dma.example", "--host", "[FD12:0::1]", "--host", "::ffff:192.168.1.5,_x.box-1"); code != 0 {
		t.Fatal(b.err.String())
	}
	if got, want := b.asked.(ServeConfig).Hosts, []string{"shop.lan", "xn--caf-dma.example", "fd12::1", "192.168.1.5", "_x.box-1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, wrong := range []string{"http://shop.lan", "shop.lan:8080", "*.shop.lan", "*", "0.0.0.0", "::", "fe80::1%eth0", "café.example", "a..b", ".", "shop lan", "-x", strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a"} {
		b.failed(t, exitUsage, "--host", "serve", "--host", wrong)
	}
	newBench("COMANDA_HOST=shop.lan:1").failed(t, exitUsage, "COMANDA_HOST", "serve")
}

func TestCertificateNeedsItsKey(t *testing.T) {
	b := newBench()
	for _, command := range []string{"serve", "doctor"} {
		b.failed(t, exitUsage, "--tls-key", command, "--tls-cert", "c.pem")
		b.failed(t, exitUsage, "--tls-cert", command, "--tls-key", "k.pem")
	}
}
