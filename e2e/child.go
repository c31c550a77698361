package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// child is one process of the built program.
type child struct {
	name string // "serve", "relay 2"
	pid  int

	url    string // of a serve, once it listens
	holder string // of a relay, once it has started

	gone    chan struct{} // closed when it has ended
	stopped chan struct{} // one signal for each time it was stopped

	mu       sync.Mutex
	ended    bool
	killed   bool // ended by SIGKILL
	code     int  // exit code otherwise
	expected bool // its end is no surprise
	tail     []string
	watchers map[string]chan string
}

// command says how to start a child.
type command struct {
	exe  string
	dir  string
	env  []string // beside the scrubbed environment
	name string
	args []string
}

// scrubbed is the environment of every child: enough to run, and nothing that could point it at a
// shop's own file or targets. What a proof sets comes on top.
func scrubbed() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SYSTEMROOT"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// start starts a child and waits until it works. A child is returned even with an error: whoever
// starts one ends it, by kill at the latest.
func (c command) start() (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd := exec.Command(c.exe, c.args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.SysProcAttr = c.dir, append(scrubbed(), c.env...), w, procAttr()
	err = cmd.Start()
	w.Close() // the child has its own; with ours open the log would never end
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), r.Close())
	}
	ch := &child{
		name: c.name, pid: cmd.Process.Pid, gone: make(chan struct{}), stopped: make(chan struct{}, 16),
		watchers: map[string]chan string{},
	}
	_ = cmd.Process.Release() // reap waits for the pid itself, since it also wants to hear of stops
	log := make(chan struct{})
	ready := ch.watch(readyLine[c.args[0]])
	go func() { defer close(log); ch.read(r) }()
	go func() { ch.reap(); <-log; close(ch.gone) }()
	return ch, ch.awaitReady(ready)
}

// readyLine is what a command logs once it works: a server where it listens, a relay under which name
// it holds its tickets.
var readyLine = map[string]string{"serve": `"msg":"listening"`, "relay": `"msg":"relaying"`, "world": `"msg":"listening"`}

func (c *child) awaitReady(line <-chan string) error {
	text, err := c.await(context.Background(), line, "its work")
	if err != nil {
		return err
	}
	var l struct{ URL, Holder string }
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.URL+l.Holder == "" {
		return fmt.Errorf("%s said that it works, but not where: %s", c.name, text)
	}
	c.url, c.holder = l.URL, l.Holder
	return nil
}

const tailLines = 12

// read keeps the last lines that the child logs and hands out those that somebody waits for.
func (c *child) read(r io.ReadCloser) {
	defer r.Close()
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		c.mu.Lock()
		if len(c.tail) == tailLines {
			c.tail = c.tail[1:]
		}
		line := in.Text()
		c.tail = append(c.tail, line)
		for part, found := range c.watchers {
			if strings.Contains(line, part) {
				found <- line
				delete(c.watchers, part)
			}
		}
		c.mu.Unlock()
	}
}

// watch returns a channel that gets the first line logged from now on that contains part.
func (c *child) watch(part string) <-chan string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(chan string, 1)
	c.watchers[part] = found
	return found
}

// await waits for a line that is being watched for.
func (c *child) await(ctx context.Context, line <-chan string, what string) (string, error) {
	select {
	case text := <-line:
		return text, nil
	case <-c.gone:
		select {
		case text := <-line: // the last thing it said
			return text, nil
		default:
			return "", c.complain("ended before it came to " + what)
		}
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(patience):
		return "", c.complain("did not come to " + what)
	}
}

func (c *child) complain(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s (pid %d) %s; the last it logged:\n%s", c.name, c.pid, what, strings.Join(c.tail, "\n"))
}

// unexpected returns an error if the child ended though nobody asked for that.
func (c *child) unexpected() error {
	select {
	case <-c.gone:
	default:
		return nil
	}
	c.mu.Lock()
	expected := c.expected
	c.mu.Unlock()
	if expected {
		return nil
	}
	return c.complain("ended by itself")
}

func (c *child) expectEnd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected = true
}

func (c *child) waitGone(ctx context.Context) error {
	c.expectEnd()
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return c.complain("did not end")
	}
}

// hasDied reports whether the child has died of SIGKILL.
func (c *child) hasDied() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// waitKilled waits until the child has died of SIGKILL.
func (c *child) waitKilled(ctx context.Context) error {
	if err := c.waitGone(ctx); err != nil {
		return err
	}
	if !c.killed {
		return c.complain(fmt.Sprintf("was to be killed but exited with %d", c.code))
	}
	return nil
}

// waitStopped waits until the child has been stopped.
func (c *child) waitStopped(ctx context.Context) error {
	select {
	case <-c.stopped:
		return nil
	case <-c.gone:
		return c.complain("ended instead of being stopped")
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return c.complain("was not stopped")
	}
}

// endGently asks the child to end, as a service manager would, and wants exit code 0.
func (c *child) endGently(ctx context.Context) error {
	c.expectEnd()
	c.terminate()
	if err := c.waitGone(ctx); err != nil {
		return err
	}
	if c.killed || c.code != 0 {
		return c.complain(fmt.Sprintf("was asked to end and exited with %d", c.code))
	}
	return nil
}
