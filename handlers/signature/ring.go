package signature

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"comanda/handlers/secret"
)

// The bounds of what stands in a file. Each secret costs every request one hash of its body. The specification wants
// 24 to 64 bytes; a longer one does no harm.
const (
	mostSecrets = 8
	leastSecret = 24
)

// Ring holds the secrets of one sender, as its file has them.
type Ring struct {
	file    *secret.File
	secrets atomic.Pointer[[][]byte]
}

// Open reads a file of secrets: one a line, "whsec_" and base64; empty lines and those that begin with # are passed
// over. flag names the setting in what is said. The error says what to do and holds no secret.
func Open(flag, path string) (r *Ring, err error) {
	r = &Ring{}
	r.file, err = secret.Open(flag, path, r.take)
	return r, err
}

func (r *Ring) take(text []byte) error {
	secrets, err := parse(text)
	if err == nil {
		r.secrets.Store(&secrets)
	}
	return err
}

// Trouble says that what the file holds now is not in force, and why; "" when it is.
func (r *Ring) Trouble() string { return r.file.Trouble() }

// Watch reads the file again each second until ctx ends, so that secrets are rotated without a restart. What can't
// be read, or holds no good secrets, changes nothing and is said once.
func (r *Ring) Watch(ctx context.Context, log *slog.Logger) { r.file.Watch(ctx, log) }

func parse(text []byte) ([][]byte, error) {
	var secrets [][]byte
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "whsec_"))
		switch {
		case err != nil: // which holds nothing of the line, but would not help
			return nil, fmt.Errorf("line %d is no secret: write whsec_ and the base64 of at least %d random bytes, such as `openssl rand -base64 32` makes", number, leastSecret)
		case len(secret) < leastSecret:
			return nil, fmt.Errorf("the secret in line %d has %d bytes and can be guessed: take at least %d, such as `openssl rand -base64 32` makes", number, len(secret), leastSecret)
		}
		secrets = append(secrets, secret)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("there is no secret in it: put one a line, whsec_ and base64")
	case len(secrets) > mostSecrets:
		return nil, fmt.Errorf("there are %d secrets in it, and each costs every order its time: keep at most %d", len(secrets), mostSecrets)
	}
	return secrets, nil
}
