package store

import "time"

// Letter is what is sent to a target: the body and the key as they were frozen with the ticket's first
// attempt. The same letter goes out at every try.
type Letter struct {
	Key  string // the idempotency key in its form for the wire
	Body []byte
}

// Evidence is what one send found out, on its own, about whether the effect happened. What follows from
// it, next to what earlier sends found out, is the relay's to say.
type Evidence string

// The kinds of evidence.
const (
	NotSent  Evidence = "not sent" // no byte of the letter left: nothing happened
	Happened Evidence = "done"     // the target says that it did it
	NotYet   Evidence = "not yet"  // 425, 429: it has not looked at the letter; it is about the caller
	Rejected Evidence = "rejected" // it says that it will not do this
	Denied   Evidence = "denied"   // 401, 403: it does not let us in
	NoPlace  Evidence = "no place" // 404, 405: there is nothing at this address, or this effect is refused
	Unknown  Evidence = "unknown"  // bytes left, and nobody knows what came of them
)

// Reply is the outcome of one send.
type Reply struct {
	Evidence    Evidence
	Status      int           // the HTTP status; 0 when no answer came
	Receipt     string        // the target's own id of what it did
	Detail      string        // one sentence, without secrets, for the story of the ticket
	RetryAfter  time.Duration // how long the target asks to wait, at most 24 h; 0 when it does not
	Unreachable bool          // it counts towards the target being offline
}

// Knowledge is what a lookup found out: whether the target knows a key.
type Knowledge string

// The answers to a lookup.
const (
	Found       Knowledge = "found"         // it did it
	Absent      Knowledge = "absent"        // it says that it never did
	CouldNotAsk Knowledge = "could not ask" // no answer that means anything: asked again later
	Unclear     Knowledge = "unclear"       // an answer that is neither
)

// Finding is the outcome of one lookup.
type Finding struct {
	Knowledge   Knowledge
	Status      int
	Receipt     string
	Detail      string
	RetryAfter  time.Duration
	Unreachable bool
}
