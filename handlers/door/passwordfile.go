package door

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"comanda/handlers/secret"
	"comanda/store"
)

// Admin is the account that is meant where none is named, and whose password may stand in a file.
const Admin = "admin"

// PasswordFile holds the password of the account Admin. Its text is given to that account when it is put to use and
// whenever it changes.
type PasswordFile struct {
	file     *secret.File
	flag     string
	password string
	db       *store.DB // nil until it is put to use
}

// PasswordIn is the password in a file's text: without its line end, and without the mark that some editors begin it with.
func PasswordIn(text []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(string(text), "\ufeff"), "\n"), "\r")
}

// OpenPasswordFile reads and checks the file; flag names the setting in what is said.
func OpenPasswordFile(flag, path string) (p *PasswordFile, err error) {
	p = &PasswordFile{flag: flag}
	p.file, err = secret.Open(flag, path, p.take)
	return p, err
}

func (p *PasswordFile) take(text []byte) error {
	password := PasswordIn(text)
	if fault := CheckPassword(password); fault != "" {
		return errors.New("the password in it " + fault)
	}
	p.password = password
	if p.db == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.set(ctx)
}

// Use gives the account the file's password.
func (p *PasswordFile) Use(ctx context.Context, db *store.DB) error {
	p.db = db
	if err := p.set(ctx); err != nil {
		return fmt.Errorf("set the password of %s: %w", p.flag, err)
	}
	return nil
}

// Trouble says that what the file holds now is not in force, and why; "" when it is.
func (p *PasswordFile) Trouble() string { return p.file.Trouble() }

// Watch does so whenever the file changes, until ctx ends.
func (p *PasswordFile) Watch(ctx context.Context, log *slog.Logger) { p.file.Watch(ctx, log) }

// set leaves an account alone that has this password already: its sessions go on.
func (p *PasswordFile) set(ctx context.Context) error {
	var account store.Account
	err := p.db.View(ctx, func(tx *store.Tx) (err error) {
		account, _, err = tx.Account(Admin)
		return err
	})
	if err != nil {
		return err
	}
	if same, err := verifyPassword(account.Password, p.password); err == nil && same && account.Role == store.RoleOperate {
		return nil
	}
	kept := HashPassword(p.password)
	return p.db.Update(ctx, func(tx *store.Tx) error { return tx.SetAccount(Admin, store.RoleOperate, kept, p.flag) })
}
