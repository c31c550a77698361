package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bug is a fault that somebody might build in: a piece of one file, and what it becomes. The test that is named must
// see it.
type bug struct {
	name     string
	file     string // from the top
	old, new string
	caught   string // "./store TestX"
}

var bugs = []bug{
	{"an error of COMMIT is taken for success", "store/commit.go", "if _, err := tx.exec(sqlCommit); err != nil {", "if _, err := tx.exec(sqlCommit); err != nil && tx == nil {", "./store TestCommitThatFails"},
	{"a write transaction begins deferred", "store/sqlite.go", "sqlBeginWrite = `BEGIN IMMEDIATE`", "sqlBeginWrite = `BEGIN TRANSACTION`", "./store TestNoWriteBeginsDeferred"},
	{"a claim is taken back by its ticket's age", "store/lease.go", "case w.age(first, now) >= time.Duration(l.ms)*time.Millisecond:", "case time.Hour >= time.Duration(l.ms)*time.Millisecond:", "./store TestLeaseIsWatchedForItsWholeLength"},
	{"what a killed process left is trusted to be on the disk", "store/open.go", "if !db.opt.MustExist && !db.opt.trusting {", "if false {", "./store TestFailedSyncThenKillThenPowerLoss"},
	{"a file that was taken away is written to", "store/place.go", "if was != nil && !isAt(names[i], was) {", "if was != nil && len(names) == 0 {", "./store TestMovedFileTakesNothing"},
	{"a schema that another program changed is not noticed", "store/migrate.go", "if version != db.version {", "if version < 0 {", "./store TestNewerSchemaUnderAnOpenFile"},
	{"an error of COMMIT is answered 200", "store/commit.go", "if _, err := tx.exec(sqlCommit); err != nil {", "if _, err := tx.exec(sqlCommit); err != nil && tx == nil {", "./handlers TestCommitThatErrsIsFoundOut"},
	{"evidence is given up at an I/O error", "relay/runner.go", " || store.IsDiskFault(err)\n", "\n", "./relay TestEvidenceOutlastsASickDisk"},
	{"a full disk keeps its ballast", "store/ballast.go", "return b.size > 0 && ballastHeld(b.path) > 0 && emptyBallast(b.path) == nil", "return b.size < 0 && ballastHeld(b.path) > 0", "./e2e TestDiskFull"},
	{"duplicates are looked up before the transaction only", "handlers/director.go", "f, err := in.lookUp(tx)\n\t\tswitch", "f, err := findings{}, error(nil)\n\t\tswitch", "./handlers TestEventIDReusedInFlight"},
	{"a panic ends the relay", "relay/loop.go", "if p := recover(); p != nil {\n\t\t\t\terr =", "if p := error(nil); p != nil {\n\t\t\t\terr =", "./relay TestLoopOutlivesAPanic"},
	{"the ledger is not asked before a send", "relay/remote.go", "case p.InLedger:", "case p.InLedger && r.Name == \"\":", "./relay TestLedgerIsReadBeforeASend"},
	{"something unknown is sent again when the key may be forgotten", "relay/remote.go", "case r.remembers(p) && t.Failures < budget:", "case t.Failures < budget:", "./relay TestKeyExpires"},
	{"redirects are followed", "effects/target.go", "res, err := rt.RoundTrip(req)", "res, err := (&http.Client{Transport: rt}).Do(req)", "./effects TestEvilGateway"},
	{"the HTTP client repeats a request by itself", "effects/target.go", "req.GetBody = nil", "_ = req.GetBody", "./effects TestNothingIsSentTwice"},
	{"a captive portal's 200 is a success", "effects/send.go", "case a.isJSON() && against == \"\",", "case against == \"\",", "./effects TestEvilGateway"},
}

// Each bug is built in, and the test that is to see it is run: it must fail. A test that can't fail would prove nothing.
func TestSeededBugs(t *testing.T) {
	for _, b := range bugs {
		b.fits(t)
	}
	if testing.Short() {
		t.Skip("compiles the packages once for each bug")
	}
	rows := make([]string, len(bugs))
	t.Run("in", func(t *testing.T) {
		for i, b := range bugs {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = b.seed(t)
			})
		}
	})
	t.Logf("\n%-62s | %s\n%s", "bug", "the test that sees it", strings.Join(rows, "\n"))
}

// fits returns the file that b changes, and its text, which holds the piece once.
func (b bug) fits(t *testing.T) (path, text string) {
	t.Helper()
	path = must(filepath.Abs(filepath.Join("..", b.file)))(t)
	text = string(must(os.ReadFile(path))(t))
	if strings.Count(text, b.old) != 1 {
		t.Fatalf("%s holds this %d times, not once: %s", b.file, strings.Count(text, b.old), b.old)
	}
	return path, text
}

func (b bug) seed(t *testing.T) (row string) {
	t.Helper()
	path, text := b.fits(t)
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, filepath.Base(b.file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(strings.Replace(text, b.old, b.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	replace := must(json.Marshal(map[string]any{"Replace": map[string]string{path: changed}}))(t)
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	pkg, test, _ := strings.Cut(b.caught, " ")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^"+test+"$", pkg)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "GOFLAGS=-overlay="+overlay) // a build within the test gets it too
	out, err := cmd.CombinedOutput()
	failed := strings.Contains(string(out), "--- FAIL: "+test) || strings.Contains(string(out), "\npanic: ") || strings.HasPrefix(string(out), "panic: ")
	if err == nil || !failed { // what does not compile fails too
		t.Errorf("%s does not see it: %v\n%s", b.caught, err, out)
		return fmt.Sprintf("%-62s | nobody", b.name)
	}
	return fmt.Sprintf("%-62s | %s", b.name, b.caught)
}
