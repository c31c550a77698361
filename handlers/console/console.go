package console

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"comanda/handlers/door"
	"comanda/handlers/graph"
	"comanda/store"
)

// Options are what the console is built from. DB is needed, the rest may be zero.
type Options struct {
	DB          *store.DB
	Graph       graph.Graph
	TargetNames []string          // in the order in which they are shown
	LedgerTypes map[string]string // what the ledger calls the effect of each ticket type
	Settings    []Setting         // as this process was started
	Version     string            // one line
	// Zone is the shop's, in which times are shown; nil is the machine's.
	Zone *time.Location
	// Sample sends a sample order and returns its id; nil has no such button.
	Sample func(context.Context) (orderID string, err error)
	Log    *slog.Logger // nil discards
}

// Setting is one setting of the process as it is shown: a secret only by being there.
type Setting struct {
	Name   string // "--batch"
	Value  string
	Origin string // "default", "--batch" or "COMANDA_BATCH"
}

// Console is the operator's page. Close it before its DB.
type Console struct {
	opt    Options
	gate   *door.Gate
	ready  func() (reasons, warnings []string)
	shown  func() map[string]*language // by code, "en" and "es"
	hub    *hub
	truth  truth
	static map[string]asset
	closed context.Context
	close  context.CancelFunc
	under  sync.WaitGroup // what goes on in the background
}

// New builds the console. It panics if its own templates or words can't be read.
func New(opt Options) *Console {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Zone == nil {
		opt.Zone = time.Local
	}
	c := &Console{opt: opt, static: readStatic(), ready: func() (_, _ []string) { return nil, nil }}
	c.closed, c.close = context.WithCancel(context.Background())
	c.hub = newHub(opt.DB, c.closed)
	c.shown = sync.OnceValue(func() map[string]*language { return readLanguages(opt.Zone, c.static) })
	return c
}

// Close ends the streams and what goes on in the background.
func (c *Console) Close() error {
	c.close()
	c.hub.close()
	c.under.Wait()
	return nil
}

// EndStreams ends the streams alone, so that a server that is shutting down does not wait for them.
func (c *Console) EndStreams() { c.hub.end() }

// Routes are the console's pages, at / and below, with the way in. ready says why orders can't be taken or carried out
// now, and what else is worth a look; nil knows nothing.
func (c *Console) Routes(gate *door.Gate, ready func() (reasons, warnings []string)) (all []door.Route) {
	c.gate = gate
	if ready != nil {
		c.ready = ready
	}
	put := func(method, path string, d door.Door, page func(*visit) error) {
		all = append(all, door.Route{Method: method, Path: path, Door: d, Handler: c.page(page), Refused: c.turnAway})
	}
	get := func(path string, page func(*visit) error) { put(http.MethodGet, path, door.View, page) }
	post := func(path string, act func(*visit) error) { put(http.MethodPost, path, door.Operate, act) }

	get("/", c.counter)
	get("/rail", c.rail)
	get("/tickets/:id", c.ticket)
	get("/orders", c.orders)
	get("/orders/:id", c.order)
	get("/orders/:id/receipt", c.receipt)
	get("/attention", c.attention)
	get("/graph", c.graph)
	get("/truth", c.truthPage)
	get("/relay", c.relay)
	get("/search", c.search)
	put(http.MethodGet, "/language", door.Open, c.chooseLanguage)

	post("/rail/confirm", c.confirm)
	post("/rail/act", c.act)
	post("/truth", c.askTruth)
	post("/relay", c.setRelay)
	post("/targets/:id", c.setTarget)
	post("/sample", c.sendSample)

	put(http.MethodGet, "/login", door.Open, c.loginPage)
	put(http.MethodPost, "/login", door.Open, c.login)
	put(http.MethodPost, "/logout", door.View, c.logout)
	get("/sessions", c.sessions)
	put(http.MethodPost, "/sessions", door.View, c.endSession) // one's own; another's is for who may operate

	get("/events", c.events)
	put(http.MethodGet, "/static/:id", door.Open, c.file)
	return all
}
