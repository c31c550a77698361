//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// underUmask returns a program that runs the built one under an umask.
func underUmask(t *testing.T, umask string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "comanda")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\numask %s\nexec %s \"$@\"\n", umask, builtProgram(t)), 0o700); err != nil {
		t.Fatal(err)
	}
	return script
}

// sightings are the files and directories that were seen below a directory, each with every mode that it was seen with.
type sightings map[string][]fs.FileMode

// look notes all that lies below dir now. What goes away meanwhile is none of them.
func (s sightings) look(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path == dir || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if mode := info.Mode(); !slices.Contains(s[name], mode) {
			s[name] = append(s[name], mode)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// judge wants each file to have been for its owner alone, always, and some of each kind to have been seen.
func (s sightings) judge(t *testing.T, kinds ...string) {
	t.Helper()
	for name, modes := range s {
		for _, mode := range modes {
			if want := map[bool]fs.FileMode{false: 0o600, true: 0o700}[mode.IsDir()]; mode.Perm() != want {
				t.Errorf("%s was %v, want %v", name, mode, want)
			}
		}
	}
	for _, kind := range kinds {
		found := false
		for name := range s {
			match, err := filepath.Match(kind, name)
			found = found || match && err == nil
		}
		if !found {
			t.Errorf("no %s was seen among %d names", kind, len(s))
		}
	}
}

// during looks again and again while a command runs. A command that does not end by itself is ended once it has said
// enough.
func (s sightings) during(t *testing.T, dir string, cmd *exec.Cmd, enough string) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "said")
	out := must(os.Create(said))(t)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(3 * time.Millisecond); ; {
		s.look(t, dir)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%q: %v\n%s", cmd.Args[1:], err, must(os.ReadFile(said))(t))
			}
			return
		case <-tick.C:
		}
		if enough != "" && strings.Contains(string(must(os.ReadFile(said))(t)), enough) {
			enough = ""
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

// Whatever the umask is, every file that the program makes is for its owner alone from its first moment on, and so is
// every directory: the shop's own, the lab's, copies, and what proofs keep.
func TestEverythingWrittenIsPrivate(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"000", "022", "077"} {
		t.Run(umask, func(t *testing.T) {
			t.Parallel()
			exe := underUmask(t, umask)
			command := func(args ...string) *exec.Cmd { return exec.CommandContext(t.Context(), exe, args...) }

			shop, p := sightings{}, onFile(t, exe)
			server := must(p.serve(""))(t)
			w := must(p.world("24h"))(t)
			if a := must(p.client.order(t.Context(), server.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t); a.code != 200 {
				t.Fatal(a)
			}
			if a := must(p.client.do(t.Context(), "PUT", w.url+"/faults", `{"faults":["refund:perform-then-500:1"]}`))(t); a.code != 200 {
				t.Fatal(a)
			}
			if err := p.untilDrained(t.Context()); err != nil {
				t.Fatal(err)
			}
			shop.look(t, p.dir)
			if err := p.endAll(t.Context(), server, w); err != nil {
				t.Error(err)
			}
			shop.during(t, p.dir, command("drill", "--db", p.file, "--time", "2s"), "")
			shop.judge(t, "test.db", "test.db-wal", "test.db-shm", "test.db.relay-*.lock", "test.db.ballast",
				"test-world.db", "test-world.db-wal", ".comanda-drill-*", ".comanda-drill-*/*.db", ".comanda-drill-*/*.db-wal")

			lab, dir := sightings{}, t.TempDir()
			lab.during(t, dir, command("prove", "A", "--dir", dir, "--keep", filepath.Join(dir, "deep", "kept")), "")
			lab.look(t, dir) // what is kept stays, however late it came
			lab.judge(t, "comanda-prove-*", "comanda-prove-*/*", "comanda-prove-*/*/*.db", "deep", "deep/kept", "deep/kept/A.db")

			demo, tmp := sightings{}, t.TempDir()
			cmd := command("demo")
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			demo.during(t, tmp, cmd, "sample orders are in")
			demo.judge(t, "comanda-demo-*", "comanda-demo-*/*.db", "comanda-demo-*/*.lock")
		})
	}
}
