package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"comanda/handlers/order"
	"comanda/store"
)

// getCredit is GET /api/customers/{id}/credit: the customer's limits by currency, all on one page.
func (s *Server) getCredit(c echo.Context) error {
	id, err := customerID(c)
	if err != nil {
		return err
	}
	p, err := readPage(c.Request().Context(), s.opt.DB, list{limit: mostLimit}, "credit", func(r store.Credit) string { return r.Currency },
		func(tx *store.Tx, limit int) ([]store.Credit, error) { return tx.Credits(id, "", id, limit) })
	return ok(c, p, err)
}

// putCredit is PUT /api/customers/{id}/credit: it sets one limit and answers the row that stands then.
func (s *Server) putCredit(c echo.Context) error {
	id, err := customerID(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c.Request())
	if err != nil {
		return err
	}
	limit, currency, err := decodeLimit(body)
	if err != nil {
		return err
	}
	var row store.Credit
	err = s.opt.DB.Update(c.Request().Context(), func(tx *store.Tx) error {
		row = store.Credit{CustomerID: id, Currency: currency, Limit: limit.String(), UpdatedAt: tx.Now()}
		return tx.SetCredit(row, who(c))
	})
	return ok(c, row, err)
}

func customerID(c echo.Context) (string, error) {
	id := pathID(c)
	if fault := order.CheckID("customer id", id); fault != "" {
		return "", &Problem{Status: http.StatusUnprocessableEntity, Name: "invalid-credit", Detail: fault}
	}
	return id, nil
}

// decodeLimit reads {"limit":"5000.00","currency":"MXN"}. The limit may be a number too, written
// without an exponent; either way it is read digit by digit.
func decodeLimit(body []byte) (order.Amount, string, error) {
	fields, err := readObject(body, "limit", "currency")
	if err != nil {
		return order.Amount{}, "", err
	}
	var faults []order.Fault
	currency, isText := fields["currency"].(string)
	if _, err := order.ParseAmount("0", currency); err != nil || !isText {
		faults = append(faults, order.Fault{Pointer: "/currency", Detail: "must be a currency that ISO 4217 knows, in upper case, such as MXN"})
	}
	var limit order.Amount
	switch given := fields["limit"].(type) {
	case string:
		limit, err = order.ParseAmount(given, currency)
	case json.Number:
		limit, err = order.ParseAmount(given.String(), currency)
	default:
		err = errors.New(`must be a decimal number, such as "5000.00"`)
	}
	if err != nil && (len(faults) == 0 || fields["limit"] == nil) {
		faults = append(faults, order.Fault{Pointer: "/limit", Detail: err.Error()})
	}
	if len(faults) > 0 {
		return order.Amount{}, "", &Problem{Status: http.StatusUnprocessableEntity, Name: "invalid-credit",
			Detail: faults[0].Pointer + " " + faults[0].Detail, Faults: faults}
	}
	return limit, currency, nil
}

// readObject reads one JSON object and returns the values of the given names; other names are skipped.
// A name that stands twice, or in another case, is an error, since it is not clear which one counts.
func readObject(body []byte, names ...string) (map[string]any, error) {
	bad := &Problem{Status: http.StatusBadRequest, Name: "bad-json", Detail: "the body must be one JSON object in valid UTF-8"}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') || !utf8.Valid(body) {
		return nil, bad
	}
	fields := map[string]any{}
	for d.More() {
		key, err := d.Token()
		name, isName := key.(string)
		var value any
		if err != nil || !isName || d.Decode(&value) != nil {
			return nil, bad
		}
		for _, known := range names {
			if _, twice := fields[name]; twice || strings.EqualFold(name, known) && name != known {
				return nil, &Problem{Status: http.StatusBadRequest, Name: "duplicate-key",
					Detail: "a key stands twice, or in another case than " + strings.Join(names, ", ")}
			}
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, bad
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad
	}
	return fields, nil
}
