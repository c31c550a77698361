package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"comanda/handlers/order"
	"comanda/store"
)

// CreditQuestion is what check-credit is asked: has this customer credit for this amount?
type CreditQuestion struct {
	EventID    string
	OrderID    string
	CustomerID string
	Amount     order.Amount
	Currency   string
}

// CreditSource answers check-credit. A source outside has its answer when Check returns; the local
// book's verdict reads the limit inside the deciding transaction. An error, or ctx running out, means
// that nobody knows: the event is then not taken. Check may be called at once for many events, and
// more than once for copies of one.
type CreditSource interface {
	Check(ctx context.Context, q CreditQuestion) (Verdict, error)
}

// Credit is an answer of check-credit.
type Credit struct {
	OK     bool
	Source string // who said so: one of the Source constants
}

// Who says whether there is credit. It is recorded with the decision.
const (
	SourceNobody = ""                    // an amount of 0 always has credit
	SourceBook   = "book"                // the local credit book
	SourceRemote = "remote"              // the credit source outside
	SourceSilent = "book: remote silent" // the local book, because the source outside gave no answer
)

// Verdict says in the deciding transaction whether there is credit. It may be run more than once and
// waits for nothing but the transaction.
type Verdict func(tx *store.Tx) (Credit, error)

// Known is the verdict of a source that has its answer already.
func Known(c Credit) Verdict {
	return func(*store.Tx) (Credit, error) { return c, nil }
}

// creditWait bounds a credit check; see readTimeout.
const creditWait = 15 * time.Second

// localBook is the credit book of the file: one limit for each customer and currency, not drawn down.
type localBook struct{ source string }

// Check returns a verdict that compares with the limit as it stands in the deciding transaction.
func (b localBook) Check(_ context.Context, q CreditQuestion) (Verdict, error) {
	return func(tx *store.Tx) (Credit, error) {
		c := Credit{Source: b.source}
		limit, known, err := tx.CreditLimit(q.CustomerID, q.Currency)
		if err != nil || !known {
			return c, err
		}
		most, err := order.ParseAmount(limit, q.Currency)
		if err != nil { // written by another client
			return c, creditUnknown(fmt.Errorf("the limit of %q in %s %w", q.CustomerID, q.Currency, err))
		}
		c.OK = q.Amount.Cmp(most) <= 0
		return c, nil
	}, nil
}

// askCredit asks the source, once and outside every transaction. An amount of 0 always has credit.
func (d *Director) askCredit(ctx context.Context, o *order.Order) (Verdict, error) {
	if o.Amount.IsZero() {
		return Known(Credit{OK: true, Source: SourceNobody}), nil
	}
	q := CreditQuestion{EventID: o.EventID, OrderID: o.OrderID, CustomerID: o.CustomerID, Amount: o.Amount, Currency: o.Currency}
	if d.Credit == nil {
		return localBook{SourceBook}.Check(ctx, q)
	}
	wait := d.CreditWait
	if wait == 0 {
		wait = creditWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	verdict, err := d.Credit.Check(ctx, q)
	if err == nil && verdict == nil {
		err = errors.New("the credit source gave no verdict")
	}
	if err != nil {
		return nil, creditUnknown(err)
	}
	return verdict, nil
}

func creditUnknown(cause error) *Problem {
	return notNow("credit", 5, "the credit check gave no answer; nothing was kept", cause)
}
