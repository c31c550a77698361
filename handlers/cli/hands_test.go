package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"comanda/store"
)

// deadTickets is a file with n dead refunds.
func deadTickets(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := string(rune('A' + i))
		inserts(t, path, `INSERT INTO outbox (aggregate_id, effect_type, payload, idempotency_key, status, processed_at) VALUES ('O-`+id+`', 'issue_refund', '{"amount":2.50,"currency":"MXN"}', 'refund:O-`+id+`', 'dead', 1)`)
	}
	return path
}

func TestHands(t *testing.T) {
	b, path := newBench(), deadTickets(t, 3)
	db := []string{"--db", path}
	run := func(code int, want string, args ...string) {
		t.Helper()
		got := b.run(append(args, db...)...)
		if said := b.out.String() + b.err.String(); got != code || !strings.Contains(said, want) {
			t.Errorf("%q exits %d and says %q; want %d, %q", args, got, said, code, want)
		}
	}
	run(1, "this sends 3 calls: 3 refund never sent; 7.50 MXN in all", "tickets", "retry", "1", "2", "3")
	run(1, "nothing was done: add --yes", "tickets", "retry", "1", "2", "3")
	run(0, "ticket 1: dead", "tickets", "show", "1")
	run(2, "'send again' and no others", "tickets", "retry", "1", "--confirm", "yes")
	run(2, "at most 1000 tickets at once\n", append([]string{"tickets", "retry", "--yes"}, slices.Repeat([]string{"1"}, 1001)...)...)
	run(2, "happened", "tickets", "resolve", "1", "--reason", "r")
	run(2, "happened", "tickets", "resolve", "1", "--happened", "--not-happened", "--reason", "r")
	run(2, "--reason", "tickets", "resolve", "1", "--happened")
	run(2, "the targets are refund, inventory", "targets", "pause", "shop")
	run(2, "--i-know", "targets", "local", "refund")
	run(2, "the targets are refund, inventory", "targets", "local", "shop", "--i-know")
	run(1, `"preview": true`, "tickets", "discard", "1", "2", "--reason", "r", "--json")
	run(0, "0", "sql", "SELECT count(*) FROM operator_log")
	run(0, "this sends 2 calls", "tickets", "retry", "1", "2", "--yes")
	run(0, "ticket 1: pending", "tickets", "show", "1")
	run(2, "--reason", "tickets", "discard", "1")
	run(0, "this discards 1 ticket", "tickets", "discard", "1", "--reason", "shop closed")
	run(1, "was discarded, and stays so", "tickets", "retry", "1")
	run(1, "there is no ticket 99", "tickets", "retry", "99")
	run(1, "has nothing to resolve", "tickets", "resolve", "3", "--happened", "--reason", "asked Ana")
	inserts(t, path, `UPDATE outbox SET status = 'review', processed_at = NULL WHERE id = 3`)
	run(1, "send again", "tickets", "retry", "3")
	run(0, "this notes 1 effect as happened", "tickets", "resolve", "3", "--happened", "--reference", "rf_1", "--reason", "asked Ana", "--json")
	run(0, "ticket 3: done", "tickets", "show", "3")
	run(0, "asked Ana (reference rf_1)", "order", "show", "O-C")
	run(0, "by hand", "sql", "SELECT how FROM ledger")
	run(0, "refund     LAB   up", "targets", "list")
	run(0, "refund is paused", "targets", "pause", "refund", "--reason", "stocktaking")
	run(0, "stocktaking", "targets", "list")
	run(0, `"paused_why": "stocktaking"`, "targets", "list", "--json")
	run(0, "refund is resumed", "targets", "resume", "refund")
	run(1, "refund is local already", "targets", "local", "refund", "--i-know")
	inserts(t, path, `UPDATE targets SET mode = 'real', url = 'https://g'`)
	run(0, "refund is local", "targets", "local", "refund", "--i-know")
}

// The settings of targets, and each that can't be.
func TestTargetSettings(t *testing.T) {
	b := newBench("COMANDA_REFUND_URL=https://g.example/refunds", "COMANDA_INVENTORY_RATE=30/m")
	if code := b.run("serve", "--inventory-url", "http://w.example/moves", "--release-url", "http://w.example/releases", "--on-line-failure", "compensate", "--refund-key-ttl", "0", "--credit-url", "http://c.example/", "--credit-fallback", "book"); code != 0 {
		t.Fatal(b.err.String())
	}
	c := b.asked.(ServeConfig)
	if len(c.Remote.Targets) != 3 || c.Remote.Targets[0].URL != "https://g.example/refunds" || c.Remote.Targets[0].KeyTTL != 0 || c.Remote.Targets[0].Rate != 20 ||
		c.Remote.Targets[1].Rate != 0.5 || c.Remote.Targets[1].RejectCodes[0] != "out_of_stock" || !c.Remote.Compensate || !c.Credit.FallbackToBook {
		t.Errorf("%+v", c.Remote)
	}
	dir := t.TempDir()
	b = newBench()
	const refund = "relay --refund-url http://g/ "
	for args, what := range map[string]string{
		refund + "--lease 39s": "--refund-timeout", refund + "--refund-timeout 61s": "--lease", refund + "--refund-timeout 50ms": "--refund-timeout",
		refund + "--refund-key-ttl -1s": "--refund-key-ttl", refund + "--refund-lookup-url http://g/": "{key}", refund + "--refund-lookup-url {key}": "--refund-lookup-url",
		refund + "--refund-lookup-grace 25h": "--refund-lookup-grace", refund + "--refund-rate 5": "--refund-rate", refund + "--refund-rate 0/s": "--refund-rate", refund + "--refund-rate +5/s": "--refund-rate",
		refund + "--refund-concurrency 0": "--refund-concurrency", refund + "--refund-accept html": "--refund-accept", refund + "--refund-token-file /none": "--refund-token-file",
		"relay --refund-url ftp://g/": "--refund-url", "relay --refund-url g.example": "--refund-url", "relay --refund-url http://u:p@g/": "password", "relay --refund-url http://g/#x": "#",
		"relay --refund-token-file " + dir: "--refund-url", "relay --release-lookup-url http://g/{key}": "--release-url",
		"relay --retry-base 7h": "--retry-base", "relay --retry-max 25h": "--retry-max", "relay --retry-budget 0": "--retry-budget", "relay --on-line-failure panic": "--on-line-failure",
		"relay --inventory-url http://w/ --on-line-failure compensate": "--release-url", "relay --alert-url w": "--alert-url", "relay --alert-format xml": "--alert-format",
		"serve --credit-url c": "--credit-url", "serve --credit-url http://c/ --credit-timeout 16s": "--credit-timeout", "serve --credit-token-file x": "--credit-url", "relay --credit-url http://c/": "--credit-url",
	} {
		b.failed(t, exitUsage, what, strings.Fields(args)...)
	}
}

func TestTokenFiles(t *testing.T) {
	for text, ok := range map[string]bool{"t0k3n\n": true, "": false, " \n": false, "two words": false, "tökén": false, "a\x00b": false} {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, text)
		b := newBench()
		code := b.run("relay", "--refund-url", "http://g/", "--refund-token-file", path)
		if (code == 0) != ok || strings.Contains(b.err.String(), strings.TrimSpace(text)+":") && text != "" && !ok && strings.TrimSpace(text) != "" {
			t.Errorf("%q: exit code %d, %s", text, code, b.err.String())
		}
		if ok && b.asked.(RelayConfig).Remote.Targets[0].Token != "t0k3n" {
			t.Errorf("%+v", b.asked)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
