package cli

import (
	"embed"
	"fmt"
	"sync"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed words/*.json
var catalogues embed.FS

// Words says what an appliance tells the person at its terminal, in one language. The zero value speaks English.
type Words struct{ speaker *i18n.Localizer }

// english is what the zero Words say. Its catalogue is in the program, so that it can be read is for a test to see.
var english = sync.OnceValue(func() Words {
	w, err := Speak("en")
	if err != nil {
		panic(err)
	}
	return w
})

// Speak returns the words of a language, "en" or "es".
func Speak(lang string) (Words, error) {
	bundle := i18n.NewBundle(language.English)
	if _, err := bundle.LoadMessageFileFS(catalogues, "words/"+lang+".json"); err != nil {
		return Words{}, Usage(fmt.Errorf("comanda does not speak %q: take en or es (%w)", lang, err))
	}
	return Words{i18n.NewLocalizer(bundle, lang)}, nil
}

// Text is a message with its placeholders filled, each given by its name and its value.
func (w Words) Text(id string, filled ...any) string {
	if w.speaker == nil {
		w = english()
	}
	values := map[string]any{}
	for i := 0; i+1 < len(filled); i += 2 {
		values[fmt.Sprint(filled[i])] = filled[i+1]
	}
	text, err := w.speaker.Localize(&i18n.LocalizeConfig{MessageID: id, TemplateData: values})
	if err != nil { // only an id that is in no catalogue
		return id
	}
	return text
}
