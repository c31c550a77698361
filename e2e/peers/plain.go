package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

var plainKind = kind{
	name: "by hand",
	how:  "event, order and 3 tickets in one transaction of prepared statements; one worker, a ticket and its effect in one transaction",
	less: "the rows that comanda writes, and the effect; no claim, so no remote effect could be safe; no checks, no credit, no retries, no history",
	open: func(ctx context.Context, path string) (peer, error) { return openPlain(ctx, path) },
}

var plainHTTPKind = kind{
	name: "by hand, HTTP", module: "github.com/labstack/echo/v4",
	how:  "the same behind an echo handler that decodes the order, in this process; the same client as comanda's",
	less: plainKind.less,
	open: openPlainHTTP,
}

const plainSchema = `
CREATE TABLE events (event_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, body BLOB NOT NULL, received_at INTEGER NOT NULL) STRICT;
CREATE TABLE orders (order_id TEXT PRIMARY KEY, event_id TEXT NOT NULL, customer_id TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL, decided_at INTEGER NOT NULL) STRICT;
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, aggregate_id TEXT NOT NULL, payload TEXT NOT NULL, idempotency_key TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL DEFAULT 'pending', created_at INTEGER NOT NULL, processed_at INTEGER) STRICT;
CREATE INDEX outbox_pending ON outbox (id) WHERE status = 'pending';
CREATE TABLE ledger (effect_key TEXT PRIMARY KEY, order_id TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE external_effects_log (id INTEGER PRIMARY KEY, effect_key TEXT NOT NULL, order_id TEXT NOT NULL, occurred_at INTEGER NOT NULL) STRICT;`

type plainPeer struct {
	db                                         *sql.DB
	event, order, ticket, next, note, act, end *sql.Stmt
}

func openPlain(ctx context.Context, path string) (*plainPeer, error) {
	db, err := openFile(ctx, path)
	if err != nil {
		return nil, err
	}
	p := &plainPeer{db: db}
	_, err = db.ExecContext(ctx, plainSchema)
	for _, s := range []struct {
		into **sql.Stmt
		text string
	}{
		{&p.event, `INSERT INTO events VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`},
		{&p.order, `INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)`},
		{&p.ticket, `INSERT INTO outbox (aggregate_id, payload, idempotency_key, created_at) VALUES (?, ?, ?, ?)`},
		{&p.next, `SELECT id, aggregate_id, idempotency_key FROM outbox WHERE status = 'pending' ORDER BY id LIMIT 1`},
		{&p.note, `INSERT INTO ledger VALUES (?, ?, ?)`},
		{&p.act, `INSERT INTO external_effects_log (effect_key, order_id, occurred_at) VALUES (?, ?, ?)`},
		{&p.end, `UPDATE outbox SET status = 'done', processed_at = ? WHERE id = ?`},
	} {
		if err == nil {
			*s.into, err = db.PrepareContext(ctx, s.text)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return p, nil
}

func (p *plainPeer) put(ctx context.Context, o order) error { return p.take(ctx, o, o.body()) }

// take writes an event, its order and its tickets; an event that was there before changes nothing.
func (p *plainPeer) take(ctx context.Context, o order, body []byte) error {
	event, now := "EVT-"+o.id, time.Now().UnixMilli()
	return inTx(ctx, p.db, func(tx *sql.Tx) error {
		r, err := tx.StmtContext(ctx, p.event).ExecContext(ctx, event, o.id, body, now)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if _, err := tx.StmtContext(ctx, p.order).ExecContext(ctx, o.id, event, "CUS-7", "2154.00", "MXN", now); err != nil {
			return err
		}
		insert := tx.StmtContext(ctx, p.ticket)
		for _, t := range o.tickets() {
			if _, err := insert.ExecContext(ctx, o.id, string(t.Payload), t.Key, now); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *plainPeer) work(ctx context.Context, n int) error {
	for range n {
		if err := inTx(ctx, p.db, func(tx *sql.Tx) error { return p.workOne(ctx, tx) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *plainPeer) workOne(ctx context.Context, tx *sql.Tx) error {
	var id int64
	var order, key string
	if err := tx.StmtContext(ctx, p.next).QueryRowContext(ctx).Scan(&id, &order, &key); err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	_, err := tx.StmtContext(ctx, p.note).ExecContext(ctx, key, order, now)
	if err == nil {
		_, err = tx.StmtContext(ctx, p.act).ExecContext(ctx, key, order, now)
	}
	if err == nil {
		_, err = tx.StmtContext(ctx, p.end).ExecContext(ctx, now, id)
	}
	return err
}

// countOutbox counts in a file with comanda's tables.
const countOutbox = `SELECT count(*), count(DISTINCT idempotency_key), (SELECT count(*) FROM outbox WHERE status = 'done'),
  (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM external_effects_log GROUP BY effect_key)) FROM outbox`

func (p *plainPeer) rows(ctx context.Context) (r rows, err error) {
	return r, count(ctx, p.db, countOutbox, &r.put, &r.keys, &r.done, &r.most)
}

func (p *plainPeer) close() error { return p.db.Close() }

// plainHTTP is the same behind an echo handler.
type plainHTTP struct {
	*plainPeer
	server *http.Server
	client *client
	served chan error
}

func openPlainHTTP(ctx context.Context, path string) (peer, error) {
	p, err := openPlain(ctx, path)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	e := echo.New()
	e.POST(ordersPath, p.handle)
	h := &plainHTTP{p, &http.Server{Handler: e}, newClient(l.Addr().String()), make(chan error, 1)}
	go func() { h.served <- h.server.Serve(l) }()
	return h, nil
}

func (p *plainPeer) handle(c echo.Context) error {
	var in struct {
		Order string `json:"order_id"`
		Lines []struct {
			SKU      string
			Quantity int
		} `json:"line_items"`
	}
	body, err := readAll(c.Request())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error())
	}
	if len(in.Lines) != perOrder {
		return echo.NewHTTPError(http.StatusUnprocessableEntity, fmt.Sprintf("%d lines", len(in.Lines)))
	}
	if err := p.take(c.Request().Context(), order{in.Order}, body); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "accepted", "order_id": in.Order})
}

func (h *plainHTTP) put(ctx context.Context, o order) error { return h.client.order(ctx, o) }

func (h *plainHTTP) close() error {
	errs := []error{h.client.close(), h.server.Close()}
	if err := <-h.served; !errors.Is(err, http.ErrServerClosed) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, h.plainPeer.close())...)
}
