package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

const operatorPassword = "correct horse battery"

// networkAddress is an address of this machine that is not loopback, so that who asks at it comes from the network.
func networkAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String() + ":0"
		}
	}
	t.Skip("this machine has no address beside loopback")
	return ""
}

func passwordFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(operatorPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask is a request with headers, name and value in turn. Nothing is followed.
func ask(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res := must(client.Do(r))(t)
	defer res.Body.Close()
	return res, string(must(io.ReadAll(res.Body))(t))
}

// A server on the network asks for a key, of which the command line makes one while it runs, and forgets it again.
func TestDoorOnTheNetwork(t *testing.T) {
	addr := networkAddress(t)
	p := onFile(t, builtProgram(t))
	if out, errs, code := run(t, nil, p.exe, "serve", "--addr", addr, "--db", p.file); code != 2 || !strings.Contains(errs, "nobody has a password") || strings.Contains(out, "listening") {
		t.Errorf("without an account it exits %d: %s", code, errs)
	}
	password := passwordFile(t)
	s := must(p.serve("", "--addr", addr, "--admin-password-file", password))(t)
	wants := func(status int, method, path string, headers ...string) string {
		t.Helper()
		res, body := ask(t, method, s.url+path, "", headers...)
		if res.StatusCode != status {
			t.Errorf("%s %s %q: %d, want %d: %s", method, path, headers, res.StatusCode, status, body)
		}
		return res.Header.Get("Set-Cookie")
	}
	for _, path := range []string{"/api/stats", "/metrics", "/openapi.json", "/schemas/order.json"} {
		wants(401, "GET", path)
	}
	wants(303, "GET", "/rail")
	wants(200, "GET", "/healthz")
	wants(200, "GET", "/readyz")
	out, errs, code := run(t, nil, p.exe, "token", "add", "prometheus", "--role", "view", "--db", p.file)
	if code != 0 || strings.Contains(errs, "comanda_") {
		t.Fatalf("token add exits %d: %s", code, errs)
	}
	key := []string{"Authorization", "Bearer " + strings.TrimSpace(out)}
	wants(200, "GET", "/metrics", key...)
	wants(403, "POST", "/api/relay/pause", key...)
	if _, _, code := run(t, nil, p.exe, "token", "revoke", "prometheus", "--db", p.file); code != 0 {
		t.Errorf("token revoke exits %d", code)
	}
	wants(401, "GET", "/metrics", key...)

	login := func(password string) (cookie string, status int) {
		res, _ := ask(t, "POST", s.url+"/login", "name=admin&password="+strings.ReplaceAll(password, " ", "+"), "Content-Type", "application/x-www-form-urlencoded")
		cookie, _, _ = strings.Cut(res.Header.Get("Set-Cookie"), ";")
		return cookie, res.StatusCode
	}
	cookie, status := login(operatorPassword)
	if status != 303 {
		t.Fatalf("the file's password: %d", status)
	}
	wants(200, "POST", "/api/relay/pause", "Cookie", cookie)
	if err := os.WriteFile(password, []byte("another password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if res, _ := ask(t, "GET", s.url+"/api/stats", "", "Cookie", cookie); res.StatusCode == 401 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the password was changed and its session goes on")
		}
	}
	if _, status := login("another password"); status != 303 {
		t.Errorf("the new password: %d", status)
	}
}

// --insecure starts without an account, says so wherever somebody looks, and lets nobody in all the same.
func TestInsecureIsLoud(t *testing.T) {
	addr := networkAddress(t)
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--addr", addr, "--insecure"))(t)
	if res, body := ask(t, "GET", s.url+"/readyz", ""); res.StatusCode != 200 || !strings.Contains(body, "--insecure") {
		t.Errorf("readiness: %d %s", res.StatusCode, body)
	}
	if res, _ := ask(t, "GET", s.url+"/api/stats", ""); res.StatusCode != 401 {
		t.Errorf("the API: %d", res.StatusCode)
	}
	if res, body := ask(t, "GET", s.url+"/login", ""); res.StatusCode != 200 || !strings.Contains(body, "comanda passwd") {
		t.Errorf("the login: %d %s", res.StatusCode, body)
	}
	s.mu.Lock()
	said := strings.Join(s.tail, "\n")
	s.mu.Unlock()
	if !strings.Contains(said, "started with --insecure") || !strings.Contains(said, "in clear") {
		t.Errorf("the log says\n%s", said)
	}
}

// A person logs in from the network, acts, ends another login, loses the own one while a page is open, and leaves, in a
// real browser; what is shown is clean in both languages.
func TestLoginInABrowser(t *testing.T) {
	b := newBrowser(t)
	addr := networkAddress(t)
	p := onFile(t, builtProgram(t))
	s := must(p.serve("", "--addr", addr, "--no-relay", "--admin-password-file", passwordFile(t)))(t)
	clean := func(what string) {
		t.Helper()
		for _, l := range looksAt {
			b.lookLike(t, l)
			b.must(t, chromedp.Reload(), chromedp.WaitReady("footer"))
			if found := b.violations(t); len(found) > 0 {
				t.Errorf("%s, %s: %s", what, l.name, strings.Join(found, "\n  "))
			}
			var wide bool
			if b.eval(t, fmt.Sprintf("document.documentElement.scrollWidth > %d", l.width), &wide); wide {
				t.Errorf("%s, %s: scrolls sideways", what, l.name)
			}
		}
		b.lookLike(t, looksAt[0])
		b.must(t, chromedp.Reload(), chromedp.WaitReady("footer"))
	}
	login := func(password string) {
		t.Helper()
		b.must(t, chromedp.WaitVisible("#password"), chromedp.SetValue("#name", "admin"), chromedp.SendKeys("#password", password))
		b.click(t, "main button.primary")
	}
	b.must(t, chromedp.Navigate(s.url+"/relay"), chromedp.WaitVisible("#password"))
	clean("the login")
	login("wrong password")
	b.must(t, chromedp.WaitVisible("#wrong"))
	login(operatorPassword)
	b.until(t, "the page that was asked for", `location.pathname === "/relay" && !!document.querySelector("form.you")`)
	b.click(t, `form[action="/relay"] button`)
	b.until(t, "the act in the log", `document.body.innerText.includes("console as admin from")`)

	elsewhere, _ := ask(t, "POST", s.url+"/login", "name=admin&password="+strings.ReplaceAll(operatorPassword, " ", "+"), "Content-Type", "application/x-www-form-urlencoded", "User-Agent", "another browser")
	other, _, _ := strings.Cut(elsewhere.Header.Get("Set-Cookie"), ";")
	b.must(t, chromedp.Navigate(s.url+"/sessions"), chromedp.WaitReady("footer"))
	b.until(t, "both logins", `document.querySelectorAll('form[action="/sessions"] button[name=id]').length === 2`)
	clean("the sessions")
	b.click(t, `tr:has([lang=""]) form[action="/sessions"] button[name=id]`) // the newest stands first
	b.until(t, "one login", `document.querySelectorAll('form[action="/sessions"] button[name=id]').length === 1`)
	if res, _ := ask(t, "GET", s.url+"/api/stats", "", "Cookie", other); res.StatusCode != 401 {
		t.Errorf("the login that was ended: %d", res.StatusCode)
	}

	b.must(t, chromedp.Navigate(s.url+"/orders"), chromedp.WaitReady("footer"))
	b.until(t, "the stream", `document.querySelector("#livestate").className === "live"`)
	if out, errs, code := run(t, nil, p.exe, "passwd", "--db", p.file, "--password-file", passwordFile(t)); code != 0 {
		t.Fatalf("passwd exits %d: %s%s", code, out, errs)
	}
	b.until(t, "the login, led there by the end of the session", `location.pathname === "/login" && location.search === "?next=%2Forders"`)
	login(operatorPassword)
	b.until(t, "the orders again", `location.pathname === "/orders"`)
	b.click(t, "form.you button")
	b.until(t, "the login after leaving", `location.pathname === "/login"`)
	b.must(t, chromedp.Navigate(s.url+"/orders"), chromedp.WaitVisible("#password"))
	var left []*network.Cookie
	b.must(t, chromedp.ActionFunc(func(ctx context.Context) (err error) { left, err = network.GetCookies().Do(ctx); return err }))
	for _, c := range left {
		if strings.Contains(c.Name, "session") {
			t.Errorf("a cookie stays: %+v", c)
		}
	}
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
}
