package main

import (
	"context"
	"database/sql"
	"debug/buildinfo"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
)

// pocketbaseKinds builds PocketBase, which wants another SQLite than the rest, from the module beside
// this one: as it is, and with comanda's promise.
func pocketbaseKinds(ctx context.Context, exe string) ([]kind, error) {
	if err := buildIn(ctx, "pocketbase", exe); err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var all []kind
	for _, synchronous := range []string{"FULL", "NORMAL"} {
		how := fmt.Sprintf("%s with its own SQLite %s and pragmas, synchronous=%s (read back), request log as installed, one row an order over HTTP, the same client as comanda's",
			versions["github.com/pocketbase/pocketbase"], versions["modernc.org/sqlite"], synchronous)
		less := "the order as JSON under a unique key in one row; no tickets and nothing that works them"
		if synchronous == "NORMAL" {
			less += "; a power cut loses what was answered last"
		}
		all = append(all, kind{name: "PocketBase " + synchronous, how: how, less: less, acceptOnly: true,
			open: func(ctx context.Context, path string) (peer, error) {
				s, err := start(ctx, path+".log", regexp.MustCompile(`(?m)^listening http://(\S+)\n`), exe, filepath.Dir(path), synchronous)
				return &pocketbasePeer{s, filepath.Join(filepath.Dir(path), "data.db")}, err
			}})
	}
	return all, nil
}

type pocketbasePeer struct {
	*server
	path string
}

func (p *pocketbasePeer) put(ctx context.Context, o order) error {
	_, err := p.client.do(ctx, http.MethodPost, "/api/collections/orders/records", fmt.Appendf(nil, `{"key":%q,"body":%s}`, o.id, o.body()))
	return err
}

func (*pocketbasePeer) work(context.Context, int) error { return errors.New("it works nothing") }

// rows counts an order as its tickets, which are in it.
func (p *pocketbasePeer) rows(ctx context.Context) (r rows, err error) {
	err = look(p.path, func(db *sql.DB) error {
		return count(ctx, db, `SELECT count(*), count(DISTINCT body ->> 'order_id') FROM orders`, &r.put, &r.keys)
	})
	r.put, r.keys = r.put*perOrder, r.keys*perOrder
	return r, err
}

func (p *pocketbasePeer) close() error { return p.server.stop() }
