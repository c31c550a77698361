package door

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"comanda/store"
)

// What tries to log in cost. One address can't use up what an account has: it has fewer tries, and is given new ones
// more slowly. Whoever has many addresses still has the account's tries alone, some 4,300 a day.
const (
	accountTries = 30
	accountEvery = 20 * time.Second
	addressTries = 5
	addressEvery = time.Minute
)

// How many passwords are hashed at the same time, each in 19 MiB; how many tries wait for that, and how long.
const (
	mostHashes  = 2
	mostWaiting = 16
	hashWait    = 5 * time.Second
)

// Why a login fails.
var (
	// ErrWrongLogin: there is no such account, or it has another password.
	ErrWrongLogin = errors.New("the name or the password is wrong")
	// ErrBusy: too many log in at the same time.
	ErrBusy = errors.New("too many log in at the same time")
)

// TooManyTries is returned instead of a look at the password, right or wrong.
type TooManyTries struct{ Wait time.Duration }

func (e *TooManyTries) Error() string { return fmt.Sprintf("too many tries: wait %s", e.Wait) }

// accountName is what an account or a token may be called.
var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)

// CheckName says what is wrong with the name of an account or a token, "" for nothing.
func CheckName(name string) (fault string) {
	if !accountName.MatchString(name) {
		return "must be 1 to 40 of a-z, 0-9, '.', '_' and '-', and begin with a letter or a digit"
	}
	return ""
}

// Login opens a session for whoever knows an account's password and returns its key. It returns ErrWrongLogin,
// *TooManyTries, ErrBusy, or the store's error.
func (g *Gate) Login(r *http.Request, name, password string) (key string, err error) {
	l := g.newLogin(r, name)
	if err := l.mayTry(); err != nil {
		return "", err
	}
	leave, err := g.hashing.enter(r.Context())
	if err != nil {
		return "", err
	}
	defer leave()
	account, err := l.charge()
	if err != nil {
		return "", err
	}
	right, err := g.verify(account.Password, password)
	if err != nil || !right || len(password) > 4*mostPassword {
		return "", errors.Join(err, ErrWrongLogin)
	}
	before, _, err := g.bySession(r)
	if err != nil {
		return "", err
	}
	return l.begin(account, before)
}

// login is one try.
type login struct {
	*Gate
	ctx            context.Context
	name           string // "" for one that no account can have
	address, agent string
	debts          []store.LoginDebt
}

func (g *Gate) newLogin(r *http.Request, name string) *login {
	l := &login{Gate: g, ctx: r.Context(), name: strings.ToLower(strings.TrimSpace(name)), address: addressOf(r), agent: shortAgent(r.UserAgent())}
	subject := l.name
	if !accountName.MatchString(l.name) {
		l.name, subject = "", "-"
	}
	l.debts = []store.LoginDebt{
		{Kind: "account", Subject: subject, Cost: accountEvery, Limit: accountTries * accountEvery},
		{Kind: "address", Subject: networkOf(l.address), Cost: addressEvery, Limit: addressTries * addressEvery},
	}
	return l
}

// who stands in the operator log for somebody who is not let in.
func (l *login) who() string { return "console " + l.address }

// mayTry refuses what will be refused anyway before it takes anybody's time.
func (l *login) mayTry() error {
	var wait time.Duration
	var told bool
	err := l.db.View(l.ctx, func(tx *store.Tx) (err error) {
		wait, told, err = tx.LoginWait(l.debts)
		return err
	})
	if err == nil && wait > 0 && told {
		return &TooManyTries{wait}
	}
	return err
}

// charge charges the try before anything is hashed, so that no failure of what follows gives it back.
func (l *login) charge() (account store.Account, err error) {
	var wait time.Duration
	err = l.db.Update(l.ctx, func(tx *store.Tx) (err error) {
		if wait, err = tx.ChargeLogin(l.debts, l.who()); err != nil || wait > 0 {
			return err
		}
		account, _, err = tx.Account(l.name)
		return err
	})
	if err == nil && wait > 0 {
		err = &TooManyTries{wait}
	}
	if account.Name == "" {
		account.Password = nobodysHash
	}
	return account, err
}

// begin opens the session, and ends the one that the browser had before.
func (l *login) begin(account store.Account, before Visitor) (key string, err error) {
	key = rand.Text() + rand.Text()
	begun := false
	err = l.db.Update(l.ctx, func(tx *store.Tx) (err error) {
		begun, err = tx.BeginSession(store.NewSession{Secret: sha256.Sum256([]byte(key)), Account: account.Name, Password: account.Password,
			Address: l.address, Agent: l.agent, Who: "console as " + account.Name + " from " + l.address})
		if err != nil || !begun {
			return err
		}
		if _, err := tx.EndSession(before.Session, before.Account, "console "+before.Who, "logout"); err != nil {
			return err
		}
		return tx.ForgiveLogin(l.debts)
	})
	if err == nil && !begun {
		err = ErrWrongLogin // it was changed meanwhile
	}
	if err != nil {
		return "", err
	}
	return key, nil
}

// shortAgent is what a browser calls itself, as it is shown.
func shortAgent(agent string) string {
	var kept []rune
	for _, r := range agent {
		if len(kept) == 200 {
			break
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			kept = append(kept, r)
		}
	}
	return string(kept)
}

// hashing lets in so many at the same time, and so many wait.
type hashing struct {
	places  chan struct{}
	waiting *atomic.Int64
}

func newHashing() hashing {
	return hashing{places: make(chan struct{}, mostHashes), waiting: &atomic.Int64{}}
}

func (h hashing) enter(ctx context.Context) (leave func(), err error) {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > mostWaiting {
		return nil, ErrBusy
	}
	wait := time.NewTimer(hashWait)
	defer wait.Stop()
	select {
	case h.places <- struct{}{}:
		return func() { <-h.places }, nil
	case <-wait.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// NewToken makes a token and what is kept of it.
func NewToken() (token string, secret [32]byte) {
	token = tokenPrefix + rand.Text() + rand.Text()
	return token, sha256.Sum256([]byte(token))
}
