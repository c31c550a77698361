package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"comanda/handlers/graph"
)

// Program is what main hands in: the streams, the environment, and what the commands call.
type Program struct {
	Stdin          io.Reader // where a password is read from; nil has none
	Stdout, Stderr io.Writer
	Environ        []string // KEY=value, looked up by the flags' twins; an empty value is no value
	Terminal       bool     // Stdout is a terminal: values are shown with bidi marks made visible
	Version        Version
	Graph          graph.Graph
	TargetNames    []string          // in the order in which they are listed
	LedgerTypes    map[string]string // what the ledger calls the effect of each ticket type

	Serve func(context.Context, ServeConfig) error
	Relay func(context.Context, RelayConfig) error
	Demo  func(context.Context, DemoConfig) error
	Prove func(context.Context, ProveConfig) error
	Drill func(context.Context, DrillConfig) error
	World func(context.Context, WorldConfig) error
}

// Version is what `comanda version` prints.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // or "unknown"
	Go      string `json:"go"`
	SQLite  string `json:"sqlite"`
}

// ServeConfig are the checked settings of `comanda serve`.
type ServeConfig struct {
	DB       string
	Addr     string   // host:port; beyond loopback somebody has a password, or Insecure
	Hosts    []string // names in lower case, and addresses, that the server answers to beside its own
	TLS      TLSConfig
	Schedule string // a cron spec that robfig/cron's ParseStandard takes
	Batch    int    // 1 to 10,000
	Lease    time.Duration
	Workers  int // 1 to 256
	NoRelay  bool
	Insecure bool
	// RequireLogin asks for a login or a token at this machine too.
	RequireLogin bool
	// AdminPasswordFile holds the password of the account admin; "" has none.
	AdminPasswordFile string
	Zone              *time.Location // the shop's, for eyes; nil is the machine's
	Remote            RemoteConfig
	Credit            CreditConfig
	Webhooks          WebhookConfig
	Log               LogConfig
	Settings          []Setting // as they were given, for the console
}

// RelayConfig are the checked settings of `comanda relay`.
type RelayConfig struct {
	DB       string
	Schedule string
	Batch    int
	Lease    time.Duration
	Workers  int
	Remote   RemoteConfig
	Log      LogConfig
}

// LogConfig says how the program logs.
type LogConfig struct {
	Format string // "text" or "json"
	Level  string // "debug", "info", "warn" or "error"
}

// DemoConfig are the settings of `comanda demo`.
type DemoConfig struct {
	Log  LogConfig
	Lang string // "en" or "es"
}

// ProveConfig says which proofs to run.
type ProveConfig struct {
	Names []string // "A", "B", "C", "D", "relays", each once; none means the usual five
	All   bool     // every proof there is
	JSON  bool
	Dir   string // where the temporary files go; "" is the system's place
	Keep  string // where closed files are kept; "" keeps none
	Lang  string // "en" or "es"; JSON is English in both
}

// DrillConfig says what to try out and for how long.
type DrillConfig struct {
	DB   string // absolute
	Time time.Duration
	Dir  string // where the copy lies; "" is beside the file
	JSON bool
}

// Usage marks err as wrong usage or a wrong setting: the exit code is 2. Usage(nil) is nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// UsageError is what Usage makes.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func isUsage(err error) bool {
	var u *UsageError
	return errors.As(err, &u)
}
