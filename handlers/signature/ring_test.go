package signature

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"comanda/handlers/secret"
)

// goodUnder reports whether a message that was signed with a secret is taken.
func goodUnder(t *testing.T, r *Ring, secret string) bool {
	t.Helper()
	return r.Verify(signed(t, secret, "msg_1", now, []byte("{}")), []byte("{}"), now, time.Minute) == nil
}

// A file that has changed comes into force; one that can't be used leaves what was before, and that is said once.
func TestReread(t *testing.T) {
	r, path := ringOf(t, oldSecret)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	step := func(what, text string, old, fresh bool, says string) {
		t.Helper()
		said.Reset()
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			r.file.Reread(log)
		}
		if goodUnder(t, r, oldSecret) != old || goodUnder(t, r, newSecret) != fresh {
			t.Errorf("%s: the old secret is good: %t, the new one: %t", what, !old, !fresh)
		}
		if n := strings.Count(said.String(), "msg="); !strings.Contains(said.String(), says) || says == "" && n > 0 || says != "" && n != 1 {
			t.Errorf("%s: said %q, want %q once", what, said.String(), says)
		}
	}
	step("as it was", oldSecret+"\n", true, false, "")
	step("both", oldSecret+"\n# from today on\n\n"+newSecret+"\n", true, true, "in force")
	step("half a file", oldSecret+"\n"+newSecret[:20], true, true, "stay in force")
	step("gone", "", true, true, "stay in force")
	step("empty", "\n", true, true, "no secret in it")
	step("as it was before", oldSecret+"\n# from today on\n\n"+newSecret+"\n", true, true, "as before")
	step("the new one alone", newSecret, false, true, "in force")
}

// Each file that can't be used is refused with what to do, and without what stands in it.
func TestSecretsAreNotTold(t *testing.T) {
	dir := t.TempDir()
	short := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{5}, 23))
	for text, want := range map[string]string{
		"":                                      "no secret in it",
		"# nothing\n\n":                         "no secret in it",
		"hunter2-hunter2-hunter2":               "line 1 is no secret",
		oldSecret + "\nwhsec_correct horse":     "line 2 is no secret",
		"whsec_" + short:                        "23 bytes and can be guessed",
		"whpk_" + short:                         "line 1 is no secret",
		strings.Repeat(oldSecret+"\n", 9):       "9 secrets",
		strings.Repeat("#", secret.MostBytes+1): "larger than",
	} {
		path := filepath.Join(dir, "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open("--source shop2", path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--source shop2") {
			t.Errorf("%.30q: %v, want %q", text, err, want)
			continue
		}
		for _, secret := range []string{"hunter2", "correct horse", short, oldSecret[6:]} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the secret: %v", err)
			}
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none"), "/dev/zero"} {
		if _, err := Open("--webhook-secret-file", path); err == nil {
			t.Errorf("%s is taken for a file of secrets", path)
		}
	}
	if _, err := parse([]byte(strings.TrimPrefix(oldSecret, "whsec_"))); err != nil {
		t.Errorf("a secret without whsec_ before it: %v", err)
	}
}

// A file that others may read is used, and that is said.
func TestOpenFileIsSaid(t *testing.T) {
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true} {
		r, path := ringOf(t, oldSecret)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		r.file.WarnIfOpen(slog.New(slog.NewTextHandler(&said, nil)))
		if strings.Contains(said.String(), "chmod 600") != warned {
			t.Errorf("mode %o: said %q", mode, said.String())
		}
	}
}
