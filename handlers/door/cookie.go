package door

import (
	"net/http"
	"time"

	"comanda/store"
)

// The session's cookie. Under TLS its name begins so that browsers take it from this very host alone, over TLS alone.
const (
	cookieName       = "comanda_session"
	secureCookieName = "__Host-" + cookieName
)

// overTLS reports whether the browser speaks TLS: to us, or to a proxy on this machine that says so.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || IsLoopback(peerOf(r)) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func cookieFor(r *http.Request, key string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: key, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if overTLS(r) {
		c.Name, c.Secure = secureCookieName, true
	}
	if key == "" {
		c.MaxAge = -1
	}
	return c
}

// Cookie is what a browser keeps of a session.
func Cookie(r *http.Request, key string) *http.Cookie { return cookieFor(r, key, store.SessionLife) }

// NoCookie takes it back.
func NoCookie(r *http.Request) *http.Cookie { return cookieFor(r, "", 0) }

// sessionKey is the key that a browser sends, "" for none. One that was set without TLS is none under it.
func sessionKey(r *http.Request) string {
	name := cookieName
	if overTLS(r) {
		name = secureCookieName
	}
	c, err := r.Cookie(name)
	if err != nil || len(c.Value) > 100 {
		return ""
	}
	return c.Value
}
