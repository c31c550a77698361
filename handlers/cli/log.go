package cli

import (
	"io"
	"log/slog"
)

// Logger is a logger that writes to w as the settings say. Neither format lets a character through that breaks a line,
// acts on a terminal, or hides or turns what stands beside it.
func (c LogConfig) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // the command line has checked it
	opt := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(spelled{w}, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// spelled is a writer of lines of JSON, see spellOut.
type spelled struct{ w io.Writer }

func (s spelled) Write(b []byte) (int, error) {
	if _, err := s.w.Write(spellOut(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}
