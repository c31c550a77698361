package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

const riverWorkers = 500

var riverKind = kind{
	name: "River", module: "github.com/riverqueue/river",
	how:  fmt.Sprintf("InsertManyFast of 3, UniqueOpts{ByArgs} on the key; %d workers, fetch cooldown and poll 1 ms; it completes in batches", riverWorkers),
	less: "no event, no order; a key is forgotten when its done job is cleaned away (24 h); jobs do nothing; retries, schedules and a console as comanda has",
	open: openRiver,
}

type riverTicket ticket

func (riverTicket) Kind() string { return "ticket" }

type riverPeer struct {
	db     *sql.DB
	client *river.Client[*sql.Tx]
	tally  *tally
}

func openRiver(ctx context.Context, path string) (peer, error) {
	db, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{db: db}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return p, nil
}

func (p *riverPeer) prepare(ctx context.Context) error {
	quiet := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))
	driver := riversqlite.New(p.db)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, j *river.Job[riverTicket]) error {
		p.tally.worked(j.Args.Key)
		return nil
	}))
	p.client, err = river.NewClient(driver, &river.Config{
		Logger: quiet, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		FetchCooldown: time.Millisecond, FetchPollInterval: time.Millisecond,
	})
	return err
}

func (p *riverPeer) put(ctx context.Context, o order) error {
	many := make([]river.InsertManyParams, 0, perOrder)
	for _, t := range o.tickets() {
		many = append(many, river.InsertManyParams{Args: riverTicket(t), InsertOpts: &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}})
	}
	_, err := p.client.InsertManyFast(ctx, many)
	return err
}

func (p *riverPeer) work(ctx context.Context, n int) error {
	p.tally = newTally(n)
	if err := p.client.Start(ctx); err != nil {
		return err
	}
	if err := p.tally.await(ctx); err != nil {
		return err
	}
	return until(ctx, p.db, `SELECT count(*) FROM river_job WHERE state = 'completed'`, n)
}

func (p *riverPeer) rows(ctx context.Context) (r rows, err error) {
	r.done, r.most = p.tally.seen()
	return r, count(ctx, p.db, `SELECT count(*), count(DISTINCT args ->> 'key') FROM river_job`, &r.put, &r.keys)
}

func (p *riverPeer) close() error {
	var err error
	if p.tally != nil { // only then was it started
		err = p.client.Stop(context.Background())
	}
	return errors.Join(err, p.db.Close())
}
