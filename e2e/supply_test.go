package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The list of vulnerabilities that don't reach us is kept from both sides: red on one that is not in it, and on one
// that is in it and no longer found. What came to no result is no pass.
func TestVulnerabilityListIsKept(t *testing.T) {
	const two = "=== Symbol Results ===\n\nVulnerability #1: GO-2026-0001\n    x\n\nVulnerability #2: GO-2026-0002\n    y\n\nYour code is affected by 2 vulnerabilities from 1 module.\n"
	for _, c := range []struct {
		what, report, list, says string
		ok                       bool
	}{
		{"both are listed", two, "# why\nGO-2026-0001 is not called\nGO-2026-0002 nor this\n", "GO-2026-0001 GO-2026-0002", true},
		{"none, and none is listed", "No vulnerabilities found.\n", "", "none", true},
		{"one is not listed", two, "GO-2026-0001 is not called\n", "not listed", false},
		{"one is listed no more", strings.Replace(two, "GO-2026-0002", "GO-2026-0001", 1), "GO-2026-0001 a\nGO-2026-0002 b\n", "no longer found: GO-2026-0002", false},
		{"all are gone", "No vulnerabilities found.\n", "GO-2026-0001 a\n", "no longer found", false},
		{"no reason", two, "GO-2026-0001\nGO-2026-0002 b\n", "reason", false},
		{"no result", "loading packages: no such package\n", "", "no result", false},
		{"nothing", "", "", "no result", false},
	} {
		list := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(list, []byte(c.list), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "../.ci/vulns", "--compare", list)
		cmd.Stdin = strings.NewReader(c.report)
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, %s", c.what, err, out)
		}
	}
}

// believing are the methods of echo's context that take a client's word for where it comes from.
var believing = map[string]bool{"RealIP": true, "Scheme": true}

// What a client says about where it comes from is believed nowhere, and nothing of echo that believes it is used:
// .ci/vulns.allowed rests on that.
func TestNothingBelievesForwardedHeaders(t *testing.T) {
	for _, f := range sources(t) {
		for _, spec := range f.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); imported == "github.com/labstack/echo/v4/middleware" {
				t.Errorf("%s imports %s", f.path, imported)
			}
		}
		whole := must(parser.ParseFile(token.NewFileSet(), "../"+f.path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(whole, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && believing[sel.Sel.Name] {
					t.Errorf("%s calls %s", f.path, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// Who builds a release to compare it uses the toolchain that it was built with.
func TestReadmeNamesTheReleaseToolchain(t *testing.T) {
	toolchain := strings.TrimSpace(string(must(os.ReadFile("../.ci/toolchain"))(t)))
	if !strings.Contains(string(must(os.ReadFile("../README.md"))(t)), "GOTOOLCHAIN="+toolchain) {
		t.Errorf("README.md does not say how to build with %s", toolchain)
	}
}
