package handlers

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/store"
)

// runRelay is POST /api/relay/run: one claim, carried out and settled before the answer. Only the
// relay knows how long that takes, so the server's own time-outs do not apply.
func (s *Server) runRelay(c echo.Context) error {
	if s.opt.RunRelay == nil {
		return notFound("this server has no relay")
	}
	conn := http.NewResponseController(c.Response())
	_ = conn.SetReadDeadline(time.Time{}) // unsupported only outside a real server
	_ = conn.SetWriteDeadline(time.Time{})
	run, err := s.opt.RunRelay(c.Request().Context())
	return ok(c, run, err)
}

// pauseRelay is POST /api/relay/pause: no relay of this file claims any more.
func (s *Server) pauseRelay(c echo.Context) error { return s.setPaused(c, true) }

// resumeRelay is POST /api/relay/resume.
func (s *Server) resumeRelay(c echo.Context) error { return s.setPaused(c, false) }

func (s *Server) setPaused(c echo.Context, paused bool) error {
	err := s.opt.DB.Update(c.Request().Context(), func(tx *store.Tx) error { return tx.Pause(paused, who(c)) })
	return ok(c, map[string]bool{"paused": paused}, err)
}

// who names the author of an act in the operator log.
func who(c echo.Context) string { return "api " + door.VisitorOf(c).Who }

// stats is the state of the file and the relay at one moment.
type stats struct {
	Outbox           store.Counts           `json:"outbox"`
	OldestPendingMS  int64                  `json:"oldest_pending_ms"`
	DuplicateEffects int64                  `json:"duplicate_effects"`
	DatabaseBytes    int64                  `json:"database_bytes"`
	WALBytes         int64                  `json:"wal_bytes"`
	Relay            relayStats             `json:"relay"`
	Targets          map[string]TargetState `json:"targets"`
}

type relayStats struct {
	Paused        bool   `json:"paused"`
	LastPassMSAgo *int64 `json:"last_pass_ms_ago"` // null when there was no pass yet
}

// getStats is GET /api/stats, read from the file in one transaction at each call.
func (s *Server) getStats(c echo.Context) error {
	st, err := s.opt.DB.Stats(c.Request().Context(), s.opt.TargetNames...)
	targets := map[string]TargetState{}
	for _, t := range st.Targets {
		targets[t.Name] = TargetState{Mode: t.Mode, State: t.State(st.At)}
	}
	return ok(c, stats{
		Outbox:           st.Outbox,
		OldestPendingMS:  st.OldestPendingMS,
		DuplicateEffects: st.DuplicateEffects,
		DatabaseBytes:    st.DatabaseBytes,
		WALBytes:         st.WALBytes,
		Relay:            relayStats{Paused: st.Paused, LastPassMSAgo: st.LastPassMSAgo},
		Targets:          targets,
	}, err)
}
