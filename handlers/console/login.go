package console

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"comanda/handlers/door"
	"comanda/store"
)

// loginSheet is the way in.
type loginSheet struct {
	Next     string // where it leads
	Name     string // as it was typed
	Wrong    string // what was wrong with the try before, "" for nothing
	Minutes  int64  // until the next try, of "login.wait"
	Accounts bool   // there is somebody who may log in
}

// askToLogin sends a visitor to the page where one logs in. What was sent from a form is not sent again by that.
func (v *visit) askToLogin() error {
	r := v.Request()
	to := "/login?next=" + url.QueryEscape(r.URL.RequestURI())
	switch {
	case r.Header.Get("HX-Request") != "":
		if here, err := url.Parse(r.Header.Get("HX-Current-URL")); err == nil {
			to = "/login?next=" + url.QueryEscape(ownPath(here.RequestURI()))
		}
		v.Response().Header().Set("HX-Redirect", to)
		return v.showLogin(http.StatusUnauthorized, loginSheet{Next: "/", Wrong: "login.needed"})
	case strings.HasPrefix(r.Header.Get("Accept"), streamedType): // it would take a page for a broken stream
		return v.NoContent(http.StatusUnauthorized)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return v.back(to)
	}
	return v.showLogin(http.StatusUnauthorized, loginSheet{Next: "/", Wrong: "login.needed"})
}

// loginPage is GET /login?next=/rail.
func (c *Console) loginPage(v *visit) error {
	return v.showLogin(http.StatusOK, loginSheet{Next: ownPath(v.QueryParam("next"))})
}

func (v *visit) showLogin(status int, s loginSheet) error {
	err := v.view(func(tx *store.Tx) error {
		all, err := tx.Accounts()
		s.Accounts = len(all) > 0
		return err
	})
	if err != nil {
		return err
	}
	if status == http.StatusUnauthorized {
		v.Response().Header().Set("WWW-Authenticate", door.Challenge)
	}
	return v.show(status, "login", sheet{Path: "/login?next=" + url.QueryEscape(s.Next), Body: &s})
}

// login is POST /login.
func (c *Console) login(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	s := loginSheet{Next: ownPath(f.Get("next")), Name: f.Get("name")}
	key, err := c.gate.Login(v.Request(), f.Get("name"), f.Get("password"))
	var wait *door.TooManyTries
	switch {
	case err == nil:
		v.SetCookie(door.Cookie(v.Request(), key))
		return v.back(s.Next)
	case errors.As(err, &wait):
		seconds := math.Ceil(wait.Wait.Seconds())
		v.Response().Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		s.Wrong, s.Minutes = "login.wait", int64(math.Ceil(seconds/60))
		return v.showLogin(http.StatusTooManyRequests, s)
	case errors.Is(err, door.ErrBusy):
		v.Response().Header().Set("Retry-After", "5")
		s.Wrong = "login.busy"
		return v.showLogin(http.StatusServiceUnavailable, s)
	case errors.Is(err, door.ErrWrongLogin):
		s.Wrong = "login.wrong"
		return v.showLogin(http.StatusUnauthorized, s)
	}
	return err
}

// logout is POST /logout.
func (c *Console) logout(v *visit) error {
	you := door.VisitorOf(v.Context)
	err := c.opt.DB.Update(v.Request().Context(), func(tx *store.Tx) error {
		_, err := tx.EndSession(you.Session, you.Account, v.who(), "logout")
		return err
	})
	if err != nil {
		return err
	}
	v.SetCookie(door.NoCookie(v.Request()))
	return v.back("/login")
}

// sessionsSheet is who may come in.
type sessionsSheet struct {
	Sessions []store.Session // one's own; of everybody for who may operate
	Accounts []store.Account
	Tokens   []store.Token
	Idle     int64 // ms
	Life     int64
}

// sessions is GET /sessions.
func (c *Console) sessions(v *visit) error {
	you := door.VisitorOf(v.Context)
	s := sessionsSheet{Idle: store.SessionIdle.Milliseconds(), Life: store.SessionLife.Milliseconds()}
	err := v.view(func(tx *store.Tx) error {
		all, err := tx.Sessions()
		if err != nil {
			return err
		}
		s.Sessions = nil
		for _, one := range all {
			if you.MayOperate() || one.Account == you.Account {
				s.Sessions = append(s.Sessions, one)
			}
		}
		if !you.MayOperate() {
			return nil
		}
		if s.Accounts, err = tx.Accounts(); err != nil {
			return err
		}
		s.Tokens, err = tx.Tokens()
		return err
	})
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "sessions", sheet{Body: &s})
}

// endSession is POST /sessions with the id of a session, or the name of a token, that is to end. Who may only look ends
// the sessions of the own account.
func (c *Console) endSession(v *visit) error {
	you := door.VisitorOf(v.Context)
	of := you.Account
	if you.MayOperate() {
		of = "" // of anybody
	} else if of == "" {
		return refusal{http.StatusForbidden, "error.forbidden", ""}
	}
	f, err := v.form()
	if err != nil {
		return err
	}
	token := f.Get("token")
	id, noID := strconv.ParseInt(f.Get("id"), 10, 64)
	if noID != nil && token == "" {
		return refusal{http.StatusBadRequest, "error.form", ""}
	}
	if token != "" && !you.MayOperate() {
		return refusal{http.StatusForbidden, "error.forbidden", ""}
	}
	err = c.opt.DB.Update(v.Request().Context(), func(tx *store.Tx) (err error) {
		if token != "" {
			_, err = tx.RevokeToken(token, v.who())
		} else {
			_, err = tx.EndSession(id, of, v.who(), "session ended")
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.back("/sessions")
}
