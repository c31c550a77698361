package console

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/store"
)

// policy lets a page load its own files and send its own forms, and nothing else.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// visit is one request for a page.
type visit struct {
	echo.Context
	console *Console
	lang    *language
}

// refusal is an answer that is no page, told to the visitor by one.
type refusal struct {
	status int
	word   string // of the catalogue
	detail string // in addition; what the program says, in English
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.status, r.word, r.detail) }

// enter begins a visit.
func (c *Console) enter(e echo.Context) *visit {
	h := e.Response().Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Add("Vary", "Accept-Language, Cookie, HX-Request")
	return &visit{e, c, c.languageOf(e.Request())}
}

// turnAway tells a visitor who is not let in: one who has to log in is sent there, and comes back.
func (c *Console) turnAway(e echo.Context, why *door.Refusal) error {
	v := c.enter(e)
	switch why.Name {
	case door.LoginRequired:
		return v.askToLogin()
	case door.Forbidden:
		return v.refuse(refusal{http.StatusForbidden, "error.forbidden", ""})
	}
	return v.refuse(refusal{http.StatusForbidden, "error.elsewhere", ""})
}

// page shows a page, and tells what goes wrong on it.
func (c *Console) page(page func(*visit) error) echo.HandlerFunc {
	return func(e echo.Context) error {
		v := c.enter(e)
		err := page(v)
		var r refusal
		switch {
		case err == nil:
			return nil
		case errors.As(err, &r):
			return v.refuse(r)
		case errors.Is(err, store.ErrNotFound):
			return v.refuse(refusal{http.StatusNotFound, "error.not_found", ""})
		}
		for _, t := range troubles {
			if errors.Is(err, t.err) {
				return v.refuse(refusal{http.StatusServiceUnavailable, t.word, ""})
			}
		}
		return err // the server knows what it is
	}
}

// troubles are what can be wrong with the file, or with a question to it, and pass.
var troubles = []struct {
	err  error
	word string
}{
	{store.ErrUnknownOutcome, "error.unknown_outcome"}, // first: the others may be its cause
	{store.ErrTooLong, "error.too_long"},
	{store.ErrBusy, "error.busy"},
	{store.ErrFull, "error.full"},
	{store.ErrMoved, "error.moved"},
	{store.ErrOtherSchema, "error.other_schema"},
	{store.ErrClosed, "error.closed"},
}

// who names the visitor in the operator log.
func (v *visit) who() string { return "console " + door.VisitorOf(v.Context).Who }

// id is the id in the path, percent-decoded exactly once: echo hands it out as it was sent when there is a RawPath.
func (v *visit) id() string {
	id := v.Param("id")
	if v.Request().URL.RawPath == "" {
		return id
	}
	plain, err := url.PathUnescape(id)
	if err != nil { // net/http has refused such a path already
		return id
	}
	return plain
}

// view runs fn on a reader.
func (v *visit) view(fn func(*store.Tx) error) error {
	return v.console.opt.DB.View(v.Request().Context(), fn)
}

// sheet is what a template is given.
type sheet struct {
	Page      string // its name in the navigation
	Title     string
	Path      string // of this very page, for its refresh and for the choice of a language
	Order     string // the order that the page is about; it stays as it is while others change
	Live      bool   // the page asks for its middle part again when something changes
	Every     int    // and after so many seconds anyway
	Lang      string
	Languages []otherLanguage
	Version   string
	Query     string // in the search field
	You       door.Visitor
	Body      any
}

type otherLanguage struct{ Code, Name string }

// show writes a page, or its middle part alone to who has the rest already.
func (v *visit) show(status int, name string, s sheet) error {
	r := v.Request()
	s.Page, s.Lang, s.Version, s.You = name, v.lang.code, v.console.opt.Version, door.VisitorOf(v.Context)
	for _, code := range languages {
		s.Languages = append(s.Languages, otherLanguage{code, v.console.shown()[code].name})
	}
	switch {
	case s.Path != "":
	case r.Method == http.MethodPost: // nothing that can be asked for again
		s.Path = "/rail"
	default:
		s.Path = r.URL.RequestURI()
	}
	if s.Title == "" {
		s.Title = v.lang.say(name + ".title")
	}
	part := "layout"
	if r.Header.Get("HX-Request") == "true" {
		part = "page"
	}
	var b bytes.Buffer
	if err := v.lang.pages[name]().ExecuteTemplate(&b, part, s); err != nil {
		return fmt.Errorf("write the page %s: %w", name, err)
	}
	return v.HTMLBlob(status, b.Bytes())
}

func (v *visit) refuse(r refusal) error {
	return v.show(r.status, "error", sheet{Body: r.body()})
}

func (r refusal) body() any {
	return struct {
		Status int
		Word   string
		Detail string
	}{r.status, r.word, r.detail}
}

// back sends the visitor on to a page after a form was sent: a reload then sends nothing again.
func (v *visit) back(path string) error { return v.Redirect(http.StatusSeeOther, path) }

// form reads the fields of a form that was sent.
func (v *visit) form() (url.Values, error) {
	r := v.Request()
	const most = 256 << 10
	r.Body = http.MaxBytesReader(v.Response(), r.Body, most)
	if err := r.ParseForm(); err != nil {
		return nil, refusal{http.StatusBadRequest, "error.form", ""}
	}
	return r.PostForm, nil
}
