package e2e

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// mutation is one guard that is taken out, and what must be seen then.
type mutation struct {
	guard  string
	proof  entry
	fails  string // the query or text of a step that fails with the guard out
	second string // the second line, or ""
	held   string // the step that passes all the same, because the second line holds
	both   string // the step that fails with both out
}

func mutations() []mutation {
	c := entry{name: "C", claim: claimC, run: proveC}
	b := entry{name: "B", claim: claimB, run: proveB}
	return []mutation{
		{guard: "unique-key", proof: b, fails: sqlTicketAgain, second: "dedupe", held: sqlTickets2041, both: sqlTickets2041},
		{guard: "fence", proof: fenceProof(), fails: sqlFingerprint, second: "ledger-check", held: sqlEffects2041, both: sqlEffects2041},
		{guard: "ledger-check", proof: c, fails: "SELECT count(*) FROM external_effects_log WHERE effect_key='refund:ORD-2060';"},
		{guard: "dedupe", proof: b, fails: "effect_key, count(*) FROM external_effects_log WHERE order_id='ORD-2041'", second: "unique-key", held: sqlTickets2041, both: sqlTickets2041},
		{guard: "one-decision", proof: c, fails: sqlKept("EVT-ORD-2051", "ORD-2051")},
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
				rows[i] = m.run(t, exe)
			})
		}
		t.Run("none", func(t *testing.T) { // the fence proof passes with everything in; TestProofs runs the others so
			t.Parallel()
			if r := proveMutant(t, exe, "", fenceProof()); !r.OK {
				t.Errorf("nothing is out and it fails: %s", failed(r))
			}
		})
	})
	t.Logf("\n%-13s | %-45s | %-45s | %s\n%s", "guard", "out alone", "second line", "both out", strings.Join(rows, "\n"))
}

func (m mutation) run(t *testing.T, exe string) (row string) {
	alone := proveMutant(t, exe, m.guard, m.proof)
	if !hasStep(alone, m.fails, false) {
		t.Errorf("without %s no step of proof %s fails at %s; these do: %s", m.guard, m.proof.name, m.fails, failed(alone))
	}
	second, both := "–", "–"
	if m.second != "" {
		if !hasStep(alone, m.held, true) {
			t.Errorf("without %s the second line %s did not hold at %s: %s", m.guard, m.second, m.held, failed(alone))
		}
		second = fmt.Sprintf("%s holds: %s", m.second, brief(m.held))
		r := proveMutant(t, exe, m.guard+","+m.second, m.proof)
		if !hasStep(r, m.both, false) {
			t.Errorf("without %s and %s no step of proof %s fails at %s; these do: %s", m.guard, m.second, m.proof.name, m.both, failed(r))
		}
		both = fmt.Sprintf("proof %s fails: %s", m.proof.name, brief(m.both))
	}
	return fmt.Sprintf("%-13s | %-45s | %-45s | %s", m.guard, "proof "+m.proof.name+" fails: "+brief(m.fails), second, both)
}

func proveMutant(t *testing.T, exe, without string, e entry) Result {
	t.Helper()
	var out bytes.Buffer
	r := must(runOne(t.Context(), Config{Exe: exe, without: without, Stdout: &out}, e, filepath.Join(t.TempDir(), e.name)))(t)
	if t.Failed() || testing.Verbose() {
		t.Logf("without %q: %s", without, failed(r))
	}
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
			fmt.Fprintf(&b, "\n  ✗ %s %s → %s (wanted %s)", brief(s.Text), brief(s.SQL), brief(s.Answer), brief(s.Want))
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
