package e2e

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// catalogue is a language's texts by their ids, those with a form for one and for more as two.
func catalogue(t *testing.T, lang string) map[string]string {
	t.Helper()
	var entries map[string]any
	if err := json.Unmarshal(must(catalogues.ReadFile("words/"+lang+".json"))(t), &entries); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for id, entry := range entries {
		switch entry := entry.(type) {
		case string:
			texts[id] = entry
		case map[string]any:
			for form, text := range entry {
				texts[id+" "+form], _ = text.(string)
			}
		}
	}
	return texts
}

var placeholder = regexp.MustCompile(`{{\.(\w+)}}`)

// Every language has the same messages, with the same things to fill in.
func TestCataloguesAgree(t *testing.T) {
	english := catalogue(t, "en")
	filled := func(text string) []string {
		var names []string
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	for _, lang := range Languages[1:] {
		other := catalogue(t, lang)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(other))); diff != "" {
			t.Errorf("%s has other messages:\n%s", lang, diff)
		}
		for id, text := range other {
			if text == "" || text == english[id] {
				t.Errorf("%s: %s is %q", lang, id, text)
			}
			if diff := cmp.Diff(filled(english[id]), filled(text)); diff != "" {
				t.Errorf("%s: %s is filled with other things:\n%s", lang, id, diff)
			}
			if strings.Contains(placeholder.ReplaceAllString(text, ""), "{{") {
				t.Errorf("%s: %s has a placeholder that is none: %s", lang, id, text)
			}
		}
	}
}

// Every message that the source says is in the catalogue, with all that it is filled with, and every one in the
// catalogue is said. A message is a literal: in a call that says it, in a constant, or in a field.
func TestEveryMessageExists(t *testing.T) {
	english := catalogue(t, "en")
	known := map[string]bool{}
	for id := range english {
		id, _, _ = strings.Cut(id, " ")
		known[id] = true
	}
	said := map[string]bool{}
	for _, path := range must(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		ast.Inspect(must(parser.ParseFile(fset, path, nil, 0))(t), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				checkCall(t, fset, n, english, known)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && known[text] {
					said[text] = true
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(said))); diff != "" {
		t.Errorf("nobody says these messages:\n%s", diff)
	}
}

// checkCall looks at a call of say, text or count with a literal id: it must be known, and be filled with all that it has.
func checkCall(t *testing.T, fset *token.FileSet, call *ast.CallExpr, english map[string]string, known map[string]bool) {
	t.Helper()
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !slices.Contains([]string{"say", "text", "count"}, method.Sel.Name) {
		return
	}
	id, ok := literal(call.Args[0])
	if !ok {
		return
	}
	if !known[id] {
		t.Errorf("%s: %q is in no catalogue", fset.Position(call.Pos()), id)
		return
	}
	given, want := []string{}, []string{}
	rest, text := call.Args[1:], english[id]
	if method.Sel.Name == "count" {
		given, rest, text = append(given, "N"), call.Args[2:], english[id+" other"]
	}
	for i := 0; i < len(rest); i += 2 {
		name, _ := literal(rest[i])
		given = append(given, name)
	}
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		want = append(want, m[1])
	}
	slices.Sort(given)
	slices.Sort(want)
	if !slices.Equal(given, slices.Compact(want)) {
		t.Errorf("%s: %q is filled with %q and has %q", fset.Position(call.Pos()), id, given, want)
	}
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// foreign lists what of the English catalogue stands in a text that should speak another language.
func foreign(t *testing.T, lang, text string) (found []string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	other := catalogue(t, lang)
	for id, english := range catalogue(t, "en") {
		for _, part := range placeholder.Split(english, -1) {
			part = strings.TrimSpace(part)
			if len(part) > 7 && !strings.Contains(other[id], part) && strings.Contains(text, part) {
				found = append(found, id+": "+part)
			}
		}
	}
	return found
}

// In Spanish nothing that prove says is English, nothing is left to be filled in, and it finds out the same.
func TestProveInSpanish(t *testing.T) {
	stdout, stderr, code := run(t, []string{"COMANDA_LANG=fr"}, builtProgram(t), "prove", "A", "C", "--lang", "es")
	if code != 0 {
		t.Fatalf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
	if found := foreign(t, "es", stdout); len(found) > 0 || strings.Contains(stdout, "<no value>") {
		t.Errorf("it is not Spanish: %q\n%s", found, stdout)
	}
	for _, part := range []string{"── A ── El camino feliz", "Pasaron 2 de 2 pruebas", "✓ SELECT count(*) FROM ledger", "→ ninguna fila", "1 fila cambiada"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("it does not say %q:\n%s", part, stdout)
		}
	}
}

// JSON is for programs: the same in every language.
func TestProveJSONIsEnglish(t *testing.T) {
	stdout, stderr, code := run(t, []string{"COMANDA_LANG=es"}, builtProgram(t), "prove", "A", "--json")
	if code != 0 || !strings.Contains(stdout, english().text(claimA)) || strings.Contains(stdout, "pedido") {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, stdout)
	}
}

func TestUnknownLanguageIsRefused(t *testing.T) {
	for _, args := range [][]string{{"prove", "A"}, {"demo"}, {"graph"}} {
		_, stderr, code := run(t, nil, builtProgram(t), append(args, "--lang", "fr")...)
		if code != 2 || !strings.Contains(stderr, "--lang must be one of") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q exits %d: %s", args, code, stderr)
		}
	}
	if _, err := speak("../en"); err == nil {
		t.Error("an unknown language speaks")
	}
}
