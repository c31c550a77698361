package world

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// effect is POST /refunds and its like.
func (w *World) effect(out http.ResponseWriter, r *http.Request, kind string) {
	q, wrong := read(r, kind)
	fault := w.plan.strike(kind)
	if fault != "" && !performs[fault] {
		w.note(r, q, fault, false)
		w.misbehave(out, r, fault)
		return
	}
	if wrong != "" {
		w.note(r, q, fault, false)
		refuse(out, http.StatusBadRequest, wrong)
		return
	}
	done, performed := w.carryOut(q, fault)
	w.note(r, q, fault, performed)
	if fault != "" && fault != "amnesia" && fault != "ignore-key" {
		w.misbehave(out, r, fault)
		return
	}
	done.write(out)
}

// outcome is an answer that is kept under a key.
type outcome struct {
	status   int
	body     string
	replayed bool
}

func (o outcome) write(out http.ResponseWriter) {
	out.Header().Set("Content-Type", "application/json")
	if o.replayed {
		out.Header().Set("Idempotent-Replayed", "true")
	}
	out.WriteHeader(o.status)
	_, _ = fmt.Fprintln(out, o.body)
}

func refusal(status int, code string) outcome {
	return outcome{status: status, body: `{"code":"` + code + `","message":"` + code + `"}`}
}

// carryOut honours the key, if there is one and it is to be honoured, and performs.
func (w *World) carryOut(q request, fault string) (o outcome, performed bool) {
	key := q.key
	if w.opt.KeyTTL == 0 || fault == "ignore-key" {
		key = ""
	}
	if key == "" {
		return w.perform(q, "")
	}
	if !w.takeOff(key) {
		return refusal(http.StatusConflict, "in_flight"), false
	}
	defer w.land(key)
	if fault == "amnesia" {
		if _, err := w.db.Exec(`DELETE FROM keys WHERE key = $1`, key); err != nil {
			return refusal(http.StatusInternalServerError, "internal"), false
		}
	}
	known, hash, err := w.remembered(key)
	switch {
	case err != nil:
		return refusal(http.StatusInternalServerError, "internal"), false
	case hash == "":
		return w.perform(q, key)
	case hash != q.hash:
		return refusal(http.StatusUnprocessableEntity, "key_reused"), false
	}
	known.replayed = true
	return known, false
}

func (w *World) takeOff(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying[key] {
		return false
	}
	w.flying[key] = true
	return true
}

func (w *World) land(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.flying, key)
}

// remembered returns what is kept under a key; hash "" means nothing, or no longer.
func (w *World) remembered(key string) (o outcome, hash string, err error) {
	oldest := w.opt.Now().Add(-w.opt.KeyTTL).UnixMilli()
	err = w.db.QueryRow(`SELECT status, answer, body_hash FROM keys WHERE key = $1 AND made_at > $2`, key, oldest).Scan(&o.status, &o.body, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return o, hash, err
}

// perform does the effect and keeps the answer under the key, in one transaction.
func (w *World) perform(q request, key string) (outcome, bool) {
	if o, no := q.refused(); no {
		return o, false
	}
	tx, err := w.db.Begin()
	if err != nil {
		return refusal(http.StatusInternalServerError, "internal"), false
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	now := w.opt.Now().UnixMilli()
	res, err := tx.Exec(`INSERT INTO external_effects_log (effect_key, effect_type, order_id, occurred_at, body) VALUES ($1, $2, $3, $4, $5)`,
		q.text("effect_key"), q.kind, q.text("order_id"), now, string(q.body))
	if err != nil {
		return refusal(http.StatusInternalServerError, "internal"), false
	}
	id, _ := res.LastInsertId() // known to SQLite
	o := outcome{status: http.StatusOK, body: fmt.Sprintf(`{"id":"%s_%06d","status":"done"}`, q.kind, id)}
	if key != "" {
		if _, err := tx.Exec(`INSERT INTO keys (key, body_hash, status, answer, made_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (key) DO UPDATE SET body_hash = $2, status = $3, answer = $4, made_at = $5`, key, q.hash, o.status, o.body, now); err != nil {
			return refusal(http.StatusInternalServerError, "internal"), false
		}
	}
	if tx.Commit() != nil {
		return refusal(http.StatusInternalServerError, "internal"), false
	}
	return o, true
}

// refused is what the world will not do: what it can't read, and SKUs that begin with OUT-.
func (q request) refused() (outcome, bool) {
	switch {
	case q.text("order_id") == "" || q.text("effect_key") == "":
		return refusal(http.StatusUnprocessableEntity, "invalid"), true
	case q.kind == "refund":
		if !isNumber(q.fields["amount"]) || len(q.text("currency")) != 3 {
			return refusal(http.StatusUnprocessableEntity, "invalid"), true
		}
	case q.text("sku") == "" || !isNumber(q.fields["quantity"]):
		return refusal(http.StatusUnprocessableEntity, "invalid"), true
	case q.kind == "inventory" && strings.HasPrefix(q.text("sku"), "OUT-"):
		return refusal(http.StatusConflict, "out_of_stock"), true
	}
	return outcome{}, false
}

func isNumber(raw json.RawMessage) bool {
	_, err := strconv.ParseFloat(string(raw), 64)
	return err == nil
}

// lookup is GET /refunds?key=: whether an effect with this key was carried out.
func (w *World) lookup(out http.ResponseWriter, r *http.Request) {
	q := request{key: r.URL.Query().Get("key")}
	if q.key == "" {
		reply(out, http.StatusBadRequest, map[string]string{"code": "no_key", "message": "ask with ?key="})
		return
	}
	fault := w.plan.strike("lookup")
	w.note(r, q, fault, false)
	if fault != "" {
		w.misbehave(out, r, fault)
		return
	}
	var id int64
	var kind string
	err := w.db.QueryRowContext(r.Context(), `SELECT id, effect_type FROM external_effects_log WHERE effect_key = $1 ORDER BY id LIMIT 1`, q.key).Scan(&id, &kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		refuse(out, http.StatusNotFound, "not_found")
	case err != nil:
		refuse(out, http.StatusInternalServerError, "internal")
	default:
		reply(out, http.StatusOK, map[string]string{"id": fmt.Sprintf("%s_%06d", kind, id), "status": "done"})
	}
}
