package store

import (
	"context"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	gotoken "go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// source is this package's code as it is built here.
type source struct {
	files  []*ast.File
	consts map[string]ast.Expr // every constant with a value of its own, by name
}

func readSource(t *testing.T) source {
	t.Helper()
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := source{consts: map[string]ast.Expr{}}
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					s.consts[name.Name] = spec.Values[i]
				}
			}
			return true
		})
	}
	return s
}

// text is the value of a constant string expression.
func (s source) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == gotoken.STRING
	case *ast.Ident:
		value, ok := s.consts[e.Name]
		if !ok {
			return "", false
		}
		return s.text(value)
	case *ast.BinaryExpr:
		a, okA := s.text(e.X)
		b, okB := s.text(e.Y)
		return a + b, okA && okB && e.Op == gotoken.ADD
	}
	return "", false
}

// texts are the constant strings in the code that begin with what the pattern says, each as long as it is built.
func (s source) texts(pattern *regexp.Regexp) []string {
	var all []string
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if _, ok := e.(*ast.Ident); ok {
				return true // its value stands elsewhere
			}
			text, ok := s.text(e)
			if ok && pattern.MatchString(text) {
				all = append(all, text)
			}
			return !ok
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// variants are the texts that the code puts together while it runs.
func variants() (texts []string) {
	for _, insert := range ticketInserts {
		texts = append(texts, insert.text)
	}
	return texts
}

var statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b`)

func TestEveryStatementPrepares(t *testing.T) {
	texts := readSource(t).texts(statement)
	if len(texts) < 40 || !slices.Contains(texts, sqlMark) || !slices.Contains(texts, sqlTicket) || !slices.Contains(texts, ticketLists["done"].ofType) {
		t.Fatalf("only %d statements were found in the source", len(texts))
	}
	db := openNew(t)
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == sqlInsertTickets }) // a beginning; variants has the whole
	for _, text := range append(texts, variants()...) {
		s, err := db.writer.sql.PrepareContext(t.Context(), text)
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			continue
		}
		s.Close()
	}
}

// No write transaction begins deferred: one that reads and then writes fails at once beside another
// writer, whatever the busy timeout is. BEGIN DEFERRED is for the connections that can't write.
func TestNoWriteBeginsDeferred(t *testing.T) {
	begins := regexp.MustCompile(`^\s*(BEGIN|START|SAVEPOINT)\b`)
	s := readSource(t)
	if got, want := s.texts(begins), []string{"BEGIN", sqlBeginRead, sqlBeginWrite}; !slices.Equal(got, want) {
		t.Errorf("transactions begin with %q, want %q", got, want)
	}
	where := map[string][]string{}
	for _, f := range s.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident, *ast.BasicLit:
					if text, ok := s.text(n.(ast.Expr)); ok && begins.MatchString(text) {
						where[text] = append(where[text], fn.Name.Name)
					}
				case *ast.SelectorExpr:
					if n.Sel.Name == "BeginTx" {
						t.Errorf("%s uses database/sql's BeginTx", fn.Name.Name)
					}
				}
				return true
			})
		}
	}
	want := map[string][]string{
		sqlBeginRead:  {"copyOnce", "beginRead"},                             // on readers
		sqlBeginWrite: {"tryBegin", "tryBegin", "migrateStep", "rewriteWAL"}, // on the writer; it tries a second time
		"BEGIN":       {"onlyReading"},                                       // SQLite's name of an action, never run
	}
	if diff := cmp.Diff(want, where); diff != "" {
		t.Errorf("where transactions begin (-want +got):\n%s", diff)
	}
}

// SQLite's codes are compared by their low byte, which says what kind they are: BUSY_SNAPSHOT is 517 and busy all the
// same. There is one place that does it.
func TestExtendedCodesAreKinds(t *testing.T) {
	path := newPath(t)
	open(t, path, Options{})
	one, other := raw(t, path), raw(t, path)
	mustExec(t, one, `BEGIN DEFERRED`)
	var rows int
	if err := one.QueryRow(`SELECT count(*) FROM outbox`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	mustExec(t, other, insertTicket)
	_, err := one.Exec(`UPDATE relay_state SET touched = 1`)
	var extended *sqlite.Error
	if !errors.As(err, &extended) || extended.Code() != sqlitelib.SQLITE_BUSY_SNAPSHOT {
		t.Fatalf("a deferred transaction that writes on an old snapshot: %v, want 517", err)
	}
	if code(err) != sqlitelib.SQLITE_BUSY || !errors.Is(translate(err), ErrBusy) {
		t.Errorf("517 is %d and %v", code(err), translate(err))
	}
	mustExec(t, one, `ROLLBACK`)
	for _, f := range readSource(t).files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Code" && fn.Name.Name != "extendedCode" {
					t.Errorf("%s asks for an extended code by itself: code has its kind, extendedCode the rest", fn.Name.Name)
				}
				return true
			})
		}
	}
}

// plan is how SQLite would run a statement, its steps joined by " | ".
func plan(t testing.TB, db *DB, text string) string {
	t.Helper()
	var args []any
	for strings.Contains(text, "$"+strconv.Itoa(len(args)+1)) {
		args = append(args, 1)
	}
	rows, err := db.writer.sql.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, " | ")
}
