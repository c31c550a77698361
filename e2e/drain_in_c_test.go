package e2e

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// drainInC has SQLite's own shell do what the relay's transactions do for a burst: of 100 tickets each, the settlement of
// one batch and the claim of the next. What the relay reads, decides and carries out in between it does not do.
func drainInC(tb testing.TB, shell, file string) {
	tb.Helper()
	s := storeTexts(tb)
	var script bytes.Buffer
	script.WriteString(`.bail on
PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -8000; PRAGMA temp_store = 2; PRAGMA wal_autocheckpoint = 1000;
`)
	kinds := [2][2]string{{"inventory_sync", "inventory"}, {"issue_refund", "refund"}} // of tickets with an even id, and an odd one
	for from := 1; from <= burst+claimBatch; from += claimBatch {
		script.WriteString("BEGIN IMMEDIATE;\n")
		for odd, kind := range kinds {
			if from == 1 {
				continue
			}
			var ids []int
			for id := from - claimBatch; id < from; id++ {
				if id%2 == odd {
					ids = append(ids, id)
				}
			}
			s.write(&script, "sqlDone", idList(ids), "token", 1, from)
			s.write(&script, "sqlInsertLedger", idList(ids), kind[1], 1, from)
			s.write(&script, "sqlInsertEffects", idList(ids), kind[1], 1, from)
			s.write(&script, "sqlCountDone", kind[0], len(ids))
		}
		if from <= burst {
			var ids []int
			for id := from; id < from+claimBatch; id++ {
				ids = append(ids, id)
			}
			s.write(&script, "sqlPendingTypes")
			for _, kind := range kinds {
				s.write(&script, "sqlNew", kind[0], claimBatch)
			}
			s.write(&script, "sqlMark", idList(ids), "token", "holder", 60_000, 1, from)
		}
		fmt.Fprintf(&script, "UPDATE sequence SET value = %d WHERE id = 1;\nCOMMIT;\n", from)
	}
	cmd := exec.CommandContext(tb.Context(), shell, "-batch", file)
	var complaint bytes.Buffer
	cmd.Stdin, cmd.Stderr = &script, &complaint
	if err := cmd.Run(); err != nil {
		tb.Fatalf("%s: %v\n%s", shell, err, complaint.Bytes())
	}
}

func idList(ids []int) string { return strings.ReplaceAll(fmt.Sprint(ids), " ", ",") }

// texts are constants of package store by name: what a statement says is told in one place.
type texts map[string]ast.Expr

func storeTexts(tb testing.TB) texts {
	tb.Helper()
	all := texts{}
	for _, path := range must(filepath.Glob("../store/*.go"))(tb) {
		f := must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(tb)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
				all[spec.Names[0].Name] = spec.Values[0]
			}
			return true
		})
	}
	return all
}

// text is a constant of strings joined by +.
func (t texts) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.Ident:
		return t.text(t[e.Name])
	case *ast.BinaryExpr:
		return t.text(e.X) + t.text(e.Y)
	}
	panic(fmt.Sprintf("package store has no such text: %v", e))
}

var parameter = regexp.MustCompile(`\$[0-9]`)

// write writes a statement with its parameters in their places.
func (t texts) write(to *bytes.Buffer, name string, args ...any) {
	to.WriteString(parameter.ReplaceAllStringFunc(t.text(t[name]), func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		if s, ok := args[n-1].(string); ok {
			return "'" + s + "'"
		}
		return fmt.Sprint(args[n-1])
	}))
	to.WriteString(";\n")
}
