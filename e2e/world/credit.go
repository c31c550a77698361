package world

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
)

// credit is POST /credit: whether a customer may owe that much. Whom nobody set a limit for has none.
func (w *World) credit(out http.ResponseWriter, r *http.Request) {
	q, wrong := read(r, "credit")
	fault := w.plan.strike("credit")
	w.note(r, q, fault, false)
	switch {
	case fault != "":
		w.misbehave(out, r, fault)
		return
	case wrong != "":
		refuse(out, http.StatusBadRequest, wrong)
		return
	}
	ok, err := w.mayOwe(q.text("customer_id"), string(q.fields["amount"]))
	if err != nil {
		refuse(out, http.StatusUnprocessableEntity, "invalid")
		return
	}
	reply(out, http.StatusOK, map[string]bool{"credit_ok": ok})
}

func (w *World) mayOwe(customer, amount string) (bool, error) {
	asked, ok := new(big.Rat).SetString(amount)
	if !ok {
		return false, errors.New("the amount is not a number")
	}
	var most string
	err := w.db.QueryRow(`SELECT most FROM credit WHERE customer = $1`, customer).Scan(&most)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	limit, ok := new(big.Rat).SetString(most)
	if err != nil || !ok {
		return false, errors.Join(err, errors.New("the limit is not a number"))
	}
	return asked.Cmp(limit) <= 0, nil
}

// setCredit is PUT /credit/{customer} {"limit":"1000.00"}.
func (w *World) setCredit(out http.ResponseWriter, r *http.Request) {
	var in struct{ Limit string }
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in)
	if _, ok := new(big.Rat).SetString(in.Limit); err != nil || !ok {
		refuse(out, http.StatusBadRequest, "bad_json")
		return
	}
	if _, err := w.db.Exec(`INSERT INTO credit (customer, most) VALUES ($1, $2) ON CONFLICT (customer) DO UPDATE SET most = $2`, r.PathValue("customer"), in.Limit); err != nil {
		refuse(out, http.StatusInternalServerError, "internal")
		return
	}
	reply(out, http.StatusOK, map[string]string{"customer": r.PathValue("customer"), "limit": in.Limit})
}
