package world

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite
)

// Options are the settings of a World. DB is required.
type Options struct {
	DB     string           // its own file, made if it is missing
	KeyTTL time.Duration    // how long a key is honoured; 0 honours none
	Faults []string         // TARGET:FAULT[:N]
	Log    io.Writer        // one line a request; nil discards
	Now    func() time.Time // nil means time.Now
}

// World is a gateway and a warehouse.
type World struct {
	opt     Options
	db      *sql.DB // one connection: one thing at a time
	plan    *plan
	closing chan struct{}
	once    sync.Once

	mu     sync.Mutex
	flying map[string]bool // keys of requests that are under way
	log    sync.Mutex
}

// applicationID marks the world's own file. It spells "WRLD".
const applicationID = 0x57524C44

// checkMark refuses a file that is somebody else's: one that holds anything and does not bear our mark.
func checkMark(ctx context.Context, db *sql.DB, path string) error {
	var id, things int
	err := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`).Scan(&id, &things)
	switch {
	case err != nil:
		return fmt.Errorf("%s is not a file of the world's: %w", path, err)
	case id != applicationID && (id != 0 || things > 0):
		return fmt.Errorf("%s is a file of another program, and was not touched: give --db another path", path)
	}
	return nil
}

const tables = `
PRAGMA application_id = 1465011268;
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS external_effects_log (
  id INTEGER PRIMARY KEY AUTOINCREMENT, effect_key TEXT NOT NULL, effect_type TEXT NOT NULL, order_id TEXT NOT NULL,
  occurred_at INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS effects_by_key ON external_effects_log (effect_key);
CREATE TABLE IF NOT EXISTS keys (
  key TEXT NOT NULL PRIMARY KEY, body_hash TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL, made_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL,
  body_hash TEXT NOT NULL, fault TEXT NOT NULL, performed INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS credit (customer TEXT NOT NULL PRIMARY KEY, most TEXT NOT NULL) STRICT;`

// Open opens or makes the world's file.
func Open(ctx context.Context, o Options) (*World, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &World{opt: o, plan: &plan{}, closing: make(chan struct{}), flying: map[string]bool{}}
	if err := w.plan.set(o.Faults); err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: o.DB}).EscapedPath(),
		RawQuery: "_synchronous=FULL&_busy_timeout=5000&_txlock=immediate"}
	if err := makePrivate(o.DB); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the world's file: %w", err)
	}
	db.SetMaxOpenConns(1)
	if err := checkMark(ctx, db, o.DB); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, errors.Join(fmt.Errorf("make the world's tables in %s: %w", o.DB, err), db.Close())
	}
	w.db = db
	return w, nil
}

// makePrivate makes a file that nobody but its owner can read, unless there is one; SQLite makes it a
// database and gives what it keeps beside it the same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the world's file: %w", err)
	}
	return f.Close()
}

// Close ends what hangs and closes the file. It must come after the server has stopped taking requests.
func (w *World) Close() error {
	w.Release()
	return w.db.Close()
}

// Release ends every request that hangs on purpose, so that a server can shut down.
func (w *World) Release() { w.once.Do(func() { close(w.closing) }) }

// Expired has a listener speak TLS with a certificate that expired yesterday, and tells its base address.
func Expired(l net.Listener) (net.Listener, string, error) {
	conf, err := expiredTLS()
	if err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	return tls.NewListener(l, conf), "https://" + l.Addr().String(), nil
}

// HTTPServer returns a server around the world. The caller shuts it down, after Release.
func (w *World) HTTPServer(log *slog.Logger) *http.Server {
	return &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
}

// expiredTLS is a TLS setting with a certificate that expired yesterday.
func expiredTLS() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-72 * time.Hour), NotAfter: now.Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, nil
}
