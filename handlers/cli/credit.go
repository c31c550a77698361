package cli

import (
	"fmt"

	"comanda/handlers/order"
	"comanda/store"

	"github.com/bojanz/currency"
)

// page is how many rows one look into the file brings.
const page = 500

func (c *creditSetCmd) Run(s *session) error {
	if err := checkID("CUSTOMER", c.Customer); err != nil {
		return err
	}
	if err := checkCurrency(c.Currency); err != nil {
		return err
	}
	amount, err := order.ParseAmount(c.Amount, c.Currency)
	if err != nil {
		return Usage(fmt.Errorf("AMOUNT %w", err))
	}
	credit := store.Credit{CustomerID: c.Customer, Currency: c.Currency, Limit: amount.String()}
	err = s.open(c.DB, store.Options{Readers: readers}, func(db *store.DB) error {
		return db.Update(s.ctx, func(tx *store.Tx) error {
			credit.UpdatedAt = tx.Now()
			return tx.SetCredit(credit, who())
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(credit)
	}
	s.printf("%s has credit up to %s %s\n", s.show(credit.CustomerID), credit.Limit, credit.Currency)
	return nil
}

func (c *creditGetCmd) Run(s *session) error {
	if err := checkID("CUSTOMER", c.Customer); err != nil {
		return err
	}
	in := ""
	if c.Currency != "" {
		if err := checkCurrency(c.Currency); err != nil {
			return err
		}
		in = " in " + c.Currency
	}
	var credits []store.Credit
	err := s.view(c.DB, fmt.Sprintf("the credit book has no limit for %s%s: set one with `comanda credit set`", c.Customer, in), func(tx *store.Tx) error {
		all, err := creditsOf(tx, c.Customer)
		if err != nil {
			return err
		}
		for _, one := range all {
			if c.Currency == "" || one.Currency == c.Currency {
				credits = append(credits, one)
			}
		}
		if len(credits) == 0 {
			return store.ErrNotFound
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case c.JSON && c.Currency != "":
		return s.json(credits[0])
	case c.JSON:
		return s.json(credits)
	}
	return s.credits(credits)
}

func (c *creditListCmd) Run(s *session) error {
	var credits []store.Credit
	err := s.view(c.DB, "", func(tx *store.Tx) (err error) {
		credits, err = creditsOf(tx, "")
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return s.json(credits)
	case len(credits) == 0:
		s.printf("the credit book is empty: nobody has credit\n")
		return nil
	}
	return s.credits(credits)
}

func (s *session) credits(credits []store.Credit) error {
	return s.table(func(row func(...string)) {
		row("customer", "limit", "currency", "updated at")
		for _, c := range credits {
			row(c.CustomerID, c.Limit, c.Currency, instant(c.UpdatedAt))
		}
	})
}

// creditsOf reads the book page by page; customer "" is everybody.
func creditsOf(tx *store.Tx, customer string) ([]store.Credit, error) {
	all := []store.Credit{}
	var last store.Credit
	for {
		some, err := tx.Credits(last.CustomerID, last.Currency, customer, page)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < page {
			return all, nil
		}
		last = some[len(some)-1]
	}
}

func checkID(name, id string) error {
	if fault := order.CheckID(name, id); fault != "" {
		return Usage(fmt.Errorf("%s", fault))
	}
	return nil
}

func checkCurrency(code string) error {
	if !currency.IsValid(code) {
		return Usage(fmt.Errorf("CURRENCY must be an ISO 4217 code in upper case such as MXN, not %q", code))
	}
	return nil
}
