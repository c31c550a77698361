package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

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

func hasAccounts(ctx context.Context, path string) (has bool, err error) {
	db, err := sql.Open(driverName, probeDSN(path, false))
	if err != nil {
		return false, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'accounts')`).Scan(&has)
	if err != nil || !has {
		return false, err
	}
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM accounts)`).Scan(&has)
	return has, err
}
