package graph

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// What is written beside the pieces.
const (
	graphTitle    = "The dependency graph"
	tableMark     = "(table)"
	legendMarks   = "[L] only reads: safe to repeat   [E] changes the world: once for each Idempotency-Key"
	legendHalves  = "Above the outbox everything decides and touches no effect; below it everything may be repeated."
	sharedHeading = "Shared resources (hidden dependencies):"
	everyPiece    = "every piece depends on it"
	wordAnd       = "and"
	wordAlso      = "also:"
)

// Languages are those that the graph speaks; the first is the one it is written in.
var Languages = []string{"en", "es"}

//go:embed words/*.json
var catalogues embed.FS

// catalogue reads a language's texts by their ids.
func catalogue(lang string) (map[string]string, []byte, error) {
	raw, err := catalogues.ReadFile("words/" + lang + ".json")
	if err != nil {
		return nil, nil, fmt.Errorf("the graph does not speak %q: take one of %q", lang, Languages)
	}
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, nil, fmt.Errorf("read the graph's words of %q: %w", lang, err)
	}
	return texts, raw, nil
}

// Words translates what New and an effect of comanda's own write into a graph. What it does not know, such as the
// words of an effect that somebody added, it leaves.
func Words(lang string) (func(string) string, error) {
	if !slices.Contains(Languages, lang) {
		return nil, fmt.Errorf("the graph does not speak %q: take one of %q", lang, Languages)
	}
	english, _, err := catalogue(Languages[0])
	if err != nil {
		return nil, err
	}
	_, raw, err := catalogue(lang)
	if err != nil {
		return nil, err
	}
	bundle := i18n.NewBundle(language.Make(lang))
	if _, err := bundle.ParseMessageFileBytes(raw, lang+".json"); err != nil {
		return nil, fmt.Errorf("read the graph's words of %q: %w", lang, err)
	}
	ids := map[string]string{}
	for id, text := range english {
		ids[text] = id
	}
	speaker := i18n.NewLocalizer(bundle, lang)
	return func(text string) string {
		if said, err := speaker.Localize(&i18n.LocalizeConfig{MessageID: ids[text]}); err == nil {
			return said
		}
		return text
	}, nil
}

// In is the graph with everything that is read by a person in other words. Names, and what MarshalJSON gives to
// programs, are those of g itself: translate after it, not before.
func (g Graph) In(words func(string) string) Graph {
	g.nodes, g.edges, g.resources, g.words = g.Nodes(), g.Edges(), g.Resources(), words
	for i := range g.nodes {
		g.nodes[i].Does = words(g.nodes[i].Does)
	}
	for i := range g.edges {
		g.edges[i].Label = words(g.edges[i].Label)
	}
	for i := range g.resources {
		r := &g.resources[i]
		r.Name, r.Also = words(r.Name), slices.Clone(r.Also)
		for j := range r.Also {
			r.Also[j] = words(r.Also[j])
		}
	}
	return g
}

func (g Graph) word(text string) string {
	if g.words == nil {
		return text
	}
	return g.words(text)
}
