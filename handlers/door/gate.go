package door

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"comanda/store"
)

// Options are what a gate is built from. DB is needed.
type Options struct {
	DB  *store.DB
	Log *slog.Logger // nil discards
	// RequireLogin asks for a login or a token at this machine too.
	RequireLogin bool
}

// Gate knows who may come in. Close it before its DB.
type Gate struct {
	db           *store.DB
	log          *slog.Logger
	requireLogin bool
	crossOrigin  *http.CrossOriginProtection
	hashing      hashing
	verify       func(phc, password string) (bool, error)
	uses         uses
}

// New builds a gate.
func New(opt Options) *Gate {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{db: opt.DB, log: opt.Log, requireLogin: opt.RequireLogin, crossOrigin: http.NewCrossOriginProtection(), hashing: newHashing(), verify: verifyPassword}
}

// Close waits for what goes on in the background.
func (g *Gate) Close() { g.uses.under.Wait() }

// Visitor is who came in.
type Visitor struct {
	Who     string // for the operator log: "127.0.0.1" at this machine, else "as ana from 192.168.1.7" or "token p from 192.168.1.7"
	Role    string // store.RoleView or store.RoleOperate; "" behind a door that asks nobody
	Account string // whose session it is, or ""
	Session int64  // or 0
}

// MayOperate reports whether the visitor may change something.
func (v Visitor) MayOperate() bool { return v.Role == store.RoleOperate }

// Refusal says why somebody is not let in.
type Refusal struct {
	Status int    // 401 or 403
	Name   string // of the problem
	Detail string
}

func (r *Refusal) Error() string { return r.Name + ": " + r.Detail }

// The names of the problems that a door tells.
const (
	LoginRequired = "login-required"
	Forbidden     = "forbidden"
	CrossOrigin   = "cross-origin"
)

// Challenge is what would open a door that answered 401, as RFC 9110 wants it told.
const Challenge = `Bearer realm="comanda"`

// The refusals of a door. LowRole is for a handler too, behind a door that lets in more than it does.
var (
	noKey         = &Refusal{Status: http.StatusUnauthorized, Name: LoginRequired, Detail: "log in at /login, or send a token of `comanda token add` as Authorization: Bearer"}
	wrongKey      = &Refusal{Status: http.StatusUnauthorized, Name: LoginRequired, Detail: "the Authorization header holds no token that is known here: `comanda token add` makes one"}
	LowRole       = &Refusal{Status: http.StatusForbidden, Name: Forbidden, Detail: "this takes the role operate, and yours is view"}
	foreignOrigin = &Refusal{Status: http.StatusForbidden, Name: CrossOrigin, Detail: "a page of another origin may not change anything here"}
)

// admit returns who came in by a door, a *Refusal (of LowRole with who it is), or the store's error.
func (g *Gate) admit(r *http.Request, d Door) (Visitor, error) {
	if g.crossOrigin.Check(r) != nil {
		return Visitor{}, foreignOrigin
	}
	if d < View {
		return Visitor{}, nil
	}
	v, err := g.identify(r)
	if err == nil && d == Operate && !v.MayOperate() {
		return v, LowRole
	}
	return v, err
}

// identify finds out who somebody is: by the token, which decides alone where one is presented, then by the session,
// then by the place.
func (g *Gate) identify(r *http.Request) (Visitor, error) {
	if keys, given := r.Header["Authorization"]; given {
		return g.byToken(r, keys)
	}
	v, found, err := g.bySession(r)
	switch {
	case err != nil || found:
		return v, err
	case !g.requireLogin && exempt(r):
		return Visitor{Who: peerOf(r), Role: store.RoleOperate}, nil
	}
	return Visitor{}, noKey
}

// tokenPrefix begins every token, so that one that leaked is known for what it is.
const tokenPrefix = "comanda_"

func (g *Gate) byToken(r *http.Request, keys []string) (Visitor, error) {
	scheme, key, _ := strings.Cut(keys[0], " ")
	if len(keys) != 1 || !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(key, tokenPrefix) {
		return Visitor{}, wrongKey
	}
	var token store.Token
	var found bool
	err := g.db.View(r.Context(), func(tx *store.Tx) (err error) {
		token, found, err = tx.Token(sha256.Sum256([]byte(key)))
		return err
	})
	if err != nil {
		return Visitor{}, err
	}
	if !found {
		return Visitor{}, wrongKey
	}
	if token.Stale {
		g.uses.note(g.db, "token "+token.Name, func(tx *store.Tx) error { return tx.UseToken(token.Name) })
	}
	return Visitor{Who: "token " + token.Name + " from " + addressOf(r), Role: token.Role}, nil
}

func (g *Gate) bySession(r *http.Request) (Visitor, bool, error) {
	key := sessionKey(r)
	if key == "" {
		return Visitor{}, false, nil
	}
	var s store.Session
	var found bool
	err := g.db.View(r.Context(), func(tx *store.Tx) (err error) {
		s, found, err = tx.Session(sha256.Sum256([]byte(key)))
		return err
	})
	if err != nil || !found {
		return Visitor{}, false, err
	}
	if s.Stale && !byItself(r) {
		g.uses.note(g.db, "session", func(tx *store.Tx) error { return tx.UseSession(s.ID) })
	}
	return Visitor{Who: "as " + s.Account + " from " + addressOf(r), Role: s.Role, Account: s.Account, Session: s.ID}, true, nil
}

// byItself reports whether a page asks without anybody's hand: one that is left open must not keep its session.
func byItself(r *http.Request) bool {
	return r.Header.Get("HX-Request") != "" || strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream")
}

// uses are noted in the background: whoever is let in does not wait for it, and nothing rests on it.
type uses struct {
	mu    sync.Mutex
	busy  map[string]bool
	under sync.WaitGroup
}

func (u *uses) note(db *store.DB, name string, use func(*store.Tx) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy[name] {
		return
	}
	if u.busy == nil {
		u.busy = map[string]bool{}
	}
	u.busy[name] = true
	u.under.Go(func() {
		_ = db.Update(context.Background(), use) // the next use tries again
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.busy, name)
	})
}
