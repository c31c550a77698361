package e2e

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// mutation is one guard that is taken out, and what must be seen then.
type mutation struct {
	guard  string
	proof  entry
	fails  seen   // the step that fails with the guard out
	second string // the second line, or ""
	held   seen   // the step that passes all the same, because the second line holds
	both   seen   // the step that fails with both out
}

// seen is a step, by a part of its query or text, and what it shows in a few words.
type seen struct{ step, words string }

func mutations() []mutation {
	c := entry{name: "C", claim: claimC, run: proveC}
	b := entry{name: "B", claim: claimB, run: proveB}
	twice := "SELECT count(*) FROM external_effects_log WHERE effect_key='refund:ORD-2060';"
	bothWays := "SELECT effect_key, count(*) FROM external_effects_log WHERE order_id='ORD-2041'"
	return []mutation{
		{guard: "unique-key", proof: b, fails: seen{sqlTicketAgain, "the lesson's INSERT … ON CONFLICT finds no key"},
			second: "dedupe", held: seen{sqlTickets2041, "one ticket"}, both: seen{sqlTickets2041, "two tickets with one key"}},
		{guard: "fence", proof: fenceProof(), fails: seen{sqlFingerprint, "the late relay changes a done ticket"},
			second: "ledger-check", held: seen{sqlEffects2041, "one refund"}, both: seen{sqlEffects2041, "two refunds"}},
		{guard: "ledger-check", proof: c, fails: seen{twice, "a refund that the ledger knows goes out again"}},
		{guard: "dedupe", proof: b, fails: seen{bothWays, "an order is decided both ways"},
			second: "unique-key", held: seen{sqlTickets2041, "one ticket"}, both: seen{sqlTickets2041, "two tickets with one key"}},
		{guard: "one-decision", proof: c, fails: seen{sqlKept("EVT-ORD-2051", "ORD-2051"), "an event is kept without its ticket"}},
	}
}

// Each guard is really taken out of a build made for that: a proof fails, or it is named which second
// line held, and a proof fails with both out. A proof that could not fail would prove nothing.
func TestMutations(t *testing.T) {
	exe := builtMutant(t)
	rows := make([]string, len(mutations()))
	t.Run("out", func(t *testing.T) {
		for i, m := range mutations() {
			t.Run(m.guard, func(t *testing.T) {
				t.Parallel()
				if rows[i] = m.run(t, exe); t.Failed() {
					rows[i] = m.guard + ": not as it was thought, see above"
				}
			})
		}
		t.Run("nothing", func(t *testing.T) { // TestProofs runs the others with nothing out
			t.Parallel()
			if r := proveMutant(t, exe, "", fenceProof()); !r.OK {
				t.Errorf("nothing is out and it fails: %s", failed(r))
			}
		})
	})
	t.Logf("\n"+tableRow+"\n%s", "guard", "out alone", "second line", "both out", strings.Join(rows, "\n"))
}

const tableRow = "%-12s | %-61s | %-25s | %s"

func (m mutation) run(t *testing.T, exe string) (row string) {
	alone := proveMutant(t, exe, m.guard, m.proof)
	if !hasStep(alone, m.fails.step, false) {
		t.Errorf("without %s no step of proof %s fails at %s; these do: %s", m.guard, m.proof.name, m.fails.step, failed(alone))
	}
	fails := fmt.Sprintf("%s fails: %s", m.proof.name, m.fails.words)
	if m.second == "" {
		return fmt.Sprintf(tableRow, m.guard, fails, "–", "–")
	}
	if !hasStep(alone, m.held.step, true) {
		t.Errorf("without %s the second line %s did not hold at %s: %s", m.guard, m.second, m.held.step, failed(alone))
	}
	both := proveMutant(t, exe, m.guard+","+m.second, m.proof)
	if !hasStep(both, m.both.step, false) {
		t.Errorf("without %s and %s no step of proof %s fails at %s; these do: %s", m.guard, m.second, m.proof.name, m.both.step, failed(both))
	}
	return fmt.Sprintf(tableRow, m.guard, fails, m.second+": "+m.held.words, m.proof.name+" fails: "+m.both.words)
}

func proveMutant(t *testing.T, exe, without string, e entry) Result {
	t.Helper()
	r := must(runOne(t.Context(), Config{Exe: exe, without: without, Stdout: io.Discard}, e, filepath.Join(t.TempDir(), e.name)))(t)
	t.Logf("without %q: %s", without, failed(r))
	return r
}

// hasStep tells whether every step, or any, that asks for part passed: all of them for ok, one of
// them for not ok.
func hasStep(r Result, part string, ok bool) bool {
	found, failed := false, false
	for _, s := range r.Steps {
		if strings.Contains(s.SQL, part) || strings.Contains(s.Text, part) {
			found, failed = true, failed || !s.OK
		}
	}
	return found && failed != ok
}

func failed(r Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		if !s.OK {
			text := brief(s.Text)
			if s.Want == "" { // the proof could not be carried through
				text = s.Text
			}
			fmt.Fprintf(&b, "\n  ✗ %s %s → %s (wanted %s)", text, brief(s.SQL), brief(s.Answer), brief(s.Want))
		}
	}
	if b.Len() == 0 {
		return "no step failed"
	}
	return b.String()
}

func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 70 {
		s = s[:69] + "…"
	}
	return s
}
