package console

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"comanda/handlers/hand"
	"comanda/store"
)

func readWords(t *testing.T, code string) (words map[string]any) {
	t.Helper()
	raw, err := embedded.ReadFile("words/" + code + ".json")
	if err == nil {
		err = json.Unmarshal(raw, &words)
	}
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// Both catalogues say everything, with the same placeholders; and what the templates and the code ask for is there.
func TestWordsAgree(t *testing.T) {
	holes := func(message any) []string {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(`{{\.\w+}}|{n}`).FindAllString(fmt.Sprint(message), -1) {
			found[m] = true
		}
		var all []string
		for m := range found {
			all = append(all, m)
		}
		slices.Sort(all)
		return all
	}
	en, es := readWords(t, "en"), readWords(t, "es")
	for id, message := range en {
		if es[id] == nil || !slices.Equal(holes(message), holes(es[id])) {
			t.Errorf("%s: %v in English, %v in Spanish", id, message, es[id])
		}
	}
	if len(en) != len(es) {
		t.Errorf("%d messages in English, %d in Spanish", len(en), len(es))
	}
	asked := regexp.MustCompile(`(?:\bt|say)\(? ?"([a-z_.]+[a-z])"`)
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range asked.FindAllStringSubmatch(readFile(t, file), -1) {
				if en[m[1]] == nil {
					t.Errorf("%s asks for %q, which no catalogue has", file, m[1])
				}
			}
		}
	}
}

// The story of an order is told in the reader's language, each sentence of it.
func TestStoryInBothLanguages(t *testing.T) {
	s := newShop(t)
	s.bury(s.decide("ORD-1"), "rejected: 422")
	s.get("/orders/ORD-1").wants(200, "Event EVT-ORD-1 accepted", "2154.00 MXN for customer CUS-7: no credit, so a refund", "Ticket 1 is dead: rejected: 422")
	s.lang = "es"
	s.get("/orders/ORD-1").wants(200, "Evento EVT-ORD-1 aceptado", "sin crédito, así que un reembolso", "Comanda 1 refund:ORD-1 puesta en el riel", "Comanda 1 muerta: rejected: 422")
}

// Every message is said by somebody. An id is written out in a template or in the code, or made of a beginning that
// stands there and a word that the program has.
func TestNoDeadWords(t *testing.T) {
	var written strings.Builder
	literals := literalsOf(t, "../..")
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				written.WriteString(readFile(t, file))
			}
		}
	}
	said := written.String()
	for code := 400; code < 600; code++ { // error.title. has the status behind it
		if strings.Contains(said, "http.Status"+strings.ReplaceAll(http.StatusText(code), " ", "")+",") {
			literals[strconv.Itoa(code)] = true
		}
	}
	for _, m := range regexp.MustCompile(`"(\w+)", sheet{([^}]*)}`).FindAllStringSubmatch(said, -1) {
		if !strings.Contains(m[2], "Title:") { // then show makes one
			said += `"` + m[1] + `.title"`
		}
	}
	for id := range readWords(t, "en") {
		if !strings.Contains(said, `"`+id+`"`) && !madeOf(id, said, literals) {
			t.Errorf("nobody says %q", id)
		}
	}
}

// madeOf reports whether an id is a beginning that is said with one of the program's words behind it, or with two
// of which the first ends in an underline.
func madeOf(id, said string, literals map[string]bool) bool {
	for i, r := range id {
		if r != '.' || !regexp.MustCompile(`"`+regexp.QuoteMeta(id[:i+1])+`"[ ,+)}]`).MatchString(said) {
			continue
		}
		rest := id[i+1:]
		first, second, two := strings.Cut(rest, "_")
		if literals[rest] && rest != "title" || two && literals[first+"_"] && literals[second] {
			return true
		}
	}
	return false
}

var sqlWord = regexp.MustCompile(`'([\w ]+)'`)

// literalsOf are the texts that stand in the program's source, its SQL and its templates included.
func literalsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "e2e" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".html"):
			for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(readFile(t, path), -1) {
				all[m[1]] = true
			}
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						all[text] = true
						for _, m := range sqlWord.FindAllStringSubmatch(text, -1) {
							all[m[1]] = true
						}
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Why an act is refused is said in the reader's language, whatever the reason.
func TestRefusalsSpeak(t *testing.T) {
	reasons := append(store.Objections(), hand.NoTicket)
	for _, code := range languages {
		words := readWords(t, code)
		for _, o := range reasons {
			if words["refused."+string(o)] == nil {
				t.Errorf("%s does not say the refusal %q", code, o)
			}
		}
		asked := 0
		for id := range maps.Keys(words) {
			if strings.HasPrefix(id, "refused.") {
				asked++
			}
		}
		if asked != len(reasons) {
			t.Errorf("%s has %d refusals, the program %d", code, asked, len(reasons))
		}
	}
	s := newShop(t)
	s.bury(s.decide("ORD-1"), "rejected: 422")
	ids := url.Values{"id": {"1", "99"}, "do": {"resolve"}}
	s.do("POST", "/rail/confirm", ids).wants(200, "Ticket 1 has nothing to resolve: nobody doubts what came of it.", "There is no ticket 99.")
	s.lang = "es"
	p := s.do("POST", "/rail/confirm", ids).wants(200, "La comanda 1 no tiene nada que resolver: nadie duda de qué fue de ella.", "No existe la comanda 99.")
	if strings.Contains(p.body, `<span lang="en">`) {
		t.Errorf("a part is English:\n%s", p.body)
	}
	if got := s.console.shown()["es"].said("refused.none", "a <new> reason"); got != `<span lang="en">a &lt;new&gt; reason</span>` {
		t.Errorf("what has no words is said as %s", got)
	}
}

// What comes from below in English says so, and what a person wrote claims no language.
func TestWordsOfOthers(t *testing.T) {
	s := newShop(t)
	s.lang = "es"
	const gate = "https://pay.example/x"
	id := s.decide("ORD-1")
	s.update(func(tx *store.Tx) error {
		_, err := tx.MarkTargets([]store.Mark{{Name: "refund", URL: gate}}, "test")
		return err
	})
	s.claim(id, func(tx *store.Tx, token string) (bool, error) {
		a, err := tx.BeginAttempt(store.Begin{Ticket: id, Token: token, Kind: "send", Target: "refund", Address: gate})
		if err == nil {
			err = tx.EndAttempts(store.Ended{ID: a.ID, Outcome: "rejected", Status: 422, Detail: "no such card"})
		}
		if err != nil {
			return false, err
		}
		return tx.Bury(token, id, "rejected: 422")
	})
	chosen := url.Values{"id": {fmt.Sprint(id)}}
	s.do("POST", "/rail/act", url.Values{"id": chosen["id"], "seen": s.shown(chosen), "do": {"discard"}, "reason": {"lo pidió el banco"}}).wants(200)
	p := s.get("/orders/ORD-1").wants(200, `Comanda 1: rechazado: <span lang="en">no such card</span>`, `>rechazado <`, `<span class="what">comanda descartada por console `, `<span lang="">was dead: rejected: 422; lo pidió el banco</span>`)
	if strings.Contains(p.body, "0xc0") {
		t.Error("the page shows where something lies in memory")
	}
	s.get("/tickets/1").wants(200, `>rechazado <`)
	s.update(func(tx *store.Tx) error { return tx.PauseByAnswer("refund", "401 bad token", "") })
	s.get("/").wants(200, "reembolso no nos deja entrar", `<span class="said" lang="en">401 bad token</span>`)
	s.update(func(tx *store.Tx) error { return tx.PauseTarget("refund", "me", "inventario anual") })
	s.get("/").wants(200, "reembolso está en pausa", `<span class="said" lang="">inventario anual</span>`)
	s.console.ready = func() ([]string, []string) { return []string{"the disk is full"}, []string{"the clock is odd"} }
	s.get("/").wants(200, `<span lang="en">the disk is full</span>`, `<span lang="en">the clock is odd</span>`)
	s.get("/attention").wants(200, `<span lang="en">the disk is full</span>`, `lang="en">the clock is odd<`)
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A page is read when somebody first looks at it; one that can't be read is found here.
func TestEveryPageCanBeRead(t *testing.T) {
	for code, l := range readLanguages(time.UTC, nil) {
		for _, name := range pageNames {
			if l.pages[name]().Lookup("page") == nil {
				t.Errorf("%s in %s is no page", name, code)
			}
		}
	}
}
