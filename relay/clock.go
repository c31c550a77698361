package relay

import (
	"context"
	"log/slog"
	"time"

	"comanda/store"
)

// WarnOfClock says whether the times of what follows can be right. Nothing waits for that.
func WarnOfClock(ctx context.Context, db *store.DB, log *slog.Logger) error {
	var behind time.Duration
	err := db.View(ctx, func(tx *store.Tx) (err error) {
		behind, err = tx.ClockBehind()
		return err
	})
	if behind > 0 {
		log.Warn("the clock stands before the last row of the file: times are not to be trusted until it is set; no ticket waits for that", "behind", behind.Round(time.Second).String())
	}
	return err
}
