package signature

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of a file of secrets. Each secret costs every request one hash of its body. The specification wants
// 24 to 64 bytes; a longer one does no harm.
const (
	mostSecrets = 8
	leastSecret = 24
	mostBytes   = 16 << 10
)

// every is how often the file is read again.
const every = time.Second

// Ring holds the secrets of one sender, as its file has them.
type Ring struct {
	path    string
	flag    string
	secrets atomic.Pointer[[][]byte]
	text    []byte // of the file, when it was last read well
	told    string // why it could not be read again, so that it is said once
}

// Open reads a file of secrets: one a line, "whsec_" and base64; empty lines and those that begin with # are passed
// over. flag names the setting in what is said. The error says what to do and holds no secret.
func Open(flag, path string) (*Ring, error) {
	r := &Ring{flag: flag, path: path}
	text, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	secrets, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s names %s: %w", flag, path, err)
	}
	r.text = text
	r.secrets.Store(&secrets)
	return r, nil
}

// read takes plain files only: a pipe could be read but once, and might hold up whoever waits for it. What is too
// large is not even opened: it might be a database.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unread(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file: put the secrets into one, so that it can be read again when it changes", path)
	}
	if info.Size() > mostBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes, and no file of secrets is", path, mostBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unread(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return nil, unread(err)
	}
	return text, nil
}

// unread does not repeat the file's name: it may be the secret itself, given in place of its file.
func unread(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		err = named.Err
	}
	return fmt.Errorf("the file of secrets can't be read: %w", err)
}

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

// Watch reads the file again each second until ctx ends, so that secrets are rotated without a restart. What can't
// be read, or holds no good secrets, changes nothing and is said once.
func (r *Ring) Watch(ctx context.Context, log *slog.Logger) {
	r.warnIfOpen(log)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.reread(log)
		}
	}
}

func (r *Ring) reread(log *slog.Logger) {
	text, err := read(r.path)
	if err == nil && bytes.Equal(text, r.text) {
		if r.told != "" {
			log.Info("the file of secrets can be read again and is as before", "setting", r.flag)
			r.told = ""
		}
		return
	}
	var secrets [][]byte
	if err == nil {
		secrets, err = parse(text)
	}
	if err != nil {
		if r.told != err.Error() {
			r.told = err.Error()
			log.Warn("the secrets were not read again; those of before stay in force", "setting", r.flag, "error", err)
		}
		return
	}
	r.text, r.told = text, ""
	r.secrets.Store(&secrets)
	log.Info("the secrets have changed and are in force", "setting", r.flag, "secrets", len(secrets))
	r.warnIfOpen(log)
}

// warnIfOpen does not refuse: what mounts secrets into a container often makes them readable.
func (r *Ring) warnIfOpen(log *slog.Logger) {
	if info, err := os.Stat(r.path); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may read the secrets: chmod 600 the file", "setting", r.flag, "file", r.path, "mode", info.Mode().Perm().String())
	}
}
