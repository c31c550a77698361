package world

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxBody is how much of a request is read, in bytes.
const maxBody = 1 << 20

// effectTypes are the paths on which effects are asked for and looked up.
var effectTypes = map[string]string{"/refunds": "refund", "/inventory-movements": "inventory", "/releases": "release"}

// Handler answers the world's requests.
func (w *World) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, kind := range effectTypes {
		mux.HandleFunc("POST "+path, func(out http.ResponseWriter, r *http.Request) { w.effect(out, r, kind) })
		mux.HandleFunc("GET "+path, w.lookup)
	}
	mux.HandleFunc("POST /credit", w.credit)
	mux.HandleFunc("PUT /credit/{customer}", w.setCredit)
	mux.HandleFunc("GET /effects", func(out http.ResponseWriter, r *http.Request) {
		w.rows(out, r, `SELECT effect_key, effect_type, order_id, occurred_at, body FROM external_effects_log ORDER BY id`)
	})
	mux.HandleFunc("GET /requests", func(out http.ResponseWriter, r *http.Request) {
		w.rows(out, r, `SELECT method, path, key, body_hash, fault, performed FROM requests ORDER BY id`)
	})
	mux.HandleFunc("GET /faults", func(out http.ResponseWriter, _ *http.Request) {
		reply(out, http.StatusOK, map[string]any{"faults": w.plan.list()})
	})
	mux.HandleFunc("PUT /faults", w.setFaults)
	mux.HandleFunc("DELETE /faults", func(out http.ResponseWriter, _ *http.Request) {
		_ = w.plan.set(nil) // an empty plan has no mistakes
		reply(out, http.StatusOK, map[string]any{"faults": []string{}})
	})
	mux.HandleFunc("GET /healthz", func(out http.ResponseWriter, _ *http.Request) { reply(out, http.StatusOK, map[string]any{"ok": true}) })
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, _ *http.Request) {
		reply(out, http.StatusOK, map[string]any{
			"post": []string{"/refunds", "/inventory-movements", "/releases", "/credit"}, "look up": "/refunds?key=", "what was done": "/effects",
			"what came": "/requests", "put a limit": "/credit/CUSTOMER {\"limit\":\"1000.00\"}", "put faults": "/faults {\"faults\":[\"refund:hang:2\"]}", "kinds of faults": Kinds(),
		})
	})
	mux.HandleFunc("GET /login", func(out http.ResponseWriter, _ *http.Request) { page(out) })
	return mux
}

func reply(out http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"internal"}`)
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_, _ = out.Write(append(text, '\n'))
}

// messages say what a code means.
var messages = map[string]string{
	"bad_json": "the body is not JSON", "invalid": "order_id, effect_key, and amount and currency or sku and quantity are needed",
	"not_found": "no effect was carried out under this key", "internal": "the world's own file is at fault", "fault": "this was asked for by --fault or PUT /faults",
}

func refuse(out http.ResponseWriter, status int, code string) {
	reply(out, status, map[string]string{"code": code, "message": messages[code]})
}

// page is what a captive portal shows.
func page(out http.ResponseWriter) {
	out.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(out, "<!doctype html><title>Welcome</title><p>Log in to use this network.")
}

// request is one request for an effect, read whole.
type request struct {
	kind, key, hash string
	body            []byte
	fields          map[string]json.RawMessage
}

func read(r *http.Request, kind string) (request, string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	sum := sha256.Sum256(body)
	q := request{kind: kind, key: r.Header.Get("Idempotency-Key"), hash: hex.EncodeToString(sum[:]), body: body}
	if err != nil || json.Unmarshal(body, &q.fields) != nil {
		return q, "bad_json"
	}
	return q, ""
}

func (q request) text(name string) string {
	var s string
	_ = json.Unmarshal(q.fields[name], &s) // what is no string is ""
	return s
}

// note writes down that a request came over the wire, and what goes wrong with it.
func (w *World) note(r *http.Request, q request, fault string, performed bool) {
	now := w.opt.Now()
	_, err := w.db.Exec(`INSERT INTO requests (at, method, path, key, body_hash, fault, performed) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		now.UnixMilli(), r.Method, r.URL.Path, q.key, q.hash, fault, performed)
	w.log.Lock()
	defer w.log.Unlock()
	short := q.hash
	if len(short) > 12 {
		short = short[:12]
	}
	fmt.Fprintf(w.opt.Log, "%s %s %s key=%q body=%s fault=%q performed=%t err=%v\n",
		now.UTC().Format(time.RFC3339Nano), r.Method, r.URL.Path, q.key, short, fault, performed, err)
}

func (w *World) setFaults(out http.ResponseWriter, r *http.Request) {
	var in struct{ Faults []string }
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in); err != nil {
		refuse(out, http.StatusBadRequest, "bad_json")
		return
	}
	if err := w.plan.set(in.Faults); err != nil {
		reply(out, http.StatusBadRequest, map[string]string{"code": "bad_fault", "message": err.Error()})
		return
	}
	reply(out, http.StatusOK, map[string]any{"faults": w.plan.list()})
}

// rows answers a query as a list of objects.
func (w *World) rows(out http.ResponseWriter, r *http.Request, query string) {
	list, err := w.list(r, query)
	if err != nil {
		refuse(out, http.StatusInternalServerError, "internal")
		return
	}
	reply(out, http.StatusOK, list)
}

func (w *World) list(r *http.Request, query string) ([]map[string]any, error) {
	rows, err := w.db.QueryContext(r.Context(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	all := []map[string]any{}
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]any{}
		for i, name := range names {
			row[name] = values[i]
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
