package store

import "time"

// LoginDebt is what one try to log in costs an account or an address.
type LoginDebt struct {
	Kind    string // "account" or "address"
	Subject string
	Cost    time.Duration // of one try; it is paid by letting it pass
	Limit   time.Duration // of what may be owed
}

// What is owed since the machine was started anew is paid from then on: nobody knows how long it was off.
const (
	sqlCarryDebts  = `UPDATE login_debts SET boot = $1, asked_ms = $2 WHERE boot <> $1 OR asked_ms > $2`
	sqlForgetDebts = `DELETE FROM login_debts WHERE asked_ms + debt_ms <= $1`
	sqlOwed        = `SELECT debt_ms - max(0, $3 - asked_ms), told FROM login_debts WHERE kind = $1 AND subject = $2`
	sqlOwe         = `INSERT INTO login_debts (kind, subject, debt_ms, boot, asked_ms, told) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (kind, subject) DO UPDATE SET debt_ms = excluded.debt_ms, asked_ms = excluded.asked_ms, told = excluded.told`
	sqlOweNothing = `DELETE FROM login_debts WHERE kind = $1 AND subject = $2`
)

// LoginWait is how long it takes until another try may be made, 0 for no time, without charging one; told, that the
// operator log says so already. It may be too kind after the machine was started anew; ChargeLogin is not.
func (tx *Tx) LoginWait(debts []LoginDebt) (wait time.Duration, told bool, err error) {
	told = true
	for _, d := range debts {
		owed, knows, err := tx.owed(d)
		if err != nil {
			return 0, false, err
		}
		if over := d.over(owed); over > 0 {
			wait, told = max(wait, over), told && knows
		}
	}
	return wait, told, nil
}

func (tx *Tx) owed(d LoginDebt) (ms int64, told bool, err error) {
	_, now := tx.stopwatch()
	_, err = tx.find(sqlOwed, []any{d.Kind, d.Subject, now}, &ms, &told)
	return ms, told, err
}

// over is how long it takes until one more try stays below the limit.
func (d LoginDebt) over(owedMS int64) time.Duration {
	return max(0, time.Duration(max(owedMS, 0))*time.Millisecond+d.Cost-d.Limit)
}

// ChargeLogin charges one try to each of the debts, or to none: then it returns how long to wait, and who says in the
// operator log that there were too many, once for each debt until it is paid.
func (tx *Tx) ChargeLogin(debts []LoginDebt, who string) (wait time.Duration, err error) {
	from, ms := tx.stopwatch()
	if _, err := tx.exec(sqlCarryDebts, from, ms); err != nil {
		return 0, err
	}
	if _, err := tx.exec(sqlForgetDebts, ms); err != nil {
		return 0, err
	}
	owed, told := make([]int64, len(debts)), make([]bool, len(debts))
	for i, d := range debts {
		if owed[i], told[i], err = tx.owed(d); err != nil {
			return 0, err
		}
		wait = max(wait, d.over(owed[i]))
	}
	for i, d := range debts {
		switch {
		case wait == 0:
			err = tx.owe(d, owed[i]+d.Cost.Milliseconds(), told[i])
		case d.over(owed[i]) > 0 && !told[i]:
			if err = tx.owe(d, owed[i], true); err == nil {
				err = tx.Log(who, "logins refused", d.Kind+" "+d.Subject, "too many tries")
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return wait, nil
}

// ForgiveLogin takes most of a try back: the password was right. A tenth stays, so that nobody who has one logs in
// without end.
func (tx *Tx) ForgiveLogin(debts []LoginDebt) error {
	for _, d := range debts {
		owed, told, err := tx.owed(d)
		if err != nil {
			return err
		}
		if err := tx.owe(d, owed-d.Cost.Milliseconds()*9/10, told); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) owe(d LoginDebt, ms int64, told bool) (err error) {
	if ms <= 0 {
		_, err = tx.exec(sqlOweNothing, d.Kind, d.Subject)
		return err
	}
	from, now := tx.stopwatch()
	_, err = tx.exec(sqlOwe, d.Kind, d.Subject, ms, from, now, told)
	return err
}
