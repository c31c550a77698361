package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"comanda/store"
)

// Every proof passes against the built program.
func TestProofs(t *testing.T) {
	for _, e := range registry() {
		t.Run(e.name, func(t *testing.T) {
			if e.inside {
				stdout, stderr, code := run(t, nil, builtProgram(t), "prove", e.name, "--dir", t.TempDir())
				t.Logf("%s", stdout)
				if code != 0 {
					t.Errorf("exit code %d: %s", code, stderr)
				}
				return
			}
			var out bytes.Buffer
			err := Prove(t.Context(), Config{Exe: builtProgram(t), Mutant: builtMutant(t), Names: []string{e.name}, Dir: t.TempDir(), Stdout: &out})
			t.Logf("%s", &out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// anyPort is for whoever says no address: another comanda may have the usual one.
const anyPort = "COMANDA_ADDR=127.0.0.1:0"

// run runs a program and returns what it wrote and its exit code.
func run(t *testing.T, env []string, exe string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = &out, &errs, append(append(os.Environ(), anyPort), env...), t.TempDir()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// The command runs the proofs that are named, keeps their files closed and whole, and leaves nothing
// else behind.
func TestProveCommand(t *testing.T) {
	keep, dir := filepath.Join(t.TempDir(), "kept"), t.TempDir()
	stdout, stderr, code := run(t, nil, builtProgram(t), "prove", "A", "D", "--keep", keep, "--dir", dir)
	if code != 0 || !strings.Contains(stdout, "2 proofs, 2 passed") {
		t.Fatalf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	if left := listing(t, dir); len(left) > 0 {
		t.Errorf("left in --dir: %q", left)
	}
	if got := listing(t, keep); !slices.Equal(got, []string{"A.db", "D.db"}) {
		t.Fatalf("kept %q", got)
	}
	for _, name := range []string{"A.db", "D.db"} {
		path := filepath.Join(keep, name)
		for query, want := range map[string]string{"PRAGMA integrity_check": "ok", sqlNotDone: "0"} {
			if got := askFile(t, path, query); got != want {
				t.Errorf("%s: %s answers %q, want %q", name, query, got, want)
			}
		}
	}
	_, stderr, code = run(t, nil, builtProgram(t), "prove", "A", "--keep", keep)
	if code == 0 || !strings.Contains(stderr, "A.db is there already") {
		t.Errorf("a kept file was to be written over: exit code %d, stderr %q", code, stderr)
	}
}

func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

func askFile(t *testing.T, path, query string) string {
	t.Helper()
	db := must(store.Open(t.Context(), path, store.Options{MustExist: true, Readers: 1}))(t)
	defer db.Close()
	return rowsText(must(db.Query(t.Context(), query))(t).Rows)
}

// --json prints one document in which every query stands with its answer.
func TestProveJSON(t *testing.T) {
	stdout, stderr, code := run(t, nil, builtProgram(t), "prove", "A", "--json")
	var results []Result
	if err := json.Unmarshal([]byte(stdout), &results); code != 0 || err != nil {
		t.Fatalf("exit code %d, stderr %q, %v in:\n%s", code, stderr, err, stdout)
	}
	if len(results) != 1 || results[0].Name != "A" || !results[0].OK || results[0].Claim != english().text(claimA) || results[0].Seconds <= 0 {
		t.Fatalf("results %+v", results)
	}
	asked := slices.ContainsFunc(results[0].Steps, func(s Step) bool {
		return strings.HasPrefix(s.SQL, "SELECT count(*) FROM external_effects_log\nWHERE order_id='ORD-2041'") && s.Answer == "1" && s.Want == "1" && s.OK
	})
	if !asked {
		t.Errorf("the lesson's measure is not among the steps: %+v", results[0].Steps)
	}
}

// A proof that fails makes Prove fail, names itself, and keeps its file where undrained ones go if
// tickets are left.
func TestProveFails(t *testing.T) {
	keep := t.TempDir()
	var out bytes.Buffer
	err := Prove(t.Context(), Config{Exe: builtMutant(t), without: "one-decision", Names: []string{"C", "A"}, Keep: keep, Dir: t.TempDir(), Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), "1 of 2 proofs failed: C;") {
		t.Errorf("Prove returned %v", err)
	}
	if !strings.Contains(out.String(), "2 proofs, 1 passed") || !strings.Contains(out.String(), "✗ proof C") || !strings.Contains(out.String(), "✓ proof A") {
		t.Errorf("it printed:\n%s", &out)
	}
}

// The files of a proof that does not end drained lie apart.
func TestNotDrainedLiesApart(t *testing.T) {
	dir, keepDir := t.TempDir(), t.TempDir()
	c := Config{Exe: builtProgram(t), Dir: dir, Keep: keepDir, JSON: true}
	undrained := entry{name: "U", claim: "leaves a ticket", run: func(ctx context.Context, p *proof) error {
		s, err := p.serve("", "--no-relay")
		if err != nil {
			return err
		}
		_, err = p.post(ctx, s, orderBody("EVT-1", "ORD-1", "CUS-7", "1", line{"SKU", 1}), "200 accepted, refund, [refund:ORD-1]")
		return err
	}}
	r := must(runOne(t.Context(), c, undrained, filepath.Join(dir, "U")))(t)
	if !r.OK {
		t.Fatalf("%+v", r)
	}
	if got := listing(t, keepDir); !slices.Equal(got, []string{notDrained}) {
		t.Errorf("kept %q", got)
	}
	if got := listing(t, filepath.Join(keepDir, notDrained)); !slices.Equal(got, []string{"U.db"}) {
		t.Errorf("kept apart %q", got)
	}
}

// What a shop has in its environment reaches neither prove nor its children.
func TestScrubbedEnvironment(t *testing.T) {
	shop := filepath.Join(t.TempDir(), "shop.db")
	env := []string{
		"COMANDA_DB=" + shop, "COMANDA_ADDR=192.0.2.1:1", "COMANDA_NO_RELAY=true", "COMANDA_SCHEDULE=@yearly", "COMANDA_KEEP=" + filepath.Dir(shop),
		"COMANDA_JSON=true", "COMANDA_CRASH_AT=relay.claimed", "COMANDA_REFUND_URL=http://192.0.2.1/", "HTTP_PROXY=http://192.0.2.1:1/",
	}
	stdout, stderr, code := run(t, env, builtProgram(t), "prove", "B")
	if code != 0 || !strings.Contains(stdout, "1 proof, 1 passed") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	if left := listing(t, filepath.Dir(shop)); len(left) > 0 {
		t.Errorf("beside the shop's file: %q", left)
	}
	t.Setenv("COMANDA_DB", shop)
	for _, v := range scrubbed() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT"}, name) {
			t.Errorf("children are given %s", v)
		}
	}
}

// Whoever interrupts the proofs finds nothing left over.
func TestInterruptedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), builtProgram(t), "prove", "relays", "--dir", dir)
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make([]byte, 1)
	for range 3 { // it is printing, so it is at work
		if _, err := out.Read(seen); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = new(bytes.Buffer).ReadFrom(out) }()
	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if left := listing(t, dir); len(left) > 0 {
		t.Errorf("left in --dir: %q", left)
	}
}
