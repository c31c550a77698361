package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// reaching are the names by which a program comes to a connection that it makes itself.
var reaching = map[string][]string{
	"net/http": {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "ProxyFromEnvironment"},
	"net": {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP", "DialUnix", "Dialer", "DefaultResolver", "Resolver",
		"LookupHost", "LookupIP", "LookupAddr", "LookupCNAME", "LookupMX", "LookupNS", "LookupSRV", "LookupTXT"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer", "Client"},
	"syscall":    {"Connect", "Socket"},
}

// waysOut are the places that use one of them, each with where it leads.
var waysOut = map[string]map[string]string{
	"effects/egress/transport.go": {
		"Transport: http.Transport":   "the one way out, which judges every address",
		"transport: http.Transport":   "the same",
		"transport: net.Resolver":     "the same, with a name server of the tests",
		"a declaration: net.Resolver": "the same",
		"dial: net.Dialer":            "the same",
	},
	"effects/target.go": {
		"NewTransport: http.Transport":       "the same, for letters",
		"NewPooledTransport: http.Transport": "the same, for questions",
		"roundTrip: http.Transport":          "asks what kind it was given",
	},
	"handlers/credit_http.go": {
		"a declaration: http.Client":   "goes by the transport that main hands in",
		"NewRemoteCredit: http.Client": "the same",
	},
	"handlers/cli/health.go": {
		"client: http.Client":    "asks the server that a person named on the command line",
		"client: http.Transport": "the same",
		"askUntil: http.Client":  "the same",
		"ask: http.Client":       "the same",
	},
}

// What leaves the box leaves it by effects/egress. Whoever needs another way says here where it leads. The proofs in e2e
// speak to the processes that they have started.
func TestEveryWayOut(t *testing.T) {
	found := map[string][]string{}
	for _, f := range sources(t) {
		if strings.HasPrefix(f.path, "e2e/") {
			continue
		}
		found[f.path] = uses(t, f.path, reaching, nil)
		for _, use := range found[f.path] {
			if waysOut[f.path][use] == "" {
				t.Errorf("%s, %s\n\tmay make a connection that effects/egress has not judged; if that is right, list it in waysOut and say where it leads", f.path, use)
			}
		}
	}
	for file, uses := range waysOut {
		for use := range uses {
			if !slices.Contains(found[file], use) {
				t.Errorf("%s, %s\n\tis listed and not there any more", file, use)
			}
		}
	}
}

// An address that nothing may go to is refused before there is a file, and in a file that remembers it: with exit code
// 2, by the name of its flag. Nothing of the address is repeated but its host.
func TestAddressesThatNothingGoesTo(t *testing.T) {
	const plain = "http://gateway.invalid/s3cret"
	for _, command := range []string{"serve", "relay"} {
		for _, flags := range [][]string{
			{"--refund-url", plain}, {"--inventory-url", plain}, {"--release-url", plain}, {"--alert-url", plain},
			{"--refund-url", "https://gateway.invalid/", "--refund-lookup-url", "http://gateway.invalid/{key}"},
			{"--refund-url", "https://169.254.169.254/s3cret", "--refund-insecure-http"}, {"--refund-url", "https://[::ffff:169.254.169.254]/"},
			{"--refund-url", "http://2130706433/", "--refund-insecure-http"},
		} {
			p := onFile(t, builtProgram(t))
			args := append([]string{command, "--db", p.file}, flags...)
			stderr, code := refuses(t, nil, args...)
			named := flags[0]
			if len(flags) == 4 {
				named = flags[2]
			}
			if code != 2 || !strings.HasPrefix(stderr, "comanda: "+named) || strings.Contains(stderr, "s3cret") || strings.Count(stderr, "\n") != 1 {
				t.Fatalf("%q exits %d: %s", args, code, stderr)
			}
			if left := listing(t, p.dir); len(left) > 0 {
				t.Errorf("%q leaves %q", args, left)
			}
		}
	}
	if stderr, code := refuses(t, []string{"COMANDA_CREDIT_URL=" + plain}, "serve"); code != 2 || !strings.HasPrefix(stderr, "comanda: --credit-url") || !strings.Contains(stderr, "COMANDA_CREDIT_URL") {
		t.Errorf("serve exits %d: %s", code, stderr)
	}

	p := onFile(t, builtProgram(t))
	r := must(p.relay("relay", "", "--refund-url", plain, "--refund-insecure-http"))(t)
	if err := p.endAll(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if stderr, code := refuses(t, nil, "relay", "--db", p.file, "--refund-url", plain); code != 2 || !strings.HasPrefix(stderr, "comanda: --refund-url") {
		t.Errorf("the file remembers the address, and relay exits %d: %s", code, stderr)
	}
}

// refuses runs a command that should end by itself at once; one that does not is killed, and its code is -1.
func refuses(t *testing.T, env []string, args ...string) (stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, builtProgram(t), args...)
	cmd.Stderr, cmd.Dir, cmd.Env = &said, t.TempDir(), append(append(cmd.Environ(), anyPort), env...)
	_ = cmd.Run()
	return said.String(), cmd.ProcessState.ExitCode()
}
