package e2e

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// toll is what became of one class of faults.
type toll struct {
	class     message
	tried     int
	lost      int // acknowledged orders that are not there, or one of whose effects is not
	doubled   int // effects that stand in the world more than once
	corrupt   int // files that can't be opened or are damaged
	broken    int // invariants that do not hold, things that are there by half, effects that nobody asked for
	found     []string
	recovered []time.Duration // from the fault's end, or the start after it, until orders are taken again
}

const faultsShown = 5

// find notes a fault in words; only the first few are kept.
func (t *toll) find(format string, args ...any) {
	if len(t.found) < faultsShown {
		t.found = append(t.found, fmt.Sprintf(format, args...))
	}
}

// count adds what the checker found in a file.
func (t *toll) count(a account, where string) {
	t.lost += len(a.lost)
	t.doubled += len(a.doubled)
	t.broken += len(a.broken) + len(a.strange)
	if !a.sound() {
		t.find("%s: %s", where, a)
	}
}

// damaged notes a file that could not be looked at.
func (t *toll) damaged(err error, where string) {
	t.corrupt++
	t.find("%s: %v", where, err)
}

// add adds what another one of its class found.
func (t *toll) add(other *toll) {
	t.tried += other.tried
	t.lost, t.doubled, t.corrupt, t.broken = t.lost+other.lost, t.doubled+other.doubled, t.corrupt+other.corrupt, t.broken+other.broken
	t.recovered = append(t.recovered, other.recovered...)
	for _, f := range other.found {
		t.find("%s", f)
	}
}

// recovery is the median and the longest of the recoveries, "–" where there is none to time.
func (t *toll) recovery(in words) string {
	if len(t.recovered) == 0 {
		return "–"
	}
	slices.Sort(t.recovered)
	return in.text("toll.recovery", "Median", short(t.recovered[len(t.recovered)/2]), "Most", short(t.recovered[len(t.recovered)-1]))
}

// Toll is what became of one class of faults, for a table.
type Toll struct {
	Class     string `json:"class"`
	Tried     int    `json:"tried"`
	Lost      int    `json:"lost"`
	Doubled   int    `json:"doubled"`
	Recovered string `json:"recovered"` // median and longest, in words
}

func (t *toll) public(in words) Toll {
	return Toll{Class: in.text(t.class), Tried: t.tried, Lost: t.lost + t.corrupt + t.broken, Doubled: t.doubled, Recovered: t.recovery(in)}
}

const tollRow = "%-44s %8s %6s %8s   %s\n"

// printTolls prints a table of all faults that were tried, if there were any.
func printTolls(w io.Writer, in words, results []Result) {
	head := false
	for _, r := range results {
		for _, t := range r.Faults {
			if !head {
				fmt.Fprintf(w, tollRow, in.text("world.fault"), in.text("toll.head-tried"), in.text("toll.head-lost"), in.text("toll.head-doubled"), in.text("toll.head-recovered"))
				head = true
			}
			fmt.Fprintf(w, tollRow, t.Class, thousands(t.Tried), thousands(t.Lost), thousands(t.Doubled), t.Recovered)
		}
	}
	if head {
		fmt.Fprintln(w)
	}
}
