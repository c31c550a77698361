package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mikestefanello/backlite"
)

const backliteWorkers = 500

var backliteKind = kind{
	name: "backlite", module: "github.com/mikestefanello/backlite", noKeys: true,
	how:  fmt.Sprintf("Add of 3 in one Save; %d workers, woken by itself, nothing retained", backliteWorkers),
	less: "no event, no order, no unique key; what is done is deleted and leaves no trace; jobs do nothing; every fetch sorts all that waits, so it slows down with a longer queue",
	open: openBacklite,
}

type backliteTicket ticket

func (backliteTicket) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "tickets", MaxAttempts: 5, Backoff: 5 * time.Second, Timeout: 10 * time.Second}
}

type backlitePeer struct {
	db      *sql.DB
	client  *backlite.Client
	tally   *tally
	trouble firstError
}

// firstError is what backlite would log: it returns no error of its workers.
type firstError chan error

func (firstError) Info(string, ...any) {}

func (f firstError) Error(message string, params ...any) {
	select {
	case f <- fmt.Errorf("%s %v", message, params):
	default: // there was one before
	}
}

func openBacklite(ctx context.Context, path string) (peer, error) {
	db, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	trouble := make(firstError, 1)
	p := &backlitePeer{db: db, trouble: trouble}
	p.client, err = backlite.NewClient(backlite.ClientConfig{DB: db, Logger: trouble, NumWorkers: backliteWorkers, ReleaseAfter: 10 * time.Minute})
	if err == nil {
		err = p.client.Install()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p.client.Register(backlite.NewQueue(func(_ context.Context, t backliteTicket) error {
		p.tally.worked(t.Key)
		return nil
	}))
	return p, nil
}

func (p *backlitePeer) put(ctx context.Context, o order) error {
	tasks := make([]backlite.Task, 0, perOrder)
	for _, t := range o.tickets() {
		tasks = append(tasks, backliteTicket(t))
	}
	_, err := p.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (p *backlitePeer) work(ctx context.Context, n int) error {
	p.tally = newTally(n)
	p.client.Start(ctx)
	if err := p.tally.await(ctx); err != nil {
		return err
	}
	return until(ctx, p.db, `SELECT count(*) FROM backlite_tasks`, 0)
}

func (p *backlitePeer) rows(ctx context.Context) (r rows, err error) {
	r.done, r.most = p.tally.seen()
	err = count(ctx, p.db, `SELECT count(*), count(DISTINCT CAST(task AS TEXT) ->> 'key') FROM backlite_tasks`, &r.put, &r.keys)
	return r.withDeleted(), err
}

func (p *backlitePeer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	if !p.client.Stop(ctx) {
		err = errors.New("its workers did not stop")
	}
	select {
	case trouble := <-p.trouble:
		err = errors.Join(err, trouble)
	default:
	}
	return errors.Join(err, p.db.Close())
}
