package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/labstack/echo/v4"

	"comanda/handlers/console"
	"comanda/handlers/graph"
	"comanda/handlers/metrics"
	"comanda/handlers/order"
)

// document is openapi.json, valid and with its references resolved.
var document = sync.OnceValue(func() *openapi3.T {
	openapi3filter.RegisterBodyDecoder("application/schema+json", openapi3filter.JSONBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err == nil {
		err = doc.Validate(context.Background(), openapi3.EnableExamplesValidation())
	}
	if err != nil {
		panic(fmt.Errorf("openapi.json: %w", err))
	}
	return doc
})

// notForPrograms are the routes that openapi.json leaves out: the console's, for a person with a browser. They answer
// HTML, or what its pages load, and promise nothing to programs.
var notForPrograms = []string{
	"GET /", "GET /rail", "GET /tickets/:id", "GET /orders", "GET /orders/:id", "GET /orders/:id/receipt", "GET /attention",
	"GET /graph", "GET /truth", "GET /relay", "GET /search", "GET /language", "GET /events", "GET /static/:id",
	"POST /rail/confirm", "POST /rail/act", "POST /truth", "POST /relay", "POST /targets/:id", "POST /sample",
	"GET /login", "POST /login", "POST /logout", "GET /sessions", "POST /sessions",
}

// fullRig has all that a server can have.
func fullRig(t *testing.T) *rig {
	r := newRig(t, func(o *Options) {
		o.TargetNames = []string{"refund"}
		o.LedgerTypes = map[string]string{"issue_refund": "refund"}
		o.Graph = graph.New([]graph.Effect{{Name: "issue-refund", TicketType: "issue_refund", LedgerType: "refund", KeyPrefix: "refund", Mark: "E"}})
		o.RunRelay = func(context.Context) (RelayRun, error) { return RelayRun{Claimed: 1, Done: 1}, nil }
		o.Senders = []Sender{{}, {Name: "shop2"}}
		o.Metrics = metrics.New(metrics.Options{}).Handler()
		c := console.New(console.Options{DB: o.DB})
		t.Cleanup(func() { _ = c.Close() })
		o.Console = c
	})
	return r
}

// The server answers at exactly the addresses, by exactly the methods, that the document and notForPrograms name.
func TestOpenAPIRoutes(t *testing.T) {
	var served, heads []string
	for _, route := range fullRig(t).srv.echo.Routes() {
		switch route.Method {
		case echo.RouteNotFound:
		case http.MethodHead:
			heads = append(heads, route.Path)
		default:
			served = append(served, route.Method+" "+route.Path)
		}
	}
	named := slices.Clone(notForPrograms)
	for path, item := range document().Paths.Map() {
		for method := range item.Operations() {
			named = append(named, method+" "+echoPath(path))
		}
	}
	for _, s := range served {
		if !slices.Contains(named, s) {
			t.Errorf("the server answers %s, and openapi.json does not name it", s)
		}
	}
	for _, n := range named {
		if !slices.Contains(served, n) {
			t.Errorf("openapi.json names %s, and the server does not answer it", n)
		}
		if path, isGet := strings.CutPrefix(n, "GET "); isGet && !slices.Contains(heads, path) {
			t.Errorf("GET %s has no HEAD", path)
		}
	}
}

// echoPath writes {anything} in a path as the server's router has it.
func echoPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		switch {
		case p == "{source}":
			parts[i] = "shop2"
		case strings.HasPrefix(p, "{"):
			parts[i] = ":id"
		}
	}
	return strings.Join(parts, "/")
}

// Every problem that there is has its schema with its title, and no other has.
func TestOpenAPIProblems(t *testing.T) {
	var named []string
	for name, schema := range document().Components.Schemas {
		if problem, is := strings.CutPrefix(name, "problem."); is {
			named = append(named, problem)
			if got := schema.Value.Properties["title"].Value.Enum; !slices.Equal(got, []any{titles[problem]}) {
				t.Errorf("%s: title %v, want %q", name, got, titles[problem])
			}
		}
	}
	slices.Sort(named)
	if want := slices.Sorted(maps.Keys(titles)); !slices.Equal(named, want) {
		t.Errorf("problems of openapi.json %v, want %v", named, want)
	}
	if got := len(document().Components.Schemas["Problem"].Value.OneOf); got != len(titles) {
		t.Errorf("Problem is one of %d, want %d", got, len(titles))
	}
}

// An object that openapi.json lets an answer be holds what is named and nothing else, or the checks below could not fail.
func TestOpenAPIIsStrict(t *testing.T) {
	sent := []string{"Order", "SetLimit"} // senders may add fields
	for name, schema := range document().Components.Schemas {
		if !slices.Contains(sent, name) {
			strict(t, name, schema.Value)
		}
	}
}

func strict(t *testing.T, name string, s *openapi3.Schema) {
	open := s.AdditionalProperties
	if s.Type.Is("object") && open.Schema == nil && (open.Has == nil || *open.Has) {
		t.Errorf("%s takes any field", name)
	}
	if open.Schema != nil {
		strict(t, name+".*", open.Schema.Value)
	}
	if s.Items != nil {
		strict(t, name+"[]", s.Items.Value)
	}
	for field, of := range s.Properties {
		strict(t, name+"."+field, of.Value)
	}
}

// answered notes which answers of which operation came, in TestOpenAPIAnswers.
type answered struct {
	r    *rig
	came map[string]bool
}

func (a answered) do(method, path, body string, status int, headers ...string) reply {
	a.r.t.Helper()
	if body != "" && len(headers) == 0 {
		headers = []string{"Content-Type", "application/json"}
	}
	got := a.r.do(method, path, body, headers...).wants(status)
	if op := operationOf(method, path); op != nil {
		a.came[fmt.Sprint(op.Operation.OperationID, " ", status)] = true
	}
	return got
}

// Every answer that openapi.json names is asked for once and fits it; rig.do looks at each.
func TestOpenAPIAnswers(t *testing.T) {
	a := answered{fullRig(t), map[string]bool{}}
	for path, item := range document().Paths.Map() {
		for method, op := range item.Operations() {
			a.refusals(method, strings.NewReplacer("{order_id}", "O", "{customer_id}", "C", "{id}", "1", "{name}", "refund", "{source}", "shop2").Replace(path), op)
		}
	}
	a.orders()
	a.tickets()
	a.others()
	signed := answered{newRig(t, asks(senderWith(t, "", shopSecret), senderWith(t, "shop2", otherSecret))), a.came}
	signed.do("POST", "/webhooks/orders", contractBody, 401)
	signed.do("POST", "/webhooks/shop2/orders", contractBody, 401)
	for path, item := range document().Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if name := op.OperationID + " " + status; status != "default" && !a.came[name] {
					t.Errorf("%s %s: no %s came", method, path, status)
				}
			}
		}
	}
}

// refusals asks for what every operation of a kind refuses alike.
func (a answered) refusals(method, path string, op *openapi3.Operation) {
	a.r.t.Helper()
	if op.Responses.Value("403") != nil {
		a.do(method, path, "", 403, "Sec-Fetch-Site", "cross-site")
	}
	if op.Responses.Value("401") != nil && !strings.HasPrefix(path, "/webhooks/") {
		a.do(method, path, "", 401, "Authorization", "Bearer nobody")
	}
	if op.OperationID != "ready" && op.Responses.Value("503") != nil {
		a.r.srv.inFlight.Store(maxInFlight)
		a.do(method, path, "", 503)
		a.r.srv.inFlight.Store(0)
	}
	if op.RequestBody != nil {
		a.do(method, path, "x", 415, "Content-Type", "text/plain")
		a.do(method, path, strings.Repeat(" ", maxBody+1), 413)
		a.do(method, path, "{", 400)
	}
	if slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "limit" }) {
		a.do(method, path+"?limit=0", "", 400)
	}
}

func (a answered) orders() {
	a.do("POST", "/webhooks/orders", contractBody, 200)
	a.do("POST", "/webhooks/shop2/orders", `{}`, 422)
	a.do("POST", "/webhooks/orders", contractBody, 200)
	a.do("POST", "/webhooks/orders", body("EVT-2", "ORD-2041", "1", oneLine), 200)
	a.do("POST", "/webhooks/orders", body("EVT-1", "ORD-9", "1", oneLine), 422)
	a.do("POST", "/webhooks/orders", `{}`, 422)
	a.do("POST", "/webhooks/orders", `{"a":1,"a":2}`, 400)
	a.do("GET", "/api/orders", "", 200)
	a.do("GET", "/api/orders?q=ORD&limit=1", "", 200)
	a.do("GET", "/api/orders/ORD-2041", "", 200)
	a.do("GET", "/api/orders/nobody", "", 404)
	a.do("PUT", "/api/customers/CUS-7/credit", `{"limit":"5000.00","currency":"MXN"}`, 200)
	a.do("PUT", "/api/customers/CUS-7/credit", `{"limit":"x","currency":"MXN"}`, 422)
	a.do("GET", "/api/customers/CUS-7/credit", "", 200)
	a.do("GET", "/api/customers/%0A/credit", "", 422)
	a.do("POST", "/webhooks/shop2/orders", body("EVT-4", "ORD-4", "9999999", oneLine), 200)
	a.do("POST", "/webhooks/orders", body("EVT-3", "ORD-3", "1", `[{"sku":"A","quantity":1},{"sku":"B","quantity":2}]`), 200)
}

// tickets lays hands on the tickets of orders: 1 a refund, 2 and 3 goods.
func (a answered) tickets() {
	for _, path := range []string{"/api/tickets", "/api/tickets?status=pending&effect_type=issue_refund&order_id=ORD-2041", "/api/tickets/1"} {
		a.do("GET", path, "", 200)
	}
	a.do("GET", "/api/tickets/99", "", 404)
	for act, body := range map[string]string{"retry": `{}`, "discard": `{"reason":"r"}`, "resolve": `{"happened":true,"reference":"x","reason":"r"}`} {
		a.do("POST", "/api/tickets/99/"+act, body, 404)
		a.do("POST", "/api/tickets/"+act+"?preview=1", `{"ids":[1,99],`+strings.TrimPrefix(strings.Replace(body, "{}", `{"reason":"r"}`, 1), "{"), 200)
	}
	a.do("POST", "/api/tickets/1/resolve", `{"happened":true,"reference":"x","reason":"r"}`, 409)
	a.do("POST", "/api/tickets/1/retry", "", 200)
	a.do("POST", "/api/tickets/2/discard", `{"reason":"r"}`, 200)
	a.do("POST", "/api/tickets/2/discard", `{"reason":"r"}`, 409)
	a.do("POST", "/api/tickets/2/retry", "", 409)
	a.r.exec(`UPDATE outbox SET status = 'review' WHERE id = 3`)
	a.do("POST", "/api/tickets/3/resolve", `{"happened":true,"reference":"x","reason":"r"}`, 200)
	a.do("GET", "/api/orders/ORD-3", "", 200)
}

func (a answered) others() {
	a.r.exec(`INSERT INTO external_effects_log (effect_key, effect_type, order_id) VALUES ('k', 'refund', 'o')`)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/schemas/order.json", "/api/ledger", "/api/effects",
		"/api/targets", "/api/graph", "/api/stats"} {
		if got := a.do("GET", path, "", 200); got.body == "" {
			a.r.t.Errorf("%s answers nothing", path)
		}
	}
	a.do("POST", "/api/targets/refund/pause", `{"reason":"r"}`, 200)
	a.do("GET", "/api/targets", "", 200)
	a.do("POST", "/api/targets/refund/resume", "", 200)
	a.do("POST", "/api/targets/nobody/pause", "", 404)
	a.do("POST", "/api/targets/nobody/resume", "", 404)
	a.do("POST", "/api/relay/pause", "", 200)
	a.do("POST", "/api/relay/resume", "", 200)
	a.do("POST", "/api/relay/run", "", 200)
	a.r.srv.opt.RunRelay = func(context.Context) (RelayRun, error) { return RelayRun{}, ErrPaused }
	a.do("POST", "/api/relay/run", "", 409)
	a.r.srv.opt.RunRelay, a.r.srv.opt.Graph = nil, nil
	a.do("POST", "/api/relay/run", "", 404)
	a.do("GET", "/api/graph", "", 404)
	a.r.srv.opt.Watch = func() (reasons, warnings []string) { return []string{"the disk is full"}, []string{"96 % full"} }
	a.do("GET", "/readyz", "", 503)
}

// Both documents are answered as they are, by HEAD too, and are no page for a browser to guess at.
func TestDocuments(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]struct {
		kind string
		body []byte
	}{"/openapi.json": {"application/json", openAPI}, "/schemas/order.json": {"application/schema+json", order.Schema}} {
		a := r.get(path).wants(200)
		if a.body != string(want.body) || a.header.Get("Content-Type") != want.kind || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, a.header)
		}
		if a := r.do("HEAD", path, ""); a.status != 200 || a.body != "" || a.header.Get("Content-Type") != want.kind {
			t.Errorf("HEAD %s: %d %v", path, a.status, a.header)
		}
		r.do("POST", path, "").problem(405, "method-not-allowed")
	}
}

// An answer that has a field more, or one less, does not fit.
func TestOpenAPISeesDrift(t *testing.T) {
	r := newRig(t)
	a := r.get("/healthz").wants(200)
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.http.URL+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := misfit(req, a); err != nil {
		t.Error(err)
	}
	for _, body := range []string{`{"ok":true,"more":1}`, `{}`, `{"ok":"true"}`} {
		a.body = body
		if misfit(req, a) == nil {
			t.Errorf("%s fits", body)
		}
	}
}

// fitsOpenAPI reports an answer that openapi.json does not allow, and a request that was answered 200 and that it does not allow.
func fitsOpenAPI(req *http.Request, a reply) {
	a.t.Helper()
	if err := misfit(req, a); err != nil {
		a.t.Errorf("openapi.json has no such answer to %s %s: %d %.600s: %v", req.Method, req.URL.Path, a.status, a.body, err)
	}
}

func misfit(req *http.Request, a reply) error {
	route := operationOf(req.Method, req.URL.EscapedPath())
	if a.status == http.StatusRequestHeaderFieldsTooLarge { // net/http's own, before there is a request
		return nil
	}
	if route == nil {
		return misfitProblem(a)
	}
	in := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: map[string]string{}, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options}
	out.SetBodyBytes([]byte(a.body))
	if err := openapi3filter.ValidateResponse(req.Context(), out); err != nil || a.status != 200 {
		return brief(err)
	}
	return misfitRequest(req, route)
}

// misfitRequest looks at the body that was taken.
func misfitRequest(req *http.Request, route *routers.Route) error {
	if route.Operation.RequestBody == nil || req.GetBody == nil {
		return nil
	}
	sent, err := req.GetBody()
	if err != nil {
		return err
	}
	b, err := io.ReadAll(sent)
	if err != nil || len(b) == 0 && !route.Operation.RequestBody.Value.Required {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	return brief(route.Operation.RequestBody.Value.Content["application/json"].Schema.Value.VisitJSON(v))
}

// misfitProblem: at an address that openapi.json does not name only problems are held against it.
func misfitProblem(a reply) error {
	if a.header.Get("Content-Type") != "application/problem+json" || a.body == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		return err
	}
	return brief(document().Components.Schemas["Problem"].Value.VisitJSON(v))
}

// brief leaves out the schema, which the validator prints in full.
func brief(err error) error {
	if err == nil {
		return nil
	}
	short, _, _ := strings.Cut(err.Error(), "\nSchema:")
	return errors.New(short)
}

// operationOf finds what openapi.json says of a request, nil where it says nothing. A part of a path that is written
// out goes before one that may be anything.
func operationOf(method, path string) *routers.Route {
	path, _, _ = strings.Cut(path, "?")
	var best *routers.Route
	doc := document()
	for pattern, item := range doc.Paths.Map() {
		op := item.GetOperation(method)
		if op == nil || !matches(pattern, path) {
			continue
		}
		if best == nil || strings.Count(pattern, "{") < strings.Count(best.Path, "{") {
			best = &routers.Route{Spec: doc, Server: doc.Servers[0], Path: pattern, PathItem: item, Method: method, Operation: op}
		}
	}
	return best
}

func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}
