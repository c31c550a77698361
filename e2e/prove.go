package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Config says what to prove and where.
type Config struct {
	Exe    string    // the built program
	Names  []string  // the proofs to run; empty means the five of the lesson
	All    bool      // every proof there is
	Dir    string    // where the temporary files lie; empty means the system's place for them
	Keep   string    // where the proofs' files are left, closed and checkpointed; empty keeps none
	JSON   bool      // one machine-readable document instead of text
	Stdout io.Writer // nil discards
	Lang   string    // of what is printed for a person, one of Languages; empty is English, as JSON always is
	Mutant string    // a build with the tag comanda_mutants, for tests; empty otherwise

	Appliance Appliance // for the proofs that have their hands on the disk

	words   words  // of Lang
	without string // guards that the children leave out, where Exe is such a build
}

// entry is one proof that can be asked for.
type entry struct {
	name  string
	claim message
	run   func(context.Context, *proof) error
	// inside: it needs its hands on the disk below the program, which is in the process that proves
	inside bool
}

func registry() []entry {
	return []entry{
		{name: "A", claim: claimA, run: proveA},
		{name: "B", claim: claimB, run: proveB},
		{name: "C", claim: claimC, run: proveC},
		{name: "D", claim: claimD, run: proveD},
		{name: "relays", claim: claimRelays, run: proveRelays},
		{name: "world", claim: claimWorld, run: proveWorld},
		{name: "kills", claim: claimKills, run: proveKills},
		{name: "power", claim: claimPower, run: provePower, inside: true},
		{name: "disk", claim: claimDisk, run: proveDisk, inside: true},
	}
}

// usual is how many of the registry are run when none is named: the five of the lesson.
const usual = 5

// Result is what became of one proof.
type Result struct {
	Name    string  `json:"name"`
	Claim   string  `json:"claim"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Steps   []Step  `json:"steps"`
	Faults  []Toll  `json:"faults,omitempty"` // what was lost and doubled, by class of fault
}

// Prove runs proofs against the built program and prints each step, each query and its answer. It
// returns an error when any of them fails; the text says which.
func Prove(ctx context.Context, c Config) error {
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	lang := c.Lang
	if c.JSON {
		lang = Languages[0]
	}
	var err error
	if c.words, err = speak(lang); err != nil {
		return err
	}
	results, err := prove(ctx, c)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(c.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(results); err != nil {
			return fmt.Errorf("print the results: %w", err)
		}
	}
	return verdict(c, results)
}

func verdict(c Config, results []Result) error {
	var failed []string
	seconds := 0.0
	for _, r := range results {
		seconds += r.Seconds
		if !r.OK {
			failed = append(failed, r.Name)
		}
	}
	if !c.JSON {
		printTolls(c.Stdout, c.words, results)
		fmt.Fprintln(c.Stdout, c.words.count("proof.summary", len(results), "Passed", len(results)-len(failed), "Seconds", fmt.Sprintf("%.1f", seconds)))
	}
	if len(failed) > 0 {
		return errors.New(c.words.text("proof.failed", "Failed", len(failed), "All", len(results), "Names", strings.Join(failed, ", ")))
	}
	return nil
}

// prove runs what c asks for, one proof after the other.
func prove(ctx context.Context, c Config) ([]Result, error) {
	if !canProve {
		return nil, errors.New("the proofs kill and stop processes by signals that this system does not have: run them on Linux, macOS or a BSD")
	}
	chosen, err := choose(c)
	if err != nil {
		return nil, err
	}
	if err := roomToKeep(c.Keep, chosen); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Dir, "comanda-prove-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the proofs' files: %w; --dir names another place", err)
	}
	defer os.RemoveAll(dir)
	results := make([]Result, 0, len(chosen))
	for _, e := range chosen {
		r, err := runOne(ctx, c, e, filepath.Join(dir, e.name))
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func choose(c Config) ([]entry, error) {
	all := registry()
	switch {
	case c.All:
		return all, nil
	case len(c.Names) == 0:
		return all[:usual], nil
	}
	var chosen []entry
	for _, name := range c.Names {
		found := false
		for _, e := range all {
			if strings.EqualFold(e.name, name) {
				chosen, found = append(chosen, e), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no proof %q: take some of %s", name, names(all))
		}
	}
	return chosen, nil
}

func names(entries []entry) string {
	var s []string
	for _, e := range entries {
		s = append(s, e.name)
	}
	return strings.Join(s, ", ")
}

// runOne runs one proof in a directory of its own. An error means that the run as a whole ends; a
// proof that fails is a Result.
func runOne(ctx context.Context, c Config, e entry, dir string) (Result, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Result{}, fmt.Errorf("make a directory for proof %s: %w", e.name, err)
	}
	p := newProof(c, e, dir)
	if !c.JSON {
		fmt.Fprintf(c.Stdout, "── %s ── %s\n", e.name, wrap(p.text(e.claim), len(e.name)+7))
	}
	began := time.Now()
	err := e.run(ctx, p)
	if err != nil {
		p.fault(err)
	}
	drained := p.end(ctx)
	r := Result{Name: e.name, Claim: p.text(e.claim), OK: p.ok(), Seconds: time.Since(began).Seconds(), Steps: p.steps, Faults: p.tolls}
	if !c.JSON {
		fmt.Fprintf(c.Stdout, "\n   %s %s\n\n", mark(r.OK), p.text("proof.end", "Name", e.name, "Checks", p.checks(), "Seconds", fmt.Sprintf("%.1f", r.Seconds)))
	}
	if ctx.Err() != nil {
		return r, fmt.Errorf("stopped during proof %s: %w", e.name, ctx.Err())
	}
	return r, keep(c.Keep, e.name, p.file, drained)
}
