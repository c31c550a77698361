package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a real one with one tab. It notes what it asked for and what it complained of.
type browser struct {
	context.Context
	mu         sync.Mutex
	asked      []string
	complaints []string
}

// newBrowser starts Chromium. Where there is none the test is skipped, or fails if COMANDA_BROWSER says that there
// must be one.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	var exe string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && exe == "" {
			exe = path
		}
	}
	if exe == "" {
		if os.Getenv("COMANDA_BROWSER") != "" {
			t.Fatal("there is no browser and COMANDA_BROWSER says that there must be one")
		}
		t.Skip("needs a browser: install chromium")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(exe), chromedp.NoSandbox, chromedp.WindowSize(1200, 900))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	return newTab(t, ctx)
}

// newTab opens a tab. Its first step must have no time limit, which would end the tab with it.
func newTab(t *testing.T, ctx context.Context) *browser {
	t.Helper()
	b := &browser{Context: ctx}
	b.note(ctx)
	if err := chromedp.Run(ctx, network.Enable()); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	return b
}

func (b *browser) note(ctx context.Context) {
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked = append(b.asked, e.Request.URL)
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Text+" "+e.ExceptionDetails.URL)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				b.complaints = append(b.complaints, fmt.Sprint(e.Args))
			}
		}
	})
}

func (b *browser) must(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, 30*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatalf("the browser: %v", err)
	}
}

// click clicks like a person. A page that is live may put a new button in the place of the one that was aimed at: then
// it aims again.
func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, 30*time.Second)
	defer cancel()
	for {
		err := chromedp.Run(ctx, chromedp.Click(selector, chromedp.ByQuery))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "node") {
			t.Fatalf("click %s: %v", selector, err)
		}
	}
}

// eval runs an expression in the page.
func (b *browser) eval(t *testing.T, expression string, into any) {
	t.Helper()
	b.must(t, chromedp.Evaluate(expression, into, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// until waits for an expression to be true.
func (b *browser) until(t *testing.T, what, expression string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var yes bool
		b.eval(t, expression, &yes)
		if yes {
			return
		}
		if time.Now().After(deadline) {
			var body string
			b.eval(t, "document.body.innerText", &body)
			t.Fatalf("waited in vain for %s; the page says:\n%s", what, body)
		}
	}
}

// screen is how a page is looked at.
type screen struct {
	name          string
	width, height int64
	scheme        string
	lang          string
}

var looksAt = []screen{
	{"light", 1200, 900, "light", "en"}, {"dark", 1200, 900, "dark", "es"}, {"phone", 320, 640, "light", "es"}, {"phone-dark", 320, 640, "dark", "en"},
}

func (b *browser) lookLike(t *testing.T, l screen) {
	t.Helper()
	b.must(t, emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}),
		network.SetExtraHTTPHeaders(network.Headers{"Accept-Language": l.lang}))
}

// violations asks axe-core what is wrong with the page.
func (b *browser) violations(t *testing.T) []string {
	t.Helper()
	source := must(os.ReadFile("testdata/axe/axe.min.js"))(t)
	b.must(t, chromedp.Evaluate(string(source), nil))
	var text string
	b.eval(t, `axe.run(document).then(r => JSON.stringify(r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + (n.any[0] ? n.any[0].message : "")).slice(0, 3).join(" | "))))`, &text)
	var all []string
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// strangers are the requests that left the origin.
func (b *browser) strangers(origin string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.asked {
		if !strings.HasPrefix(url, origin+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			all = append(all, url)
		}
	}
	return all
}
