package relay

import "time"

// Observer is told what an instrument may want to count. Its funcs are called by whoever works, so they must be quick;
// nil is nobody. Targets are the key prefixes of effects, "other" for a ticket that no effect of this program carries out.
type Observer struct {
	// Turn is one ticket's turn in the hands of a worker, once what came of it is committed: took is from its beginning
	// to then. Outcome is done, already_done, too_late, retried, offline, dead, review, released, lost or, where it could
	// not be written down, unsettled.
	Turn func(target, outcome string, took time.Duration)
	// Sent is one request to a target outside. Kind is "send", with an outcome that is a store.Evidence, or "lookup",
	// with one that is a store.Knowledge.
	Sent func(target, kind, outcome string, took time.Duration)
}

func (o Observer) withDefaults() Observer {
	if o.Turn == nil {
		o.Turn = func(string, string, time.Duration) {}
	}
	if o.Sent == nil {
		o.Sent = func(string, string, string, time.Duration) {}
	}
	return o
}

// unsettled is the outcome of a turn that could not be written down.
const unsettled = "unsettled"

// turnOf names the target of an effect type for Turn.
func (r *Runner) turnOf(effectType string) string {
	if target := r.targetOf[effectType]; target != "" {
		return target
	}
	return "other"
}
