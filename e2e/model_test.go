package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"comanda/store"
)

const (
	modelSeeds = 26  // by default
	modelSteps = 120 // a seed
)

// What must have been reached over the default seeds, or the runs would show nothing.
var sometimes = []string{
	"duplicate while in flight", "event id reused for another order", "contradictory event refused",
	"killed at triage.before_commit", "killed at triage.after_commit", "killed before a settlement's commit",
	"stands still with a claim", "late settle fenced", "a late success made a ticket done",
	"reclaimed a void lease", "reclaimed the lease of a relay that stood still", "a relay died with a claim", "a relay died with a send unknown", "a relay died before it sent",
	"done in the lab", "done outside", "review", "dead", "retry of dead", "retry of review", "retry of pending", "discard of pending", "discard of dead", "resolve of review",
	"clock set back with a lease out", "reboot with an unknown send", "gateway did it, answer lost", "gateway knew the key",
	"paused target with due tickets", "weather offline", "lookup found", "lookup absent", "the ledger knew it", "key expired", "target paused by an answer",
}

// TestModel runs the store, the director, the relays and the effects through random commands and compares them
// with a model after each. Time is the bubble's; a seed tells a run.
//
//	COMANDA_MODEL_SEED=7 go test ./e2e -run TestModel -v     replays one seed and shortens what fails
//	COMANDA_MODEL_SEEDS=2000 go test ./e2e -run TestModel -v a soak
func TestModel(t *testing.T) {
	first, seeds, one := uint64(1), modelSeeds, false
	if s := os.Getenv("COMANDA_MODEL_SEED"); s != "" {
		first, seeds, one = must(strconv.ParseUint(s, 10, 64))(t), 1, true
	}
	if s := os.Getenv("COMANDA_MODEL_SEEDS"); s != "" {
		seeds = must(strconv.Atoi(s))(t)
	}
	if testing.Short() {
		seeds = min(seeds, 10)
	}
	empty := emptyFile(t)
	counts := map[string]int{}
	began := time.Now()
	for seed := first; seed < first+uint64(seeds); seed++ {
		conf, steps := drawRun(seed)
		_, ran, err := runModel(t, empty, conf, steps, counts)
		if err != nil {
			t.Fatal(shorten(t, empty, seed, conf, steps[:ran], err))
		}
	}
	t.Logf("%d seeds, %d steps each, commit %s, %v\n%s", seeds, modelSteps, commit(), time.Since(began).Round(time.Millisecond), coverage(counts))
	if one || seeds < modelSeeds {
		return
	}
	for _, state := range sometimes {
		if counts[state] == 0 {
			t.Errorf("never reached: %s", state)
		}
	}
}

func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.db")
	db := must(store.Open(t.Context(), path, store.Options{}))(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func drawRun(seed uint64) (modelConfig, []step) {
	luck := rand.New(rand.NewPCG(seed, 4))
	conf := drawConfig(luck)
	steps := make([]step, modelSteps)
	for i := range steps {
		steps[i] = step{luck.Uint64() >> 1, luck.Uint64() >> 1, luck.Uint64() >> 1, luck.Uint64() >> 1}
	}
	return conf, steps
}

// runModel makes one run; ran is how many steps it got through, the failing one included.
func runModel(t *testing.T, empty string, conf modelConfig, steps []step, counts map[string]int) (trace []string, ran int, err error) {
	dir, err := os.MkdirTemp(t.TempDir(), "run-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(*testing.T) {
		w, startErr := startModel(context.Background(), dir, empty, conf, counts)
		if err = startErr; err != nil {
			return
		}
		for _, s := range steps {
			ran++
			if err = w.run(s); err != nil {
				break
			}
		}
		if err == nil {
			err = w.drain()
		}
		w.countLetters()
		trace = w.trace
		if closeErr := w.close(); err == nil {
			err = closeErr
		}
	})
	return trace, ran, err
}

// drain heals everything, lets time pass, and looks whether each order came to its effects.
func (w *modelWorld) drain() error {
	w.note("all is well from here on")
	w.weather = calm
	for len(w.standing()) > 0 {
		if err := w.letGoOn(step{}); err != nil {
			return err
		}
	}
	w.m.paused = true
	if err := w.pauseAll(step{}); err != nil {
		return err
	}
	for i := range uint64(2) {
		if err := w.pauseTarget(step{a: i, b: 1}); err != nil {
			return err
		}
	}
	if len(w.relays) == 0 {
		if err := w.startRelay(); err != nil {
			return err
		}
	}
	for round := uint64(0); slices.ContainsFunc(w.m.tickets, func(t *mTicket) bool { return t.status == "pending" || t.status == "processing" }); round++ {
		if round == 600 {
			return fmt.Errorf("after %d passes in %v something still waits: %s", round, modelLease*time.Duration(round), w.m.stands())
		}
		if err := w.moves(pick(w.relays, round), "", round); err != nil {
			return err
		}
		time.Sleep(modelLease + time.Second)
		for i := range uint64(2) {
			if err := w.pauseTarget(step{a: i, b: 1}); err != nil { // a person sees that it lets us in again
				return err
			}
		}
	}
	return w.settled()
}

// settled says what is wrong when nothing waits any more.
func (w *modelWorld) settled() error {
	for _, t := range w.m.tickets {
		switch did := w.m.did(t); {
		case t.status == "done" && t.remote && !did && !t.noted:
			return fmt.Errorf("%s is done and never happened", t.key)
		case t.status == "discarded" && did:
			return fmt.Errorf("%s was discarded and happened", t.key)
		case t.status == "dead" && did && t.ledger == "" && !t.unknown:
			return fmt.Errorf("%s is dead, happened, and nobody is told", t.key)
		}
	}
	return w.lookAtTruth()
}

func (m *model) stands() string {
	var b strings.Builder
	for _, t := range m.tickets {
		fmt.Fprintf(&b, "\n  %d %s %s due %d attempts %d unknown %v", t.id, t.key, t.status, t.due, t.attempts, t.unknown)
	}
	return b.String()
}

// countLetters counts what the gateways saw.
func (w *modelWorld) countLetters() {
	for _, g := range w.gates {
		firstOf := map[string]time.Time{}
		for _, l := range g.letters {
			switch {
			case l.lookup && (l.fault.heard == "found" || l.fault.heard == "absent"):
				w.saw("lookup " + l.fault.heard)
			case l.fault.heard == "denied":
				w.saw("target paused by an answer")
			}
			if first, ok := firstOf[l.key]; ok && g.keyTTL > 0 && l.at.Sub(first) > g.keyTTL {
				w.saw("key expired")
			} else if !ok {
				firstOf[l.key] = l.at
			}
		}
	}
}

// shorten looks for the fewest steps that still fail, and tells how to see it again.
func shorten(t *testing.T, empty string, seed uint64, conf modelConfig, steps []step, err error) string {
	var trace []string
	try := func(some []step) bool {
		told, ran, failed := runModel(t, empty, conf, some, map[string]int{})
		if failed != nil {
			trace, err, steps = told, failed, some[:ran]
		}
		return failed != nil
	}
	try(steps)
	giveUp := time.Now().Add(10 * time.Second)
	for size := max(1, len(steps)/2); size > 0; size /= 2 {
		for at := 0; at+size <= len(steps) && time.Now().Before(giveUp); {
			if !try(slices.Concat(steps[:at], steps[at+size:])) {
				at += size
			}
		}
	}
	return fmt.Sprintf("%v\nafter %d steps (shortened) with %+v:\n  %s\nsee it again, at commit %s:\n  COMANDA_MODEL_SEED=%d go test ./e2e -run TestModel -v",
		err, len(steps), conf, strings.Join(trace, "\n  "), commit(), seed)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func coverage(counts map[string]int) string {
	states := slices.Clone(sometimes)
	for state := range counts {
		if !slices.Contains(states, state) {
			states = append(states, state)
		}
	}
	slices.Sort(states)
	var b strings.Builder
	for _, state := range states {
		fmt.Fprintf(&b, "%7d  %s\n", counts[state], state)
	}
	return b.String()
}
