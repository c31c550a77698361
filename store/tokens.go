package store

// Token is the key of a program.
type Token struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	CreatedAt int64  `json:"created_at"`
	UsedAt    *int64 `json:"used_at"` // nil for never; to the minute
	Stale     bool   `json:"-"`       // its last use was so long ago that a use now is worth writing down
}

const tokenColumns = `name, role, created_at, used_at, coalesce(abs($1 - used_at) >= $2, TRUE)`

func scanToken(scan func(...any) error, t *Token) error {
	return scan(&t.Name, &t.Role, &t.CreatedAt, &t.UsedAt, &t.Stale)
}

const sqlToken = `SELECT ` + tokenColumns + ` FROM tokens WHERE secret = $3`

// Token finds a token by its SHA-256; false means that there is none.
func (tx *Tx) Token(secret [32]byte) (Token, bool, error) {
	return first(tx, sqlToken, []any{tx.now, sessionSeen.Milliseconds(), secret[:]}, scanToken)
}

const sqlTokens = `SELECT ` + tokenColumns + ` FROM tokens ORDER BY name`

// Tokens lists all tokens by name.
func (tx *Tx) Tokens() ([]Token, error) {
	return collect(tx, sqlTokens, []any{tx.now, sessionSeen.Milliseconds()}, scanToken)
}

const sqlAddToken = `INSERT INTO tokens (name, role, secret, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING`

// AddToken keeps a token by its SHA-256. False means that the name is taken.
func (tx *Tx) AddToken(name, role string, secret [32]byte, who string) (bool, error) {
	n, err := tx.exec(sqlAddToken, name, role, secret[:], tx.now)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Log(who, "token added", "token "+name, "role "+role)
}

const sqlRevokeToken = `DELETE FROM tokens WHERE name = $1`

// RevokeToken takes a token away. False means that there is none of that name.
func (tx *Tx) RevokeToken(name, who string) (bool, error) {
	n, err := tx.exec(sqlRevokeToken, name)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Log(who, "token revoked", "token "+name, "")
}

const sqlUseToken = `UPDATE tokens SET used_at = $2 WHERE name = $1`

// UseToken notes that a token is in use. On a disk that is nearly full it does nothing.
func (tx *Tx) UseToken(name string) error {
	if tx.tight {
		return nil
	}
	_, err := tx.exec(sqlUseToken, name, tx.now)
	return err
}
