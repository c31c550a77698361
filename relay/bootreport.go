package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"comanda/store"
)

// BootReport finds out what became of a file whose processes ended without a word, and says so in one line. It
// looks through the file while orders are taken.
type BootReport struct {
	DB     *store.DB
	Stop   store.UncleanStop // one with ID 0 is no unclean stop, and nothing is done
	Log    *slog.Logger
	Within time.Duration // how long tickets that were in flight are waited for; 0 means 15 s

	mu   sync.Mutex
	seen store.Verified
}

// Run looks, waits for what was in flight to be taken up again, and logs what it found. When ctx ends first it
// leaves that to the next start.
func (b *BootReport) Run(ctx context.Context) {
	if b.Stop.ID == 0 {
		return
	}
	if b.Within == 0 {
		b.Within = 15 * time.Second
	}
	began := time.Now()
	found, err := b.DB.Verify(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.Log.Error("the file could not be looked through after an unclean stop; the next start tries again", "error", err)
		}
		return
	}
	b.mu.Lock()
	b.seen = found
	b.seen.Lost += b.Stop.Missing
	b.mu.Unlock()
	resumed, parked, err := b.whereabouts(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.Log.Error("it could not be told what became of the tickets in flight; the next start tries again", "error", err)
		}
		return
	}
	report := b.words(began, found, resumed, parked)
	level := slog.LevelInfo
	if found.Damage != "" || found.Lost+found.Contradicts+b.Stop.Missing > 0 {
		level = slog.LevelError
	}
	b.Log.Log(ctx, level, report, "in_flight", len(b.Stop.InFlight), "resumed", resumed, "for_a_person", parked,
		"lost", found.Lost+b.Stop.Missing, "contradictions", found.Contradicts, "damage", found.Damage, "took", time.Since(began))
	err = b.DB.Update(ctx, func(tx *store.Tx) error { return tx.StopChecked(b.Stop.ID, report, found) })
	if err != nil && ctx.Err() == nil {
		b.Log.Warn("what was found after an unclean stop was not written down; the next start looks again", "error", err)
	}
}

// whereabouts waits a while for what was in flight.
func (b *BootReport) whereabouts(ctx context.Context) (resumed, parked int, err error) {
	for giveUp := time.Now().Add(b.Within); ; wait(ctx, 100*time.Millisecond) {
		err = b.DB.View(ctx, func(tx *store.Tx) (err error) {
			resumed, parked, err = tx.Whereabouts(b.Stop.InFlight)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || resumed+parked >= len(b.Stop.InFlight) || time.Now().After(giveUp) {
			return resumed, parked, err
		}
	}
}

// words is the report in one line. It says what was checked and nothing beyond.
func (b *BootReport) words(began time.Time, found store.Verified, resumed, parked int) string {
	line := fmt.Sprintf("restarted %s after an unclean stop · %s", began.Format("15:04"), inFlight(len(b.Stop.InFlight), resumed, parked))
	switch {
	case found.Damage != "":
		return line + " · THE FILE IS DAMAGED: " + found.Damage
	case found.Lost+b.Stop.Missing > 0:
		line += fmt.Sprintf(" · acknowledged lost AT LEAST %d (checked)", found.Lost+b.Stop.Missing)
	default:
		line += " · acknowledged lost 0 (checked)"
	}
	if b.Stop.Missing > 0 {
		line += fmt.Sprintf(" · at least %d places answered for are not in the file: the disk forgot them, or another copy was put in its place", b.Stop.Missing)
	}
	if found.Contradicts > 0 {
		line += fmt.Sprintf(" · %d rows contradict others: `comanda doctor` says which", found.Contradicts)
	}
	return line
}

func inFlight(n, resumed, parked int) string {
	line := fmt.Sprintf("in flight %d", n)
	switch {
	case n == 0:
	case n == 1 && resumed == 1:
		line += ", resumed"
	case n == 2 && resumed == 2:
		line += ", both resumed"
	case resumed == n:
		line += ", all resumed"
	default:
		line += fmt.Sprintf(", %d resumed", resumed)
	}
	if parked > 0 {
		line += fmt.Sprintf(", %d for a person", parked)
	}
	if waits := n - resumed - parked; waits > 0 {
		line += fmt.Sprintf(", %d waiting for a relay", waits)
	}
	return line
}

// Troubles is what was found, for the watchdog: damage, which no new process puts right, and what was lost.
func (b *BootReport) Troubles() (wrong, warnings []Trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen.Damage != "" {
		wrong = append(wrong, Trouble{store.Condition{Cause: "file damaged",
			Detail: "the file is damaged: stop every comanda on it and restore it from a backup; `comanda doctor` says what was found"}, false})
	}
	if b.seen.Lost > 0 {
		warnings = append(warnings, Trouble{store.Condition{Cause: "acknowledged orders lost",
			Detail: fmt.Sprintf("after an unclean stop at least %d things that were answered for are not in the file: the disk forgot them, or the file was replaced", b.seen.Lost)}, false})
	}
	if b.seen.Contradicts > 0 {
		warnings = append(warnings, Trouble{store.Condition{Cause: "rows contradict each other",
			Detail: fmt.Sprintf("%d rows say what others deny: `comanda doctor` says which", b.seen.Contradicts)}, false})
	}
	return wrong, warnings
}
