package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"comanda/store"
)

// Service tells the service manager that started this process how it fares, if there is one that asked
// (https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html). Nil tells nobody.
type Service struct {
	watched time.Duration // how long it waits for food; 0 when it does not watch this process
	turn    chan struct{} // who tells something holds it
}

// NewService looks whether a service manager asked this process to be told, in the variables that it sets for that.
func NewService() *Service {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	watched, err := daemon.SdWatchdogEnabled(false)
	if err != nil { // what can't be read was not asked for
		watched = 0
	}
	return &Service{watched: watched, turn: make(chan struct{}, 1)}
}

// States of a process, as a service manager knows them.
const (
	ServiceReady    = daemon.SdNotifyReady
	ServiceContent  = daemon.SdNotifyWatchdog
	ServiceStopping = daemon.SdNotifyStopping
)

// tellFor is how long telling may take: a service manager that does not listen keeps nobody for longer.
const tellFor = time.Second

// Tell sends a state. What is not heard is told again, or does not matter.
func (s *Service) Tell(state string) {
	if s == nil {
		return
	}
	late := time.After(tellFor)
	select {
	case s.turn <- struct{}{}:
	case <-late:
		return
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = daemon.SdNotify(false, state)
		<-s.turn
	}()
	select {
	case <-told:
	case <-late:
	}
}

// Feed is what a service manager that watches this process waits for: to be called while all is well. It is nil
// where nobody watches.
func (s *Service) Feed() func() {
	if s == nil || s.watched == 0 {
		return nil
	}
	return func() { s.Tell(ServiceContent) }
}

// Every is how often the service manager wants to be fed: a third of the time that it is ready to wait, and a second
// at most.
func (s *Service) Every() time.Duration {
	if s == nil || s.watched == 0 {
		return time.Second
	}
	return min(time.Second, max(time.Millisecond, s.watched/3))
}

// statusEvery is how often a service manager hears at the most how it stands with the rail.
const statusEvery = 3 * time.Second

// Report tells the service manager in one line how the process fares, whenever that has changed, until ctx ends.
func (s *Service) Report(ctx context.Context, line func(context.Context) string) {
	if s != nil {
		s.report(ctx, statusEvery, line)
	}
}

func (s *Service) report(ctx context.Context, every time.Duration, line func(context.Context) string) {
	last := ""
	for ctx.Err() == nil {
		if now := line(ctx); now != last && ctx.Err() == nil {
			s.Tell("STATUS=" + visible(now, true))
			last = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// ServiceLine is one line about what is wrong and about the rail: "3 tickets under way, the oldest for 2 min; refund is
// offline".
func ServiceLine(ctx context.Context, db *store.DB, wrong []string) string {
	words := wrong
	ctx, cancel := context.WithTimeout(ctx, time.Second) // of the wait for a reader
	defer cancel()
	err := db.View(ctx, func(tx *store.Tx) error {
		rail, err := railLine(tx)
		words = append(words[:len(wrong):len(wrong)], rail...)
		return err
	})
	if err != nil && len(wrong) == 0 {
		words = []string{"the file can't be read at the moment"}
	}
	return strings.Join(words, "; ")
}

func railLine(tx *store.Tx) ([]string, error) {
	counts, err := tx.Counts()
	if err != nil {
		return nil, err
	}
	oldest, err := tx.OldestPending()
	if err != nil {
		return nil, err
	}
	paused, err := tx.Paused()
	if err != nil {
		return nil, err
	}
	words := []string{waitingLine(counts.Waiting(), oldest)}
	if n := counts.Dead + counts.Review; n > 0 {
		words = append(words, fmt.Sprintf("%s for a person", plural(int(n), "ticket")))
	}
	if paused {
		words = append(words, "the relay is paused")
	}
	targets, err := tx.Targets()
	for _, t := range targets {
		if state := t.State(tx.Now()); state == "paused" || state == "offline" {
			words = append(words, t.Name+" is "+state)
		}
	}
	return words, err
}

// waitingLine tells the age in steps so wide that the line of a rail that moves stays the same.
func waitingLine(n, oldestMS int64) string {
	age := time.Duration(oldestMS) * time.Millisecond
	switch {
	case n == 0:
		return "nothing waits"
	case age < time.Minute:
		return plural(int(n), "ticket") + " under way"
	case age < 2*time.Hour:
		return fmt.Sprintf("%s under way, the oldest for %d min", plural(int(n), "ticket"), age/time.Minute)
	}
	return fmt.Sprintf("%s under way, the oldest for %d h", plural(int(n), "ticket"), age/time.Hour)
}
