// Command comanda takes orders by webhook, decides what follows from them, and carries that out
// exactly once. This file is the only one that knows all the packages: it builds each piece in the
// order in which they depend on each other, and nothing is built anywhere else.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the shop's zone, on a box without the database

	"github.com/mattn/go-isatty"

	"comanda/e2e"
	"comanda/e2e/world"
	"comanda/effects"
	"comanda/effects/egress"
	"comanda/handlers"
	"comanda/handlers/certificate"
	"comanda/handlers/cli"
	"comanda/handlers/console"
	admission "comanda/handlers/door"
	"comanda/handlers/graph"
	"comanda/handlers/metrics"
	"comanda/handlers/signature"
	"comanda/relay"
	"comanda/store"
)

// effectsByTicket is the wiring of the execution half: which effect carries out which tickets.
func effectsByTicket() map[string]relay.Effect {
	return map[string]relay.Effect{
		store.TicketIssueRefund:      effects.IssueRefund{},
		store.TicketInventorySync:    effects.InventorySync{},
		store.TicketInventoryRelease: effects.InventoryRelease{},
	}
}

// targetNames are the targets that can be given an address, in the order in which they are shown.
var targetNames = []string{store.LedgerRefund, store.LedgerInventory, store.LedgerRelease}

// ledgerTypes is what the ledger calls the effect of each ticket type.
func ledgerTypes() map[string]string {
	types := map[string]string{}
	for ticket, e := range effectsByTicket() {
		types[ticket] = e.Kind().LedgerType
	}
	return types
}

func main() { os.Exit(run()) }

// gcPercent lets the heap grow to three times what is in use before it is collected: a tenth more orders a second for
// some 8 MB more under full load.
const gcPercent = 200

func run() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	defer stop()
	context.AfterFunc(ctx, stop) // from then on a second signal leaves at once
	stderr := cli.NewSink(os.Stderr)
	defer stderr.Close(time.Second)
	app := program{stdout: os.Stdout, stderr: stderr, terminal: isatty.IsTerminal(os.Stderr.Fd()), disk: store.Options{Ballast: true}, service: cli.NewService()}
	return cli.Run(ctx, os.Args[1:], cli.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: stderr, Environ: os.Environ(), Terminal: isatty.IsTerminal(os.Stdout.Fd()),
		Version: cli.ReadVersion(), Graph: dependencyGraph(), TargetNames: targetNames, LedgerTypes: ledgerTypes(),
		Serve: app.serve, Relay: app.relay, Demo: app.demo, Prove: app.prove, Drill: app.drill, World: app.world,
	})
}

// program holds what every command of the appliance is given from outside.
type program struct {
	stdout, stderr io.Writer
	terminal       bool
	disk           store.Options // how files are opened: as a shop needs it, or as the laboratory does
	words          cli.Words     // what is said at the terminal
	service        *cli.Service  // nil without a service manager that asked
}

func dependencyGraph() graph.Graph {
	var kinds []graph.Effect
	for _, e := range effectsByTicket() {
		k := e.Kind()
		kinds = append(kinds, graph.Effect{
			Name: k.Name, TicketType: k.TicketType, LedgerType: k.LedgerType, KeyPrefix: k.KeyPrefix,
			Mark: k.Mark, Does: k.Does, Resource: k.Resource, SharedWith: k.SharedWith,
		})
	}
	return graph.New(kinds)
}

// appliance is one open file with a runner that may work on it.
type appliance struct {
	db     *store.DB
	holder *store.Holder
	runner *relay.Runner
	loop   *relay.Loop // nil with --no-relay
	boot   *relay.BootReport
	dog    *relay.Watchdog
	dials  *metrics.Metrics
	crash  func(string)
	log    *slog.Logger
}

// open builds an appliance from the file up. Its close undoes that in the opposite order.
func (p program) open(ctx context.Context, c cli.RelayConfig, crashPlan string) (a *appliance, err error) {
	if err := mayAsk(c.Remote); err != nil {
		return nil, err
	}
	a = &appliance{log: c.Log.Logger(p.stderr)}
	schedule, err := relay.ParseSchedule(c.Schedule)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if a.crash, err = e2e.CrashPoints(crashPlan, p.stderr, func(fn func()) { a.db.Still(fn) }); err != nil {
		return nil, cli.Usage(err)
	}
	a.dials = newDials()
	disk := p.disk
	disk.Committed = a.dials.Commit
	if a.db, err = store.Open(ctx, c.DB, disk); err != nil {
		return nil, err
	}
	a.dials.Watch(a.db)
	if err := a.lookAtClock(ctx); err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	if err := markTargets(ctx, a.db, c.Remote.Targets); err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	remotes, err := a.remotes(ctx, c.Remote.Targets)
	if err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	if a.holder, err = a.db.NewHolder(ctx, c.Workers); err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	a.runner = relay.NewRunner(relay.Options{
		DB: a.db, Holder: a.holder, Effects: effectsByTicket(), Batch: c.Batch, Lease: c.Lease, Workers: c.Workers,
		Remotes: remotes, RetryBase: c.Remote.Retry.Base, RetryMax: c.Remote.Retry.Max, RetryBudget: c.Remote.Retry.Budget,
		Compensate: c.Remote.Compensate, Crash: a.crash, Log: a.log,
		Observe: relay.Observer{Turn: a.dials.Turn, Sent: a.dials.Sent}, Listen: relay.ListenEvery,
	})
	a.loop = relay.NewLoop(a.runner, schedule)
	stop, err := a.db.Arrive(ctx, a.holder)
	if err != nil {
		a.log.Warn("it is not known whether the last stop was clean; the next start looks again", "error", err)
	}
	a.boot = &relay.BootReport{DB: a.db, Stop: stop, Log: a.log}
	a.dog = &relay.Watchdog{DB: a.db, Loop: a.loop, Log: a.log, Also: a.boot.Troubles}
	return a, nil
}

// mayAsk refuses addresses that nothing will go to, before the file is marked for them.
func mayAsk(c cli.RemoteConfig) error {
	for _, t := range c.Targets {
		flag := "--" + t.Name
		if err := cmp.Or(mayGoTo(flag+"-url", t.URL, flag+"-insecure-http", t.InsecureHTTP),
			mayGoTo(flag+"-lookup-url", t.LookupURL, flag+"-insecure-http", t.InsecureHTTP)); err != nil {
			return err
		}
	}
	return mayGoTo("--alert-url", c.AlertURL, "--alert-insecure-http", c.AlertInsecureHTTP)
}

// mayGoTo refuses an address that nothing will go to; "" is none.
func mayGoTo(setting, address, unless string, plainHTTP bool) error {
	if address == "" {
		return nil
	}
	err := egress.Check(address, plainHTTP)
	switch {
	case errors.Is(err, egress.ErrPlain):
		return cli.Usage(fmt.Errorf("%s %w: give an address with https, or %s if the way there is your own", setting, err, unless))
	case err != nil:
		return cli.Usage(fmt.Errorf("%s %w", setting, err))
	}
	return nil
}

// newDials builds the instruments, which count from before the file is opened.
func newDials() *metrics.Metrics {
	targets := map[string]string{}
	for ticket, e := range effectsByTicket() {
		targets[ticket] = e.Kind().KeyPrefix
	}
	v := cli.ReadVersion()
	return metrics.New(metrics.Options{Targets: targets, Names: targetNames,
		Build: map[string]string{"version": v.Version, "commit": v.Commit, "go": v.Go, "sqlite": v.SQLite}})
}

// lookAtClock says whether the times of what follows can be right. Nothing waits for that.
func (a *appliance) lookAtClock(ctx context.Context) error {
	var behind time.Duration
	err := a.db.View(ctx, func(tx *store.Tx) (err error) {
		behind, err = tx.ClockBehind()
		return err
	})
	if behind > 0 {
		a.log.Warn("the clock stands before the last row of the file: times are not to be trusted until it is set; no ticket waits for that", "behind", behind.Round(time.Second).String())
	}
	return err
}

// markTargets makes sure that what this file once sent out for real goes out for real, or not at all.
func markTargets(ctx context.Context, db *store.DB, targets []cli.TargetConfig) error {
	given := map[string]bool{}
	var marks []store.Mark
	for _, t := range targets {
		given[t.Name] = true
		marks = append(marks, store.Mark{Name: t.Name, URL: t.URL, Credential: t.Token})
	}
	if given[store.LedgerInventory] && !given[store.LedgerRelease] { // what is really taken is never given back in the lab
		marks = append(marks, store.Mark{Name: store.LedgerRelease})
	}
	var missing []string
	err := db.Update(ctx, func(tx *store.Tx) (err error) {
		missing, err = tx.MarkTargets(marks, "start")
		return err
	})
	if err != nil {
		return fmt.Errorf("mark the targets: %w", err)
	}
	if len(missing) > 0 {
		return cli.Usage(fmt.Errorf("this file sends its %[1]s effects out for real, and nothing may simulate them: give --%[1]s-url, or make them local with `comanda targets local %[1]s --i-know`", missing[0]))
	}
	return nil
}

// remotes are the targets that have an address, each with the client that sends there.
func (a *appliance) remotes(ctx context.Context, targets []cli.TargetConfig) ([]relay.Remote, error) {
	var remotes []relay.Remote
	err := a.db.View(ctx, func(tx *store.Tx) error {
		remotes = nil
		for _, t := range targets {
			known, err := tx.Target(t.Name)
			if err != nil {
				return err
			}
			remotes = append(remotes, relay.Remote{
				Name: t.Name, Address: store.Address(t.URL), Timeout: t.Timeout, KeyTTL: t.KeyTTL, CanLookup: t.LookupURL != "", LookupGrace: t.LookupGrace,
				Rate: t.Rate, Concurrency: t.Concurrency, Credential: t.Token, Offline: known.OfflineSince != nil,
				Door: effects.NewTarget(effects.TargetConfig{
					Name: t.Name, URL: t.URL, Timeout: t.Timeout, Token: t.Token, LookupURL: t.LookupURL,
					AcceptAny: t.AcceptAny, RejectCodes: t.RejectCodes, QuoteKey: t.QuoteKey,
				}, nil),
			})
		}
		return nil
	})
	return remotes, err
}

// close gives the relay's lock back only when nothing is carried out any more; otherwise the kernel lets
// go of it, and frees the tickets, when the process ends.
func (a *appliance) close() error {
	a.log.Info("stopped", "commits", a.db.Commits())
	var err error
	if a.runner.Stop(time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.db.Depart(ctx, a.holder); err != nil {
			a.log.Warn("that this stop was clean could not be written down; the next start looks through the file", "error", err)
		}
		err = a.holder.Close()
	}
	return errors.Join(err, a.db.Close())
}

// serve runs the HTTP server and the relay in one process until ctx ends.
func (p program) serve(ctx context.Context, c cli.ServeConfig) error {
	cli.OutliveReaders()
	return p.serveThen(ctx, c, os.Getenv(e2e.CrashVar), throwaway{})
}

// throwaway is what an appliance has that is not a shop's.
type throwaway struct {
	opened func(base string) error                                // to do once the listener is open
	sample func(ctx context.Context, base string) (string, error) // sends an order in and returns its id
}

// serveThen is serve with something more.
func (p program) serveThen(ctx context.Context, c cli.ServeConfig, crashPlan string, more throwaway) (err error) {
	for _, addr := range addresses(c) { // before the file is marked for c's targets
		if err := cli.MayListen(addr); err != nil {
			return err
		}
	}
	if err := mayGoTo("--credit-url", c.Credit.URL, "--credit-insecure-http", c.Credit.InsecureHTTP); err != nil {
		return err
	}
	senders, err := openSenders(c.Webhooks)
	if err != nil {
		return err
	}
	admin, err := openAdmin(c.AdminPasswordFile)
	if err != nil {
		return err
	}
	pair, err := openPair(c.TLS)
	if err != nil {
		return err
	}
	a, err := p.open(ctx, cli.RelayConfig{DB: c.DB, Schedule: c.Schedule, Batch: c.Batch, Lease: c.Lease, Workers: c.Workers, Remote: c.Remote, Log: c.Log}, crashPlan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if c.NoRelay {
		a.loop, a.dog.Loop = nil, nil
	}
	if err := a.db.Update(ctx, (*store.Tx).Touch); err != nil {
		return fmt.Errorf("make sure of what an earlier process left behind: %w", err)
	}
	if admin != nil {
		if err := admin.Use(ctx, a.db); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var base string
	look := a.consoleOptions(c)
	if more.sample != nil {
		look.Sample = func(ctx context.Context) (string, error) { return more.sample(ctx, base) }
	}
	shown := console.New(look)
	defer func() { err = errors.Join(err, shown.Close()) }()
	opt := a.options(ctx, c.Credit)
	opt.Hosts = c.Hosts
	opt.Console = shown
	a.admit(&opt, c.Webhooks, senders)
	opt.Watch = warnOfInsecure(c, opt.Watch)
	if pair != nil {
		opt.Certified = pair.Certifies
		a.dog.Also = alsoOf(a.dog.Also, pair)
	}
	h := handlers.New(opt)
	defer func() { err = errors.Join(err, h.Close()) }()
	defer a.startAlerts(ctx, c.Remote)()
	ended := a.startRelay(ctx)
	defer func() { cancel(); ended() }()
	defer a.watchSecrets(ctx, senders, admin, pair)()
	doors, err := openDoors(addresses(c), h, pair) // last: whoever is answered finds everything in place
	if err != nil {
		return err
	}
	base = doors[0].base
	defer a.startCare(ctx, p.service)() // the doors are open
	a.sayListening(c, doors)
	if p.terminal {
		cli.Banner(p.stderr, cli.BannerInfo{URL: base, Cert: c.TLS.Cert, Name: certifiedName(pair, doors[0].Addr()), WebhookURL: doors[len(doors)-1].base, Webhooks: c.Webhooks, File: a.db.Path(), Targets: modes(c.Remote.Targets), Words: p.words, Throwaway: more.opened != nil, Insecure: insecure(c)})
	}
	doors[0].srv.RegisterOnShutdown(shown.EndStreams)
	err = p.serveHTTP(ctx, doors, more.opened)
	cancel()
	p.farewell(a, ended)
	return err
}

// options hands the decision half what it needs of the rest.
func (a *appliance) options(serving context.Context, credit cli.CreditConfig) handlers.Options {
	opt := handlers.Options{
		DB: a.db, Graph: dependencyGraph(), Crash: a.crash, Log: a.log, TargetNames: targetNames, LedgerTypes: ledgerTypes(),
		Metrics: a.dials.Handler(), Observe: func(s handlers.Seen) { a.dials.Request(s.Route, s.Method, s.Status, s.Accept, s.Took) },
		Watch: func() (reasons, warnings []string) {
			wrong, worth := a.dog.Look()
			return details(wrong), details(worth)
		},
		RunRelay: func(ctx context.Context) (handlers.RelayRun, error) {
			ctx, cancel := context.WithCancel(ctx) // a pass that was asked for ends with the process too
			defer cancel()
			defer context.AfterFunc(serving, cancel)()
			tally, err := a.runner.RunOnce(ctx)
			if errors.Is(err, relay.ErrPaused) {
				err = handlers.ErrPaused
			}
			return handlers.RelayRun(tally), err
		},
	}
	if credit.URL != "" {
		opt.Credit = handlers.NewRemoteCredit(handlers.RemoteCreditConfig{
			URL: credit.URL, Timeout: credit.Timeout, Token: credit.Token, FallbackToBook: credit.FallbackToBook,
		}, effects.NewPooledTransport(handlers.DefaultCreditAtOnce))
	}
	return opt
}

// openSenders reads the secrets of each sender that signs, in the order of the settings.
func openSenders(c cli.WebhookConfig) (senders []handlers.Sender, err error) {
	for _, s := range c.Senders {
		ring, err := signature.Open(s.Flag, s.SecretFile)
		if err != nil {
			return nil, cli.Usage(err)
		}
		senders = append(senders, handlers.Sender{Name: s.Name, Secrets: ring})
	}
	return senders, nil
}

// openAdmin reads the password of the account admin, if there is a file of it.
func openAdmin(path string) (*admission.PasswordFile, error) {
	if path == "" {
		return nil, nil
	}
	file, err := admission.OpenPasswordFile("--admin-password-file", path)
	return file, cli.Usage(err)
}

// insecure reports whether --insecure was needed to listen where other machines reach it.
func insecure(c cli.ServeConfig) bool { return c.Insecure && !cli.OnlyHere(c.Addr) }

// warnOfInsecure has readiness say so for as long as it is true.
func warnOfInsecure(c cli.ServeConfig, watch func() (reasons, warnings []string)) func() (reasons, warnings []string) {
	if !insecure(c) {
		return watch
	}
	return func() (reasons, warnings []string) {
		reasons, warnings = watch()
		return reasons, append(warnings, "started with --insecure: other machines reach this server, and perhaps nobody has a password")
	}
}

// admit tells the server who may send orders.
func (a *appliance) admit(opt *handlers.Options, c cli.WebhookConfig, senders []handlers.Sender) {
	opt.Senders, opt.SignatureWindow = senders, c.Window
	opt.SenderRate, opt.SenderConcurrency = c.Rate, c.Concurrency
	opt.ClockDoubt = store.NewClockDoubt(a.db, cli.Built()).Reason
}

// openPair reads the certificate and its key; nil without TLS.
func openPair(c cli.TLSConfig) (*certificate.Pair, error) {
	if c.Cert == "" {
		return nil, nil
	}
	pair, err := certificate.Open(c.Cert, c.Key)
	return pair, cli.Usage(err)
}

// certifiedName is the name under which the server has to be asked for, where its certificate is not for its address.
func certifiedName(pair *certificate.Pair, at net.Addr) string {
	host, _, err := net.SplitHostPort(at.String())
	if pair == nil || err != nil || pair.Certifies(host) {
		return ""
	}
	return pair.Name()
}

// alsoOf adds what is to be said of the certificate to what others have found out.
func alsoOf(others func() (wrong, warnings []relay.Trouble), pair *certificate.Pair) func() (wrong, warnings []relay.Trouble) {
	return func() (wrong, warnings []relay.Trouble) {
		wrong, warnings = others()
		causes, details := pair.Warnings(time.Now())
		for i := range causes {
			warnings = append(warnings, relay.Trouble{Condition: store.Condition{Cause: causes[i], Detail: details[i]}})
		}
		return wrong, warnings
	}
}

// watchSecrets has secrets, a password and a certificate that change come into force; admin and pair may be nil. It returns what waits for its end, which comes soon after
// that of ctx.
func (a *appliance) watchSecrets(ctx context.Context, senders []handlers.Sender, admin *admission.PasswordFile, pair *certificate.Pair) (ended func()) {
	var all sync.WaitGroup
	if admin != nil {
		all.Go(func() { admin.Watch(ctx, a.log) })
	}
	if pair != nil {
		all.Go(func() { pair.Watch(ctx, a.log) })
	}
	for _, s := range senders {
		all.Go(func() { s.Secrets.Watch(ctx, a.log) })
	}
	return all.Wait
}

// addresses are where a server listens: the one that serves everything, and that of the webhooks alone.
func addresses(c cli.ServeConfig) []string {
	if c.Webhooks.Addr == "" {
		return []string{c.Addr}
	}
	return []string{c.Addr, c.Webhooks.Addr}
}

// door is an open listener and what serves it.
type door struct {
	net.Listener
	base string
	srv  *http.Server
}

// openDoors opens all of the addresses or none; pair is nil without TLS.
func openDoors(addresses []string, h *handlers.Server, pair *certificate.Pair) (doors []door, err error) {
	servers := []func() *http.Server{h.HTTPServer, h.WebhookServer}
	for i, addr := range addresses {
		l, base, err := cli.Listen(addr, len(addresses))
		if err != nil {
			for _, d := range doors {
				err = errors.Join(err, d.Close())
			}
			return nil, err
		}
		d := door{l, base, servers[i]()}
		if pair != nil {
			d.base, d.srv.TLSConfig = "https://"+l.Addr().String(), pair.Config()
		}
		doors = append(doors, d)
	}
	return doors, nil
}

// sayListening names the doors, and warns of one by which anybody may send orders, or through which passwords are seen.
func (a *appliance) sayListening(c cli.ServeConfig, doors []door) {
	if insecure(c) {
		a.log.Warn("started with --insecure: other machines reach this server, and perhaps nobody has a password; `comanda passwd` sets one", "url", doors[0].base)
	}
	if !cli.OnlyHere(c.Addr) && strings.HasPrefix(doors[0].base, "http:") {
		a.log.Warn("passwords, sessions and tokens cross the network in clear at this address", "url", doors[0].base)
	}
	a.log.Info("listening", "url", doors[0].base, "db", a.db.Path())
	for _, d := range doors[1:] {
		a.log.Info("listening for webhooks alone", "url", d.base)
	}
	for _, d := range doors {
		if at, ok := d.Addr().(*net.TCPAddr); ok && c.Webhooks.Unsigned() && !at.IP.IsLoopback() {
			a.log.Warn("whoever reaches this address may send orders: /webhooks/orders asks for no signature; give --webhook-secret-file", "url", d.base)
		}
	}
}

// consoleOptions hands the operator's page what it shows.
func (a *appliance) consoleOptions(c cli.ServeConfig) console.Options {
	opt := console.Options{DB: a.db, Graph: dependencyGraph(), TargetNames: targetNames, LedgerTypes: ledgerTypes(), Zone: c.Zone,
		Version: cli.ReadVersion().Line(), Log: a.log}
	for _, s := range c.Settings {
		opt.Settings = append(opt.Settings, console.Setting(s))
	}
	return opt
}

func details(all []relay.Trouble) (words []string) {
	for _, t := range all {
		words = append(words, t.Detail)
	}
	return words
}

// modes tells where each effect goes: to the lab's table, or for real to an address.
func modes(targets []cli.TargetConfig) map[string]string {
	modes := map[string]string{}
	for _, name := range targetNames {
		modes[name] = "lab"
	}
	for _, t := range targets {
		modes[t.Name] = "real"
		if t.Name == store.LedgerInventory { // see markTargets
			modes[store.LedgerRelease] = "real"
		}
	}
	return modes
}

func (d door) serve() error {
	if d.srv.TLSConfig != nil {
		return d.srv.ServeTLS(d, "", "")
	}
	return d.srv.Serve(d)
}

// serveHTTP serves until ctx ends, then lets what is under way finish.
func (p program) serveHTTP(ctx context.Context, doors []door, opened func(string) error) error {
	failed := make(chan error, len(doors))
	for _, d := range doors {
		go func() { failed <- d.serve() }()
	}
	if opened != nil {
		if err := opened(doors[0].base); err != nil {
			return errors.Join(err, closeDoors(doors))
		}
	}
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), closeDoors(doors))
	case <-ctx.Done():
	}
	if p.terminal {
		fmt.Fprintln(p.stderr, p.words.Text("stopping"))
	}
	grace, cancel := context.WithTimeout(context.Background(), stopWithin-time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, d := range doors {
		all.Go(func() {
			if d.srv.Shutdown(grace) != nil { // a client that is too slow: being stopped is not failing
				_ = d.srv.Close()
			}
		})
	}
	all.Wait()
	return nil
}

func closeDoors(doors []door) (err error) {
	for _, d := range doors {
		err = errors.Join(err, d.srv.Close())
	}
	return err
}

// stopWithin is how long a process may take to finish or give back what it has in hand.
const stopWithin = 10 * time.Second

// startRelay starts the loop, if there is one. It returns what waits for its end: true when it has
// ended, false when it has not stopWithin after ctx.
func (a *appliance) startRelay(ctx context.Context) (ended func() bool) {
	stopped := make(chan struct{})
	overdue := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(stopWithin, func() { close(overdue) }) })
	go func() {
		defer close(stopped)
		if a.loop != nil {
			_ = a.loop.Run(ctx) // nil: what fails is logged and tried again
		}
	}()
	return func() bool {
		select {
		case <-stopped:
			return true
		case <-overdue:
			return false
		}
	}
}

// startAlerts tells a person what needs one, if there is somewhere to tell it. It returns what waits for its end,
// which comes soon after that of ctx.
func (a *appliance) startAlerts(ctx context.Context, c cli.RemoteConfig) (ended func()) {
	if c.AlertURL == "" {
		return func() {}
	}
	notifier := effects.NewNotifier(c.AlertURL, c.AlertPlain, nil)
	alerts := &relay.Alerts{DB: a.db, Log: a.log, Watch: a.dog.Conditions, Tell: func(ctx context.Context, n relay.Notice) error {
		return notifier.Notify(ctx, n.Cause, n.State, n.Text(), n.Since)
	}}
	done := make(chan struct{})
	go func() { defer close(done); alerts.Run(ctx) }()
	return func() { <-done }
}

// startCare has the file cared for each night, and the process watched for as long as it works: service is
// told. It returns what waits for the end of both, which comes soon after that of ctx.
func (a *appliance) startCare(ctx context.Context, service *cli.Service) (ended func()) {
	a.dog.Feed, a.dog.Every = service.Feed(), service.Every()
	service.Tell(cli.ServiceReady)
	context.AfterFunc(ctx, func() { service.Tell(cli.ServiceStopping) })
	care := relay.Care{DB: a.db, Schedule: relay.Nightly(), Tasks: relay.FileTasks(a.db), Log: a.log, Settle: 10 * time.Second}
	var all sync.WaitGroup
	all.Go(func() { care.Run(ctx) })
	all.Go(func() { a.dog.Run(ctx) })
	all.Go(func() { a.boot.Run(ctx) })
	all.Go(func() { service.Report(ctx, a.serviceLine) })
	all.Go(func() { a.rest(ctx) })
	return all.Wait
}

// serviceLine tells a service manager in one line how it stands.
func (a *appliance) serviceLine(ctx context.Context) string {
	wrong, _ := a.dog.Look()
	return cli.ServiceLine(ctx, a.db, details(wrong))
}

// rest gives back to the system what its start and a rush have left in the heap, once there is little to do: Go by itself
// keeps it for the next rush, and begins to collect only at 8 MB.
func (a *appliance) rest(ctx context.Context) {
	const few = 50 // commits between two looks; the schedule alone makes some
	look := time.NewTimer(restAfterStart)
	defer look.Stop()
	for before, rested := a.db.Commits(), false; ; look.Reset(restEvery) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := a.db.Commits()
		idle := now-before < few
		if idle && !rested {
			debug.FreeOSMemory()
		}
		before, rested = now, idle
	}
}

// When rest looks.
const (
	restAfterStart = 3 * time.Second
	restEvery      = 30 * time.Second
)

// farewell waits for the relay and tells whoever pressed Ctrl-C that nothing is lost.
func (p program) farewell(a *appliance, ended func() bool) {
	if !ended() {
		fmt.Fprintln(p.stderr, p.words.Text("overdue"))
	}
	p.sayWhatWaits(a.db)
}

func (p program) sayWhatWaits(db *store.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var counts store.Counts
	err := db.View(ctx, func(tx *store.Tx) (err error) {
		counts, err = tx.Counts()
		return err
	})
	if err == nil {
		fmt.Fprintln(p.stderr, p.words.Text("waiting", "Tickets", counts.Waiting()))
	}
}

// relay runs a relay alone until ctx ends.
func (p program) relay(ctx context.Context, c cli.RelayConfig) (err error) {
	cli.OutliveReaders()
	a, err := p.open(ctx, c, os.Getenv(e2e.CrashVar))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	a.log.Info("relaying", "db", a.db.Path(), "holder", a.holder.ID)
	ended := a.startRelay(ctx)
	defer a.startAlerts(ctx, c.Remote)()
	defer a.startCare(ctx, p.service)()
	<-ctx.Done()
	p.farewell(a, ended)
	return nil
}

// demo serves a throw-away file with sample orders on a free port.
func (p program) demo(ctx context.Context, c cli.DemoConfig) (err error) {
	if p.words, err = cli.Speak(c.Lang); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "comanda-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	serve := labConfig(filepath.Join(dir, "demo.db"))
	serve.Log = c.Log
	p.service = nil
	return p.serveThen(ctx, serve, "", throwaway{sample: e2e.SampleOrder, opened: func(base string) error {
		if err := e2e.Sample(ctx, base); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, p.words.Text("demo", "URL", base))
		return nil
	}})
}

// prove runs the proofs against this very program.
func (p program) prove(ctx context.Context, c cli.ProveConfig) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	return e2e.Prove(ctx, e2e.Config{
		Exe: exe, Names: c.Names, All: c.All, Dir: c.Dir, Keep: c.Keep, JSON: c.JSON, Lang: c.Lang, Stdout: p.stdout, Appliance: laboratory,
	})
}

// drill tries a shop's file out, on a copy, with this very program.
func (p program) drill(ctx context.Context, c cli.DrillConfig) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	return e2e.Drill(ctx, e2e.DrillConfig{
		Exe: exe, DB: c.DB, Dir: c.Dir, Time: c.Time, JSON: c.JSON, Stdout: p.stdout, Appliance: laboratory,
	})
}

// laboratory is this program in one process, for what needs its hands on the disk below it.
func laboratory(ctx context.Context, file, vfs, synchronous string, opened func(base string) error) error {
	lab := program{stdout: io.Discard, stderr: io.Discard, disk: store.Options{VFS: vfs, Synchronous: synchronous}}
	return lab.serveThen(ctx, labConfig(file), "", throwaway{opened: opened})
}

// labConfig serves a file on a free port of this machine, with no target but the lab's.
func labConfig(file string) cli.ServeConfig {
	return cli.ServeConfig{
		DB: file, Addr: "127.0.0.1:0", Schedule: "@every 10s", Batch: 100, Lease: 2 * time.Minute, Workers: 4,
		Log: cli.LogConfig{Level: "error", Format: "json"}, Webhooks: cli.WebhookConfig{Concurrency: handlers.DefaultSenderConcurrency},
	}
}

// world runs the lab's outside world until ctx ends.
func (p program) world(ctx context.Context, c cli.WorldConfig) (err error) {
	w, err := world.Open(ctx, world.Options{DB: c.DB, KeyTTL: c.KeyTTL, Faults: c.Faults, Log: p.stdout})
	if err != nil {
		return cli.Usage(err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	listener, base, err := cli.Listen(c.Addr, 1)
	if err == nil && c.TLS == "expired" {
		listener, base, err = world.Expired(listener)
	}
	if err != nil {
		return err
	}
	log := cli.LogConfig{Level: "info", Format: "json"}.Logger(p.stderr)
	log.Info("listening", "url", base, "db", c.DB)
	context.AfterFunc(ctx, w.Release) // what hangs on purpose lets go
	return p.serveHTTP(ctx, []door{{listener, base, w.HTTPServer(log)}}, nil)
}
