package relay

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"comanda/store"
)

// Door is one target outside. It sends a letter once, and never again by itself.
type Door interface {
	// Letter is what would be sent for a ticket; ledgerType is the effect's name in the ledger. Its error
	// wraps store.ErrUndecodable.
	Letter(w store.Work, ledgerType string) (store.Letter, error)
	Send(ctx context.Context, l store.Letter) store.Reply
	// Lookup asks whether a key, in its form for the wire, is known to have been carried out.
	Lookup(ctx context.Context, key string) store.Finding
}

// Remote says how a target is to be treated. Name, Address, Door and Timeout are required.
type Remote struct {
	Name        string // the key prefix of its effects
	Address     string // as store.Address makes it
	Door        Door
	Timeout     time.Duration // of one send or lookup, which the lease must outlast
	KeyTTL      time.Duration // how long the target honours a key; 0 means that it honours none
	CanLookup   bool
	LookupGrace time.Duration // how long after the last byte a target may still not know what it was sent
	Rate        float64       // sends a second; 0 means as fast as they go
	Concurrency int           // sends at once; 0 means 4
	Credential  string        // compared with another one after the target has refused it
	Offline     bool          // it could not be reached when it was last tried
}

func (r Remote) withDefaults() Remote {
	if r.Concurrency == 0 {
		r.Concurrency = 4
	}
	return r
}

// step is what is to be done next for a ticket.
type step struct {
	do  string // stepSend, stepLookup, stepRemember, stepPark, stepRelease
	why string
}

const (
	stepSend     = "send"
	stepLookup   = "lookup"
	stepRemember = "remember"
	stepPark     = "park"
	stepRelease  = "release" // there is no time left for a send or a lookup
)

// plan decides by what is known of a ticket's past. Nothing is sent blindly after the target may have
// forgotten the key.
func (r Remote) plan(t store.Ticket, p store.Past, budget int64) step {
	switch {
	case p.InLedger:
		return step{stepRemember, "its effect is in the ledger"}
	case p.Unknown == 0:
		return step{stepSend, ""}
	case p.Elsewhere != "":
		return step{stepPark, fmt.Sprintf("sent to an address that is no longer configured (%s): ask there whether it happened", p.Elsewhere)}
	case r.CanLookup && refused(p):
		return step{stepLookup, ""}
	case r.remembers(p) && t.Failures < budget:
		return step{stepSend, ""}
	case r.CanLookup:
		return step{stepLookup, ""}
	}
	return step{stepPark, r.whyPark(t, budget)}
}

// whyPark tells a person why nothing is sent any more, and what was heard last.
func (r Remote) whyPark(t store.Ticket, budget int64) string {
	why := "nobody knows whether it happened, and by now the target may have forgotten the key: ask it before it is sent again"
	switch {
	case r.KeyTTL == 0:
		why = "nobody knows whether it happened, and the target honours no keys: ask it before it is sent again"
	case t.Failures >= budget:
		why = fmt.Sprintf("gave up after %d answers that tell nothing: ask the target whether it happened", t.Failures)
	}
	if t.Detail != "" {
		why += "; last: " + t.Detail
	}
	return why
}

// refused: a repeated try was answered with a refusal, and only the target can say what became of the first.
// To send it again would tell nothing new.
func refused(p store.Past) bool {
	return p.Unknown > 1 && p.LastStatus >= 400 && p.LastStatus < 500 && p.LastStatus != http.StatusRequestTimeout
}

// remembers reports whether the target surely still honours the key of the oldest unknown send, by what it was
// said to do then and now. Half of its time is given away to the target's own clock, and what is sent now must
// have ended within it.
func (r Remote) remembers(p store.Past) bool {
	first := time.Duration(p.FirstMS) * time.Millisecond
	ttl := min(r.KeyTTL, time.Duration(p.KeyTTL)*time.Millisecond)
	return !p.Expired && first < ttl/2 && first+r.Timeout < ttl
}

// verdict is what follows from a reply, for the row of the attempt, the ticket and the target.
type verdict struct {
	outcome string // of the attempt
	do      string // doRemember, doRequeue, doPark, doBury
	requeue store.Requeue
	hold    time.Duration // leave the target alone for so long
	pause   string        // why the target is to be paused; "" when it is not
	proves  bool          // the address has answered 2xx
	detail  string
}

const (
	doRemember = "remember"
	doRequeue  = "requeue"
	doPark     = "park"
	doBury     = "bury"
)

// judge tells what follows from one reply, next to the ticket's past. wait is the backoff. While the target
// is offline an unknown answer is not charged and the ticket stays where it is, at the head: the probes
// have a pace of their own.
func (r Remote) judge(p store.Past, reply store.Reply, wait time.Duration, offline bool) verdict {
	v := verdict{outcome: string(reply.Evidence), do: doRequeue, detail: reply.Detail, requeue: store.Requeue{Detail: reply.Detail}}
	switch reply.Evidence {
	case store.Happened:
		v.do, v.proves = doRemember, true
		return v
	case store.NotSent:
		if !offline {
			v.requeue.WaitMS = max(1, wait.Milliseconds())
		}
		return v
	case store.NotYet:
		v.hold = wait
		if reply.RetryAfter > 0 {
			v.hold = reply.RetryAfter
		}
		return v
	case store.Denied:
		v.pause = reply.Detail
		return v
	case store.NoPlace:
		if !p.Proven {
			v.pause = reply.Detail
			return v
		}
		if p.Unknown == 0 && !reply.Unreachable {
			v.do, v.outcome = doBury, string(store.Rejected)
			return v
		}
	case store.Rejected:
		if p.Unknown == 0 {
			v.do = doBury
			return v
		}
		v.detail = "refused, but an earlier try may have been carried out: " + reply.Detail
		v.requeue.Detail = v.detail
	}
	return r.unknown(v, reply, wait, offline)
}

// unknown goes on with a reply that tells nothing.
func (r Remote) unknown(v verdict, reply store.Reply, wait time.Duration, offline bool) verdict {
	v.outcome = string(store.Unknown)
	if r.KeyTTL == 0 && !r.CanLookup {
		v.do, v.detail = doPark, "nobody knows whether it happened, and the target honours no keys: ask it before it is sent again. "+reply.Detail
		return v
	}
	if offline {
		v.hold = reply.RetryAfter
		return v
	}
	v.requeue.Failures = 1
	if reply.RetryAfter > 0 {
		wait = reply.RetryAfter
	}
	v.requeue.WaitMS = max(1, wait.Milliseconds())
	return v
}
