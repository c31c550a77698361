package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scriptFile is a shell's script in a file.
func scriptFile(t *testing.T, shell string) string {
	t.Helper()
	b := newBench()
	if code := b.run("completion", shell); code != 0 {
		t.Fatal(b.err.String())
	}
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, b.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shellOf is a shell of this machine; without it the test says that it did not run.
func shellOf(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed here", name)
	}
	return path
}

// A real bash completes what the grammar has at that place, and nothing else.
func TestCompletionInBash(t *testing.T) {
	bash, script := shellOf(t, "bash"), scriptFile(t, "bash")
	complete := func(words ...string) []string {
		t.Helper()
		cmd := exec.Command(bash, "--norc", "-c", `source "$1"; shift; complete -p comanda >/dev/null || exit 9
			COMP_WORDS=(comanda "$@"); COMP_CWORD=$#; _comanda; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script)
		cmd.Args = append(cmd.Args, words...)
		cmd.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(cmd.Dir, "shop.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v %s", words, err, out)
		}
		return strings.Fields(string(out))
	}
	for _, want := range []struct{ words, answer string }{
		{"wa", "watch"}, {"credit ", "set get list"}, {"credit s", "set"}, {"tickets re", "retry resolve"}, {"prove --ke", "--keep"},
		{"watch --s", "--since"}, {"graph --format ", "text mermaid svg json"}, {"graph --format m", "mermaid"}, {"graph --format = s", "svg"}, {"graph --format =", "text mermaid svg json"},
		{"order show ORD-1 --d", "--db"}, {"doctor --db sh", "shop.db"}, {"completion ", "bash zsh fish"}, {"--no-r", "--no-relay"}, {"serve --batch ", ""},
		{"order show credit --l", ""}, {"health --wa", "--wait"}, {"nonsense --nothing", ""},
	} {
		got := slices.DeleteFunc(complete(strings.Split(want.words, " ")...), func(w string) bool {
			return strings.HasPrefix(w, "--") && strings.HasSuffix(want.words, " ")
		})
		if !slices.Equal(got, strings.Fields(want.answer)) {
			t.Errorf("%q is completed by %q, want %q", want.words, got, want.answer)
		}
	}
	flags, err := Flags()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"serve", "world", "tickets resolve"} {
		answer := complete(append(strings.Fields(command), "--")...)
		for _, f := range flags {
			if f.Command == command && !slices.Contains(answer, f.Name) {
				t.Errorf("%s of %s is not completed", f.Name, command)
			}
		}
	}
}

func TestCompletionParses(t *testing.T) {
	for shell, args := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		t.Run(shell, func(t *testing.T) {
			if out, err := exec.Command(shellOf(t, shell), append(args, scriptFile(t, shell))...).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}

// Every shell's script names every command and every flag, whether or not the shell is here.
func TestCompletionIsComplete(t *testing.T) {
	flags, err := Flags()
	if err != nil {
		t.Fatal(err)
	}
	for shell, dashes := range map[string]string{"bash": "--", "zsh": "'--", "fish": "-l "} {
		b := newBench()
		b.run("completion", shell)
		for _, f := range flags {
			if !strings.Contains(b.out.String(), dashes+f.Name[2:]) && !strings.Contains(b.out.String(), " "+f.Name) {
				t.Errorf("%s: %s of %s is missing", shell, f.Name, f.Command)
			}
		}
		if strings.Count(b.out.String(), "'")%2 != 0 {
			t.Errorf("%s: a quote is not closed", shell)
		}
	}
	b := newBench()
	b.failed(t, exitUsage, "bash", "completion", "tcsh")
	b.failed(t, exitUsage, "", "completion")
}
