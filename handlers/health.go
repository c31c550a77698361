package handlers

import (
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/labstack/echo/v4"
)

// leastFree is how many bytes the disk must have free for the server to count as ready.
const leastFree = 1 << 20

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
	if reason := s.notReady(); reason != "" {
		c.Response().Header().Set(echo.HeaderRetryAfter, "5")
		return writeJSON(c, http.StatusServiceUnavailable, readiness{Reason: reason})
	}
	return writeJSON(c, http.StatusOK, readiness{Ready: true})
}

// notReady says why not, or "".
func (s *Server) notReady() string {
	if err := s.opt.DB.LastCommit(); err != nil {
		if p := problemOf(err); p.Reason != "" {
			return "the last commit failed: " + p.Reason
		}
		return "the last commit failed; the log says why"
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
