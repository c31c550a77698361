package console

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/handlers/graph"
	"comanda/store"
)

// shop is a console over a real file, behind a real server.
type shop struct {
	*testing.T
	db      *store.DB
	console *Console
	http    *httptest.Server
	lang    string
}

func newShop(t *testing.T, change ...func(*Options)) *shop {
	t.Helper()
	return newShopWithin(t, 0, change...)
}

// newShopWithin is newShop with a server that gives a request, and its answer, so much time; 0 is without a limit.
func newShopWithin(t *testing.T, within time.Duration, change ...func(*Options)) *shop {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"), store.Options{Synchronous: "OFF"})
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation("America/Mexico_City")
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{DB: db, Zone: zone, TargetNames: []string{store.LedgerRefund, store.LedgerInventory}, Version: "comanda test",
		LedgerTypes: map[string]string{store.TicketIssueRefund: store.LedgerRefund, store.TicketInventorySync: store.LedgerInventory},
		Graph:       graph.New([]graph.Effect{{Name: "issue-refund", TicketType: store.TicketIssueRefund, Mark: "E", Does: "moves money"}}),
		Settings:    []Setting{{"--batch", "7", "COMANDA_BATCH"}}}
	for _, c := range change {
		c(&opt)
	}
	s := &shop{T: t, db: db, console: New(opt)}
	e := echo.New()
	gate := door.New(door.Options{DB: db})
	gate.Mount(e, s.console.Routes(gate, nil))
	s.http = httptest.NewUnstartedServer(e)
	s.http.Config.ReadTimeout, s.http.Config.WriteTimeout = within, within
	s.http.Start()
	t.Cleanup(func() {
		s.console.EndStreams()
		s.http.Close()
		_ = s.console.Close()
		_ = db.Close()
	})
	return s
}

// page is an answer.
type page struct {
	*shop
	status int
	header http.Header
	body   string
}

func (s *shop) do(method, path string, form url.Values, change ...func(*http.Request)) page {
	s.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.http.URL+path, body)
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept-Language", s.lang)
	for _, c := range change {
		c(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return page{s, res.StatusCode, res.Header, string(text)}
}

func (s *shop) get(path string) page { s.Helper(); return s.do("GET", path, nil) }

var anyTag = regexp.MustCompile(`<[^>]*>`)

// wants looks for texts, in the page as a person reads it or in its source.
func (p page) wants(status int, texts ...string) page {
	p.Helper()
	if p.status != status {
		p.Errorf("status %d, want %d: %.300s", p.status, status, p.body)
	}
	plain := strings.ReplaceAll(html.UnescapeString(p.body), "\u00a0", " ")
	read := anyTag.ReplaceAllString(plain, "")
	for _, text := range texts {
		if !strings.Contains(plain, text) && !strings.Contains(read, text) {
			p.Errorf("the page does not say %q:\n%s", text, plain)
		}
	}
	return p
}

func (s *shop) update(fn func(*store.Tx) error) {
	s.Helper()
	if err := s.db.Update(s.Context(), fn); err != nil {
		s.Fatal(err)
	}
}

// decide puts an order in, with one refund ticket, and returns the ticket's number.
func (s *shop) decide(order string) (id int64) {
	s.Helper()
	s.update(func(tx *store.Tx) error {
		_, err := tx.Record(store.Decision{
			Event:   store.Event{EventID: "EVT-" + order, OrderID: order, Body: store.Text(`{"amount":0.30}`), Digest: make([]byte, 32), Outcome: "decided"},
			Order:   &store.Order{OrderID: order, EventID: "EVT-" + order, CustomerID: "CUS-7", Amount: "2154.00", Currency: "MXN", Category: "coffee", Priority: "low", Decision: "refund", LineItems: store.JSON("[]"), CreditSource: "book"},
			Tickets: []store.NewTicket{{OrderID: order, EffectType: store.TicketIssueRefund, Payload: `{"amount":2154.00,"currency":"MXN"}`, Key: "refund:" + order}},
		})
		if err != nil {
			return err
		}
		story, err := tx.Story(order)
		if err == nil {
			id = story.Tickets[0].ID
		}
		return err
	})
	return id
}

// bury has a ticket die of a cause.
func (s *shop) bury(id int64, why string) {
	s.Helper()
	s.claim(id, func(tx *store.Tx, token string) (bool, error) { return tx.Bury(token, id, why) })
}

func (s *shop) claim(id int64, then func(*store.Tx, string) (bool, error)) {
	s.Helper()
	h, err := s.db.NewHolder(s.Context(), 1)
	if err != nil {
		s.Fatal(err)
	}
	defer h.Close()
	c, err := s.db.Claim(s.Context(), store.ClaimRequest{Holder: h.ID, Limit: 100, Lease: time.Minute, Token: store.NewToken()})
	if err != nil || len(c.Tickets) == 0 {
		s.Fatalf("claim: %v, %v", c, err)
	}
	s.update(func(tx *store.Tx) error {
		if ok, err := then(tx, c.Token); err != nil || !ok {
			return fmt.Errorf("settle %d: %t, %w", id, ok, err)
		}
		return nil
	})
}

var everyPage = []string{"/", "/rail", "/orders", "/attention", "/graph", "/truth", "/relay", "/sessions", "/login", "/tickets/1", "/orders/ORD-1", "/orders/ORD-1/receipt"}

// Every page is whole in the language that the browser asks for, and so is its middle part alone.
func TestPages(t *testing.T) {
	s := newShop(t)
	s.bury(s.decide("ORD-1"), "rejected: 422")
	for lang, title := range map[string]string{"en": "<html lang=\"en\">", "es-MX,en;q=0.5": "<html lang=\"es\">"} {
		s.lang = lang
		for _, path := range everyPage {
			p := s.get(path).wants(200, title, "comanda test", "</html>")
			if strings.Contains(p.body, "ZgotmplZ") {
				t.Errorf("%s holds what the template refused", path)
			}
			if part := s.do("GET", path, nil, func(r *http.Request) { r.Header.Set("HX-Request", "true") }); strings.Contains(part.body, "<html") || part.status != 200 {
				t.Errorf("%s asked for its middle part: %d %.100s", path, part.status, part.body)
			}
			if head := s.do("HEAD", path, nil); head.status != 200 || head.body != "" {
				t.Errorf("HEAD %s: %d", path, head.status)
			}
		}
	}
}

// A cause of which only the newest tickets were looked at has more than it says, and says so.
func TestCausesSayWhenThereAreMore(t *testing.T) {
	s := newShop(t)
	for more, want := range map[bool]string{true: "≥ 7 tickets", false: "· 7 tickets"} {
		var b strings.Builder
		body := &attentionSheet{Causes: []store.Cause{{Status: "dead", EffectType: store.TicketIssueRefund, Tickets: 7, AtLeast: more}}}
		if err := s.console.shown()["en"].pages["attention"]().ExecuteTemplate(&b, "page", sheet{Body: body}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("of more (%t) it does not say %q: %v\n%s", more, want, err, b.String())
		}
	}
}

func TestCounterSays(t *testing.T) {
	s := newShop(t)
	s.get("/").wants(200, "Ready for the first order", "curl -sS "+s.http.URL+"/webhooks/orders")
	id := s.decide("ORD-1")
	s.get("/").wants(200, "All is well · 1 ticket on its way")
	s.bury(id, "rejected")
	p := s.get("/").wants(200, "1 ticket needs you", "LAB")
	if strings.Contains(p.body, "All is well") {
		t.Error("it says both")
	}
	s.lang = "es"
	s.get("/").wants(200, "1 comanda le necesita", "LABORATORIO")
	s.lang = "en"
	s.update(func(tx *store.Tx) error {
		_, err := tx.MarkTargets([]store.Mark{{Name: "refund", URL: "https://pay.example/x"}}, "test")
		return err
	})
	s.decide("ORD-2")
	s.update(func(tx *store.Tx) error { return tx.Offline("refund", true) })
	s.get("/").wants(200, "refund out of reach since", "1 order safe here · nothing lost", "REAL")
	s.update(func(tx *store.Tx) error { return tx.Pause(true, "test") })
	s.get("/").wants(200, "The relay is paused · 1 ticket waits")
}

// Only this machine, under its own names, sees a page or does anything.
func TestOnlyThisMachine(t *testing.T) {
	s := newShop(t)
	for name, change := range map[string]func(*http.Request){
		"another name":         func(r *http.Request) { r.Host = "evil.example" },
		"another name, a port": func(r *http.Request) { r.Host = "evil.example:8080" },
		"a name like ours":     func(r *http.Request) { r.Host = "localhost.evil.example" },
		"the network's number": func(r *http.Request) { r.Host = "192.168.1.5:8080" },
		"no name":              func(r *http.Request) { r.Host = "." },
		"through a proxy":      func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.1") },
		"through a proxy (2)":  func(r *http.Request) { r.Header.Set("Forwarded", "for=10.0.0.1") },
		"by way of":            func(r *http.Request) { r.Header.Set("Via", "1.1 tunnel") },
		"a proxy's other name": func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
		"an edge's name":       func(r *http.Request) { r.Header.Set("CF-Connecting-IP", "10.0.0.1") },
		"an empty line first":  func(r *http.Request) { r.Header["X-Forwarded-For"] = []string{"", "8.8.8.8"} },
		"with a key of nobody": func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
	} {
		for _, path := range append(slices.Clone(everyPage), "/events") {
			switch p := s.do("GET", path, nil, change); {
			case p.status == 200 && path == "/login":
			case p.status != 303 || p.header.Get("Location") != "/login?next="+url.QueryEscape(path):
				t.Errorf("%s, %s: %d to %q", name, path, p.status, p.header.Get("Location"))
			}
		}
		if p := s.do("POST", "/relay", url.Values{"do": {"pause"}}, change); p.status != 401 {
			t.Errorf("%s pauses the relay: %d", name, p.status)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1", "127.9.9.9:1", "[::1]:8080", "[::1]"} {
		if p := s.do("GET", "/", nil, func(r *http.Request) { r.Host = host }); p.status != 200 {
			t.Errorf("%s: %d", host, p.status)
		}
	}
}

// What an order holds stays text, and a page can load and run its own files alone.
func TestNoForeignScript(t *testing.T) {
	s := newShop(t)
	bad := `"><script>alert(1)</script><img src=x>`
	s.bury(s.decide(bad), bad)
	for _, path := range []string{"/rail", "/orders", "/attention", "/tickets/1", "/orders/" + url.PathEscape(bad), "/orders/" + url.PathEscape(bad) + "/receipt", "/orders?q=" + url.QueryEscape(bad), "/rail?order=" + url.QueryEscape(bad)} {
		p := s.get(path)
		if p.status != 200 || strings.Contains(p.body, "<script>alert") || strings.Contains(p.body, "<img") {
			t.Errorf("%s: %d\n%s", path, p.status, p.body)
		}
		if policy := p.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		for _, found := range regexp.MustCompile(`(?i)\s(style|on[a-z]+)=|(?:src|href)="(?:https?:)?//|<style`).FindAllString(p.body, -1) {
			t.Errorf("%s holds %q", path, found)
		}
	}
}

func TestRailCounts(t *testing.T) {
	s := newShop(t)
	for i := range 120 {
		s.decide(fmt.Sprintf("ORD-%03d", i))
	}
	s.update(func(tx *store.Tx) error {
		_, err := tx.InsertTicket(store.NewTicket{OrderID: "ORD-000", EffectType: store.TicketInventorySync, Payload: `{}`, Key: "inventory:ORD-000:A"})
		return err
	})
	links := regexp.MustCompile(`/tickets/(\d+)"`)
	for filter, want := range map[string]int{"": 121, "status=pending": 121, "type=" + store.TicketIssueRefund: 120, "type=" + store.TicketInventorySync: 1, "order=ORD-000": 2,
		"status=done": 0, "order=NONE": 0, "status=pending&type=" + store.TicketIssueRefund + "&order=ORD-119": 1} {
		seen := map[string]bool{}
		next := "/rail?" + filter
		for pages := 0; next != "" && pages < 10; pages++ {
			p := s.get(next).wants(200)
			for _, m := range links.FindAllStringSubmatch(p.body, -1) {
				seen[m[1]] = true
			}
			next = ""
			if m := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(p.body); m != nil {
				next = html.UnescapeString(m[1])
			}
			if tabs := regexp.MustCompile(`aria-current="true">[^<]+<b>(\d+)</b>`).FindStringSubmatch(p.body); tabs == nil || tabs[1] != fmt.Sprint(want) {
				t.Errorf("%s: its own counter says %v, want %d", filter, tabs, want)
			}
		}
		if len(seen) != want {
			t.Errorf("%s: %d tickets on its pages, want %d", filter, len(seen), want)
		}
	}
	s.get("/rail?status=nonsense").wants(400, "There is no such filter")
	s.get("/rail?before=x").wants(400)
}

// An act is confirmed, needs a reason, is done over exactly the chosen tickets, and tells which it left alone.
func TestActs(t *testing.T) {
	s := newShop(t)
	dead := s.decide("ORD-1")
	s.bury(dead, "rejected: 422")
	waits := s.decide("ORD-2")
	ids := url.Values{"id": {fmt.Sprint(dead), fmt.Sprint(waits), "99"}, "do": {"retry"}}
	s.do("POST", "/rail/confirm", ids).wants(200, "This sends 2 calls:", "2 × refund", "LAB", "(never sent before)", "MXN 4,308.00", "Retry 2 tickets", "There is no ticket 99.", "refund:ORD-1")
	with := func(more ...string) url.Values {
		form := url.Values{"id": ids["id"], "do": {"retry"}, "seen": s.shown(ids)}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	s.do("POST", "/rail/act", with()).wants(422, "Give a reason.")
	if p := s.get(fmt.Sprintf("/tickets/%d", dead)); !strings.Contains(p.body, "chip dead") {
		t.Error("it was done without a reason")
	}
	s.do("POST", "/rail/act", with("reason", "the gateway is back")).wants(200, "2 tickets are on the rail again", "1 was left alone")
	s.get(fmt.Sprintf("/tickets/%d", dead)).wants(200, "pending")
	s.get("/relay").wants(200, "the gateway is back", "console 127.0.0.1", "COMANDA_BATCH")
	s.do("POST", "/rail/act", with("do", "resolve", "reason", "r")).wants(422, "Say whether it happened.")
	s.do("POST", "/rail/act", with("do", "discard", "reason", "shop closed")).wants(200, "2 tickets were given up")
	s.do("POST", "/rail/act", with("reason", "again")).wants(200, "Nothing was changed.", "3 were left alone")
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}}).wants(422, "Choose at least one ticket.")
	s.do("POST", "/rail/confirm", url.Values{"do": {"explode"}, "id": {"1"}}).wants(400)
	s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": {"x"}}).wants(400)
}

// shown are the marks by which the confirm page names how the tickets stand.
func (s *shop) shown(chosen url.Values) []string {
	s.Helper()
	var marks []string
	page := s.do("POST", "/rail/confirm", url.Values{"do": {"resolve"}, "id": chosen["id"]}).body + s.do("POST", "/rail/confirm", url.Values{"do": {"retry"}, "id": chosen["id"]}).body
	for _, m := range regexp.MustCompile(`name="seen" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		marks = append(marks, m[1])
	}
	return marks
}

// One confirmation stands for one act: what a form names as it no longer is, or never was shown, is left alone.
func TestActsOnWhatWasShown(t *testing.T) {
	s := newShop(t)
	id := s.decide("ORD-1")
	s.bury(id, "rejected: 422")
	chosen := url.Values{"id": {fmt.Sprint(id)}}
	form := url.Values{"id": chosen["id"], "do": {"retry"}, "reason": {"r"}, "seen": s.shown(chosen)}
	unseen := url.Values{"id": chosen["id"], "do": {"retry"}, "reason": {"r"}}
	s.do("POST", "/rail/act", unseen).wants(200, "Nothing was changed.", "look again")
	s.do("POST", "/rail/act", form).wants(200, "1 ticket is on the rail again")
	s.do("POST", "/rail/act", form).wants(200, "Nothing was changed.", "look again")
	s.bury(id, "rejected: 422")
	s.do("POST", "/rail/act", form).wants(200, "Nothing was changed.", "look again")
}

// Where a person looks there is a sentence, not a program's answer, when the file can't be had.
func TestTroubleIsToldByAPage(t *testing.T) {
	s := newShop(t)
	s.decide("ORD-1")
	if err := os.Rename(s.db.Path(), s.db.Path()+".gone"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/rail", "/orders/ORD-1"} {
		p := s.get(path).wants(503, "removed, moved or replaced")
		if !strings.HasPrefix(p.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s", path, p.header.Get("Content-Type"))
		}
	}
}

// Two ids that a browser takes for steps in the path have pages like any other.
func TestOrdersNamedLikeSteps(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{".", ".."} {
		s.decide(id)
		q := url.Values{"id": {id}}.Encode()
		s.get("/orders").wants(200, "/orders?"+q)
		s.get("/orders?"+q).wants(200, "refund:"+id, "/orders?"+q+"&receipt=1")
		s.get("/orders?"+q+"&receipt=1").wants(200, "sha256sum")
	}
}

// A command that is there to be pasted does what it says, whatever the order is called.
func TestShellQuoted(t *testing.T) {
	for _, word := range []string{"ORD-1", "ORD; touch pwned", "it's", "$(id)", "a b", "-x", "", "`id`", "é:%", "*",
		"ORD-\u202e1", "\u20661%s\\n'`id`$(id)\"\u2069 7", "-\u200b", "a\x1b[2Jb\n", "\x1b[2J\t\n.", "\xff\uFFFD\xc3(0"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuoted(word)).Output()
		if word != "-x" && (err != nil || string(out) != word) {
			t.Errorf("%q came out as %q, %v", word, out, err)
		}
		if strings.ContainsAny(shellQuoted(word), "\u202e\u2066\u2069\u200b") {
			t.Errorf("%+q is read as something else than it is", shellQuoted(word))
		}
	}
}

// A filter is never dropped from the links of a list.
func TestFiltersStay(t *testing.T) {
	s := newShop(t)
	s.decide("0")
	s.get("/rail?order=0").wants(200, "order=0&status=dead")
}

func TestRelayAndTargets(t *testing.T) {
	s := newShop(t)
	if p := s.do("POST", "/relay", url.Values{"do": {"pause"}}); p.status != 303 {
		t.Errorf("pause: %d", p.status)
	}
	s.get("/relay").wants(200, "Paused: no relay of this file claims anything.", "Resume all relays")
	s.do("POST", "/relay", url.Values{"do": {"resume"}})
	s.do("POST", "/targets/refund", url.Values{"do": {"pause"}, "reason": {"the bank asked"}})
	s.get("/relay").wants(200, "the bank asked", "Resume refund", "Pause inventory")
	s.get("/attention").wants(200, "find out why it was paused")
	s.do("POST", "/targets/refund", url.Values{"do": {"resume"}})
	s.get("/attention").wants(200, "Nothing needs you.")
	if p := s.do("POST", "/targets/nothing", url.Values{"do": {"pause"}}); p.status != 404 {
		t.Errorf("a target that does not exist: %d", p.status)
	}
	if p := s.do("POST", "/relay", url.Values{"do": {"x"}}); p.status != 400 {
		t.Errorf("neither: %d", p.status)
	}
}

func TestSearch(t *testing.T) {
	s := newShop(t)
	odd := "ORD/1 %2F?#ñ"
	id := s.decide(odd)
	for q, want := range map[string]string{
		odd: "/orders/" + url.PathEscape(odd), "EVT-" + odd: "/orders/" + url.PathEscape(odd), "refund:" + odd: fmt.Sprintf("/tickets/%d", id),
		fmt.Sprintf("#%d", id): fmt.Sprintf("/tickets/%d", id), "ORD/": "/orders?q=ORD%2F", "": "/orders",
	} {
		if p := s.get("/search?q=" + url.QueryEscape(q)); p.status != 303 || p.header.Get("Location") != want {
			t.Errorf("%q leads to %d %s, want %s", q, p.status, p.header.Get("Location"), want)
		}
	}
	s.get("/orders/"+url.PathEscape(odd)).wants(200, "Order "+odd, `"amount": 0.30`)
	s.get("/orders?q=ORD%2F").wants(200, odd)
	s.get("/orders/none").wants(404, "The file knows nothing of it.")
	s.get("/tickets/99").wants(404)
	s.get("/tickets/x").wants(404)
}

// The page of the truth asks when it is asked, one at a time, and says how long it took.
func TestTruth(t *testing.T) {
	s := newShop(t)
	s.get("/truth").wants(200, "Not asked since this process began.")
	if p := s.do("POST", "/truth", url.Values{}); p.status != 303 {
		t.Fatalf("ask: %d", p.status)
	}
	s.console.under.Wait()
	s.get("/truth").wants(200, "Answered", "invariant: no effect twice", "SELECT effect_key", " ms", "What doctor says")
	if !s.console.truth.begin() || s.console.truth.begin() {
		t.Error("two ask at a time")
	}
	s.get("/truth").wants(200, "Answered", `role="status"`)
}

func TestLanguageIsChosen(t *testing.T) {
	s := newShop(t)
	p := s.get("/language?code=es&from=" + url.QueryEscape("/rail?status=dead"))
	if p.status != 303 || p.header.Get("Location") != "/rail?status=dead" || !strings.Contains(p.header.Get("Set-Cookie"), "comanda_lang=es") {
		t.Errorf("%d %v", p.status, p.header)
	}
	cookie := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: languageCookie, Value: "es"}) }
	s.do("GET", "/rail", nil, cookie).wants(200, "El riel")
	for _, from := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""} {
		if p := s.get("/language?code=en&from=" + url.QueryEscape(from)); p.header.Get("Location") != "/" {
			t.Errorf("%q leads to %s", from, p.header.Get("Location"))
		}
	}
	s.get("/language?code=xx").wants(404)
}
