package console

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bojanz/currency"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	textlanguage "golang.org/x/text/language"
	"golang.org/x/text/message"

	"comanda/handlers/graph"
)

//go:embed words/*.json templates/*.html
var embedded embed.FS

// languages are those that the console speaks, the one for everybody else first.
var languages = []string{"en", "es"}

// locales say how each writes numbers and money: the lesson's shop is in Mexico.
var locales = map[string]string{"en": "en", "es": "es-MX"}

const languageCookie = "comanda_lang"

// language is one that the console speaks, with its pages.
type language struct {
	code    string
	name    string // as it calls itself
	local   *i18n.Localizer
	numbers *message.Printer
	money   *currency.Formatter
	zone    *time.Location
	graph   func(string) string                  // translates what the graph says
	pages   map[string]func() *template.Template // each is read when it is first asked for; TestEveryPageCanBeRead
}

var pageNames = []string{"counter", "rail", "ticket", "confirm", "result", "orders", "order", "receipt", "attention", "graph", "truth", "relay", "login", "sessions", "error"}

// readLanguages reads what every page needs. A server does so when the first one is asked for: it would be a tenth of its
// start.
func readLanguages(zone *time.Location, static map[string]asset) map[string]*language {
	bundle := i18n.NewBundle(textlanguage.English)
	bundle.RegisterUnmarshalFunc("json", json.Unmarshal)
	all := map[string]*language{}
	for _, code := range languages {
		if _, err := bundle.LoadMessageFileFS(embedded, "words/"+code+".json"); err != nil {
			panic(fmt.Errorf("the words of the console: %w", err))
		}
		l := &language{code: code, zone: zone, numbers: message.NewPrinter(textlanguage.MustParse(locales[code])), pages: map[string]func() *template.Template{}}
		l.money = currency.NewFormatter(currency.NewLocale(locales[code]))
		l.money.CurrencyDisplay = currency.DisplayCode
		l.local = i18n.NewLocalizer(bundle, code)
		l.name = l.say("language")
		var err error
		if l.graph, err = graph.Words(code); err != nil {
			panic(err)
		}
		l.readPages(static)
		all[code] = l
	}
	return all
}

// readPages makes the pages ready to be read. Those of all languages take a third of the memory of a server that has just
// started, and of the time of its start, and most are never looked at.
func (l *language) readPages(static map[string]asset) {
	base := sync.OnceValue(func() *template.Template {
		t := template.New("").Funcs(l.funcs()).Funcs(template.FuncMap{"static": func(name string) string { return static[name].path }})
		return template.Must(t.ParseFS(embedded, "templates/layout.html", "templates/parts.html"))
	})
	for _, name := range pageNames {
		l.pages[name] = sync.OnceValue(func() *template.Template {
			return template.Must(template.Must(base().Clone()).ParseFS(embedded, "templates/"+name+".html"))
		})
	}
}

// say says a message of the catalogue. What it names comes in pairs of name and value; N is the number by which it
// is singular or plural.
func (l *language) say(id string, pairs ...any) string {
	c := &i18n.LocalizeConfig{MessageID: id}
	data := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name := fmt.Sprint(pairs[i])
		switch value := pairs[i+1].(type) {
		case int:
			data[name] = l.number(int64(value))
		case int64:
			data[name] = l.number(value)
		default:
			data[name] = value
		}
		if name == "N" {
			c.PluralCount = pairs[i+1]
		}
	}
	c.TemplateData = data
	text, err := l.local.Localize(c)
	if err != nil && c.PluralCount != nil { // a message that is the same for every number
		c.PluralCount = nil
		text, err = l.local.Localize(c)
	}
	if err != nil {
		return id // TestWordsAgree finds it
	}
	return text
}

// sayOr says a message if there is one, and the given text if not.
func (l *language) sayOr(id, text string, pairs ...any) string {
	if said := l.say(id, pairs...); said != id {
		return said
	}
	return text
}

func (l *language) number(n int64) string { return l.numbers.Sprintf("%d", n) }

// languageOf is the one that the visitor has chosen, or else that the browser prefers.
func (c *Console) languageOf(r *http.Request) *language {
	if cookie, err := r.Cookie(languageCookie); err == nil {
		if l := c.shown()[cookie.Value]; l != nil {
			return l
		}
	}
	tags, _, err := textlanguage.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return c.shown()[languages[0]]
	}
	for _, tag := range tags {
		base, _ := tag.Base()
		if l := c.shown()[base.String()]; l != nil {
			return l
		}
	}
	return c.shown()[languages[0]]
}

// chooseLanguage is GET /language?code=es&from=/rail.
func (c *Console) chooseLanguage(v *visit) error {
	code := v.QueryParam("code")
	if c.shown()[code] == nil {
		return refusal{http.StatusNotFound, "error.not_found", ""}
	}
	v.SetCookie(&http.Cookie{Name: languageCookie, Value: code, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return v.back(ownPath(v.QueryParam("from")))
}

// ownPath is a path on this server, or / in the place of what leads anywhere else.
func ownPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return "/"
	}
	return path
}
