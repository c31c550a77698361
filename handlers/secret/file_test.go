package secret

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the file holds is in force, and what it does not take is told for as long as it stands there, without its text.
func TestTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	inForce := ""
	f, err := Open("--a-file", path, func(text []byte) error {
		if len(text) == 0 {
			return errors.New("it is empty")
		}
		inForce = string(text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, c := range []struct {
		change func()
		want   string // of the trouble
		force  string
	}{
		{func() {}, "", "one"},
		{func() { write("") }, "it is empty", "one"},
		{func() { write("one") }, "", "one"},
		{func() { _ = os.Remove(path) }, "no such file", "one"},
		{func() { write("two") }, "", "two"},
	} {
		c.change()
		f.Reread(logger)
		f.Reread(logger)
		if got := f.Trouble(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || inForce != c.force {
			t.Errorf("the trouble is %q, %q in force; want %q, %q", got, inForce, c.want, c.force)
		}
	}
	if n := strings.Count(log.String(), "were not read again"); n != 2 || strings.Contains(log.String(), "two") {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}
