package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file that is not a test.
type source struct {
	path string // "relay/loop.go"
	pkg  string // "relay", "" for main
	*ast.File
}

func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || isOtherModule(path)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		rel, _ := filepath.Rel("..", path)
		all = append(all, source{rel, strings.TrimPrefix(filepath.Dir(rel), "."), f})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isOtherModule reports whether a directory holds a module of its own, which is no part of the program.
func isOtherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil && dir != ".."
}

// The packages form a star: each knows store, and its own subpackages; store knows the schema; nobody
// knows a sibling but main, who knows everyone. So the half that decides can't reach the half that
// acts. Only store speaks to a database, one file here that plays an outside client, and the lab's world,
// which has a file of its own.
func TestStar(t *testing.T) {
	for _, f := range sources(t) {
		area, _, _ := strings.Cut(f.pkg, "/")
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if imported == "database/sql" || strings.HasPrefix(imported, "modernc.org/") {
				if area != "store" && f.path != "e2e/outside.go" && f.pkg != "e2e/world" {
					t.Errorf("%s imports %s: only store, e2e/outside.go and the lab's world speak to a database", f.path, imported)
				}
				continue
			}
			ours, ok := strings.CutPrefix(imported, "comanda/")
			if !ok || f.pkg == "" {
				continue
			}
			target, _, _ := strings.Cut(ours, "/")
			hub := map[string]string{"store": "schema", "schema": "nothing"}[area]
			if hub == "" {
				hub = "store"
			}
			if target != hub && target != area {
				t.Errorf("%s imports %s: %s may know %s and its own subpackages", f.path, imported, area, hub)
			}
		}
	}
}

// Every package says what it is for.
func TestEveryPackageHasADoc(t *testing.T) {
	docs := map[string]string{}
	for _, f := range sources(t) {
		docs[f.pkg] += f.Doc.Text()
	}
	for pkg, doc := range docs {
		if len(strings.Fields(doc)) < 5 {
			t.Errorf("package %q has no doc comment", pkg)
		}
	}
}

// The top level is what a newcomer sees first: exactly the rooms of the house.
func TestTopLevel(t *testing.T) {
	want := []string{"LICENSE", "README.md", "e2e", "effects", "go.mod", "go.sum", "handlers", "main.go", "relay", "schema", "store"}
	var got []string
	for _, e := range must(os.ReadDir(".."))(t) {
		if !strings.HasPrefix(e.Name(), ".") {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the top level holds %q, want %q", got, want)
	}
}

// The driver is translated C that fits one libc: go.mod must name the very version that the driver
// was made with.
func TestLibcPin(t *testing.T) {
	dir := must(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "modernc.org/sqlite").Output())(t)
	theirs := requirement(t, filepath.Join(strings.TrimSpace(string(dir)), "go.mod"), "modernc.org/libc")
	ours := requirement(t, "../go.mod", "modernc.org/libc")
	if ours == "" || ours != theirs {
		t.Errorf("go.mod has modernc.org/libc %q, the driver's own has %q", ours, theirs)
	}
}

func requirement(t *testing.T, goMod, module string) string {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(goMod))(t))) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module {
			return fields[1]
		}
	}
	return ""
}
