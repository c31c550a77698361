package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

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

// HasAccounts reports whether the file at path, if there is one, has somebody who may log in. It makes no file and brings
// none up to date. It returns ErrRefused as Open does.
func HasAccounts(ctx context.Context, path string) (bool, error) {
	full, err := resolve(path, false)
	if err != nil {
		return false, err
	}
	if st, err := os.Stat(full); errors.Is(err, os.ErrNotExist) || err == nil && empty(st, full) {
		return false, nil
	}
	if err := probe(ctx, full); err != nil {
		return false, err
	}
	has, err := hasAccounts(ctx, full)
	if err != nil {
		return false, fmt.Errorf("look for accounts in %s: %w", full, translate(err))
	}
	return has, nil
}

const (
	sqlKnowsAccounts = `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'accounts')`
	sqlHasAccounts   = `SELECT EXISTS (SELECT 1 FROM accounts)`
)

func hasAccounts(ctx context.Context, path string) (has bool, err error) {
	db, err := sql.Open(driverName, probeDSN(path, false))
	if err != nil {
		return false, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, sqlKnowsAccounts).Scan(&has)
	if err != nil || !has {
		return false, err
	}
	err = db.QueryRowContext(ctx, sqlHasAccounts).Scan(&has)
	return has, err
}
