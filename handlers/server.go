package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/store"
)

// ErrPaused is what Options.RunRelay returns while the relay is paused: 409 for the client.
var ErrPaused = errors.New("the relay is paused")

// Options are what the server is built from. DB is needed, the rest may be zero.
type Options struct {
	DB *store.DB
	// Credit answers check-credit; nil asks the local book.
	Credit CreditSource
	// RunRelay makes one claim, carries it out and settles it; nil answers 404.
	RunRelay func(context.Context) (RelayRun, error)
	// Watch says why the server is not ready, and what else is worth a look, as far as that is known without
	// asking the file; nil knows nothing.
	Watch func() (reasons, warnings []string)
	// TargetNames are the targets there are, by which /api/targets lists, pauses and resumes them.
	TargetNames []string
	// LedgerTypes is what the ledger calls the effect of each ticket type.
	LedgerTypes map[string]string
	// Graph is answered by /api/graph as JSON; nil answers 404.
	Graph any
	// Console answers / and the pages below it; nil answers 404 there.
	Console Pages
	// Metrics answers /metrics; nil answers 404.
	Metrics http.Handler
	// Observe is told of each request once it is answered. It must be quick; nil tells nobody.
	Observe func(Seen)
	// RequireLogin asks for a login or a token at this machine too.
	RequireLogin bool
	// Hosts are the names and addresses under which the server is asked for, beside those of this machine and the
	// address that a connection comes in by. Certified says of others whether its certificate is for them; nil says no.
	Hosts     []string
	Certified func(name string) bool
	// Senders are who may send orders. Without one that has no name, /webhooks/orders takes them from anybody.
	Senders []Sender
	// SignatureWindow is how old a signature may be, and how far ahead; 0 leaves its time out.
	SignatureWindow time.Duration
	// SenderRate is how many requests a second each sender may make; 0 is without limit. SenderConcurrency is how
	// many at the same time; 0 means DefaultSenderConcurrency.
	SenderRate        float64
	SenderConcurrency int
	// ClockDoubt says why the wall clock is not to be trusted, as store.ClockDoubt does; nil trusts it.
	ClockDoubt func(context.Context) string
	// Crash is called at the crash points "triage.before_commit" and "triage.after_commit".
	Crash func(point string)
	Log   *slog.Logger     // nil discards
	Now   func() time.Time // nil means time.Now; measures requests and paces the kept bodies
}

// Pages are what a browser is shown. ready says why orders can't be taken or carried out now, and what else is worth
// a look.
type Pages interface {
	Routes(gate *door.Gate, ready func() (reasons, warnings []string)) []door.Route
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Seen) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SenderConcurrency == 0 {
		o.SenderConcurrency = DefaultSenderConcurrency
	}
	if o.ClockDoubt == nil {
		o.ClockDoubt = func(context.Context) string { return "" }
	}
	if !slices.ContainsFunc(o.Senders, func(s Sender) bool { return s.Name == "" }) {
		o.Senders = append([]Sender{{}}, o.Senders...)
	}
	return o
}

// RelayRun is what one run of the relay did, in tickets.
type RelayRun struct {
	Claimed int `json:"claimed"`
	Done    int `json:"done"`
	Retried int `json:"retried"`
	Dead    int `json:"dead"`
	Review  int `json:"review"`
	Offline int `json:"offline"`
}

// TargetState tells where an effect goes ("lab", "real") and how it fares ("up", "paused", "offline", "held").
type TargetState struct {
	Mode  string `json:"mode"`
	State string `json:"state"`
}

// The server's limits. ReadTimeout bounds the handlers too: when it runs out the request's context
// ends, so it is longer than a slow credit check and a busy file together.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 90 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxInFlight       = 1024
)

// Server answers comanda's HTTP requests. It is an http.Handler.
type Server struct {
	opt       Options
	director  Director
	refused   *keeper
	copies    *copies
	gate      *door.Gate
	hosts     hosts
	echo      *echo.Echo
	webhooks  *echo.Echo // the senders' addresses alone
	intakes   []*intake
	inFlight  atomic.Int64
	looks     looks
	bodyBytes atomic.Int64 // of requests under way, see bounded
	space     func(dir string) (store.Space, error)
}

// New builds a server. Close it after its last request and before opt.DB.
func New(opt Options) *Server {
	opt = opt.withDefaults()
	s := &Server{
		opt:      opt,
		director: Director{DB: opt.DB, Credit: opt.Credit, Crash: opt.Crash},
		refused:  newKeeper(opt.DB, opt.Log, opt.Now),
		copies:   &copies{db: opt.DB, log: opt.Log},
		gate:     door.New(door.Options{DB: opt.DB, Log: opt.Log, RequireLogin: opt.RequireLogin}),
		hosts:    newHosts(opt),
		intakes:  newIntakes(opt),
		looks:    looks{wait: lookWait},
		space:    store.SpaceUnder,
	}
	s.echo, s.webhooks = s.newEcho(s.knownHost), s.newEcho(s.noBrowser)
	s.mount()
	return s
}

func (s *Server) newEcho(meant echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = s.echoError
	e.Pre(s.observe, s.guard, s.limit, meant, s.boundBodies)
	return e
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// HTTPServer returns an http.Server around s with every limit set. The caller listens, serves and
// shuts it down.
func (s *Server) HTTPServer() *http.Server { return s.httpServer(s) }

// WebhookServer is HTTPServer for the senders' addresses alone: everything else is 404, the health of the
// appliance and the console too. A tunnel or a proxy that ends at it brings nothing else along.
func (s *Server) WebhookServer() *http.Server { return s.httpServer(s.webhooks) }

func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelWarn),
	}
}

// Close waits until the refused bodies that were taken are kept. It does not close the DB.
func (s *Server) Close() error {
	s.refused.close()
	s.copies.close()
	s.gate.Close()
	return nil
}

// echoError takes the place of echo's own handler, which tells wrapped errors and Go's names.
func (s *Server) echoError(err error, c echo.Context) {
	_ = writeProblem(c, problemOf(err)) // fails only when the client is gone
}
