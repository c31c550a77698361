package store

// Credit is one limit in the local credit book.
type Credit struct {
	CustomerID string `json:"customer_id"`
	Currency   string `json:"currency"`
	Limit      string `json:"limit"` // exact decimal text with the currency's decimals
	UpdatedAt  int64  `json:"updated_at"`
}

const sqlSetCredit = `INSERT INTO credit_limits (customer_id, currency, limit_amount, updated_at) VALUES ($1, $2, $3, $4)
	ON CONFLICT (customer_id, currency) DO UPDATE SET limit_amount = excluded.limit_amount, updated_at = excluded.updated_at`

// SetCredit sets a customer's limit in a currency; who is noted in the operator log.
func (tx *Tx) SetCredit(c Credit, who string) error {
	if _, err := tx.exec(sqlSetCredit, c.CustomerID, c.Currency, c.Limit, tx.now); err != nil {
		return err
	}
	return tx.Log(who, "credit set", c.CustomerID, c.Limit+" "+c.Currency)
}

// For `credit list`, in the order of the primary key. $1, $2 is the pair after which the page begins.
const sqlCredits = `SELECT customer_id, currency, limit_amount, updated_at FROM credit_limits
	WHERE (customer_id, currency) > ($1, $2) AND ($3 = '' OR customer_id = $3) ORDER BY customer_id, currency LIMIT $4`

// Credits lists limits ordered by customer and currency, beginning after the given pair; customerID
// other than "" lists that customer's alone.
func (tx *Tx) Credits(afterCustomer, afterCurrency, customerID string, limit int) ([]Credit, error) {
	return collect(tx, sqlCredits, []any{afterCustomer, afterCurrency, customerID, limit}, func(scan func(...any) error, c *Credit) error {
		return scan(&c.CustomerID, &c.Currency, &c.Limit, &c.UpdatedAt)
	})
}
