package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A child that can't start is noticed when it ends, with what it said.
func TestChildThatEndsIsNoticed(t *testing.T) {
	p := onFile(t, builtProgram(t))
	if _, err := p.serve("", "--batch", "0"); err == nil || !strings.Contains(err.Error(), "--batch must be") {
		t.Errorf("serve --batch 0: %v", err)
	}
}

// A process that stops itself right after its claim has really come to rest there: the file's write
// lock is free.
func TestStoppedOutsideOfTransactions(t *testing.T) {
	for range 8 {
		p := onFile(t, builtProgram(t))
		s := must(p.serve("", "--no-relay"))(t)
		if err := p.byHand(t.Context(), sqlTicketAgain, 1); err != nil {
			t.Fatal(err)
		}
		r := must(p.relay("relay", "relay.claimed:stop"))(t)
		if err := r.waitStopped(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := must(openOutside(p.file))(t)
		must(o.exec(t.Context(), "PRAGMA busy_timeout = 0"))(t)
		for _, text := range []string{"BEGIN IMMEDIATE", "ROLLBACK"} {
			if _, err := o.exec(t.Context(), text); err != nil {
				t.Error(fmt.Errorf("%s: %w", text, err))
			}
		}
		if err := o.close(); err != nil {
			t.Fatal(err)
		}
		r.resume()
		if err := p.untilDrained(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.endAll(t.Context(), r, s); err != nil {
			t.Fatal(err)
		}
	}
}
