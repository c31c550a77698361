package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// leastFree is how many bytes the disk must have free for the server to count as ready, as for doctor.
const leastFree = store.LeastFree

// probeWait is how long looking at the file, and a commit that only probes the disk, may wait for their turn.
const probeWait = 2 * time.Second

// getHealth is GET /healthz: the process answers.
func (s *Server) getHealth(c echo.Context) error {
	return writeJSON(c, http.StatusOK, map[string]bool{"ok": true})
}

type readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// getReady is GET /readyz: 503 with a reason when an order sent now would likely not be taken or not
// be carried out. A paused relay is ready.
func (s *Server) getReady(c echo.Context) error {
	if reason := s.notReady(c.Request().Context()); reason != "" {
		c.Response().Header().Set(echo.HeaderRetryAfter, "5")
		return writeJSON(c, http.StatusServiceUnavailable, readiness{Reason: reason})
	}
	return writeJSON(c, http.StatusOK, readiness{Ready: true})
}

// notReady says why not, or "". After a failed commit it tries a small one: without a relay and without
// orders nothing else would find out that the disk takes commits again.
func (s *Server) notReady(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
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
	if free, err := s.freeBytes(filepath.Dir(s.opt.DB.Path())); err == nil && free < leastFree {
		return "the disk is full"
	}
	if s.opt.Loop != nil {
		if state := s.opt.Loop(); state.SinceRound > state.Limit {
			return fmt.Sprintf("the relay's loop has not come round for %s, which is longer than %s",
				state.SinceRound.Round(time.Second), state.Limit.Round(time.Second))
		}
	}
	return ""
}
