package handlers

import (
	"io"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// What the bodies of all requests under way may hold together. The first freeBody bytes of each count for
// nothing, so that no number of large bodies keeps a common order out; memory is bounded by both together:
// maxInFlight times freeBody and mostBodies, 32 MiB (TestBodiesAreBounded).
const (
	freeBody   = 16 << 10
	mostBodies = 16 << 20
)

// bounded counts the bytes of a body as they come, not as they are announced: whoever announces much and sends
// it slowly takes no room from others.
type bounded struct {
	io.ReadCloser
	all     *atomic.Int64 // of every request under way
	read    int64
	counted int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := min(b.read, maxBody) - freeBody - b.counted; more > 0 { // what is beyond maxBody is not kept
		b.counted += more
		if b.all.Add(more) > mostBodies {
			_, _ = io.CopyN(io.Discard, b.ReadCloser, dropBody-b.read) // a sender that writes before it reads sees the answer
			return 0, notNow("busy", 1, "too many large bodies at once; nothing was kept", nil)
		}
	}
	return n, err
}

// boundBodies refuses what would make the process hold more of bodies than it should.
func (s *Server) boundBodies(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		b := &bounded{ReadCloser: r.Body, all: &s.bodyBytes}
		r.Body = b
		defer func() {
			s.bodyBytes.Add(-b.counted)
			r.Body = b.ReadCloser // net/http knows its own, and then waits for no large body before it answers
		}()
		return next(c)
	}
}
