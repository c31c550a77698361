package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is a sender that costs little itself, since it shares its cores with the server that it measures: requests are
// written as bytes over connections that stay open, and of an answer only its status and what it must hold are read.
type load struct {
	addr    string             // host:port
	request func(i int) []byte // the i-th, head and body
	wants   string             // what each answer holds; "" is content with the status 200
}

// took is how long each request took, sorted.
type took []time.Duration

// at is the time within which a part of the requests was answered, in milliseconds.
func (t took) at(part float64) float64 { return ms(t[min(len(t)-1, int(part*float64(len(t))))]) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// closed sends requests from..to over so many connections, each the next one as soon as it has an answer.
func (l load) closed(ctx context.Context, connections, from, to int) (took, time.Duration, error) {
	next := atomic.Int64{}
	next.Store(int64(from))
	return l.over(ctx, connections, to-from, func(time.Time) (int, time.Time, bool) {
		i := int(next.Add(1) - 1)
		return i, time.Now(), i < to
	})
}

// open sends requests from..to at a steady rate a second, whatever the answers do; each is counted from the moment at
// which it was due.
func (l load) open(ctx context.Context, connections, from, to int, rate float64) (took, time.Duration, error) {
	next := atomic.Int64{}
	next.Store(int64(from))
	return l.over(ctx, connections, to-from, func(begun time.Time) (int, time.Time, bool) {
		i := int(next.Add(1) - 1)
		due := begun.Add(time.Duration(float64(i-from) / rate * float64(time.Second)))
		if i < to {
			time.Sleep(time.Until(due))
		}
		return i, due, i < to
	})
}

// over makes the connections, and then runs them until next, which is told when they began, says that there is nothing
// left.
func (l load) over(ctx context.Context, connections, n int, next func(begun time.Time) (i int, since time.Time, more bool)) (took, time.Duration, error) {
	each := make([]took, connections)
	errs := make([]error, connections)
	lines := make([]*wire, connections)
	for c := range lines {
		line, err := l.dial(ctx)
		if err != nil {
			return nil, 0, err
		}
		defer line.conn.Close()
		lines[c] = line
	}
	begun := time.Now()
	var all sync.WaitGroup
	for c, line := range lines {
		all.Go(func() {
			for i, since, more := next(begun); more; i, since, more = next(begun) {
				if err := line.ask(l.request(i), l.wants); err != nil {
					errs[c] = fmt.Errorf("request %d: %w", i, err)
					return
				}
				each[c] = append(each[c], time.Since(since))
			}
		})
	}
	all.Wait()
	spent := time.Since(begun)
	sum := make(took, 0, n)
	for _, t := range each {
		sum = append(sum, t...)
	}
	slices.Sort(sum)
	err := errors.Join(errs...)
	if err == nil && len(sum) != n {
		err = fmt.Errorf("%d of %d requests were answered", len(sum), n)
	}
	return sum, spent, err
}

// wire is one connection.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

func (l load) dial(ctx context.Context) (*wire, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 8<<10)}, nil
}

// ask sends one request and reads its answer.
func (w *wire) ask(request []byte, wants string) error {
	if _, err := w.conn.Write(request); err != nil {
		return err
	}
	status, err := w.in.ReadString('\n')
	if err != nil {
		return err
	}
	length := -1
	for {
		head, err := w.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(head) <= 2 {
			break
		}
		if v, found := bytes.CutPrefix(head, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("an answer without a length: %s", status)
	}
	w.body = slices.Grow(w.body[:0], length)[:length]
	if _, err := io.ReadFull(w.in, w.body); err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200") || !bytes.Contains(w.body, []byte(wants)) {
		return fmt.Errorf("%s %s", strings.TrimSpace(status), w.body)
	}
	return nil
}

// orderRequest is the request of an order with three lines, as the lesson's shop sends it: with credit it comes to three tickets.
func orderRequest(i int) []byte {
	id := strconv.Itoa(i)
	body := `{"event_id":"EVT-` + id + `","order_id":"ORD-` + id + `","customer_id":"CUS-7","amount":2154.00,"currency":"MXN","line_items":[` +
		`{"sku":"CF-ARA-500","quantity":12},{"sku":"CF-ROB-250","quantity":2},{"sku":"MOL-01","quantity":1}]}`
	return []byte("POST /webhooks/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}
