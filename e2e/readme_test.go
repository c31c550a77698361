package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"comanda/handlers/cli"
)

var updateReadme = flag.Bool("update", false, "write the answers of the README's commands, its tables and its example into it")

const readmePath = "../README.md"

// The README can't rot: its console blocks are run and their answers compared, its table of flags is
// the program's own, and its example of an effect is the one that is compiled and tested.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	want = replaceAfter(t, want, "<!-- flags -->", flagTable(t))
	want = replaceAfter(t, want, "<!-- effect -->", "```go\n"+exampleEffect(t)+"```\n")
	want = runConsole(t, want)
	if *updateReadme {
		if err := os.WriteFile(readmePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	says, is := strings.Split(masked(string(text)), "\n"), strings.Split(masked(want), "\n")
	for i := range max(len(says), len(is)) {
		if lineAt(says, i) != lineAt(is, i) {
			t.Fatalf("README.md line %d:\n  says %q\n  true %q\n(go test ./e2e -run TestReadme -update)", i+1, lineAt(says, i), lineAt(is, i))
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// masked makes two runs comparable: times and durations differ between them, nothing else.
func masked(text string) string {
	for _, m := range []struct{ pattern, with string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, "TIME"},
		{`\b\d{13}\b`, "MS"},
		{`\b\d+(\.\d+)? ?(s|ms|seconds)\b`, "DURATION"},
		{`(?m)^\d+ +TIME`, "SEQ TIME"}, // a relay that notes its pass takes a number too
	} {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.with)
	}
	return text
}

// replaceAfter puts block in the place of what stands between marker and the next blank line that a
// heading or a paragraph follows; the README has one blank line after each such block.
func replaceAfter(t *testing.T, text, marker, block string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, marker+"\n")
	if !ok {
		t.Fatalf("README.md lacks %s", marker)
	}
	end := strings.Index(rest, "\n\n")
	if strings.HasPrefix(rest, "```") {
		end = strings.Index(rest, "\n```\n") + len("\n```")
	} else if strings.HasPrefix(rest, "\n") {
		end = 0
	}
	return before + marker + "\n" + strings.TrimSuffix(block, "\n") + rest[end:]
}

// flagTable is every flag with its twin, once, with the commands that know it.
func flagTable(t *testing.T) string {
	t.Helper()
	flags, err := cli.Flags()
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ name, twin, standard, help string }
	var rows []row
	commands := map[row][]string{}
	for _, f := range flags {
		if f.Name == "--help" {
			continue
		}
		r := row{f.Name, f.Twin, f.Default, f.Help}
		if commands[r] == nil {
			rows = append(rows, r)
		}
		commands[r] = append(commands[r], f.Command)
	}
	var b strings.Builder
	b.WriteString("| flag | twin | default | what | of |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.name, codeOrNone(r.twin), codeOrNone(r.standard),
			strings.ReplaceAll(r.help, "|", `\|`), strings.Join(slices.Compact(commands[r]), ", "))
	}
	return b.String()
}

func codeOrNone(s string) string {
	if s == "" {
		return "–"
	}
	return "`" + s + "`"
}

// exampleEffect is the effect that the README shows how to add.
func exampleEffect(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("../effects/testdata/send_receipt.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// The example, put where the README says with its line in main's map, builds, and its test passes.
func TestReadmeEffectCanBeAdded(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile(filepath.Join(root, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	const line = "\t\t\"send_receipt\": effects.SendReceipt{},\n"
	at := "\t\tstore.TicketInventorySync:    effects.InventorySync{},\n"
	if !strings.Contains(string(main), at) {
		t.Fatal("main's map of effects looks otherwise")
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "main.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(main), at, at+line, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(root, "main.go"):                         changed,
		filepath.Join(root, "effects", "send_receipt.go"):      filepath.Join(root, "effects", "testdata", "send_receipt.go"),
		filepath.Join(root, "effects", "send_receipt_test.go"): filepath.Join(root, "effects", "testdata", "send_receipt_test.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	goTool(t, root, "test", "-overlay", file, "-run", "TestSendReceipt", "-v", "./effects")
	exe := filepath.Join(dir, "comanda")
	goTool(t, root, "build", "-overlay", file, "-o", exe, ".")
	out, err := exec.Command(exe, "graph").Output()
	if err != nil || !strings.Contains(string(out), "send-receipt [E]") {
		t.Errorf("the added effect does not stand in the graph: %v\n%s", err, out)
	}
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || args[0] == "test" && !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```\n")

// runConsole runs the console blocks in their order against one appliance and returns the text with
// the answers in place.
func runConsole(t *testing.T, text string) string {
	t.Helper()
	addr := freeAddr(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(builtProgram(t), filepath.Join(bin, "comanda")); err != nil {
		t.Fatal(err)
	}
	serve := command{exe: filepath.Join(bin, "comanda"), dir: dir, name: "serve", args: []string{"serve", "--addr", addr, "--log-format", "json"}}
	server, err := serve.start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.endGently(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return consoleBlock.ReplaceAllStringFunc(text, func(block string) string {
		var out strings.Builder
		out.WriteString("```console\n")
		for line := range strings.Lines(strings.TrimPrefix(block, "```console\n")) {
			if !strings.HasPrefix(line, "$ ") {
				continue
			}
			out.WriteString(line + shell(t, dir, bin, strings.ReplaceAll(strings.TrimPrefix(line, "$ "), "127.0.0.1:8080", addr)))
			settleDown(t, dir, bin)
		}
		out.WriteString("```\n")
		return out.String()
	})
}

// shell runs one line of the README and returns what it printed.
func shell(t *testing.T, dir, bin, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(scrubbed(), "PATH="+bin+":"+os.Getenv("PATH"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, errs.String())
	}
	return strings.TrimRight(string(out), "\n") + "\n"
}

// settleDown waits until nothing is on the rail, so that a next command sees the end of it.
func settleDown(t *testing.T, dir, bin string) {
	t.Helper()
	for range 200 {
		if strings.Contains(shell(t, dir, bin, `comanda sql "SELECT count(*) AS waiting FROM outbox WHERE status <> 'done'"`), "\n0\n") {
			return
		}
	}
	t.Fatal("the rail never got empty")
}

// freeAddr is a loopback address that nobody used a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Every command that the program has stands in the README's table, and no other.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := cli.Commands()
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `comanda ([a-z ]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	slices.Sort(commands)
	if !slices.Equal(named, commands) {
		t.Errorf("the README's table names %q, the program has %q", named, commands)
	}
}

// Every test that the README or a package's doc.go names exists.
func TestNamedTestsExist(t *testing.T) {
	var sources []string
	declared := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				declared[m[1]] = true
			}
			return err
		}
		if d.Name() == "README.md" || strings.HasSuffix(path, ".go") {
			sources = append(sources, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1) {
			if !declared[name] && !startsOne(declared, name) {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}

// startsOne reports whether name is the beginning of a test's name, as -run takes it.
func startsOne(declared map[string]bool, name string) bool {
	for d := range declared {
		if strings.HasPrefix(d, name) {
			return true
		}
	}
	return false
}
