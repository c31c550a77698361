package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"comanda/store"
)

// opening is a ticket whose turn it is: what its past asks for and, if that is a send, the attempt that began.
type opening struct {
	job      *job
	mayBegin bool
	next     step
	past     store.Past
	begun    store.Begun
}

// look reads the ticket's past and says what is to be done. If that is a send, its row is on disk when look returns nil.
func (l *lane) look(j *job, mayBegin bool) (next step, past store.Past, begun store.Begun, err error) {
	o := &opening{job: j, mayBegin: mayBegin}
	err = l.openings.do(o)
	if err == nil && o.next.do == stepSend && (o.begun.Lost || o.begun.Halted) {
		err = errNothingSent
	}
	return o.next, o.past, o.begun, err
}

// open looks at tickets and begins what is to be sent.
func (l *lane) open(tx *store.Tx, set []*opening) error {
	begun, err := l.openFirst(tx, set)
	for _, o := range set {
		if err != nil {
			return err
		}
		if first, ok := begun[o.job.claimed()]; ok {
			o.next, o.past, o.begun = step{stepSend, ""}, store.Past{Proven: first.Proven}, first
			continue
		}
		err = l.openOne(tx, o)
	}
	return err
}

// openFirst begins in a few statements the sends for which nothing stands in the way: nothing has been sent for these
// tickets, since no letter was frozen when they were claimed, and the ledger does not know them.
func (l *lane) openFirst(tx *store.Tx, set []*opening) (map[store.Claimed]store.Begun, error) {
	var ids []int64
	letters := map[store.Claimed]store.Letter{}
	for _, o := range set {
		if o.job.ticket.WireKey == nil && !o.job.claim.Probe && l.inTime(o) {
			ids = append(ids, o.job.ticket.ID)
			letters[o.job.claimed()] = o.job.letter
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	known, err := tx.InLedger(ids)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(letters, func(c store.Claimed, _ store.Letter) bool { return known[c.Ticket] })
	return tx.BeginFirst(l.attempt("send"), letters)
}

func (l *lane) openOne(tx *store.Tx, o *opening) (err error) {
	o.begun = store.Begun{}
	if o.past, err = tx.Past(o.job.ticket, l.remote.Name, l.remote.Address); err != nil {
		return err
	}
	o.next = l.remote.plan(o.job.ticket, o.past, int64(l.r.opt.RetryBudget))
	if (o.next.do == stepSend || o.next.do == stepLookup) && !l.inTime(o) {
		o.next.do = stepRelease
	}
	if o.next.do == stepSend {
		o.begun, err = l.beginIn(tx, o.job, "send")
	}
	return err
}

// inTime: it may be begun, and the lease outlasts what would be sent.
func (l *lane) inTime(o *opening) bool {
	return o.mayBegin && o.job.claim.Left() >= l.remote.Timeout
}

// errNothingSent: the claim was lost, or the target was paused, before anything could be sent.
var errNothingSent = errors.New("nothing was sent")

// begin writes a lookup's row. When it returns nil, the row is on disk and the letter is the frozen one.
func (l *lane) begin(j *job, kind string) (begun store.Begun, err error) {
	err = l.update(func(tx *store.Tx) (err error) {
		begun, err = l.beginIn(tx, j, kind)
		return err
	})
	if err == nil && (begun.Lost || begun.Halted) {
		err = errNothingSent
	}
	return begun, err
}

// update is a transaction before anything was sent.
func (l *lane) update(fn func(*store.Tx) error) error {
	err := l.r.opt.DB.Update(context.Background(), fn)
	if errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", errNothingSent, err) // perhaps there is a row; it will count as unknown
	}
	return err
}

func (l *lane) beginIn(tx *store.Tx, j *job, kind string) (store.Begun, error) {
	b := l.attempt(kind)
	b.Ticket, b.Token, b.Letter, b.Probe = j.ticket.ID, j.claim.Token, j.letter, j.claim.Probe
	return tx.BeginAttempt(b)
}

// attempt is what every attempt of a kind has in common.
func (l *lane) attempt(kind string) store.Begin {
	return store.Begin{Kind: kind, Target: l.remote.Name, Address: l.remote.Address,
		KeyTTL: l.remote.KeyTTL.Milliseconds(), Timeout: l.remote.Timeout.Milliseconds()}
}
