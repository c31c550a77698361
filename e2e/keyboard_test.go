package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabStop is where the keyboard's focus is.
type tabStop struct {
	Body    bool   // nowhere: the round is over
	Name    string // its tag as it is written, shortened
	Visible bool   // a person sees that it is there
	Hit     bool   // it is what was looked for
}

// focus says where the focus is, and whether that is what a selector names. A box-shadow does not count as
// visible: where the visitor is in the navigation has one without any focus.
func (b *browser) focus(t *testing.T, selector string) (s tabStop) {
	t.Helper()
	b.eval(t, fmt.Sprintf(`(() => {
		const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
		at.dataset.reached = "yes";
		return {Body: at === document.body, Name: at.outerHTML.slice(0, 100), Hit: at.matches(%q),
			Visible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && !/, 0\)|transparent/.test(style.outlineColor) &&
				box.width > 0 && box.height > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight};
	})()`, selector), &s)
	return s
}

// tab presses Tab and says where that leads.
func (b *browser) tab(t *testing.T, selector string, with ...chromedp.KeyOption) tabStop {
	t.Helper()
	b.must(t, chromedp.KeyEvent(kb.Tab, with...))
	s := b.focus(t, selector)
	if !s.Body && !s.Visible {
		t.Errorf("the focus can't be seen on %s", s.Name)
	}
	return s
}

// tabTo presses Tab until it is there.
func (b *browser) tabTo(t *testing.T, selector string, with ...chromedp.KeyOption) {
	t.Helper()
	for range 120 {
		if s := b.tab(t, selector, with...); s.Hit {
			return
		} else if s.Body {
			break
		}
	}
	t.Fatalf("Tab alone does not lead to %s", selector)
}

// backwards is Tab with Shift.
var backwards = chromedp.KeyModifiers(input.ModifierShift)

// A ticket is chosen, confirmed and sent again by the keyboard alone; the skip link comes first and skips, and the
// language can be changed.
func TestConsoleByKeyboard(t *testing.T) {
	b := newBrowser(t)
	p, base := consoleShop(t)
	b.lookLike(t, looksAt[0])
	b.must(t, chromedp.Navigate(base+"/rail?status=dead"), chromedp.WaitReady("footer"))
	if s := b.tab(t, "a.skip"); !s.Hit {
		t.Fatalf("the first stop is %s", s.Name)
	}
	b.must(t, chromedp.KeyEvent(kb.Enter))
	b.until(t, "the skip link", `document.activeElement.id === "page"`)
	if s := b.tab(t, "main *"); !s.Hit {
		t.Errorf("behind the skip link comes %s", s.Name)
	}
	b.tabTo(t, `input[name=id][value="3"]`)
	b.must(t, chromedp.KeyEvent(" "))
	b.until(t, "the choice", `document.activeElement.checked && document.querySelectorAll("input[name=id]:checked").length === 1`)
	b.tabTo(t, "button[name=do][value=retry]", backwards)
	b.must(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#reason"))
	b.tabTo(t, "#reason")
	b.must(t, chromedp.KeyEvent("the gateway is back"))
	b.tabTo(t, "main button.primary")
	b.must(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("p.lead[role=status]"))
	b.until(t, "the result", `document.body.innerText.includes("1 ticket is on the rail again")`)
	b.tabTo(t, "a[hreflang=es]")
	b.must(t, chromedp.Navigate(base+"/rail"), chromedp.WaitReady("footer"))
	b.tabTo(t, "a[hreflang=es]")
	b.must(t, chromedp.KeyEvent(kb.Enter))
	b.until(t, "the other language", `document.documentElement?.lang === "es" && location.pathname === "/rail"`)
	out, _, _ := run(t, nil, p.exe, "sql", "SELECT group_concat(id || ' ' || status, ', ') FROM (SELECT * FROM outbox ORDER BY id)", "--db", p.file)
	if !strings.Contains(out, "1 dead, 2 review, 3 pending, 4 dead") {
		t.Errorf("afterwards the rail is %s", out)
	}
}

// Tab goes round each page, to everything that can be used there, and the focus is always seen.
func TestTabReachesEverything(t *testing.T) {
	b := newBrowser(t)
	_, base := consoleShop(t)
	for _, l := range []screen{looksAt[0], looksAt[3]} {
		b.lookLike(t, l)
		for _, path := range []string{"/", "/rail", "/orders/ORD-1", "/attention", "/graph", "/relay", "/orders/ORD-1/receipt"} {
			b.must(t, chromedp.Navigate(base+path), chromedp.WaitReady("footer"))
			b.until(t, "the page to be still", `!document.querySelector("#livepause") || document.querySelector("#livestate").className === "live"`)
			b.eval(t, `document.querySelector("#livepause")?.click(), true`, new(bool)) // what is swapped in has not been reached
			for n := 0; !b.tab(t, "body").Body; n++ {
				if n > 300 {
					t.Fatalf("%s, %s: Tab never comes round", path, l.name)
				}
			}
			var left string
			b.eval(t, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter(e => e.getClientRects().length && !e.dataset.reached).map(e => e.outerHTML.slice(0, 100)).join("\n")`, &left)
			if left != "" {
				t.Errorf("%s, %s: Tab does not reach %s", path, l.name, left)
			}
			b.eval(t, `document.querySelector("#livepause")?.click(), true`, new(bool))
		}
	}
}

// A page that is renewed meanwhile leaves the focus where it was, also on what has no name.
func TestFocusStays(t *testing.T) {
	b := newBrowser(t)
	p, base := consoleShop(t)
	b.must(t, chromedp.Navigate(base+"/orders/ORD-1"), chromedp.WaitReady("footer"))
	b.until(t, "the stream", `document.querySelector("#livestate").className === "live"`)
	b.tabTo(t, "main summary")
	b.must(t, chromedp.KeyEvent(kb.Enter))
	if _, err := p.client.order(t.Context(), base, orderBody("EVT-LATE", "ORD-1", "CUS-9", "1.00", line{"A", 1})); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the late event", `document.body.innerText.includes("EVT-LATE")`)
	if s := b.focus(t, "main summary"); !s.Hit || !s.Visible {
		t.Errorf("the focus went to %s", s.Name)
	}
	var open bool
	if b.eval(t, `document.activeElement.parentElement.open === true`, &open); !open {
		t.Error("what was open is closed")
	}
}
