package cli

import (
	"fmt"

	"comanda/handlers/receipt"
	"comanda/store"
)

// receiptAnswer is a receipt as JSON. sha256 is that of the lines, each with its line break.
type receiptAnswer struct {
	OrderID string          `json:"order_id"`
	SHA256  string          `json:"sha256"`
	Lines   []string        `json:"lines"`
	SQL     []string        `json:"sql"`
	Verdict receipt.Verdict `json:"verdict"`
}

// Run prints the receipt's text and nothing else, so that its SHA-256 is that of what was printed.
func (c *receiptCmd) Run(s *session) error {
	var story store.Story
	err := s.view(c.DB, fmt.Sprintf("there is no order %s in %s: look at the id, or at --db", c.Order, c.DB), func(tx *store.Tx) (err error) {
		story, err = tx.Story(c.Order)
		return err
	})
	if err != nil {
		return err
	}
	r := receipt.Of(story)
	if c.JSON {
		return s.json(receiptAnswer{r.OrderID, r.SHA256, r.Lines, r.SQL, r.Verdict})
	}
	s.printf("%s", r.Text)
	return nil
}
