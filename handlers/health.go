package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// leastFree is how many bytes the disk must have free for the server to count as ready, as for doctor.
const leastFree = store.LeastFree

// How long a look at the file may take: it, and a commit that only probes the disk, wait probeWait for their turn, and who
// asks for the look is answered after lookWait whatever has become of it.
const (
	probeWait = 2 * time.Second
	lookWait  = 3 * time.Second
)

// getHealth is GET /healthz: the process answers.
func (s *Server) getHealth(c echo.Context) error {
	return writeJSON(c, http.StatusOK, map[string]bool{"ok": true})
}

type readiness struct {
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// getReady is GET /readyz: 503 with a reason when an order sent now would likely not be taken or not
// be carried out. A paused relay is ready.
func (s *Server) getReady(c echo.Context) error {
	reasons, warnings := s.notReady()
	if len(reasons) > 0 {
		c.Response().Header().Set(echo.HeaderRetryAfter, "5")
		return writeJSON(c, http.StatusServiceUnavailable, readiness{Reason: strings.Join(reasons, "; "), Warnings: warnings})
	}
	return writeJSON(c, http.StatusOK, readiness{Ready: true, Warnings: warnings})
}

// notReady says why not, and what else is worth a look. It answers though the file does not: the watch asks
// nothing of it, and the look at it has its time.
func (s *Server) notReady() (reasons, warnings []string) {
	reason := s.looks.ask(s.lookAtFile, s.opt.DB.Writer) // first: a commit that it tries may put things right
	if s.opt.Watch != nil {
		reasons, warnings = s.opt.Watch()
	}
	if reason != "" && !slices.Contains(reasons, reason) {
		reasons = append(reasons, reason)
	}
	return reasons, warnings
}

// lookAtFile says why no order can be taken, or "". After a failed commit it tries a small one: without a relay
// and without orders nothing else would find out that the disk takes commits again. A disk that does not answer
// may keep it for as long as it likes.
func (s *Server) lookAtFile() string {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	err := s.opt.DB.View(ctx, func(*store.Tx) error { return nil })
	if err == nil && s.opt.DB.LastCommit() != nil {
		err = s.opt.DB.Update(ctx, (*store.Tx).Touch)
	}
	switch {
	case errors.Is(err, store.ErrMoved):
		return "the file, its -wal or its -shm was removed, moved or replaced; stop the server and put it back"
	case errors.Is(err, store.ErrOtherSchema):
		return "another comanda has brought the file up to date; stop this server and start that one"
	case errors.Is(err, context.DeadlineExceeded):
		if state := s.opt.DB.Writer(); state.Doing != store.Idle {
			return state.String()
		}
		return "the file is busy: neither its readers nor its writer came free within " + probeWait.String()
	case err != nil:
		if p := problemOf(err); p.Reason != "" {
			return "the last commit failed: " + p.Reason
		}
		return "the last commit failed; the log says why"
	}
	if s.opt.DB.Room() != nil {
		return "the disk is full"
	}
	if space, err := s.space(filepath.Dir(s.opt.DB.Path())); err == nil && space.Free < leastFree {
		return "the disk is full"
	}
	return ""
}

// looks lets one look at the file be under way at a time, however many ask for one.
type looks struct {
	wait  time.Duration // lookWait
	mu    sync.Mutex
	under *look // nil: none
}

// look is one look at the file, for all who ask while it lasts.
type look struct {
	began  time.Time
	done   chan struct{}
	reason string // once it is done
}

// ask returns what a look finds. One that takes too long is answered for by what the writer is about.
func (l *looks) ask(find func() string, writer func() store.WriterState) string {
	l.mu.Lock()
	under := l.under
	if under == nil {
		under = &look{began: time.Now(), done: make(chan struct{})}
		l.under = under
		go func() {
			under.reason = find()
			l.mu.Lock()
			l.under = nil
			l.mu.Unlock()
			close(under.done)
		}()
	}
	l.mu.Unlock()
	select {
	case <-under.done:
		return under.reason
	case <-time.After(time.Until(under.began.Add(l.wait))):
	}
	if state := writer(); state.Doing != store.Idle {
		return state.String()
	}
	return fmt.Sprintf("the disk has not answered for %s", time.Since(under.began).Round(time.Second))
}
