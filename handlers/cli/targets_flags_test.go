package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outside sets every flag of the world outside to something that is not its default, token files aside.
const outside = `--refund-url https://g.example/refunds --refund-timeout 7s --refund-key-ttl 0 --refund-lookup-url https://g.example/refunds?key={key}
	--refund-lookup-grace 3s --refund-rate 30/m --refund-concurrency 9 --refund-accept any --refund-reject-codes gone,closed --refund-quote-key --refund-insecure-http
	--inventory-url http://w.example:8443/moves --inventory-timeout 8s --inventory-key-ttl 1h --inventory-lookup-url http://w.example/moves/{key}
	--inventory-lookup-grace 0 --inventory-rate 0 --inventory-concurrency 256 --inventory-accept any --inventory-reject-codes sold --inventory-quote-key --inventory-insecure-http
	--release-url http://[::1]:9/ --release-timeout 60s --release-key-ttl 8760h --release-lookup-url http://[::1]:9/{key}
	--release-lookup-grace 24h --release-rate 7200/h --release-concurrency 1 --release-accept any --release-reject-codes shut --release-quote-key --release-insecure-http
	--retry-base 1ms --retry-max 24h --retry-budget 1000 --on-line-failure compensate --alert-url https://ntfy.example/shop --alert-format text --alert-insecure-http`

const creditOutside = ` --credit-url https://c.example/credit --credit-timeout 15s --credit-fallback book --credit-insecure-http`

func outsideConfig(tokens [3]string) RemoteConfig {
	return RemoteConfig{
		Targets: []TargetConfig{
			{"refund", "https://g.example/refunds", 7 * time.Second, tokens[0], 0, "https://g.example/refunds?key={key}", 3 * time.Second, 0.5, 9, true, []string{"gone", "closed"}, true, true},
			{"inventory", "http://w.example:8443/moves", 8 * time.Second, tokens[1], time.Hour, "http://w.example/moves/{key}", 0, 0, 256, true, []string{"sold"}, true, true},
			{"release", "http://[::1]:9/", time.Minute, tokens[2], 8760 * time.Hour, "http://[::1]:9/{key}", 24 * time.Hour, 2, 1, true, []string{"shut"}, true, true},
		},
		Retry: RetryConfig{Base: time.Millisecond, Max: 24 * time.Hour, Budget: 1000}, Compensate: true, AlertURL: "https://ntfy.example/shop", AlertPlain: true, AlertInsecureHTTP: true,
	}
}

// twinsOf turns "--refund-url URL --refund-quote-key" into the variables that say the same.
func twinsOf(args []string) []string {
	var environ []string
	for i, arg := range args {
		name, isFlag := strings.CutPrefix(arg, "--")
		if !isFlag {
			continue
		}
		value := "true"
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			value = args[i+1]
		}
		environ = append(environ, "COMANDA_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
	}
	return environ
}

// tokenFlags names a file with a token of its own for each target and for the credit source.
func tokenFlags(t *testing.T) []string {
	t.Helper()
	var args []string
	for _, name := range []string{"refund", "inventory", "release", "credit"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(" token-of-"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+name+"-token-file", path)
	}
	return args
}

// Every setting of the world outside arrives where it belongs, whichever way it was given.
func TestOutsideReachesServeAndRelay(t *testing.T) {
	tokens := tokenFlags(t)
	relayArgs := append(strings.Fields(outside), tokens[:6]...)
	serveArgs := append(strings.Fields(outside+creditOutside), tokens...)
	serve, relay := serveDefaults, RelayConfig{"comanda.db", "@every 10s", 100, 2 * time.Minute, 4, RemoteConfig{}, LogConfig{"text", "info"}}
	serve.Remote = outsideConfig([3]string{"token-of-refund", "token-of-inventory", "token-of-release"})
	serve.Credit = CreditConfig{URL: "https://c.example/credit", Timeout: 15 * time.Second, Token: "token-of-credit", FallbackToBook: true, InsecureHTTP: true}
	relay.Remote = serve.Remote
	twins := twinsOf(serveArgs)
	for _, try := range []struct {
		environ, args []string
		want          any
	}{
		{nil, append([]string{"serve"}, serveArgs...), serve}, {nil, append([]string{"relay"}, relayArgs...), relay},
		{twins, []string{"serve"}, serve}, {twins, nil, serve}, {twins, []string{"relay"}, relay},
	} {
		b := newBench(try.environ...)
		if code := b.run(try.args...); code != 0 || !cmp.Equal(try.want, b.asked) {
			t.Errorf("%q with %q exits %d: %s%s", try.args, try.environ, code, b.err.String(), cmp.Diff(try.want, b.asked))
		}
	}
}

// A shop's real addresses must never reach what runs in the lab.
func TestOutsideDoesNotReachTheLab(t *testing.T) {
	b := newBench(twinsOf(append(strings.Fields(outside+creditOutside+" --addr 127.0.0.1:1 --db shop.db --key-ttl 0"), tokenFlags(t)...))...)
	here, err := filepath.Abs("comanda.db")
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]any{
		"prove": ProveConfig{Lang: "en"}, "drill": DrillConfig{DB: here, Time: time.Minute}, "demo": DemoConfig{LogConfig{"text", "info"}, "en"}, "world": WorldConfig{Addr: "127.0.0.1:8090", DB: "world.db", KeyTTL: 24 * time.Hour},
	} {
		if code := b.run(command); code != 0 || !cmp.Equal(want, b.asked) {
			t.Errorf("%s exits %d: %s%s", command, code, b.err.String(), cmp.Diff(want, b.asked))
		}
		b.failed(t, exitUsage, "--refund-url", command, "--refund-url", "https://g.example/")
	}
}

func TestTargetDefaults(t *testing.T) {
	b := newBench()
	if code := b.run("relay", "--release-url", "http://w/r", "--inventory-url", "http://w/i"); code != 0 {
		t.Fatal(b.err.String())
	}
	plain := func(name, url string, codes ...string) TargetConfig {
		return TargetConfig{Name: name, URL: url, Timeout: 20 * time.Second, KeyTTL: 24 * time.Hour, LookupGrace: time.Minute, Rate: 20, Concurrency: 4, RejectCodes: codes}
	}
	want := []TargetConfig{plain("inventory", "http://w/i", "out_of_stock"), plain("release", "http://w/r")}
	if diff := cmp.Diff(want, b.asked.(RelayConfig).Remote.Targets); diff != "" {
		t.Error(diff)
	}
}

// A value out of bounds is a typing error even where nothing uses it; what an address needs is asked of addresses only.
func TestBoundsHoldWithoutAnAddress(t *testing.T) {
	b := newBench()
	for _, name := range []string{"refund", "inventory", "release"} {
		for _, setting := range []string{"timeout 99ms", "timeout 10m1s", "key-ttl 8760h1s", "lookup-grace 24h1s", "rate fast", "rate 1/d", "rate -1/s", "concurrency 0", "concurrency 257", "reject-codes a,,b", "reject-codes ,"} {
			flag, value, _ := strings.Cut(setting, " ")
			b.failed(t, exitUsage, "--"+name+"-"+flag, "relay", "--"+name+"-"+flag, value)
		}
		b.failed(t, exitUsage, "--"+name+"-url", "serve", "--"+name+"-lookup-url", "http://g/{key}")
		b.failed(t, exitUsage, "--"+name+"-lookup-url", "relay", "--"+name+"-url", "https://g.example/", "--"+name+"-lookup-url", "https://other.example/{key}", "--"+name+"-token-file", tokenFlags(t)[1])
		if code := b.run("relay", "--"+name+"-url", "https://g.example/", "--"+name+"-lookup-url", "https://other.example/{key}"); code != 0 {
			t.Errorf("a lookup at another host, without a token: %s", b.err.String())
		}
		b.failed(t, exitUsage, "--"+name+"-reject-codes", "serve", "--"+name+"-reject-codes", "sold, closed")
		if code := b.run("relay", "--"+name+"-timeout", "10m", "--lease", "1s"); code != 0 {
			t.Errorf("the lease of a target that is local: %s", b.err.String())
		}
	}
	b.failed(t, exitUsage, "--credit-timeout", "serve", "--credit-timeout", "49ms")
	b.failed(t, exitUsage, "--retry-base", "relay", "--retry-base", "999us")
	b.failed(t, exitUsage, "--retry-budget", "relay", "--retry-budget", "1001")
}

func TestLeaseIsTwiceTheTimeout(t *testing.T) {
	for _, name := range []string{"refund", "inventory", "release"} {
		b := newBench()
		args := []string{"relay", "--" + name + "-url", "http://g/", "--" + name + "-timeout", "30s", "--lease"}
		if code := b.run(append(args, "60s")...); code != 0 {
			t.Errorf("%s: twice is enough: %s", name, b.err.String())
		}
		b.failed(t, exitUsage, "--lease 59.999s is under twice --"+name+"-timeout 30s", append(args, "59.999s")...)
	}
}

func TestAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://g.example/refunds?shop=7": true, "HTTP://g": true, "http://127.0.0.1:1/": true, "http://[::1]:65535/": true, "http://[::1]/": true,
		"": true, "g.example/refunds": false, "//g.example/": false, "https:///refunds": false, "http://:80/refunds": false, "http://g:0/": false, "http://g:65536/": false,
		"http://g:/": false, "http://g:http/": false, "mailto:ana@g.example": false, "http://s3cret@g/": false, "http://ana:s3cret@g/": false, "http://g/#s3cret": false, "http://g/%zz": false, "http://g/\n": false, "http://g x/": false,
	} {
		for _, flag := range []string{"--refund-url", "--alert-url", "--credit-url"} {
			b := newBench()
			code := b.run("serve", flag+"="+address)
			if text := b.err.String(); ok != (code == 0) || !ok && (code != exitUsage || !strings.HasPrefix(text, "comanda: "+flag) || strings.Contains(text, "s3cret")) {
				t.Errorf("%s=%q exits %d: %s", flag, address, code, text)
			}
		}
	}
}

// A complaint about two settings tells of each that came from the environment.
func TestBlameForTwoSettings(t *testing.T) {
	newBench("COMANDA_INVENTORY_URL=http://w/", "COMANDA_INVENTORY_TIMEOUT=90s").
		failed(t, exitUsage, "(--inventory-timeout comes from COMANDA_INVENTORY_TIMEOUT)", "serve")
	newBench("COMANDA_LEASE=3s", "COMANDA_REFUND_URL=http://g/", "COMANDA_REFUND_TIMEOUT=2s").
		failed(t, exitUsage, "(--lease comes from COMANDA_LEASE, --refund-timeout comes from COMANDA_REFUND_TIMEOUT)", "relay")
	newBench("COMANDA_REFUND_TOKEN_FILE=/t").failed(t, exitUsage, "(--refund-token-file comes from COMANDA_REFUND_TOKEN_FILE)", "relay")
	newBench("COMANDA_ON_LINE_FAILURE=compensate").
		failed(t, exitUsage, "(--on-line-failure comes from COMANDA_ON_LINE_FAILURE)", "relay", "--inventory-url", "http://w/")
	b := newBench("COMANDA_LEASE=3s")
	b.failed(t, exitUsage, "--lease 1s is", "relay", "--lease", "1s", "--refund-url", "http://g/")
	if strings.Contains(b.err.String(), "COMANDA_LEASE") {
		t.Errorf("the flag won, and still: %s", b.err.String())
	}
}

func TestWorldFlags(t *testing.T) {
	b := newBench()
	b.must(t, "world", "--addr", "[::1]:0", "--db", "w.db", "--key-ttl", "0", "--tls", "expired", "--fault", "refund:perform-then-500:2", "--fault", "inventory:hang,x")
	want := WorldConfig{Addr: "[::1]:0", DB: "w.db", Faults: []string{"refund:perform-then-500:2", "inventory:hang,x"}, TLS: "expired"}
	if diff := cmp.Diff(any(want), b.asked); diff != "" {
		t.Error(diff)
	}
	b.failed(t, exitUsage, "--insecure", "world", "--insecure")
	for _, addr := range []string{":8090", "192.168.1.4:80"} {
		b.failed(t, exitUsage, "--addr", "world", "--addr", addr)
		if strings.Contains(b.err.String(), "--insecure") {
			t.Errorf("world has no --insecure, and still: %s", b.err.String())
		}
	}
	b.program.World = nil
	b.failed(t, exitFailed, "this build", "world")
}

// The help puts the many flags of the world outside below headings, after the others.
func TestHelpIsGrouped(t *testing.T) {
	targets := []string{"Flags:", "Refund target:", "Inventory target:", "Release target:", "Retries:"}
	for command, want := range map[string][]string{
		"serve": append(slices.Clone(targets), "Credit:", "Webhooks:", "Operators:"), "relay": targets, "world": {"Flags:"}, "demo": {"Flags:"}, "": append([]string{"Commands:"}, append(slices.Clone(targets), "Credit:", "Webhooks:", "Operators:")...),
	} {
		text, err := Help(strings.Fields(command)...)
		if err != nil {
			t.Fatal(err)
		}
		below, headings := map[string]string{}, []string{}
		for line := range strings.Lines(text) {
			switch line = strings.TrimRight(line, "\n"); {
			case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
				headings = append(headings, line)
			case strings.HasPrefix(line, "  --"):
				name, _, _ := strings.Cut(strings.Fields(line)[0], "=")
				below[name] = headings[len(headings)-1]
			}
		}
		if diff := cmp.Diff(want, headings); diff != "" {
			t.Errorf("%q: %s", command, diff)
		}
		for flag, heading := range below {
			if where := headingOf(flag); where != heading {
				t.Errorf("%q: %s stands below %s instead of %s", command, flag, heading, where)
			}
		}
	}
}

func headingOf(flag string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "-")
	heading := map[string]string{"refund": "Refund target:", "inventory": "Inventory target:", "release": "Release target:", "retry": "Retries:", "credit": "Credit:", "webhook": "Webhooks:", "source": "Webhooks:", "admin": "Operators:", "require": "Operators:", "insecure": "Operators:"}[kind]
	if heading == "" {
		return "Flags:"
	}
	return heading
}
