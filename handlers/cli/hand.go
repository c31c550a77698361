package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"comanda/handlers/graph"
)

// The commands in this file are carried out by what main handed in.

func (c *serveCmd) Run(s *session) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.checkAddr(s); err != nil {
		return err
	}
	zone, err := readZone(c.Zone)
	if err != nil {
		return err
	}
	tls, err := c.tlsFlags.config()
	if err != nil {
		return err
	}
	hosts, err := c.hosts()
	if err != nil {
		return err
	}
	remote, err := c.remoteFlags.config(c.Lease)
	if err != nil {
		return err
	}
	credit, err := c.Credit.config()
	if err != nil {
		return err
	}
	webhooks, err := c.webhooks()
	if err != nil {
		return err
	}
	return call(s, s.program.Serve, ServeConfig{
		DB: c.DB, Addr: c.Addr, Hosts: hosts, TLS: tls, Schedule: c.Schedule, Batch: c.Batch, Lease: c.Lease, Workers: c.Workers,
		NoRelay: c.NoRelay, Insecure: c.Insecure, RequireLogin: c.RequireLogin, AdminPasswordFile: c.AdminPasswordFile, Zone: zone, Remote: remote, Credit: credit, Webhooks: webhooks, Log: c.logFlags.config(), Settings: s.settings,
	})
}

func (c *relayCmd) Run(s *session) error {
	if err := c.check(); err != nil {
		return err
	}
	remote, err := c.remoteFlags.config(c.Lease)
	if err != nil {
		return err
	}
	return call(s, s.program.Relay, RelayConfig{
		DB: c.DB, Schedule: c.Schedule, Batch: c.Batch, Lease: c.Lease, Workers: c.Workers, Remote: remote, Log: c.logFlags.config(),
	})
}

func (c *demoCmd) Run(s *session) error {
	return call(s, s.program.Demo, DemoConfig{Log: LogConfig{Format: c.LogFormat, Level: c.LogLevel}, Lang: c.Lang})
}

func (c *proveCmd) Run(s *session) error {
	names, err := checkProofs(c.Names, c.All)
	if err != nil {
		return err
	}
	dir, err := absolute(c.Dir)
	if err != nil {
		return err
	}
	keep, err := absolute(c.Keep)
	if err != nil {
		return err
	}
	return call(s, s.program.Prove, ProveConfig{Names: names, All: c.All, JSON: c.JSON, Dir: dir, Keep: keep, Lang: c.Lang})
}

func (c *drillCmd) Run(s *session) error {
	if c.Time < 2*time.Second || c.Time > 24*time.Hour {
		return Usage(fmt.Errorf("--time %s is not between 2s and 24h", c.Time))
	}
	db, err := absolute(c.DB)
	if err != nil {
		return err
	}
	dir, err := absolute(c.Dir)
	if err != nil {
		return err
	}
	return call(s, s.program.Drill, DrillConfig{DB: db, Time: c.Time, Dir: dir, JSON: c.JSON})
}

// absolute makes a path that the proofs' children, in other directories, understand; "" stays "".
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("make %s absolute: %w", path, err)
	}
	return full, nil
}

func call[C any](s *session, do func(context.Context, C) error, config C) error {
	if do == nil {
		return fmt.Errorf("this build of comanda can't do that: use a complete one")
	}
	return do(s.ctx, config)
}

func (c *graphCmd) Run(s *session) error {
	words, err := graph.Words(c.Lang)
	if err != nil {
		return Usage(err)
	}
	switch g := s.program.Graph; c.Format {
	case "mermaid":
		s.out.WriteString(g.In(words).Mermaid())
	case "svg":
		s.out.WriteString(g.SVG(graph.SVGOptions{Words: words}))
	case "json":
		return s.json(g)
	default:
		s.out.WriteString(g.In(words).Text())
	}
	return nil
}

func (c *versionCmd) Run(s *session) error {
	v := s.program.Version
	if c.JSON {
		return s.json(v)
	}
	return s.table(func(row func(...string)) {
		row("comanda", v.Version)
		row("commit", v.Commit)
		row("go", v.Go)
		row("sqlite", v.SQLite)
	})
}
