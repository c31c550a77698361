package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// builds is where the programs under test lie; TestMain makes and removes it.
var builds string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if name := os.Getenv(besideVar); name != "" {
			if err := serveBeside(name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		}
		dir, err := os.MkdirTemp("", "comanda-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		builds = dir
		return m.Run()
	}())
}

// built builds the program once, when it is first asked for.
func built(name string, flags ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		exe := filepath.Join(builds, name)
		cmd := exec.Command("go", append(append([]string{"build", "-o", exe}, flags...), "comanda")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		return exe, nil
	})
}

var (
	program = built("comanda")
	mutant  = built("comanda-mutants", "-tags", "comanda_mutants")
)

func builtProgram(t testing.TB) string { return must(program())(t) }
func builtMutant(t testing.TB) string  { return must(mutant())(t) }

// must returns what a call returned, and fails the test if that was an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// onFile returns a proof to start children with and to ask a file, outside of Prove. What it started
// ends with the test.
func onFile(t testing.TB, exe string) *proof {
	t.Helper()
	p := newProof(Config{Exe: exe, JSON: true}, entry{name: "test"}, t.TempDir())
	t.Cleanup(func() { p.end(t.Context()) })
	return p
}
