package store

// What an account or a token may do: look, or look and act.
const (
	RoleView    = "view"
	RoleOperate = "operate"
)

// Account is a person who may log in.
type Account struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Password  string `json:"-"` // argon2id, as a PHC string
	CreatedAt int64  `json:"created_at"`
	ChangedAt int64  `json:"changed_at"`
}

const accountColumns = `name, role, password, created_at, changed_at`

func scanAccount(scan func(...any) error, a *Account) error {
	return scan(&a.Name, &a.Role, &a.Password, &a.CreatedAt, &a.ChangedAt)
}

const sqlAccount = `SELECT ` + accountColumns + ` FROM accounts WHERE name = $1`

// Account returns an account; false means that there is none of that name.
func (tx *Tx) Account(name string) (Account, bool, error) {
	return first(tx, sqlAccount, []any{name}, scanAccount)
}

const sqlAccounts = `SELECT ` + accountColumns + ` FROM accounts ORDER BY name`

// Accounts lists all accounts by name.
func (tx *Tx) Accounts() ([]Account, error) { return collect(tx, sqlAccounts, nil, scanAccount) }

const (
	sqlSetAccount = `INSERT INTO accounts (name, role, password, created_at, changed_at) VALUES ($1, $2, $3, $4, $4)
	ON CONFLICT (name) DO UPDATE SET role = excluded.role, password = excluded.password, changed_at = excluded.changed_at`
	sqlEndAccountSessions = `DELETE FROM sessions WHERE account = $1`
)

// SetAccount makes an account or gives it another password and role, and ends its sessions.
func (tx *Tx) SetAccount(name, role, password, who string) error {
	if _, err := tx.exec(sqlSetAccount, name, role, password, tx.now); err != nil {
		return err
	}
	if _, err := tx.exec(sqlEndAccountSessions, name); err != nil {
		return err
	}
	return tx.Log(who, "password set", "account "+name, "role "+role)
}

const sqlRemoveAccount = `DELETE FROM accounts WHERE name = $1`

// RemoveAccount takes an account away, and its sessions with it. False means that there was none.
func (tx *Tx) RemoveAccount(name, who string) (bool, error) {
	if _, err := tx.exec(sqlEndAccountSessions, name); err != nil {
		return false, err
	}
	n, err := tx.exec(sqlRemoveAccount, name)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Log(who, "account removed", "account "+name, "")
}
