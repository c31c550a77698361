package cli

import (
	"errors"
	"time"

	"github.com/alecthomas/kong"
)

// grammar is every command and flag that there is. Flags get their environment twins by name
// (--no-relay is COMANDA_NO_RELAY); env:"-" is a flag without one.
type grammar struct {
	serveGrammar

	Relay   relayCmd   `cmd:"" help:"Carry tickets out without a server: a second pair of hands on the same file."`
	Demo    demoCmd    `cmd:"" help:"Run a throw-away appliance with sample customers and orders on a temporary file and a free port."`
	Prove   proveCmd   `cmd:"" help:"Prove the promises against real processes and real kills on temporary files."`
	Drill   drillCmd   `cmd:"" help:"Try on a private copy of the file, on the same disk, what a shop must survive: kills, power cuts, slow syncs."`
	Graph   graphCmd   `cmd:"" help:"Print the dependency graph, from the program's own wiring."`
	Health  healthCmd  `cmd:"" help:"Ask the running server whether it is ready: for scripts, containers and service managers."`
	Watch   watchCmd   `cmd:"" help:"Follow the file: one line for each thing that happens, from now on."`
	Doctor  doctorCmd  `cmd:"" help:"Check the file, the disk, the clock, the leases and the invariants, each with its SQL."`
	Credit  creditCmd  `cmd:"" help:"The local credit book: one limit for each customer and currency."`
	Order   orderCmd   `cmd:"" help:"Orders."`
	Receipt receiptCmd `cmd:"" help:"Print the proof receipt of an order: plain lines from its event to its effects, for sha256sum."`
	Events  eventsCmd  `cmd:"" help:"Events."`
	Tickets ticketsCmd `cmd:"" help:"Tickets."`
	Targets targetsCmd `cmd:"" help:"Where effects go."`
	Passwd  passwdCmd  `cmd:"" help:"Give an account a password and a role, for the console and the API from other machines."`
	Token   tokenCmd   `cmd:"" help:"Tokens, by which programs on other machines are let in."`
	World   worldCmd   `cmd:"" help:"Run the lab's outside world: a payment gateway and a warehouse over HTTP, with faults on demand."`
	SQL     sqlCmd     `cmd:"" name:"sql" help:"Run one query that reads on the live file."`

	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Man        manCmd        `cmd:"" help:"Print the manual page in roff."`

	Version versionCmd `cmd:"" help:"Print the versions of comanda, its commit, Go and SQLite."`
}

// serveGrammar is the part for a server, whose start would otherwise wait for all the rest to be looked through.
type serveGrammar struct {
	Help helpFlag `short:"h" env:"-" help:"Show this help, or a command's after its name."`

	Serve serveCmd `cmd:"" default:"withargs" help:"Take orders over HTTP and carry their tickets out: server and relay in one process. This is what comanda alone does."`
}

// grammarFor is what there is to know for a command line.
func grammarFor(args []string) any {
	if len(args) == 0 || args[0] == "serve" {
		return &serveGrammar{}
	}
	return &grammar{}
}

// helpFlag stops the parsing where it stands and has the help of the command so far printed.
type helpFlag bool

var errHelp = errors.New("help wanted")

// BeforeReset is called by kong when the flag was given.
func (helpFlag) BeforeReset() error { return errHelp }

type fileFlag struct {
	DB string `name:"db" default:"comanda.db" placeholder:"FILE" help:"The file."`
}

type jsonFlag struct {
	JSON bool `name:"json" help:"Print one JSON document."`
}

// langFlag has a twin in every command, also in those that read no other variable: it changes no more than words.
type langFlag struct {
	Lang string `enum:"en,es" default:"en" placeholder:"LANG" help:"The language of what is printed for a person: en or es."`
}

type logFlags struct {
	LogFormat string `enum:"text,json" default:"text" placeholder:"FORMAT" help:"How to log: text or json."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"What to log: debug, info, warn or error."`
}

func (f logFlags) config() LogConfig { return LogConfig{Format: f.LogFormat, Level: f.LogLevel} }

type relayFlags struct {
	Schedule string        `default:"@every 10s" placeholder:"SPEC" help:"How often the relay looks at the least: a cron spec or @every DURATION."`
	Batch    int           `default:"100" placeholder:"N" help:"Tickets in one claim, 1 to 10000."`
	Lease    time.Duration `default:"2m" placeholder:"DURATION" help:"How long a claim lasts, 100ms to 24h."`
	Workers  int           `default:"4" placeholder:"N" help:"Local effects carried out at the same time, 1 to 256."`
	remoteFlags
}

type serveCmd struct {
	fileFlag
	Addr string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where to listen."`
	wireFlags
	relayFlags
	Credit  creditFlags  `embed:"" prefix:"credit-" group:"Credit"`
	Webhook webhookFlags `embed:"" prefix:"webhook-" group:"Webhooks"`
	sourceFlag
	NoRelay           bool   `help:"Take orders only; another process carries them out."`
	Zone              string `placeholder:"ZONE" help:"The shop's time zone in the console, such as America/Mexico_City; the machine's if not given."`
	AdminPasswordFile string `group:"Operators" placeholder:"FILE" help:"The password of the account admin, which may act: given to it at the start and whenever the file changes. Without it accounts are made by comanda passwd."`
	RequireLogin      bool   `group:"Operators" help:"Ask for a login or a token at this machine too: for a forwarder here that says nothing of itself."`
	Insecure          bool   `group:"Operators" help:"Listen on other than the loopback address though nobody has a password: orders are taken there, and nobody is let in."`
	logFlags
}

type relayCmd struct {
	fileFlag
	relayFlags
	logFlags
}

// demoCmd, proveCmd and drillCmd have no twins but that of the language: what they start must not meet the settings of
// a real shop.
type demoCmd struct {
	LogFormat string `env:"-" enum:"text,json" default:"text" placeholder:"FORMAT" help:"How to log: text or json."`
	LogLevel  string `env:"-" enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"What to log: debug, info, warn or error."`
	langFlag
}

type proveCmd struct {
	Names []string `arg:"" optional:"" name:"proof" help:"A, B, C, D, relays, world, kills, power or disk; the first five when none is named."`
	All   bool     `env:"-" help:"Run every proof there is."`
	JSON  bool     `name:"json" env:"-" help:"Print one JSON document."`
	Dir   string   `env:"-" placeholder:"DIR" help:"Where the temporary files go; the system's place if not given."`
	Keep  string   `env:"-" placeholder:"DIR" help:"Keep the closed files of the proofs in this directory."`
	langFlag
}

type drillCmd struct {
	DB   string        `name:"db" env:"-" default:"comanda.db" placeholder:"FILE" help:"The file to copy; it is read once and not touched."`
	Time time.Duration `env:"-" default:"1m" placeholder:"DURATION" help:"How long to kill and to cut the power, 2s to 24h."`
	Dir  string        `env:"-" placeholder:"DIR" help:"Where the copy lies meanwhile; beside the file if not given."`
	JSON bool          `name:"json" env:"-" help:"Print one JSON document."`
}

type graphCmd struct {
	Format string `enum:"text,mermaid,svg,json" default:"text" placeholder:"FORMAT" help:"text, mermaid, svg or json."`
	langFlag
}

type doctorCmd struct {
	fileFlag
	tlsFlags
	jsonFlag
}

// The address is that of serve, and so is its twin: in a container both read the same settings.
type healthCmd struct {
	Addr string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the server listens."`
	URL  string        `name:"url" placeholder:"URL" help:"The server's base address instead of --addr, such as https://shop.example:8443."`
	CA   string        `name:"ca" placeholder:"FILE" help:"Trust the certificates in this PEM file instead of the system's."`
	Cert string        `name:"tls-cert" placeholder:"FILE" help:"The server's certificate: --addr is asked over TLS, and believed if it has this very one."`
	Wait time.Duration `default:"0s" placeholder:"DURATION" help:"Ask again and again for so long until it is ready, 0 to 1h."`
	jsonFlag
}

type watchCmd struct {
	fileFlag
	Since *int64 `placeholder:"SEQ" help:"Begin after this place in the sequence instead of now, 0 for all that the file remembers."`
	JSON  bool   `name:"json" help:"Print one JSON object a line."`
}

type creditCmd struct {
	Set  creditSetCmd  `cmd:"" help:"Set a customer's limit in a currency."`
	Get  creditGetCmd  `cmd:"" help:"Show a customer's limits, or the one in a currency."`
	List creditListCmd `cmd:"" help:"List all limits."`
}

type creditSetCmd struct {
	Customer string `arg:"" help:"The customer's id."`
	Amount   string `arg:"" help:"The limit, such as 5000.00."`
	Currency string `arg:"" help:"ISO 4217 code, such as MXN."`
	fileFlag
	jsonFlag
}

type creditGetCmd struct {
	Customer string `arg:"" help:"The customer's id."`
	Currency string `arg:"" optional:"" help:"ISO 4217 code, such as MXN."`
	fileFlag
	jsonFlag
}

type creditListCmd struct {
	fileFlag
	jsonFlag
}

type orderCmd struct {
	Show orderShowCmd `cmd:"" help:"Tell the story of an order, from its event to its effects."`
}

type orderShowCmd struct {
	Order string `arg:"" name:"order-id" help:"The order's id."`
	fileFlag
	jsonFlag
}

type receiptCmd struct {
	Order string `arg:"" name:"order-id" help:"The order's id."`
	fileFlag
	jsonFlag
}

type eventsCmd struct {
	Show eventShowCmd `cmd:"" help:"Show an event, its body as it came, and the decision of its order."`
}

type eventShowCmd struct {
	Event string `arg:"" name:"event-id" help:"The event's id."`
	fileFlag
	jsonFlag
}

type ticketsCmd struct {
	List ticketListCmd `cmd:"" help:"List tickets, newest first."`
	Show ticketShowCmd `cmd:"" help:"Show a ticket and its attempts."`

	Retry   ticketRetryCmd   `cmd:"" help:"Carry out again what is dead, or now what waits; what is in review only with --confirm."`
	Discard ticketDiscardCmd `cmd:"" help:"Give up on tickets that were not carried out."`
	Resolve ticketResolveCmd `cmd:"" help:"Say what came of tickets of which nobody knows whether they happened."`
}

type ticketListCmd struct {
	Status     string `placeholder:"STATUS" help:"Only pending, processing, done, dead, review or discarded ones."`
	EffectType string `placeholder:"TYPE" help:"Only those of an effect type, such as issue_refund."`
	Order      string `placeholder:"ORDER_ID" help:"Only those of an order."`
	Limit      int    `default:"100" placeholder:"N" help:"At most so many, 1 to 1000000."`
	fileFlag
	jsonFlag
}

type ticketShowCmd struct {
	ID int64 `arg:"" name:"id" help:"The ticket's number."`
	fileFlag
	jsonFlag
}

type sqlCmd struct {
	Query string `arg:"" help:"The query, such as 'SELECT * FROM outbox_v'."`
	fileFlag
	jsonFlag
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

type manCmd struct{}

type versionCmd struct {
	jsonFlag
}

// parser builds the parser for a grammar. The twins are taken away from kong, which would read the
// process's own environment, and looked up in environ instead.
func parser(g any, environ []string) (*kong.Kong, *environment, error) {
	env := newEnvironment(environ)
	k, err := kong.New(g, kong.Name("comanda"), kong.NoDefaultHelp(), kong.DefaultEnvars("COMANDA"),
		kong.Exit(func(int) {}), kong.Resolvers(kong.ResolverFunc(env.resolve)))
	if err != nil {
		return nil, nil, err
	}
	eachNode(k.Model.Node, func(n *kong.Node) {
		for _, f := range n.Flags {
			f.Tag.Envs = nil // Flag.Envs stays, for the help and for env.resolve
		}
	})
	return k, env, nil
}

func eachNode(n *kong.Node, do func(*kong.Node)) {
	do(n)
	for _, child := range n.Children {
		eachNode(child, do)
	}
}
