package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Every form of an address that is never right, and those beside it that are.
func TestJudge(t *testing.T) {
	for _, bad := range []string{
		"169.254.169.254", "169.254.0.1", "169.254.255.255", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		"0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "127.0.0.1", "127.255.255.254",
		"::", "::1", "::7f00:1", "::a9fe:a9fe", "fe80::1", "fe80::1%eth0", "febf::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "ff0e::1",
		"::ffff:169.254.169.254", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:224.0.0.1", "::ffff:255.255.255.255",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::e000:1", "64:ff9b::ffff:ffff", "64:ff9b::0:0", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::",
		"2002:a9fe:a9fe::1", "2002:7f00:1::", "2002:6464:64c8::1", "2002:e000:1::", "2001:0:1:2:3:4:5601:5601",
		"2001:db8::5efe:169.254.169.254", "2001:db8::200:5efe:127.0.0.1",
	} {
		var refused *RefusedError
		if err := judge(netip.MustParseAddr(bad), false); !errors.As(err, &refused) || refused.Why == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, good := range []string{
		"192.168.1.5", "10.0.0.1", "172.16.0.1", "100.64.0.1", "100.100.100.201", "198.51.100.7", "8.8.8.8", "169.253.255.255", "169.255.0.0", "128.0.0.1", "126.255.255.255", "223.255.255.255",
		"::ffff:192.168.1.5", "2606:4700::1", "fd12:3456::1", "fc00::1", "fec0::1", "64:ff9b::c0a8:105", "64:ff9b:1::808:808", "64:ff9b:1:808:8:800::", "2002:c0a8:105::1", "2001:db8::5efe:192.168.1.5", "2001:4860:4860::8888",
	} {
		if err := judge(netip.MustParseAddr(good), false); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for text, ok := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"192.168.1.5": false, "8.8.8.8": false, "64:ff9b::7f00:1": false, "169.254.169.254": false, "::": false} {
		if err := judge(netip.MustParseAddr(text), true); (err == nil) != ok {
			t.Errorf("%s under a name of this machine: %v", text, err)
		}
	}
}

// What a setting may hold, in every spelling of a host.
func TestSpellings(t *testing.T) {
	for address, want := range map[string]string{ // with http and no word that it will do: part of the error, "" is none
		"https://g.example/refunds": "", "https://192.168.1.5:8443/": "", "https://[fd12::1]/": "", "https://g.example./": "", "https://7.example/": "",
		"http://localhost:8090/": "", "http://LOCALHOST/": "", "http://localhost./": "", "http://world.localhost/": "", "http://127.0.0.1/": "", "http://127.8.8.8/": "", "http://[::1]:9/": "", "http://[::ffff:127.0.0.1]/": "",
		"http://g.example/": "plain http", "http://192.168.1.5/": "plain http", "http://[fd12::1]/": "plain http", "http://localhost.example/": "plain http", "http://notlocalhost/": "plain http",
		"http://127.0.0.1.nip.example/": "plain http", "http://g.example@localhost.example/": "plain http", "http://localhost@g.example/": "plain http", "HTTP://g.example/": "plain http",
		"https://169.254.169.254/latest/meta-data": "metadata", "https://169.254.1.1/": "link-local", "https://[fe80::1%25eth0]/": "link-local", "https://[::ffff:169.254.169.254]/": "metadata",
		"https://[64:ff9b::a9fe:a9fe]/": "metadata", "https://0.0.0.0/": "no address", "https://[::]/": "no address", "https://255.255.255.255/": "no address", "https://224.0.0.1/": "multicast", "https://169.254.169.254./": "metadata",
		"https://2852039166/": "usually written", "https://0xa9fea9fe/": "usually written", "https://0251.0376.0251.0376/": "usually written", "https://169.254.43518/": "usually written", "https://0xA9.0xFE.0xA9.0xFE/": "usually written",
		"https://2130706433/": "usually written", "https://127.1/": "usually written", "https://0177.0.0.1/": "usually written", "https://127.0.0.1.1/": "usually written", "https://0x/": "usually written", "http://127.1./": "usually written", "https:///": "usually written",
	} {
		err := Check(address, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		if plain := Check(address, true); (plain == nil) != (want == "" || want == "plain http") {
			t.Errorf("%s where plain http will do: %v", address, plain)
		}
	}
	if err := Check("https://%zz/?token=s3cret", false); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

// names is a name server of the tests, on a real socket.
type names struct {
	*net.Resolver
	asked  atomic.Int64
	answer func(n int64) []string // the addresses for the n-th question about any name
}

func newNames(t *testing.T, answer func(n int64) []string) *names {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := &names{answer: answer}
	s.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			if reply, err := s.reply(b[:n]); err == nil {
				_, _ = c.WriteTo(reply, from)
			}
		}
	}()
	return s
}

// reply answers a question for A with the IPv4 addresses and one for AAAA with the others. Those are one question of
// whoever asked.
func (s *names) reply(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	n := s.asked.Add(1)
	for _, text := range s.answer((n + 1) / 2) {
		a := netip.MustParseAddr(text)
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}

func always(addresses ...string) func(int64) []string {
	return func(int64) []string { return addresses }
}

// victim is a service on this machine that no name of another host should reach.
func victim(t *testing.T) (port string, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port, reached
}

func get(t *testing.T, rt http.RoundTripper, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := rt.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	return err
}

// A name of another host that leads to this machine, to a metadata service or to another address that is never right
// reaches nothing, whatever it led to a moment before.
func TestNamesThatLeadAstray(t *testing.T) {
	port, reached := victim(t)
	for name, answer := range map[string]func(int64) []string{
		"this machine": always("127.0.0.1"), "this machine, IPv6": always("::1"), "all of this machine": always("0.0.0.0"),
		"metadata": always("169.254.169.254"), "metadata, IPv6": always("fd00:ec2::254"), "mapped": always("::ffff:127.0.0.1"),
		"NAT64": always("64:ff9b::a9fe:a9fe"), "several": always("169.254.169.254", "127.0.0.1", "::1", "fe80::1"),
	} {
		err := get(t, transport(newNames(t, answer).Resolver), "http://gateway.example:"+port+"/")
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name that leads to a documentation address first: that one may be tried, and comes to nothing.
	turns := newNames(t, func(n int64) []string {
		if n == 1 {
			return []string{"192.0.2.1"}
		}
		return []string{"127.0.0.1"}
	})
	rt := transport(turns.Resolver)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://rebound.example:"+port+"/", nil)
	var refused *RefusedError
	if _, err := rt.RoundTrip(r); err == nil || errors.As(err, &refused) {
		t.Errorf("the first time: %v", err)
	}
	if err := get(t, rt, "http://rebound.example:"+port+"/"); !errors.As(err, &refused) || turns.asked.Load() < 4 {
		t.Errorf("the second time: %v after %d questions", err, turns.asked.Load())
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests reached this machine", n)
	}
}

// This machine is reached by its names, and whoever says it means this machine reaches no other.
func TestThisMachine(t *testing.T) {
	port, reached := victim(t)
	for _, host := range []string{"127.0.0.1", "localhost", "LocalHost"} {
		if err := get(t, Transport(), "http://"+host+":"+port+"/"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := reached.Load(); n != 3 {
		t.Errorf("%d requests arrived", n)
	}
	if err := get(t, transport(newNames(t, always("127.0.0.1")).Resolver), "http://world.localhost:"+port+"/"); err != nil {
		t.Error(err)
	}
	err := get(t, transport(newNames(t, always("192.0.2.1", "2001:db8::1")).Resolver), "http://world.localhost:"+port+"/")
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("a name of this machine that leads elsewhere: %v", err)
	}
}

// proxied is set in a process of this test whose environment names a proxy. net/http looks once in a process.
const proxied = "COMANDA_TEST_PROXIED"

// No proxy is asked, whatever the environment says.
func TestNoProxy(t *testing.T) {
	if os.Getenv(proxied) != "" {
		for _, scheme := range []string{"http", "https"} {
			if u, err := http.ProxyFromEnvironment(&http.Request{URL: mustURL(scheme + "://gateway.example/")}); err != nil || u == nil {
				t.Fatalf("the environment names no proxy for %s, and the test would see nothing: %v", scheme, err)
			}
			if err := get(t, transport(newNames(t, always("169.254.169.254")).Resolver), scheme+"://gateway.example/"); err == nil {
				t.Error("somebody answered")
			}
		}
		return
	}
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$")
	child.Env = append(child.Environ(), proxied+"=1", "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		child.Env = append(child.Env, name+"="+proxy.URL)
	}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

func mustURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}
