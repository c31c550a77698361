package e2e

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// Languages are those that the proofs speak; the first is spoken where none is asked for.
var Languages = []string{"en", "es"}

//go:embed words/*.json
var catalogues embed.FS

// message is the id of a text in the catalogues (TestCataloguesAgree, TestEveryMessageExists).
type message string

// words says messages in one language. The zero value speaks English.
type words struct{ speaker *i18n.Localizer }

// english is what the zero words say. Its catalogue is in the program, so that it can be read is for a test to see.
var english = sync.OnceValue(func() words {
	w, err := speak(Languages[0])
	if err != nil {
		panic(err)
	}
	return w
})

// speak returns the words of a language; SQL, keys, ids and statuses are the same in each, and so are errors.
func speak(lang string) (words, error) {
	if lang == "" {
		lang = Languages[0]
	}
	if !slices.Contains(Languages, lang) {
		return words{}, fmt.Errorf("the proofs do not speak %q: take one of %q", lang, Languages)
	}
	bundle := i18n.NewBundle(language.Make(lang))
	if _, err := bundle.LoadMessageFileFS(catalogues, "words/"+lang+".json"); err != nil {
		return words{}, fmt.Errorf("read the words of %q: %w", lang, err)
	}
	return words{i18n.NewLocalizer(bundle, lang)}, nil
}

// text is a message with its placeholders filled, each given by its name and its value.
func (w words) text(id message, filled ...any) string { return w.localize(id, nil, filled) }

// count is a message that has a form for one and a form for more; {{.N}} in it is n.
func (w words) count(id message, n int, filled ...any) string {
	return w.localize(id, n, append(filled, "N", n))
}

func (w words) localize(id message, plural any, filled []any) string {
	if w.speaker == nil {
		w = english()
	}
	values := map[string]any{}
	for i := 0; i+1 < len(filled); i += 2 {
		values[fmt.Sprint(filled[i])] = filled[i+1]
	}
	text, err := w.speaker.Localize(&i18n.LocalizeConfig{MessageID: string(id), PluralCount: plural, TemplateData: values})
	if err != nil { // only an id that is in no catalogue
		return string(id)
	}
	return text
}
