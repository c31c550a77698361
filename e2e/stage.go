package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What a proof starts its children with, beside what it wants to show.
var quick = []string{"--schedule", "@every 1s", "--log-format", "json"}

// serve starts a server on the proof's file and waits until it listens. crash is a crash plan or "".
func (p *proof) serve(crash string, args ...string) (*child, error) {
	return p.start("serve", crash, append([]string{"serve", "--db", p.file, "--addr", "127.0.0.1:0"}, args...))
}

// relay starts a relay on the proof's file.
func (p *proof) relay(name, crash string, args ...string) (*child, error) {
	return p.start(name, crash, append([]string{"relay", "--db", p.file}, args...))
}

func (p *proof) start(name, crash string, args []string) (*child, error) {
	if err := p.lookAway(); err != nil {
		return nil, err
	}
	c := command{exe: p.exe, dir: p.dir, name: name, args: append(args, quick...)}
	if crash != "" {
		c.env = append(c.env, CrashVar+"="+crash)
	}
	if p.without != "" {
		c.env = append(c.env, "COMANDA_WITHOUT="+p.without)
	}
	ch, err := c.start()
	if ch != nil {
		p.children = append(p.children, ch)
	}
	if err != nil && crash != "" && ch != nil && ch.hasDied() { // as planned, and before it could say that it works
		return ch, nil
	}
	return ch, err
}

// post sends an order and shows it with its answer in a few words.
func (p *proof) post(ctx context.Context, s *child, body, want string) (answer, error) {
	a, err := p.client.order(ctx, s.url, body)
	if err != nil {
		return a, fmt.Errorf("send %s: %w", body, err)
	}
	p.expect("POST /webhooks/orders\n"+breakJSON(body), a.brief(), want)
	return a, nil
}

// noLocksLeft checks that every lock file beside the database belongs to a relay that lives.
func (p *proof) noLocksLeft(alive int) error {
	beside, err := os.ReadDir(filepath.Dir(p.file)) // a Glob would read signs in the directory's name
	locks := 0
	for _, e := range beside {
		if strings.HasPrefix(e.Name(), filepath.Base(p.file)+".relay-") && strings.HasSuffix(e.Name(), ".lock") {
			locks++
		}
	}
	p.expect(p.text("proof.locks"), fmt.Sprint(locks), fmt.Sprint(alive))
	return err
}

// endAll ends children gently, in order, and wants exit code 0 of each. The client hangs up first:
// a server gives connections that never carried a request five seconds to do so.
func (p *proof) endAll(ctx context.Context, children ...*child) error {
	p.client.close()
	var errs []error
	for _, c := range children {
		errs = append(errs, c.endGently(ctx))
	}
	return errors.Join(errs...)
}
