package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// root is comanda's own directory, seen from this module's.
const root = "../.."

// build builds comanda as it lies there.
func build(ctx context.Context, exe string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !bytes.HasPrefix(mod, []byte("module comanda\n")) {
		return fmt.Errorf("run this in e2e/peers of comanda's source: %s is not its directory", root)
	}
	return buildIn(ctx, root, exe)
}

// buildIn builds the program in dir.
func buildIn(ctx context.Context, dir, exe string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", exe, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", exe, err, out)
	}
	return nil
}

func comandaKind(exe string, tickets int) kind {
	return kind{
		name: "comanda", work: tickets,
		how:  "the built program with its standard settings (batch 100, 4 workers) over HTTP on loopback, keep-alive; its log, a line a request and a ticket, goes to a file",
		less: "event, order, tickets, credit check, history; claim, lease, ledger and effect row of every ticket",
		open: func(ctx context.Context, path string) (peer, error) { return openComanda(ctx, exe, path) },
	}
}

// comanda is a process of the built program.
type comanda struct {
	*server
	exe, path string
}

func openComanda(ctx context.Context, exe, path string) (peer, error) {
	c := &comanda{exe: exe, path: path}
	if err := c.serve(ctx, "--no-relay"); err != nil {
		return nil, err
	}
	if _, err := c.client.do(ctx, http.MethodPut, "/api/customers/CUS-7/credit", []byte(`{"limit":"1000000.00","currency":"MXN"}`)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *comanda) serve(ctx context.Context, more ...string) (err error) {
	args := append([]string{"serve", "--db", c.path, "--addr", "127.0.0.1:0"}, more...)
	c.server, err = start(ctx, c.path+".log", regexp.MustCompile(`msg=listening url=http://(\S+)`), c.exe, args...)
	return err
}

func (c *comanda) put(ctx context.Context, o order) error { return c.client.order(ctx, o) }

// work has a server with a relay begin with all tickets waiting: it is paused before it starts, so that
// its start is not measured, and it is asked from outside when it is done.
func (c *comanda) work(ctx context.Context, n int) error {
	if _, err := c.client.do(ctx, http.MethodPost, "/api/relay/resume", nil); err != nil {
		return err
	}
	return look(c.path, func(db *sql.DB) error {
		return until(ctx, db, `SELECT EXISTS (SELECT 1 FROM outbox WHERE status = 'pending') + EXISTS (SELECT 1 FROM outbox WHERE status = 'processing')`, 0)
	})
}

// ready makes everything ready for work.
func (c *comanda) ready(ctx context.Context) error {
	if _, err := c.client.do(ctx, http.MethodPost, "/api/relay/pause", nil); err != nil {
		return err
	}
	if err := c.server.stop(); err != nil {
		return err
	}
	return c.serve(ctx)
}

func (c *comanda) rows(ctx context.Context) (r rows, err error) {
	return r, look(c.path, func(db *sql.DB) error { return count(ctx, db, countOutbox, &r.put, &r.keys, &r.done, &r.most) })
}

// look reads another process's file.
func look(path string, fn func(*sql.DB) error) error {
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(fn(db), db.Close())
}

// close ends the program and has its own doctor look at the file: pragmas, integrity and what must
// never be.
func (c *comanda) close() error {
	if err := c.server.stop(); err != nil {
		return err
	}
	cmd := exec.Command(c.exe, "doctor", "--db", c.path)
	cmd.Env = scrubbed()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("comanda doctor: %w\n%s", err, out)
	}
	return nil
}

// server is a program that listens, and its client.
type server struct {
	cmd    *exec.Cmd
	log    string
	client *client
}

// start starts a program that logs into a file, and waits for the line in which it says where it listens.
func start(ctx context.Context, log string, says *regexp.Regexp, exe string, args ...string) (*server, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it has its own
	s := &server{cmd: exec.Command(exe, args...), log: log}
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = scrubbed(), f, f
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(patience); ; {
		text, err := os.ReadFile(log)
		if m := says.FindSubmatch(text); m != nil {
			s.client = newClient(string(m[1]))
			return s, nil
		}
		if err == nil && time.Now().After(deadline) {
			err = errors.New("it does not listen")
		}
		if err == nil {
			err = pause(ctx, 2*time.Millisecond)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w\n%s", exe, err, text), s.cmd.Process.Kill(), s.cmd.Wait())
		}
	}
}

// stop asks it to end, as a service manager would.
func (s *server) stop() error {
	err := errors.Join(s.client.close(), s.cmd.Process.Signal(os.Interrupt), s.cmd.Wait())
	if err != nil {
		text, _ := os.ReadFile(s.log)
		return fmt.Errorf("end %s: %w\n%s", s.cmd.Path, err, text[max(0, len(text)-2000):])
	}
	return nil
}

// scrubbed is an environment in which nothing points at a shop's own file or targets.
func scrubbed() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COMANDA_") {
			env = append(env, v)
		}
	}
	return env
}
