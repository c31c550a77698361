package store

import "time"

// How a session ends by itself: some time after its last use, and some time after its login. Both are told by a clock
// that nobody sets and that begins anew with the machine, so a session ends with that too.
const (
	SessionIdle = 12 * time.Hour
	SessionLife = 7 * 24 * time.Hour
)

// mostSessions are those of one account at the same time; a login beyond it ends the oldest.
const mostSessions = 50

// sessionSeen is how exactly the last use of a session or a token is known: no more than one write for it in that time.
const sessionSeen = time.Minute

// Session is a login that has not ended.
type Session struct {
	ID      int64
	Account string
	Role    string // of the account, as it is now
	Address string
	Agent   string // what the browser calls itself
	BegunAt int64
	UsedAt  int64
	Stale   bool // its last use was so long ago that a use now is worth writing down
}

// $1, $2, $3: the clock's beginning, and what was born or seen by which it is over. $4: by when a use is worth a write.
const (
	sessionColumns = `SELECT s.id, s.account, a.role, s.address, s.agent, s.begun_at, s.used_at, s.seen_ms <= $4
	FROM sessions AS s JOIN accounts AS a ON a.name = s.account WHERE s.boot = $1 AND s.born_ms > $2 AND s.seen_ms > $3`
	sqlSession  = sessionColumns + ` AND s.secret = $5`
	sqlSessions = sessionColumns + ` ORDER BY s.id DESC`
)

func scanSession(scan func(...any) error, s *Session) error {
	return scan(&s.ID, &s.Account, &s.Role, &s.Address, &s.Agent, &s.BegunAt, &s.UsedAt, &s.Stale)
}

// ends are the parameters by which a session is over.
func (tx *Tx) ends() []any {
	from, ms := tx.stopwatch()
	return []any{from, ms - SessionLife.Milliseconds(), ms - SessionIdle.Milliseconds()}
}

func (tx *Tx) endsAndStale() []any {
	_, ms := tx.stopwatch()
	return append(tx.ends(), ms-sessionSeen.Milliseconds())
}

// Session finds the session that a key opens, by the key's SHA-256; false means that there is none, or none any more.
func (tx *Tx) Session(secret [32]byte) (Session, bool, error) {
	return first(tx, sqlSession, append(tx.endsAndStale(), secret[:]), scanSession)
}

// Sessions lists those that have not ended, newest first.
func (tx *Tx) Sessions() ([]Session, error) {
	return collect(tx, sqlSessions, tx.endsAndStale(), scanSession)
}

const (
	sqlForgetSessions = `DELETE FROM sessions WHERE boot <> $1 OR born_ms <= $2 OR seen_ms <= $3`
	sqlOldestSessions = `DELETE FROM sessions WHERE account = $1 AND id NOT IN (SELECT id FROM sessions WHERE account = $1 ORDER BY id DESC LIMIT $2)`
	// $8 is the password that was found to be right: it may have changed since.
	sqlBeginSession = `INSERT INTO sessions (secret, account, address, agent, begun_at, used_at, boot, born_ms, seen_ms)
	SELECT $1, name, $3, $4, $5, $5, $6, $7, $7 FROM accounts WHERE name = $2 AND password = $8`
)

// NewSession is a login.
type NewSession struct {
	Secret   [32]byte // the SHA-256 of what the browser holds
	Account  string
	Password string // as the account had it when it was found to be right
	Address  string
	Agent    string
	Who      string
}

// BeginSession notes a login. False means that the account has another password by now, or is gone.
func (tx *Tx) BeginSession(s NewSession) (bool, error) {
	if _, err := tx.exec(sqlForgetSessions, tx.ends()...); err != nil {
		return false, err
	}
	from, ms := tx.stopwatch()
	n, err := tx.exec(sqlBeginSession, s.Secret[:], s.Account, s.Address, s.Agent, tx.now, from, ms, s.Password)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err := tx.exec(sqlOldestSessions, s.Account, mostSessions); err != nil {
		return false, err
	}
	return true, tx.Log(s.Who, "login", "account "+s.Account, s.Agent)
}

const sqlUseSession = `UPDATE sessions SET used_at = $2, seen_ms = $3 WHERE id = $1`

// UseSession notes that a session is in use. On a disk that is nearly full it does nothing.
func (tx *Tx) UseSession(id int64) error {
	if tx.tight {
		return nil
	}
	_, ms := tx.stopwatch()
	_, err := tx.exec(sqlUseSession, id, tx.now, ms)
	return err
}

const sqlEndSession = `DELETE FROM sessions WHERE id = $1 AND ($2 = '' OR account = $2) RETURNING account`

// EndSession ends a session, if it is that of the account or account is "". how is "logout" or "session ended". False
// means that there is none.
func (tx *Tx) EndSession(id int64, account, who, how string) (bool, error) {
	of, found, err := first(tx, sqlEndSession, []any{id, account}, func(scan func(...any) error, of *string) error { return scan(of) })
	if err != nil || !found {
		return false, err
	}
	tx.wrote = true
	return true, tx.Log(who, how, "account "+of, "")
}
