package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"comanda/store"
)

// badID is an order's id that is a script to a page that forgets to escape it.
const badID = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>`

// consoleShop is a server over a file with tickets in every state that a person meets.
func consoleShop(t *testing.T) (p *proof, base string) {
	p = onFile(t, builtProgram(t))
	db := must(store.Open(t.Context(), p.file, store.Options{}))(t)
	for i, order := range []string{"ORD-1", "ORD-2", "ORD-3", badID} {
		update := func(fn func(*store.Tx) error) {
			if err := db.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		update(func(tx *store.Tx) error {
			_, err := tx.Record(store.Decision{
				Event: store.Event{EventID: "EVT-" + order, OrderID: order, Body: store.Text(`{"amount":9007199254740993.10,"note":"</pre><script>window.hit=1</script>"}`), Digest: make([]byte, 32), Outcome: "decided"},
				Order: &store.Order{OrderID: order, EventID: "EVT-" + order, CustomerID: order, Amount: "2154.00", Currency: "MXN", Category: "coffee", Priority: "low",
					Decision: "refund", LineItems: store.JSON("[]"), CreditSource: "book"},
				Tickets: []store.NewTicket{{OrderID: order, EffectType: store.TicketIssueRefund, Payload: `{"amount":2154.00,"currency":"MXN"}`, Key: fmt.Sprintf("refund:%d", i)}},
			})
			return err
		})
		h := must(db.NewHolder(t.Context(), 1))(t)
		c := must(db.Claim(t.Context(), store.ClaimRequest{Holder: h.ID, Limit: 10, Lease: time.Minute}))(t)
		id := c.Tickets[0].ID
		update(func(tx *store.Tx) (err error) {
			if i == 1 {
				_, err = tx.Review(c.Token, id, "unknown", "nobody knows what came of it")
			} else {
				_, err = tx.Bury(c.Token, id, "rejected: 422 "+badID)
			}
			return err
		})
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return p, must(p.serve("", "--no-relay"))(t).url
}

// Every page in light and dark, wide and on a phone, in both languages: nothing that axe-core finds, no sideways
// scrolling at 320 pixels, no request to anywhere else, no script out of an order, no complaint of the browser.
// COMANDA_SHOTS=DIR keeps a picture of each.
func TestConsoleLooks(t *testing.T) {
	b := newBrowser(t)
	_, base := consoleShop(t)
	bad := url.PathEscape(badID)
	pages := map[string]string{"counter": "/", "rail": "/rail", "orders": "/orders", "order": "/orders/ORD-1", "bad-order": "/orders/" + bad, "receipt": "/orders/" + bad + "/receipt",
		"ticket": "/tickets/2", "attention": "/attention", "graph": "/graph", "truth": "/truth", "relay": "/relay", "missing": "/orders/none"}
	for _, l := range looksAt {
		b.lookLike(t, l)
		for name, path := range pages {
			b.must(t, chromedp.Navigate(base+path), chromedp.WaitReady("footer"))
			if found := b.violations(t); len(found) > 0 {
				t.Errorf("%s, %s: %s", name, l.name, strings.Join(found, "\n  "))
			}
			var wide, hit bool
			b.eval(t, fmt.Sprintf("document.documentElement.scrollWidth > %d", l.width), &wide) // innerWidth grows with what does not fit
			b.eval(t, "window.hit === 1", &hit)
			if wide {
				var who string
				b.eval(t, fmt.Sprintf("[...document.querySelectorAll('main *, header *, footer *')].filter(e => e.getBoundingClientRect().right > %d).slice(0, 4).map(e => e.outerHTML.slice(0, 120)).join('\\n')", l.width), &who)
				t.Errorf("%s, %s: scrolls sideways: %s", name, l.name, who)
			}
			if hit {
				t.Errorf("%s, %s: a script out of an order ran", name, l.name)
			}
			if l.width < 500 {
				var small string
				b.eval(t, "[...document.querySelectorAll('nav a, button, .button, input:not([type=hidden]):not([type=checkbox]):not([type=radio]), select, summary')].filter(e => { const r = e.getBoundingClientRect(); return r.width && r.height < 43.5 }).map(e => e.outerHTML.slice(0, 80)).join('\\n')", &small)
				if small != "" {
					t.Errorf("%s, %s: lower than 44 px: %s", name, l.name, small)
				}
			}
			if dir := os.Getenv("COMANDA_SHOTS"); dir != "" {
				var png []byte
				b.must(t, chromedp.FullScreenshot(&png, 100))
				if err := os.WriteFile(filepath.Join(dir, l.name+"-"+name+".png"), png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if left := b.strangers(base); len(left) > 0 {
		t.Errorf("requests left the origin: %q", left)
	}
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
}

// What an operator does by the page: retry, discard and resolve, each confirmed and with a reason.
func TestConsoleActs(t *testing.T) {
	b := newBrowser(t)
	p, base := consoleShop(t)
	b.lookLike(t, looksAt[0])
	act := func(path, choose, do, answer, reason string) {
		t.Helper()
		b.must(t, chromedp.Navigate(base+path), chromedp.WaitReady("footer"))
		if choose != "" {
			b.click(t, choose)
		}
		b.click(t, "button[name=do][value="+do+"]")
		b.must(t, chromedp.WaitVisible("#reason"))
		if answer != "" {
			b.click(t, answer)
		}
		b.must(t, chromedp.SendKeys("#reason", reason))
		b.click(t, "main button.primary")
		b.must(t, chromedp.WaitVisible("p.lead[role=status]"))
	}
	act("/tickets/1", "", "retry", "", "the gateway is back")
	act("/tickets/2", "", "resolve", "input[value=yes]", "seen at the bank")
	act("/rail?status=dead", `input[value="3"]`, "discard", "", "sold at the counter")
	out, _, _ := run(t, nil, p.exe, "sql", "SELECT id, status FROM outbox ORDER BY id", "--db", p.file)
	if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got, "1 pending") || !strings.Contains(got, "2 done") || !strings.Contains(got, "3 discarded") || !strings.Contains(got, "4 dead") {
		t.Errorf("afterwards the rail is %s", out)
	}
}

// A page that is asked for again does not take a button away that is being pressed, and has the answer afterwards.
func TestConsoleHoldsStill(t *testing.T) {
	b := newBrowser(t)
	_, base := consoleShop(t)
	b.must(t, chromedp.Navigate(base+"/tickets/2"), chromedp.WaitReady("footer"))
	b.until(t, "the stream", `document.querySelector("#livestate").className === "live"`)
	var stays bool
	b.eval(t, `new Promise(stays => {
		window.aim = document.querySelector("button[name=do]");
		document.addEventListener("htmx:afterRequest", () => stays(window.aim.isConnected), { once: true });
		htmx.trigger("#page", "refresh");
		document.dispatchEvent(new PointerEvent("pointerdown"));
	})`, &stays)
	if !stays {
		t.Error("the button went while it was pressed")
	}
	b.eval(t, `(document.dispatchEvent(new PointerEvent("pointerup")), true)`, new(bool))
	b.until(t, "the page as it is now", `!window.aim.isConnected`)
}

// What comes in while somebody watches appears without a reload, in ten tabs at once; a page that is paused stays as
// it is.
func TestConsoleIsLive(t *testing.T) {
	b := newBrowser(t)
	p, base := consoleShop(t)
	b.must(t, chromedp.Navigate(base+"/orders/ORD-1"), chromedp.WaitReady("footer"))
	b.until(t, "the stream", `document.querySelector("#livestate").className === "live"`)
	b.eval(t, `(window.same = true, true)`, new(bool))
	order := orderBody("EVT-LATE", "ORD-1", "CUS-9", "1.00", line{"A", 1})
	if _, err := p.client.order(t.Context(), base, order); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the late event", `document.body.innerText.includes("EVT-LATE") && window.same === true`)
	for range 2 {
		if _, err := p.client.order(t.Context(), base, order); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, "the copies", `/EVT-LATE came again: 2 times/.test(document.body.innerText) && window.same === true`)
	var tabs []*browser
	for range 9 {
		ctx, closeTab := chromedp.NewContext(b.Context)
		t.Cleanup(closeTab)
		tab := newTab(t, ctx)
		began := time.Now()
		tab.must(t, chromedp.Navigate(base+"/orders"), chromedp.WaitReady("footer"))
		t.Logf("a tab more: %s", time.Since(began).Round(time.Millisecond))
		tabs = append(tabs, tab)
	}
	last := tabs[len(tabs)-1]
	last.until(t, "the stream in the tenth tab", `document.hidden || document.querySelector("#livestate").className === "live"`)
	b.must(t, page.BringToFront(), chromedp.Navigate(base+"/orders"), chromedp.WaitReady("footer"), chromedp.Click("#livepause"))
	if _, err := p.client.order(t.Context(), base, orderBody("EVT-NEW", "ORD-NEW", "CUS-9", "1.00", line{"A", 1})); err != nil {
		t.Fatal(err)
	}
	last.until(t, "the new order in the tenth tab", `document.hidden || document.body.innerText.includes("ORD-NEW")`)
	var shown bool
	if b.eval(t, `document.body.innerText.includes("ORD-NEW")`, &shown); shown {
		t.Error("a paused page went on")
	}
	b.must(t, page.BringToFront(), chromedp.Click("#livepause"))
	b.until(t, "the new order after the pause", `document.body.innerText.includes("ORD-NEW")`)
}
