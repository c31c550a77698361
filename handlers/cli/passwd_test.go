package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"comanda/store"
)

const goodPassword = "correct horse battery"

// passwd runs a command with something piped in.
func (b *bench) passwd(in string, args ...string) int {
	b.program.Stdin = strings.NewReader(in)
	return b.run(args...)
}

// An account is made with the password that is piped in or stands in a file, listed without it, and taken away.
func TestPasswd(t *testing.T) {
	b, db := newBench(), filepath.Join(t.TempDir(), "c.db")
	if code := b.passwd(goodPassword+"\n", "passwd", "--db", db); code != 0 || !strings.Contains(b.out.String(), "admin may log in, with the role operate") {
		t.Errorf("passwd exits %d: %s%s", code, b.out.String(), b.err.String())
	}
	file := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(file, []byte(goodPassword+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.run("passwd", "ana", "--role", "view", "--password-file", file, "--db", db, "--json"); code != 0 {
		t.Errorf("passwd exits %d: %s", code, b.err.String())
	}
	if code := b.run("passwd", "--list", "--db", db); code != 0 || !strings.Contains(b.out.String(), "ana ") || !strings.Contains(b.out.String(), "view") || strings.Contains(b.out.String(), "argon2") {
		t.Errorf("the list exits %d: %s", code, b.out.String())
	}
	if code := b.passwd("\ufeff"+goodPassword+" 2", "passwd", "ana", "--db", db); code != 0 || !strings.Contains(b.out.String(), "with the role view") || !strings.Contains(b.out.String(), "in "+db+"\n") {
		t.Errorf("a new password exits %d: %s", code, b.out.String())
	}
	if code := b.run("passwd", "ana", "--remove", "--db", db); code != 0 || strings.Contains(b.err.String(), "last account") {
		t.Errorf("the removal exits %d: %s", code, b.err.String())
	}
	if code := b.passwd(goodPassword, "passwd", "--db", filepath.Join(t.TempDir(), "new.db")); code != 0 || !strings.Contains(b.out.String(), "new.db, which is new") {
		t.Errorf("in a new file: %d %s", code, b.out.String())
	}
	b.failed(t, exitFailed, "there is no account ana", "passwd", "ana", "--remove", "--db", db)
	other := filepath.Join(t.TempDir(), "other.db")
	b.passwd(goodPassword, "passwd", "--db", other)
	if code := b.run("passwd", "admin", "--remove", "--db", other); code != 0 || !strings.Contains(b.err.String(), "that was the last account") {
		t.Errorf("the last one's removal exits %d: %s", code, b.err.String())
	}
	if code := b.run("sql", "SELECT group_concat(action || ' ' || subject, ', ') FROM operator_log WHERE who LIKE 'cli %'", "--db", db); code != 0 || !strings.Contains(b.out.String(), "password set account admin, password set account ana, password set account ana, account removed account ana") {
		t.Errorf("the operator log says %s", b.out.String())
	}
}

// A password that is no good is refused before the file is touched, and is not told again.
func TestPasswdRefuses(t *testing.T) {
	b, db := newBench(), filepath.Join(t.TempDir(), "c.db")
	for in, want := range map[string]string{
		"ninechars": "has 9 characters", "": "has 0 characters", strings.Repeat("ñ", 1001): "take at most 1000", strings.Repeat("a", 20<<10): "take at most 1000",
		"two\nlines of it": "control character", "not \xff\xfe UTF-8 at all": "not valid UTF-8",
	} {
		b.program.Stdin = strings.NewReader(in)
		b.failed(t, exitUsage, want, "passwd", "--db", db)
		if in != "" && strings.Contains(b.err.String(), in) {
			t.Errorf("the password is told: %s", b.err.String())
		}
	}
	if code := b.passwd(strings.Repeat("ñ", 1000), "passwd", "--db", db); code != 0 {
		t.Errorf("1,000 characters exit %d: %s", code, b.err.String())
	}
	for _, name := range []string{"Ana", "a b", "-a", strings.Repeat("a", 41), "ñ", "a\nb"} {
		b.program.Stdin = strings.NewReader(goodPassword)
		b.failed(t, exitUsage, "NAME must be", "passwd", "--db", db, "--", name)
	}
	b.failed(t, exitUsage, "can't be read", "passwd", "--password-file", filepath.Join(t.TempDir(), "none"), "--db", db)
	b.failed(t, exitUsage, "--role must be one of", "passwd", "--role", "root", "--db", db)
}

// A token is shown once: the file and the list know no more of it than its hash, its role and its last use.
func TestToken(t *testing.T) {
	b, db := newBench(), filepath.Join(t.TempDir(), "c.db")
	if code := b.run("token", "add", "prometheus", "--role", "view", "--db", db, "--json"); code != 0 {
		t.Fatalf("token add exits %d: %s", code, b.err.String())
	}
	var made struct{ Name, Role, Token string }
	if err := json.Unmarshal(b.out.Bytes(), &made); err != nil || made.Name != "prometheus" || made.Role != "view" || len(made.Token) < 40 || !strings.HasPrefix(made.Token, "comanda_") {
		t.Errorf("token add says %s, %v", b.out.String(), err)
	}
	b.failed(t, exitFailed, "a token prometheus already", "token", "add", "prometheus", "--role", "view", "--db", db)
	b.failed(t, exitUsage, "--role", "token", "add", "p", "--db", db)
	if code := b.run("token", "list", "--db", db); code != 0 || !strings.Contains(b.out.String(), "prometheus") || strings.Contains(b.out.String(), made.Token) {
		t.Errorf("the list exits %d: %s", code, b.out.String())
	}
	for _, suffix := range []string{"", "-wal"} {
		if raw, err := os.ReadFile(db + suffix); err == nil && bytes.Contains(raw, []byte(made.Token)) {
			t.Errorf("the token stands in %s", db+suffix)
		}
	}
	if code := b.run("token", "revoke", "prometheus", "--db", db); code != 0 {
		t.Errorf("token revoke exits %d: %s", code, b.err.String())
	}
	b.failed(t, exitFailed, "there is no token prometheus", "token", "revoke", "prometheus", "--db", db)
}

// An address that other machines reach is listened on only if somebody has a password, or against the warning. A file
// that is not there is not made by that question.
func TestAddressWantsAnAccount(t *testing.T) {
	b, db := newBench(), filepath.Join(t.TempDir(), "c.db")
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "192.168.1.4:8080", "shop.example:8080"} {
		for _, way := range []string{"--admin-password-file", "`comanda passwd`", "--insecure"} {
			b.failed(t, exitUsage, way, "serve", "--addr", addr, "--db", db)
		}
	}
	b.failed(t, exitUsage, "--require-login asks for a password and nobody has one", "serve", "--addr", "127.0.0.1:8080", "--require-login", "--db", db)
	if _, err := os.Stat(db); err == nil {
		t.Error("a start that was refused has made a file")
	}
	serves := func(args ...string) {
		t.Helper()
		if code := b.run(append([]string{"serve", "--addr", ":8080", "--db", db}, args...)...); code != 0 || b.asked == nil {
			t.Errorf("%q exits %d: %s", args, code, b.err.String())
		}
	}
	serves("--insecure")
	serves("--admin-password-file", "p")
	if got := b.asked.(ServeConfig).AdminPasswordFile; got != "p" {
		t.Errorf("serve was given the file %q", got)
	}
	opened, err := store.Open(context.Background(), db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	b.failed(t, exitUsage, "nobody has a password", "serve", "--addr", ":8080", "--db", db)
	b.passwd(goodPassword, "passwd", "--db", db)
	serves()
	b.run("passwd", "--remove", "--db", db)
	b.failed(t, exitUsage, "nobody has a password", "serve", "--addr", ":8080", "--db", db)
}
