package graph

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every language has a text for every id, and none is left as it was by mistake.
func TestCataloguesAgree(t *testing.T) {
	english, _, err := catalogue("en")
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range Languages[1:] {
		other, _, err := catalogue(lang)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(other))); diff != "" {
			t.Errorf("%s has other ids:\n%s", lang, diff)
		}
		for id, text := range other {
			if text == "" || text == english[id] && id != "sync" {
				t.Errorf("%s: %s is %q", lang, id, text)
			}
		}
	}
}

// What the program writes into a graph is in the catalogue: nothing of it stays English.
func TestSpanishKnowsEveryWord(t *testing.T) {
	words := spanish(t)
	g := New([]Effect{refund, inventory})
	for i, r := range g.resources {
		if r.Name == "warehouse" { // the tests' own
			g.resources = slices.Delete(g.resources, i, i+1)
			break
		}
	}
	all := []string{graphTitle, tableMark, legendMarks, legendHalves, sharedHeading, everyPiece, wordAnd, wordAlso}
	for _, n := range g.nodes {
		all = append(all, n.Does)
	}
	for _, e := range g.edges {
		if e.Label != "sync" {
			all = append(all, e.Label)
		}
	}
	for _, r := range g.resources {
		all = append(append(all, r.Name), r.Also...)
	}
	for _, text := range all {
		if words(text) == text {
			t.Errorf("%q is not translated", text)
		}
	}
	if asJSON(t, g) != asJSON(t, New([]Effect{refund, inventory})) && len(g.resources) == 3 {
		t.Error("translating changed the graph itself")
	}
}

// Every text of the catalogue is written into a graph by somebody: here, by an effect, or in main.
func TestNoDeadWords(t *testing.T) {
	english, _, err := catalogue("en")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, pattern := range []string{"*.go", "../../*.go", "../../effects/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for id, text := range english {
		if !strings.Contains(source.String(), strconv.Quote(text)) {
			t.Errorf("nobody writes %q (%s) into a graph", text, id)
		}
	}
}

// What nobody translated is said as it is; English is the graph as it is wired.
func TestUnknownWordsStay(t *testing.T) {
	if got := spanish(t)("tells who"); got != "tells who" {
		t.Errorf("an unknown text became %q", got)
	}
	english, err := Words("en")
	if err != nil {
		t.Fatal(err)
	}
	g := New([]Effect{refund, inventory, letter})
	before := asJSON(t, g)
	if g.In(english).Text() != g.Text() || g.In(english).Mermaid() != g.Mermaid() || g.SVG(SVGOptions{Words: english}) != g.SVG(SVGOptions{}) {
		t.Error("English is not the graph as it is")
	}
	if g.In(spanish(t)); asJSON(t, g) != before {
		t.Error("translating changed the graph itself")
	}
	if _, err := Words("../en"); err == nil || !strings.Contains(err.Error(), "does not speak") {
		t.Errorf("an unknown language: %v", err)
	}
}
