package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
)

// logged is a server whose whole log is kept.
type logged struct {
	t    *testing.T
	url  string
	file string // the log
	stop func()
}

var listening = regexp.MustCompile(`listening"?[ ,].*?(http://127\.0\.0\.1:\d+)`)

// serveLogged starts the built program as serve, with more of its environment, and waits until it listens.
func serveLogged(t *testing.T, env []string, args ...string) *logged {
	t.Helper()
	s := &logged{t: t, file: filepath.Join(t.TempDir(), "log")}
	out := must(os.Create(s.file))(t)
	cmd := exec.Command(builtProgram(t), append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(scrubbed(), env...), out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	s.stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		out.Close()
	}
	t.Cleanup(s.stop)
	s.await("its address", func() bool {
		if found := listening.FindStringSubmatch(s.log()); found != nil {
			s.url = found[1]
		}
		return s.url != ""
	})
	return s
}

func (s *logged) log() string { return string(must(os.ReadFile(s.file))(s.t)) }

func (s *logged) await(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s:\n%s", what, s.log())
		}
	}
}

// raw sends bytes as they are and returns all of the answer.
func (s *logged) raw(text string) string {
	s.t.Helper()
	c := must(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(s.t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, text)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// unseen are the characters of a text that break lines, act on terminals, or hide and turn what stands beside them.
func unseen(text string) (found []rune) {
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)) {
			found = append(found, r)
		}
	}
	return found
}

// Whatever is sent, a request is one line of the log, in the fields that it should have, and that line repeats no body,
// no query, no header and nothing that a terminal would obey.
func TestLogOfHostileRequests(t *testing.T) {
	t.Parallel()
	const forged = `a\u202e\u2066\u2028level=ERROR\u200b\ufeff` // as JSON; an id may hold it
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
	}
	get := func(path, headers string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n"
	}
	order := strings.ReplaceAll(`{"event_id":"E","order_id":"E","customer_id":"s3cr3t-body","amount":"1.00","currency":"MXN","line_items":[{"sku":"E","quantity":1}]}`, `"E"`, `"`+forged+`"`)
	requests := []struct{ text, status string }{
		{post("/webhooks/orders?token=s3cr3t-query", "Authorization: Bearer s3cr3t-token\r\nCookie: session=s3cr3t-cookie\r\nwebhook-signature: v1,s3cr3t-signature\r\n", order), "200"},
		{post("/webhooks/orders", "", "{\"s3cr3t-body\x1b[2J\n\":"), "400"},
		{post("/webhooks/orders", "", `{"event_id":"s3cr3t-body","order_id":5}`), "422"},
		{get("/api/orders?q=s3cr3t-query", ""), "200"},
		{get("/api/orders?s3cr3t-query=1;x", ""), "400"},
		{get("/api/orders?limit=s3cr3t-query", ""), "400"},
		{get("/api/orders?cursor=s3cr3t-query", ""), "400"},
		{get("/%0d%0atime=0%20level=ERROR%20msg=forged%1b%5b2J%c2%9b", ""), "404"},
		{get("/\u202e\u2066\u009b", ""), "404"},
		{get("/api/orders/%E2%80%AE%E2%80%A8", ""), "404"},
		{get("/healthz", "X-Request-Id: a level=ERROR msg=forged\r\nUser-Agent: s3cr3t-agent\u202e\r\nReferer: http://x/?s3cr3t-query\r\nX-Forwarded-For: s3cr3t-forwarded\r\n"), "200"},
		{get("/", "X-Request-Id: \"forged\\n\u202e\r\nHost: s3cr3t-host\r\n"), "400"},
		{"\x1b[2J\x9b forged\r\n\r\n", "400"},
		{get("/api/tickets/"+strings.Repeat("9", 5000), ""), "404"},
	}
	for _, format := range []string{"text", "json"} {
		s := serveLogged(t, nil, "--db", filepath.Join(t.TempDir(), "x.db"), "--no-relay", "--log-format", format, "--log-level", "debug")
		for _, r := range requests {
			if got := s.raw(r.text); !strings.HasPrefix(got, "HTTP/1.1 "+r.status) {
				t.Errorf("%s: %.60q is answered %q, want %s", format, r.text, got, r.status)
			}
		}
		s.await("a line each", func() bool { return strings.Count(s.log(), "status") >= len(requests)-2 }) // of two, net/http has said no itself
		s.stop()
		log := s.log()
		if strings.Contains(log, "s3cr3t") {
			t.Errorf("%s: the log repeats what was sent:\n%s", format, log)
		}
		if found := unseen(log); found != nil {
			t.Errorf("%s: %+q got into the log", format, found)
		}
		for line := range strings.Lines(log) {
			if strings.HasPrefix(line, "comanda: tickets that wait") {
				continue
			}
			if format == "json" && !json.Valid([]byte(line)) || format == "text" && !strings.HasPrefix(line, "time=20") || len(line) > 2000 {
				t.Errorf("%s: not a line of the log: %.300q", format, line)
			}
			if outside := regexp.MustCompile(`"(\\.|[^"\\])*"`).ReplaceAllString(line, ""); format == "text" && strings.Contains(outside, "level=ERROR") {
				t.Errorf("a field was forged: %s", line)
			}
		}
	}
}

// What is secret in a setting stands in no log, no listing, no page and no file, though the target repeats it in its
// answers, refuses, and goes away.
func TestSecretsAreToldNowhere(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said, _ := json.Marshal("no: " + r.Header.Get("Authorization") + " " + r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", r.URL.String())
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":%s}`, said)
	}))
	defer echo.Close()
	dir := t.TempDir()
	key := base64.StdEncoding.EncodeToString([]byte("s3cr3t-webhook-0123456789abcdef"))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := filepath.Join(dir, "shop.db")
	token := write("token", "s3cr3t-token\n")
	env := []string{
		"COMANDA_DB=" + file, "COMANDA_REFUND_URL=" + echo.URL + "/refunds?key=s3cr3t-query", "COMANDA_REFUND_LOOKUP_URL=" + echo.URL + "/lookup/{key}?key=s3cr3t-lookup",
		"COMANDA_REFUND_TOKEN_FILE=" + token, "COMANDA_ALERT_URL=" + echo.URL + "/hooks/s3cr3t-path?s3cr3t-query", "COMANDA_CREDIT_URL=" + echo.URL + "/credit?key=s3cr3t-credit",
		"COMANDA_CREDIT_TOKEN_FILE=" + token, "COMANDA_CREDIT_FALLBACK=book", "COMANDA_SOURCE=shop2=" + write("whsec", "whsec_"+key+"\n"),
		"COMANDA_REFUND_TIMEOUT=1s", "COMANDA_RETRY_BASE=20ms", "COMANDA_RETRY_MAX=50ms", "COMANDA_RETRY_BUDGET=2",
	}
	s := serveLogged(t, env, "--schedule", "@every 1s", "--log-level", "debug")
	c := newClient()
	if a := must(c.order(t.Context(), s.url, orderBody("EVT-1", "ORD-1", "CUS-7", "5", line{"A", 1})))(t); a.code != 200 {
		t.Fatal(a)
	}
	tried := func(n int) func() bool { return func() bool { return strings.Count(s.log(), "msg=ticket") >= n } }
	s.await("two tries", tried(2))
	echo.Close()
	s.await("a try that reaches nobody", func() bool { return strings.Contains(s.log(), "offline") })

	said := map[string]string{}
	for _, path := range []string{"/", "/relay", "/rail", "/orders", "/attention", "/graph", "/truth", "/orders/ORD-1", "/tickets/1", "/api/stats", "/api/targets", "/api/graph",
		"/api/tickets", "/api/tickets/1", "/api/orders/ORD-1", "/metrics", "/readyz", "/openapi.json"} {
		said[path] = s.raw("GET " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.url, "http://") + "\r\nConnection: close\r\n\r\n")
	}
	if !strings.Contains(said["/relay"], "--refund-url") || !strings.Contains(said["/api/orders/ORD-1"], "[token]") {
		t.Errorf("it does not show its settings, or what the target said: %s", said["/api/orders/ORD-1"])
	}
	for _, args := range []string{"targets list", "tickets list", "tickets show 1", "order show ORD-1", "receipt ORD-1", "doctor", "serve --help", "relay --help", "version", "sql SELECT_*_FROM_targets", "sql SELECT_*_FROM_attempts"} {
		words := strings.Fields(args)
		words[len(words)-1] = strings.ReplaceAll(words[len(words)-1], "_", " ")
		stdout, stderr, _ := run(t, env, builtProgram(t), words...)
		said[args] = stdout + stderr
	}
	s.stop()
	said["the log"] = s.log()
	for _, name := range must(filepath.Glob(file + "*"))(t) { // nobody has it open any more
		said[name] = string(must(os.ReadFile(name))(t))
	}
	for where, text := range said {
		if text == "" && !strings.HasPrefix(where, file+".") {
			t.Errorf("%s says nothing", where)
		}
		for _, secret := range []string{"s3cr3t", key, key[:20]} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s tells a secret: …%s…", where, text[max(0, at-80):min(len(text), at+40)])
			}
		}
	}
}

// Who gives the secret itself where its file should be named reads it nowhere either.
func TestSecretInPlaceOfItsFile(t *testing.T) {
	for _, args := range []string{
		"--webhook-secret-file whsec_czNjcjN0LXdlYmhvb2s=", "--refund-url http://127.0.0.1:1/ --refund-token-file s3cr3t", "--source shop=whsec_czNjcjN0LXdlYmhvb2s=",
		"--refund-url https://user:s3cr3t@x/", "--refund-url ://s3cr3t", "--alert-url s3cr3t", "--credit-url http://x/#s3cr3t",
	} {
		_, stderr, code := run(t, nil, builtProgram(t), append([]string{"serve", "--db", "x.db", "--addr", "127.0.0.1:0"}, strings.Fields(args)...)...)
		if code != 2 || strings.Contains(stderr, "s3cr3t") || strings.Contains(stderr, "czNjcjN0") || !strings.Contains(stderr, "--") {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
