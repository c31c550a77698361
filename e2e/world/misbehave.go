package world

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// misbehave answers as the fault has it. Whether the effect was carried out was settled before.
func (w *World) misbehave(out http.ResponseWriter, r *http.Request, fault string) {
	switch strings.TrimPrefix(fault, "perform-then-") {
	case "hang":
		w.hang(r)
	case "reset":
		reset(out)
	case "drip":
		w.drip(out, r)
	case "endless":
		w.endless(out, r)
	case "redirect":
		http.Redirect(out, r, "/login", http.StatusFound)
	case "redirect-307":
		http.Redirect(out, r, "/login", http.StatusTemporaryRedirect)
	case "captive":
		page(out)
	case "wrong-json":
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, `[1,2`)
	case "not-json":
		_, _ = io.WriteString(out, "OK")
	case "says-failed":
		reply(out, http.StatusOK, map[string]string{"status": "failed"})
	default:
		status, _ := strconv.Atoi(strings.TrimPrefix(fault, "perform-then-")) // every other fault is a status
		if status == http.StatusTooManyRequests || status == http.StatusTooEarly {
			out.Header().Set("Retry-After", "2")
		}
		refuse(out, status, "fault")
	}
}

// hang waits until the client goes away or the world ends.
func (w *World) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-w.closing:
	}
}

// reset breaks the connection.
func reset(out http.ResponseWriter) {
	conn, _, err := http.NewResponseController(out).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to break a connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

const dripEvery = 300 * time.Millisecond

func (w *World) drip(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(out)
	_, err := io.WriteString(out, "{")
	for err == nil {
		if err = control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-w.closing:
			return
		case <-time.After(dripEvery):
			_, err = io.WriteString(out, " ")
		}
	}
}

func (w *World) endless(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(out, `{"id":"x"`)
	for blank := strings.Repeat(" ", 16<<10); err == nil && r.Context().Err() == nil; {
		select {
		case <-w.closing:
			return
		default:
			_, err = io.WriteString(out, blank)
		}
	}
}
