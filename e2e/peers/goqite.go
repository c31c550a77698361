package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"maragu.dev/goqite"
)

const goqiteWorkers = 4

var goqiteKind = kind{
	name: "goqite", module: "maragu.dev/goqite", noKeys: true,
	how:  fmt.Sprintf("3 × SendTx in one transaction; %d workers on Receive and Delete, never idle, 5 s timeout", goqiteWorkers),
	less: "no event, no order, no unique key; what is done is deleted and leaves no trace; jobs do nothing",
	open: openGoqite,
}

type goqitePeer struct {
	db    *sql.DB
	queue *goqite.Queue
	tally *tally
}

// goqiteSchema is what its README has a user install: goqite v0.4.0, schema_sqlite.sql.
const goqiteSchema = `create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;

create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;

create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);`

func openGoqite(ctx context.Context, path string) (peer, error) {
	db, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, goqiteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &goqitePeer{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "tickets", Timeout: 5 * time.Second})}, nil
}

func (p *goqitePeer) put(ctx context.Context, o order) error {
	return inTx(ctx, p.db, func(tx *sql.Tx) error {
		for _, t := range o.tickets() {
			body, err := json.Marshal(t)
			if err != nil {
				return err
			}
			if err := p.queue.SendTx(ctx, tx, goqite.Message{Body: body}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *goqitePeer) work(ctx context.Context, n int) error {
	p.tally = newTally(n)
	errs := make([]error, goqiteWorkers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = p.drain(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// drain is one worker, until there is nothing left.
func (p *goqitePeer) drain(ctx context.Context) error {
	for {
		m, err := p.queue.Receive(ctx)
		if err != nil || m == nil {
			return err
		}
		var t ticket
		if err := json.Unmarshal(m.Body, &t); err != nil {
			return err
		}
		p.tally.worked(t.Key)
		if err := p.queue.Delete(ctx, m.ID); err != nil {
			return err
		}
	}
}

// rows counts those that were deleted when done by what the workers saw.
func (p *goqitePeer) rows(ctx context.Context) (r rows, err error) {
	r.done, r.most = p.tally.seen()
	err = count(ctx, p.db, `SELECT count(*), count(DISTINCT body ->> 'key') FROM goqite`, &r.put, &r.keys)
	return r.withDeleted(), err
}

// withDeleted is for those who delete what is done: what was worked and what is left were put.
func (r rows) withDeleted() rows {
	r.put += r.done
	r.keys += r.done
	return r
}

func (p *goqitePeer) close() error { return p.db.Close() }
