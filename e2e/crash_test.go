package e2e

import (
	"bytes"
	"strings"
	"testing"
)

// A plan is read strictly: a misspelt one must not pass for a run without a crash.
func TestCrashPointPlans(t *testing.T) {
	for _, c := range []struct {
		plan, name string
		nth        int64
		signal     selfSignal
	}{
		{"relay.claimed", "relay.claimed", 1, kill},
		{"relay.claimed:stop", "relay.claimed", 1, stop},
		{"effect.after_commit:2", "effect.after_commit", 2, kill},
		{"triage.before_commit:12:stop", "triage.before_commit", 12, stop},
	} {
		name, nth, signal, err := parsePlan(c.plan)
		if err != nil || name != c.name || nth != c.nth || signal != c.signal {
			t.Errorf("%s is read as %s, %d, %s, %v", c.plan, name, nth, signal, err)
		}
	}
	for _, plan := range []string{"nowhere", "relay.claimed:0", "relay.claimed:-1", "relay.claimed:x", "relay.claimed:1:2", "relay.claimed:stop:2", "relay.claimed:", ":", "RELAY.CLAIMED"} {
		if _, err := CrashPoints(plan, &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), plan) {
			t.Errorf("plan %q: %v", plan, err)
		}
	}
}

// Without a plan nothing is said and nothing happens; with one the process says so loudly, and other
// points don't count.
func TestCrashPointsAreLoud(t *testing.T) {
	var warn bytes.Buffer
	pass, err := CrashPoints("", &warn, nil)
	if err != nil || pass != nil || warn.Len() > 0 {
		t.Fatalf("%v, %q", err, warn.String())
	}
	pass, err = CrashPoints("relay.claimed:2", &warn, nil)
	if err != nil || !strings.Contains(warn.String(), "!!!") || !strings.Contains(warn.String(), "SIGKILL") {
		t.Fatalf("%v, %q", err, warn.String())
	}
	pass("relay.claimed")
	pass("effect.before_commit")
	pass("effect.before_commit")
}

// A program started with a plan that names nothing refuses to start.
func TestMisspeltPlanIsRefused(t *testing.T) {
	_, stderr, code := run(t, []string{CrashVar + "=relay.claim"}, builtProgram(t), "relay", "--db", "x.db")
	if code != 2 || !strings.Contains(stderr, "relay.claimed") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
