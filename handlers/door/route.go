package door

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Door is what stands before a route. The zero value is none, and no route may have it.
type Door int

// The doors, from the widest to the narrowest.
const (
	Open    Door = iota + 1 // anybody: health, the pages' own files, the way in
	Webhook                 // senders of orders; who they are the handler itself finds out
	View                    // who may look
	Operate                 // who may act
)

// String is the door's name, as it is shown.
func (d Door) String() string {
	return map[Door]string{Open: "open", Webhook: "webhook", View: "view", Operate: "operate"}[d]
}

// Route is one address of the server and the door that it stands behind.
type Route struct {
	Method  string // "GET" answers HEAD too, as monitors expect; net/http leaves the body out
	Path    string // as echo has it
	Door    Door
	Handler echo.HandlerFunc
	// Refused tells whoever is not let in; nil returns the Refusal to the server.
	Refused func(echo.Context, *Refusal) error
}

// Mount puts the routes up, each behind its door. It panics when one names none.
func (g *Gate) Mount(e *echo.Echo, routes []Route) {
	for _, r := range routes {
		if r.Door.String() == "" {
			panic(fmt.Sprintf("%s %s names no door", r.Method, r.Path))
		}
		methods := []string{r.Method}
		if r.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		e.Match(methods, r.Path, g.behind(r))
	}
}

// behind lets a route's handler see only whom its door lets in.
func (g *Gate) behind(r Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := g.admit(c.Request(), r.Door)
		c.Set(visitorKey, v)
		var refusal *Refusal
		if errors.As(err, &refusal) && r.Refused != nil {
			return r.Refused(c, refusal)
		}
		if err != nil {
			return err
		}
		c.Set(stillKey, func() bool {
			_, err := g.admit(c.Request(), r.Door)
			return !errors.As(err, new(*Refusal))
		})
		return r.Handler(c)
	}
}

const (
	visitorKey = "comanda.visitor"
	stillKey   = "comanda.still"
)

// StillWelcome asks again whether whoever was let in to this request would be: a session may have ended meanwhile.
func StillWelcome(c echo.Context) bool {
	still, ok := c.Get(stillKey).(func() bool)
	return ok && still()
}

// VisitorOf is who was let in to this request, or whose role was not enough.
func VisitorOf(c echo.Context) Visitor {
	v, _ := c.Get(visitorKey).(Visitor)
	return v
}
