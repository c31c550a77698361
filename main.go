// Command comanda takes orders by webhook, decides what follows from them, and carries that out
// exactly once. This file is the only one that knows all the packages: it builds each piece in the
// order in which they depend on each other, and nothing is built anywhere else.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
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
	"comanda/handlers/door"
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
	if err := relay.WarnOfClock(ctx, a.db, a.log); err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	if err := cli.MarkTargets(ctx, a.db, c.Remote.Targets); err != nil {
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
					AcceptAny: t.AcceptAny, RejectCodes: t.RejectCodes, QuoteKey: t.QuoteKey, Keep: keep(t),
				}, nil),
			})
		}
		return nil
	})
	return remotes, err
}

// keep is how many connections are kept for a target's next letters: none unless it honours keys, since what breaks
// with one that was idle may have arrived, and is sent again.
func keep(t cli.TargetConfig) int {
	if t.KeyTTL == 0 {
		return 0
	}
	return t.Concurrency
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
	k, err := mayServe(c)
	if err != nil {
		return err
	}
	a, err := p.open(ctx, cli.RelayConfig{DB: c.DB, Schedule: c.Schedule, Batch: c.Batch, Lease: c.Lease, Workers: c.Workers, Remote: c.Remote, Log: c.Log}, crashPlan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.prepare(ctx, c, k); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var base string
	shown := console.New(a.consoleOptions(c, more.sampleAt(&base)))
	defer func() { err = errors.Join(err, shown.Close()) }()
	h := handlers.New(a.options(ctx, c, k, shown))
	defer func() { err = errors.Join(err, h.Close()) }()
	defer a.startAlerts(ctx, c.Remote)()
	ended := a.startRelay(ctx)
	defer func() { cancel(); ended() }()
	defer k.watch(ctx, a.log)()
	endpoints, err := cli.OpenEndpoints(c.Addresses(), []*http.Server{h.HTTPServer(), h.WebhookServer()}, k.tls()) // last: whoever is answered finds everything in place
	if err != nil {
		return err
	}
	base = endpoints[0].Base
	defer a.startCare(ctx, p.service)() // the doors are open
	c.LogListening(a.log, endpoints, a.db.Path(), cli.Modes(targetNames, c.Remote.Targets))
	if p.terminal {
		cli.Banner(p.stderr, p.banner(c, k, endpoints, a.db.Path(), more))
	}
	endpoints[0].Server.RegisterOnShutdown(shown.EndStreams)
	err = p.serveHTTP(ctx, endpoints, more.opened)
	cancel()
	p.farewell(a, ended)
	return err
}

// mayServe looks whether the settings can be served by, before the file is marked for their targets, and reads the keys.
func mayServe(c cli.ServeConfig) (keys, error) {
	for _, addr := range c.Addresses() {
		if err := cli.MayListen(addr); err != nil {
			return keys{}, err
		}
	}
	if err := mayGoTo("--credit-url", c.Credit.URL, "--credit-insecure-http", c.Credit.InsecureHTTP); err != nil {
		return keys{}, err
	}
	return openKeys(c)
}

// prepare makes the file ready to be served.
func (a *appliance) prepare(ctx context.Context, c cli.ServeConfig, k keys) error {
	if c.NoRelay {
		a.loop, a.dog.Loop = nil, nil
	}
	a.dog.Also = alsoOf(a.dog.Also, k)
	if err := a.db.Update(ctx, (*store.Tx).Touch); err != nil {
		return fmt.Errorf("make sure of what an earlier process left behind: %w", err)
	}
	if k.admin == nil {
		return nil
	}
	return k.admin.Use(ctx, a.db)
}

// sampleAt sends an order in at the base as it is by then; nil where that is not offered.
func (t throwaway) sampleAt(base *string) func(context.Context) (string, error) {
	if t.sample == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) { return t.sample(ctx, *base) }
}

func (p program) banner(c cli.ServeConfig, k keys, endpoints []cli.Endpoint, file string, more throwaway) cli.BannerInfo {
	all, webhooks := endpoints[0], endpoints[len(endpoints)-1]
	return cli.BannerInfo{URL: all.Base, Cert: c.TLS.Cert, Name: k.pair.NameFor(all.Addr()), WebhookURL: webhooks.Base, Webhooks: c.Webhooks, File: file,
		Targets: cli.Modes(targetNames, c.Remote.Targets), Words: p.words, Throwaway: more.opened != nil, Insecure: c.Exposed(), RequireLogin: c.RequireLogin}
}

// options hands the decision half what it needs of the rest.
func (a *appliance) options(serving context.Context, c cli.ServeConfig, k keys, shown handlers.Pages) handlers.Options {
	opt := handlers.Options{
		DB: a.db, Graph: dependencyGraph(), Crash: a.crash, Log: a.log, TargetNames: targetNames, LedgerTypes: ledgerTypes(),
		Metrics: a.dials.Handler(), Observe: func(s handlers.Seen) { a.dials.Request(s.Route, s.Method, s.Status, s.Accept, s.Took) },
		Watch: c.WarnOfExposure(a.look), RunRelay: a.runOnce(serving), Hosts: c.Hosts, RequireLogin: c.RequireLogin, Console: shown,
		Senders: k.senders, SignatureWindow: c.Webhooks.Window, SenderRate: c.Webhooks.Rate, SenderConcurrency: c.Webhooks.Concurrency,
		ClockDoubt: store.NewClockDoubt(a.db, cli.Built()).Reason,
	}
	if k.pair != nil {
		opt.Certified = k.pair.Certifies
	}
	if c.Credit.URL != "" {
		opt.Credit = handlers.NewRemoteCredit(handlers.RemoteCreditConfig{
			URL: c.Credit.URL, Timeout: c.Credit.Timeout, Token: c.Credit.Token, FallbackToBook: c.Credit.FallbackToBook,
		}, effects.NewPooledTransport(handlers.DefaultCreditAtOnce))
	}
	return opt
}

// look tells the watchdog's findings in words.
func (a *appliance) look() (reasons, warnings []string) {
	wrong, worth := a.dog.Look()
	return details(wrong), details(worth)
}

// runOnce makes a pass of the relay that was asked for; it ends with the process too.
func (a *appliance) runOnce(serving context.Context) func(context.Context) (handlers.RelayRun, error) {
	return func(ctx context.Context) (handlers.RelayRun, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(serving, cancel)()
		tally, err := a.runner.RunOnce(ctx)
		if errors.Is(err, relay.ErrPaused) {
			err = handlers.ErrPaused
		}
		return handlers.RelayRun(tally), err
	}
}

// keys are what a server is handed in files of their own, and reads again when they change.
type keys struct {
	senders []handlers.Sender  // who signs, in the order of the settings
	admin   *door.PasswordFile // nil without
	pair    *certificate.Pair  // nil without TLS
}

func openKeys(c cli.ServeConfig) (k keys, err error) {
	for _, s := range c.Webhooks.Senders {
		ring, err := signature.Open(s.Flag, s.SecretFile)
		if err != nil {
			return keys{}, cli.Usage(err)
		}
		k.senders = append(k.senders, handlers.Sender{Name: s.Name, Secrets: ring})
	}
	if c.AdminPasswordFile != "" {
		if k.admin, err = door.OpenPasswordFile("--admin-password-file", c.AdminPasswordFile); err != nil {
			return keys{}, cli.Usage(err)
		}
	}
	if c.TLS.Cert != "" {
		if k.pair, err = certificate.Open(c.TLS.Cert, c.TLS.Key); err != nil {
			return keys{}, cli.Usage(err)
		}
	}
	return k, nil
}

// tls is what a server speaks TLS by; nil is without.
func (k keys) tls() *tls.Config {
	if k.pair == nil {
		return nil
	}
	return k.pair.Config()
}

// watch has keys that change come into force. It returns what waits for its end, which comes soon after that of ctx.
func (k keys) watch(ctx context.Context, log *slog.Logger) (ended func()) {
	var all sync.WaitGroup
	if k.admin != nil {
		all.Go(func() { k.admin.Watch(ctx, log) })
	}
	if k.pair != nil {
		all.Go(func() { k.pair.Watch(ctx, log) })
	}
	for _, s := range k.senders {
		all.Go(func() { s.Secrets.Watch(ctx, log) })
	}
	return all.Wait
}

// troubles are the causes why what is in the files is not in force, or will soon be good no longer, with their details.
func (k keys) troubles() (causes, details []string) {
	if k.pair != nil {
		causes, details = k.pair.Warnings(time.Now())
	}
	add := func(trouble string) {
		if trouble != "" {
			causes, details = append(causes, "secrets not replaced"), append(details, trouble)
		}
	}
	if k.admin != nil {
		add(k.admin.Trouble())
	}
	for _, s := range k.senders {
		add(s.Secrets.Trouble())
	}
	return causes, details
}

// alsoOf adds what is to be said of the keys to what others have found out.
func alsoOf(others func() (wrong, warnings []relay.Trouble), k keys) func() (wrong, warnings []relay.Trouble) {
	return func() (wrong, warnings []relay.Trouble) {
		wrong, warnings = others()
		causes, details := k.troubles()
		for i := range causes {
			warnings = append(warnings, relay.Trouble{Condition: store.Condition{Cause: causes[i], Detail: details[i]}})
		}
		return wrong, warnings
	}
}

// consoleOptions hands the operator's page what it shows.
func (a *appliance) consoleOptions(c cli.ServeConfig, sample func(context.Context) (string, error)) console.Options {
	opt := console.Options{DB: a.db, Graph: dependencyGraph(), TargetNames: targetNames, LedgerTypes: ledgerTypes(), Zone: c.Zone,
		Version: cli.ReadVersion().Line(), Log: a.log, Sample: sample}
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

// stopWithin is how long a process may take to finish or give back what it has in hand.
const stopWithin = 10 * time.Second

// serveHTTP serves until ctx ends, then lets what is under way finish.
func (p program) serveHTTP(ctx context.Context, endpoints []cli.Endpoint, opened func(string) error) error {
	stopping := func() {
		if p.terminal {
			fmt.Fprintln(p.stderr, p.words.Text("stopping"))
		}
	}
	return cli.ServeEndpoints(ctx, endpoints, opened, stopping, stopWithin-time.Second)
}

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
	all.Go(func() { relay.Rest(ctx, a.db) })
	return all.Wait
}

// serviceLine tells a service manager in one line how it stands.
func (a *appliance) serviceLine(ctx context.Context) string {
	wrong, _ := a.look()
	return cli.ServiceLine(ctx, a.db, wrong)
}

// farewell waits for the relay and tells whoever pressed Ctrl-C that nothing is lost.
func (p program) farewell(a *appliance, ended func() bool) {
	if !ended() {
		fmt.Fprintln(p.stderr, p.words.Text("overdue"))
	}
	cli.SayWhatWaits(p.stderr, p.words, a.db)
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
	return p.serveHTTP(ctx, []cli.Endpoint{{Listener: listener, Base: base, Server: w.HTTPServer(log)}}, nil)
}
