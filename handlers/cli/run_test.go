package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"comanda/handlers/graph"
	"comanda/store"

	"github.com/google/go-cmp/cmp"
)

// bench is a program of which nothing is carried out: it notes what it was asked to do.
type bench struct {
	program  Program
	out, err bytes.Buffer
	asked    any
	settings []Setting // of serve
	answer   error
}

func newBench(environ ...string) *bench {
	b := &bench{}
	b.program = Program{
		Stdout: &b.out, Stderr: &b.err, Environ: environ,
		Version: Version{Version: "1.2.3", Commit: "unknown", Go: "go1.26", SQLite: "3.54.1"},
		Graph:   graph.New([]graph.Effect{{Name: "issue-refund", Mark: "E", Does: "moves money", Resource: "payment gateway"}}),
		Serve: func(_ context.Context, c ServeConfig) error {
			b.settings, c.Settings = c.Settings, nil
			b.asked = c
			return b.answer
		},
		Relay: func(_ context.Context, c RelayConfig) error { b.asked = c; return b.answer },
		Demo:  func(_ context.Context, c DemoConfig) error { b.asked = c; return b.answer },
		Prove: func(_ context.Context, c ProveConfig) error { b.asked = c; return b.answer },
		Drill: func(_ context.Context, c DrillConfig) error { b.asked = c; return b.answer },
		World: func(_ context.Context, c WorldConfig) error { b.asked = c; return b.answer },

		TargetNames: []string{"refund", "inventory", "release"},
		LedgerTypes: map[string]string{store.TicketIssueRefund: store.LedgerRefund, store.TicketInventorySync: store.LedgerInventory},
	}
	return b
}

func (b *bench) run(args ...string) int {
	b.out.Reset()
	b.err.Reset()
	b.asked = nil
	return Run(context.Background(), args, b.program)
}

// failed checks that a run ended with code, said one sentence that names what, and answered nothing.
func (b *bench) failed(t *testing.T, code int, what string, args ...string) {
	t.Helper()
	if got := b.run(args...); got != code {
		t.Errorf("%q exits %d instead of %d: %s", args, got, code, b.err.String())
	}
	text := b.err.String()
	if !strings.HasPrefix(text, "comanda: ") || strings.Count(text, "\n") != 1 || !strings.Contains(text, what) {
		t.Errorf("%q: the error is not one sentence about %q: %q", args, what, text)
	}
	if b.asked != nil || b.out.Len() > 0 {
		t.Errorf("%q was refused and still did %v, printed %q", args, b.asked, b.out.String())
	}
}

var serveDefaults = ServeConfig{
	DB: "comanda.db", Addr: "127.0.0.1:8080", Schedule: "@every 10s", Batch: 100, Lease: 2 * time.Minute, Workers: 4,
	Remote: RemoteConfig{Retry: retryDefaults}, Webhooks: webhookDefaults, Log: LogConfig{Format: "text", Level: "info"},
}

var webhookDefaults = WebhookConfig{Window: 5 * time.Minute, Concurrency: 768}

var retryDefaults = RetryConfig{Base: 5 * time.Second, Max: 6 * time.Hour, Budget: 12}

func TestAloneMeansServe(t *testing.T) {
	b := newBench()
	for _, args := range [][]string{{}, {"serve"}} {
		if code := b.run(args...); code != 0 || b.err.Len() > 0 {
			t.Errorf("%q exits %d: %s", args, code, b.err.String())
		}
		if diff := cmp.Diff(any(serveDefaults), b.asked); diff != "" {
			t.Errorf("%q: %s", args, diff)
		}
	}
	if b.run("--db", "x.db", "--no-relay"); b.asked == nil || b.asked.(ServeConfig).DB != "x.db" || !b.asked.(ServeConfig).NoRelay {
		t.Errorf("flags without a command: %+v", b.asked)
	}
}

func TestFlagsReachTheCommands(t *testing.T) {
	b := newBench()
	for _, want := range []struct {
		args string
		asks any
	}{
		{"serve --db a.db --addr [::1]:0 --host Shop.LAN --host 192.168.1.5 --tls-cert c.pem --tls-key k.pem --schedule @daily --batch 1 --lease 100ms --workers 256 --no-relay --insecure --log-format json --log-level debug",
			ServeConfig{DB: "a.db", Addr: "[::1]:0", Hosts: []string{"shop.lan", "192.168.1.5"}, TLS: TLSConfig{"c.pem", "k.pem"}, Schedule: "@daily", Batch: 1, Lease: 100 * time.Millisecond, Workers: 256, NoRelay: true, Insecure: true,
				Remote: RemoteConfig{Retry: retryDefaults}, Webhooks: webhookDefaults, Log: LogConfig{"json", "debug"}}},
		{"relay --db a.db --batch 10000 --lease 24h", RelayConfig{"a.db", "@every 10s", 10000, 24 * time.Hour, 4, RemoteConfig{Retry: retryDefaults}, LogConfig{"text", "info"}}},
		{"demo --log-level warn --lang es", DemoConfig{LogConfig{"text", "warn"}, "es"}},
		{"prove", ProveConfig{Lang: "en"}},
		{"prove c RELAYS A C --json --dir /d --keep /k", ProveConfig{Names: []string{"C", "relays", "A"}, JSON: true, Dir: "/d", Keep: "/k", Lang: "en"}},
		{"prove --all --lang es", ProveConfig{All: true, Lang: "es"}},
		{"drill --db /d/a.db --time 24h --dir /d --json", DrillConfig{DB: "/d/a.db", Time: 24 * time.Hour, Dir: "/d", JSON: true}},
	} {
		if code := b.run(strings.Fields(want.args)...); code != 0 {
			t.Errorf("%s exits %d: %s", want.args, code, b.err.String())
		}
		if diff := cmp.Diff(want.asks, b.asked); diff != "" {
			t.Errorf("%s: %s", want.args, diff)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	b := newBench()
	for args, what := range map[string]string{
		"serve --batch 0": "--batch", "serve --batch 10001": "--batch", "serve --batch many": "--batch", "relay --batch -1": "",
		"serve --workers 0": "--workers", "relay --workers 257": "--workers",
		"serve --lease 99ms": "--lease", "serve --lease 24h1s": "--lease", "serve --lease 5": "--lease", "relay --lease soon": "--lease",
		"serve --schedule TZ=UTC": "--schedule", "serve --schedule CRON_TZ=Mars/1 ": "--schedule", "serve --schedule @sometimes": "--schedule", "relay --schedule @every": "--schedule",
		"serve --addr 8080": "--addr", "serve --addr 127.0.0.1": "--addr", "serve --addr 127.0.0.1:70000": "--addr", "serve --addr 127.0.0.1:http": "--addr", "serve --addr 127.0.0.1:": "--addr",
		"serve --addr :8080": "--insecure", "serve --addr 0.0.0.0:80": "--insecure", "serve --addr [::]:80": "--insecure", "serve --addr 192.168.1.4:80": "--insecure", "serve --addr shop.example:80": "--insecure",
		"serve --log-format xml": "--log-format", "serve --log-level loud": "--log-level",
		"prove E": "A, B, C, D, relays", "prove A --all": "not both", "graph --format png": "--format",
		"tickets list --status lost": "--status", "tickets list --limit 0": "--limit", "tickets show one": "", "sql": "",
		"bogus": "bogus", "serve now": "now", "tickets": "", "credit": "", "order ORD-1": "", "--nonsense": "--nonsense", "version --nonsense": "--nonsense",
		"credit set CUS-7 5000.001 MXN": "AMOUNT", "credit set CUS-7 1e3 MXN": "AMOUNT", "credit set CUS-7 5 mxn": "CURRENCY", "credit set CUS-7 5 XXQ": "CURRENCY", "credit set CUS-7 5": "", "credit get CUS-7 pesos": "CURRENCY",
		"tickets retry": "", "tickets retry x": "", "tickets retry 1 --confirm yes": "send again", "tickets resolve 1 --reason r": "happened", "tickets resolve 1 --happened --not-happened --reason r": "happened",
		"targets pause shop": "refund, inventory, release", "targets local refund": "--i-know", "replay EVT-1": "", "backup f": "", "restore f": "", "prune --older-than 90d": "", "drill --time 1s": "--time 1s", "world --addr 0.0.0.0:80": "--addr", "world --tls new": "--tls", "world --key-ttl -1s": "--key-ttl", "help": "",
	} {
		b.failed(t, exitUsage, what, strings.Fields(args)...)
	}
	b.failed(t, exitUsage, "--schedule", "serve", "--schedule", "0 0 30 2 *") // never comes round
	b.failed(t, exitUsage, "--schedule", "serve", "--schedule", "@every -5s")
	b.failed(t, exitUsage, "CUSTOMER", "credit", "set", " ", "5", "MXN")
	b.failed(t, exitUsage, "CUSTOMER", "credit", "set", "a\x00b", "5", "MXN")
	b.failed(t, exitUsage, "query", "sql", " ")
	b.failed(t, exitUsage, "--db", "serve", "--db") // no value
}

func TestGoodSchedulesAndAddresses(t *testing.T) {
	b := newBench()
	for _, args := range [][]string{
		{"serve", "--schedule", "*/5 * * * *"}, {"serve", "--schedule", "@hourly"}, {"serve", "--schedule", "@every 1ms"},
		{"serve", "--schedule", "CRON_TZ=UTC 30 2 * * *"}, {"serve", "--addr", "localhost:0"}, {"serve", "--addr", "127.9.9.9:1"},
		{"serve", "--addr", "[::ffff:127.0.0.1]:1"}, {"serve", "--addr", ":80", "--insecure"},
	} {
		if code := b.run(args...); code != 0 || b.asked == nil {
			t.Errorf("%q exits %d: %s", args, code, b.err.String())
		}
	}
}

func TestExitCodesOfWhatMainHandsIn(t *testing.T) {
	b := newBench()
	for _, want := range []struct {
		answer error
		code   int
	}{
		{nil, 0}, {errors.New("a proof failed"), 1}, {Usage(errors.New("lease too short")), 2},
		{fmt.Errorf("open: %w", Usage(errors.New("lease too short"))), 2}, {fmt.Errorf("open: %w", store.ErrRefused), 2},
		{store.ErrBusy, 1}, {store.ErrFull, 1}, {errors.Join(errors.New("two\nlines"), errors.New("more")), 1},
	} {
		b.answer = want.answer
		for _, command := range []string{"serve", "relay", "demo", "prove", "drill"} {
			if code := b.run(command); code != want.code {
				t.Errorf("%s with %v exits %d instead of %d", command, want.answer, code, want.code)
			}
			if text := b.err.String(); want.code != 0 && (!strings.HasPrefix(text, "comanda: ") || strings.Count(text, "\n") != 1 || strings.Contains(text, `\n`)) || want.code == 0 && text != "" {
				t.Errorf("%s with %v says %q", command, want.answer, text)
			}
		}
	}
	if Usage(nil) != nil {
		t.Error("Usage(nil) is an error")
	}
	b.program.Serve = nil
	b.failed(t, exitFailed, "this build", "serve")
}

// handOnly are the flags of an operator's act: what says yes must be typed.
var handOnly = map[string]bool{"--reason": true, "--yes": true, "--confirm": true, "--happened": true, "--not-happened": true, "--reference": true, "--i-know": true,
	"--role": true, "--remove": true, "--list": true}

func TestEveryFlagHasATwin(t *testing.T) {
	flags, err := Flags()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flags {
		want := "COMANDA_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(f.Name, "--"), "-", "_"))
		if f.Name == "--lang" { // it changes no more than words
			want = "COMANDA_LANG"
		} else if f.Command == "prove" || f.Command == "demo" || f.Command == "drill" || f.Command == "world" || handOnly[f.Name] {
			want = ""
		}
		if f.Twin != want {
			t.Errorf("%s of %s has the twin %q instead of %q", f.Name, f.Command, f.Twin, want)
		}
		text, err := Help(strings.Fields(f.Command)...)
		if err != nil || !strings.Contains(text, f.Name) || !strings.Contains(text, f.Twin) || !strings.Contains(text, f.Default) {
			t.Errorf("the help of %s does not tell all of %+v: %v", f.Command, f, err)
		}
		if whole, _ := Help(); !strings.Contains(whole, f.Name) || !strings.Contains(whole, f.Twin) {
			t.Errorf("`comanda --help` does not tell of %s and %s", f.Name, f.Twin)
		}
	}
}

func TestTwins(t *testing.T) {
	b := newBench("COMANDA_DB=t.db", "COMANDA_ADDR=127.0.0.1:9", "COMANDA_SCHEDULE=@every 1m", "COMANDA_BATCH=7", "COMANDA_LEASE=3s",
		"COMANDA_WORKERS=2", "COMANDA_NO_RELAY=1", "COMANDA_INSECURE=true", "COMANDA_LOG_FORMAT=json", "COMANDA_LOG_LEVEL=error", "DB=other",
		"COMANDA_HOST=shop.lan,fd12::1", "COMANDA_TLS_CERT=c.pem", "COMANDA_TLS_KEY=k.pem")
	want := ServeConfig{DB: "t.db", Addr: "127.0.0.1:9", Hosts: []string{"shop.lan", "fd12::1"}, TLS: TLSConfig{"c.pem", "k.pem"}, Schedule: "@every 1m", Batch: 7, Lease: 3 * time.Second, Workers: 2, NoRelay: true, Insecure: true,
		Remote: RemoteConfig{Retry: retryDefaults}, Webhooks: webhookDefaults, Log: LogConfig{"json", "error"}}
	if b.run(); !cmp.Equal(any(want), b.asked) {
		t.Errorf("from the environment: %s", cmp.Diff(any(want), b.asked))
	}
	want.Batch, want.DB = 8, "f.db"
	if b.run("--batch", "8", "--db=f.db"); !cmp.Equal(any(want), b.asked) {
		t.Errorf("the flag must win: %s", cmp.Diff(any(want), b.asked))
	}
	empty := newBench("COMANDA_DB=", "COMANDA_BATCH=", "COMANDA_NO_RELAY=")
	if empty.run(); !cmp.Equal(any(serveDefaults), empty.asked) {
		t.Errorf("an empty variable must be none: %s", cmp.Diff(any(serveDefaults), empty.asked))
	}
	newBench("COMANDA_BATCH=0").failed(t, exitUsage, "COMANDA_BATCH", "serve")
	newBench("COMANDA_BATCH=many").failed(t, exitUsage, "COMANDA_BATCH", "serve")
	newBench("COMANDA_FORMAT=png").failed(t, exitUsage, "--format", "graph")
}

// The process's own environment is not read: only what main hands in counts.
func TestOnlyTheHandedEnvironmentCounts(t *testing.T) {
	t.Setenv("COMANDA_BATCH", "9")
	b := newBench()
	if b.run(); !cmp.Equal(any(serveDefaults), b.asked) {
		t.Error(cmp.Diff(any(serveDefaults), b.asked))
	}
}

func TestProveAndDemoReadOnlyTheLanguage(t *testing.T) {
	flags, err := Flags()
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	for _, f := range flags { // each would be a usage error, or change the answer, were it read
		if f.Name == "--lang" {
			environ = append(environ, "COMANDA_LANG=es")
			continue
		}
		environ = append(environ, "COMANDA_"+strings.ToUpper(strings.ReplaceAll(f.Name[2:], "-", "_"))+"=1")
	}
	b := newBench(environ...)
	if code := b.run("prove"); code != 0 || !cmp.Equal(any(ProveConfig{Lang: "es"}), b.asked) {
		t.Errorf("prove exits %d and was asked for %+v: %s", code, b.asked, b.err.String())
	}
	if code := b.run("demo"); code != 0 || !cmp.Equal(any(DemoConfig{LogConfig{"text", "info"}, "es"}), b.asked) {
		t.Errorf("demo exits %d and was asked for %+v: %s", code, b.asked, b.err.String())
	}
	world := WorldConfig{Addr: "127.0.0.1:8090", DB: "world.db", KeyTTL: 24 * time.Hour}
	if code := b.run("world"); code != 0 || !cmp.Equal(any(world), b.asked) {
		t.Errorf("world exits %d and was asked for %+v: %s", code, b.asked, b.err.String())
	}
	for _, command := range []string{"prove", "demo", "drill", "world"} {
		if text, err := Help(command); err != nil || strings.Contains(strings.ReplaceAll(text, "COMANDA_LANG", ""), "COMANDA_") {
			t.Errorf("the help of %s names a variable that it does not read: %v", command, err)
		}
	}
}

func TestHelpListsWhatExists(t *testing.T) {
	want := []string{"serve", "relay", "demo", "prove", "drill", "graph", "health", "watch", "doctor", "credit set", "credit get", "credit list",
		"order show", "receipt", "events show", "tickets list", "tickets show", "tickets retry", "tickets discard", "tickets resolve",
		"targets list", "targets pause", "targets resume", "targets local", "passwd", "token add", "token list", "token revoke", "world", "sql", "completion", "man", "version"}
	got, err := Commands()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	b := newBench()
	if code := b.run("--help"); code != 0 || b.err.Len() > 0 {
		t.Errorf("--help exits %d: %s", code, b.err.String())
	}
	whole := b.out.String()
	for _, name := range want {
		if !strings.Contains(whole, "\n  "+name) {
			t.Errorf("--help does not list %s", name)
		}
		args := append(strings.Fields(name), "--help")
		if code := b.run(args...); code != 0 || !strings.HasPrefix(b.out.String(), "Usage: comanda "+name) || b.asked != nil {
			t.Errorf("%q exits %d: %s%s", args, code, b.out.String(), b.err.String())
		}
	}
	for _, no := range []string{"replay", "backup", "restore", "prune"} {
		if strings.Contains(whole, no) {
			t.Errorf("--help tells of %s, which does not exist yet", no)
		}
	}
	for line := range strings.Lines(whole) {
		if len(line) > helpWidth+1 {
			t.Errorf("a line of the help is too long: %s", line)
		}
	}
	for _, alias := range [][]string{{"-h"}, {"serve", "-h"}, {"credit", "--help"}, {"tickets", "show", "--help"}} {
		if code := b.run(alias...); code != 0 || !strings.HasPrefix(b.out.String(), "Usage: comanda") {
			t.Errorf("%q exits %d", alias, code)
		}
	}
	if _, err := Help("nothing"); err == nil {
		t.Error("there is help for a command that does not exist")
	}
}

func TestRefusedFilesAreWrongSettings(t *testing.T) {
	b := newBench()
	missing := filepath.Join(t.TempDir(), "none.db")
	for _, args := range []string{"doctor", "credit list", "credit get CUS-7", "order show O", "receipt O", "events show E", "tickets list", "tickets show 1", "sql SELECT"} {
		b.failed(t, exitUsage, "none.db", append(strings.Fields(args), "--db", missing)...)
	}
	if _, err := filepath.Glob(missing); err != nil {
		t.Error(err)
	}
	b.failed(t, exitUsage, "directory", "credit", "set", "CUS-7", "1", "MXN", "--db", filepath.Join(missing, "deeper.db"))
}

func TestGraphAndVersion(t *testing.T) {
	b := newBench()
	for format, part := range map[string]string{"text": "Shared resources", "mermaid": "flowchart TD", "svg": "</svg>", "json": `"nodes": [`} {
		if code := b.run("graph", "--format", format); code != 0 || !strings.Contains(b.out.String(), part) || !strings.Contains(b.out.String(), "issue-refund") {
			t.Errorf("graph --format %s exits %d: %s%s", format, code, b.out.String(), b.err.String())
		}
	}
	for lang, part := range map[string]string{"en": "moves money", "es": "mueve dinero"} {
		for _, format := range []string{"text", "mermaid", "svg"} {
			if code := b.run("graph", "--format", format, "--lang", lang); code != 0 || !strings.Contains(b.out.String(), part) {
				t.Errorf("graph --format %s --lang %s exits %d: %s%s", format, lang, code, b.out.String(), b.err.String())
			}
		}
	}
	for _, command := range []string{"graph", "prove", "demo"} {
		b.failed(t, exitUsage, "--lang must be one of", command, "--lang", "fr")
		newBench("COMANDA_LANG=fr").failed(t, exitUsage, "COMANDA_LANG", command)
	}
	b.run("version")
	if diff := cmp.Diff("comanda  1.2.3\ncommit   unknown\ngo       go1.26\nsqlite   3.54.1\n", b.out.String()); diff != "" {
		t.Error(diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestAnAnswerThatCantBeWrittenFails(t *testing.T) {
	b := newBench()
	b.program.Stdout = fullDisk{}
	for _, args := range [][]string{{"version"}, {"graph"}, {"--help"}} {
		if code := b.run(args...); code != exitFailed || !strings.Contains(b.err.String(), "no space") {
			t.Errorf("%q exits %d: %s", args, code, b.err.String())
		}
	}
}

func TestValuesAreMadeVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ñ 日本": "plain ñ 日本", "a\x1b[31mb": `a\x1b[31mb`, "a\tb\nc\rd": `a\tb\nc\rd`, "\u009b": `\u009b`,
		"\u202Eabc": `\u202eabc`, "\u2066x\u2069": `\u2066x\u2069`, "\u200b": `\u200b`, "bad\xff": `bad\xff`, "\uFFFD": "\uFFFD", "\u2028": `\u2028`, "\u007f": `\u007f`,
	} {
		if got := visible(in, true); got != want && got != strings.ReplaceAll(want, `\u007f`, `\x7f`) {
			t.Errorf("%q is shown as %s instead of %s", in, got, want)
		}
	}
	if got := visible("\u202Eabc\x1b", false); got != "\u202Eabc\\x1b" {
		t.Errorf("in a pipe: %q", got)
	}
	b := newBench()
	b.failed(t, exitUsage, `\x1b[31m\u202e`, "\x1b[31m\u202e")
	if slices.ContainsFunc([]rune(visible("\x00\x1b\u202e\u061c\u200f", true)), func(r rune) bool { return r > 126 || r < 32 }) {
		t.Error("something invisible got through")
	}
}

// The console shows each setting with where it came from, and of an address no more than what names it.
func TestSettingsNameTheirOrigin(t *testing.T) {
	b := newBench("COMANDA_BATCH=7", "COMANDA_ALERT_URL=https://hooks.example/T0/secret")
	b.run("serve", "--workers", "3", "--zone", "America/Mexico_City", "--refund-url", "https://pay.example/refunds?key=secret")
	got := map[string]Setting{}
	for _, s := range b.settings {
		got[s.Name] = s
	}
	for _, want := range []Setting{
		{"--batch", "7", "COMANDA_BATCH"}, {"--workers", "3", "--workers"}, {"--lease", "2m0s", "default"}, {"--zone", "America/Mexico_City", "--zone"},
		{"--alert-url", "https://hooks.example/…", "COMANDA_ALERT_URL"}, {"--refund-url", "https://pay.example/refunds?…", "--refund-url"},
	} {
		if got[want.Name] != want {
			t.Errorf("%s is shown as %+v, want %+v", want.Name, got[want.Name], want)
		}
	}
	if b.run("serve", "--zone", "Nowhere/Land"); b.asked != nil || !strings.Contains(b.err.String(), "--zone must be") {
		t.Errorf("an unknown zone: %s", b.err.String())
	}
}
