package store

import (
	"cmp"
	"regexp"
	"slices"
)

// Cause is why tickets are dead or in review: those of one effect type whose details differ in nothing but numbers
// and ids.
type Cause struct {
	Status     string // "dead" or "review"
	EffectType string
	Detail     string // what the details have in common; "…" stands for what differs
	Tickets    int64
	First      int64   // Unix milliseconds at which the oldest of them was put on the rail: review has no time of its own
	Last       int64   // and the newest
	FirstID    int64   // the oldest ticket
	LastID     int64   // the newest
	IDs        []int64 // of the newest ones, 1,000 at most: as many as one act may name
	AtLeast    bool    // only the newest 20,000 of this state were looked at, and there are more
}

// causeIDs is how many tickets of a cause are named.
const causeIDs = 1000

// causesAmong is how many tickets of a state are grouped at the most.
const causesAmong = 20_000

// The newest first, by outbox_dead and outbox_review.
const (
	sqlWhyDead   = `SELECT effect_type, detail, created_at, id FROM outbox WHERE status = 'dead' ORDER BY id DESC LIMIT $1`
	sqlWhyReview = `SELECT effect_type, detail, created_at, id FROM outbox WHERE status = 'review' ORDER BY id DESC LIMIT $1`
)

// Causes groups the dead tickets and those in review by why they are that, and returns the causes with the most
// tickets first.
func (tx *Tx) Causes(limit int) ([]Cause, error) {
	all := []Cause{}
	for _, state := range []struct{ status, text string }{{"dead", sqlWhyDead}, {"review", sqlWhyReview}} {
		some, err := tx.causesOf(state.status, state.text)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Tickets, a.Tickets), cmp.Compare(b.LastID, a.LastID))
	})
	return all[:min(max(limit, 0), len(all))], nil
}

func (tx *Tx) causesOf(status, text string) ([]Cause, error) {
	var all []Cause
	place := map[[2]string]int{}
	looked := 0
	err := tx.each(text, []any{causesAmong + 1}, func(scan func(...any) error) error {
		one := Cause{Status: status, Tickets: 1}
		if err := scan(&one.EffectType, &one.Detail, &one.Last, &one.LastID); err != nil {
			return err
		}
		if looked++; looked > causesAmong {
			return nil
		}
		one.Detail = common(one.Detail)
		one.First, one.FirstID, one.IDs = one.Last, one.LastID, []int64{one.LastID}
		i, known := place[[2]string{one.EffectType, one.Detail}]
		if !known {
			place[[2]string{one.EffectType, one.Detail}] = len(all)
			all = append(all, one)
			return nil
		}
		all[i].add(one)
		return nil
	})
	for i := range all {
		all[i].AtLeast = looked > causesAmong
	}
	return all, err
}

// add takes an older ticket in.
func (c *Cause) add(older Cause) {
	c.Tickets++
	c.FirstID = older.FirstID
	if len(c.IDs) < causeIDs {
		c.IDs = append(c.IDs, older.FirstID)
	}
	c.First, c.Last = min(c.First, older.First), max(c.Last, older.Last)
}

// A word in which there is a digit is a number or an id, unless it is an HTTP status with its text: "422
// Unprocessable Entity" and "404 Not Found" are two causes.
var (
	withDigit  = regexp.MustCompile(`[1-5][0-9][0-9] [A-Z]|[\pL_%./-]*[0-9][\pL0-9_%./-]*`)
	httpStatus = regexp.MustCompile(`^[1-5][0-9][0-9] [A-Z]$`)
	ellipses   = regexp.MustCompile(`…([ ,:;]*…)+`)
)

// commonLength is how many bytes of a detail tell its cause.
const commonLength = 300

// common is a detail without what tells one ticket from another.
func common(detail string) string {
	detail = withDigit.ReplaceAllStringFunc(detail, func(word string) string {
		if httpStatus.MatchString(word) {
			return word
		}
		return "…"
	})
	detail = ellipses.ReplaceAllString(detail, "…")
	if cut := []rune(detail); len(cut) > commonLength {
		return string(cut[:commonLength]) + "…"
	}
	return detail
}
