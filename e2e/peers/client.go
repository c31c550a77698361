package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const ordersPath = "/webhooks/orders"

// client posts over keep-alive connections of its own, as many as are used at once. It does little
// more than the bytes need, since it shares the machine with whom it measures.
type client struct {
	addr string
	mu   sync.Mutex
	idle []*connection
}

type connection struct {
	net.Conn
	in  *bufio.Reader
	out bytes.Buffer
}

func newClient(addr string) *client { return &client{addr: addr} }

func (c *client) take() (*connection, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		defer c.mu.Unlock()
		free := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return free, nil
	}
	c.mu.Unlock()
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// patience is how long one answer may take.
const patience = 30 * time.Second

// do sends one request and wants 200. A connection that failed is not used again.
func (c *client) do(ctx context.Context, method, path string, body []byte) (answer []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := c.take()
	if err != nil {
		return nil, err
	}
	status, answer, err := conn.roundTrip(c.addr, method, path, body)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s %s: %w", method, path, err), conn.Close())
	}
	c.mu.Lock()
	c.idle = append(c.idle, conn)
	c.mu.Unlock()
	if status != http.StatusOK {
		return nil, fmt.Errorf("%s %s was answered with %d %s", method, path, status, answer)
	}
	return answer, nil
}

func (c *connection) roundTrip(host, method, path string, body []byte) (status int, answer []byte, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, err
	}
	c.out.Reset()
	fmt.Fprintf(&c.out, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, path, host, len(body))
	c.out.Write(body)
	if _, err := c.Write(c.out.Bytes()); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// order sends an order, which must be accepted now.
func (c *client) order(ctx context.Context, o order) error {
	answer, err := c.do(ctx, http.MethodPost, ordersPath, o.body())
	if err == nil && !bytes.Contains(answer, []byte(`"status":"accepted"`)) && !bytes.Contains(answer, []byte(`"status":"duplicate"`)) {
		err = fmt.Errorf("order %s was answered with %s", o.id, answer)
	}
	return err
}

func (c *client) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, conn := range c.idle {
		errs = append(errs, conn.Close())
	}
	c.idle = nil
	return errors.Join(errs...)
}

func readAll(r *http.Request) ([]byte, error) { return io.ReadAll(io.LimitReader(r.Body, 1<<20)) }
