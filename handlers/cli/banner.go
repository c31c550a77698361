package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"comanda/store"
)

// BannerInfo is what a person at a terminal is told when the appliance is up.
type BannerInfo struct {
	URL string // "http://127.0.0.1:8080"
	// Cert is the file with the certificate, or "" without TLS; Name is a name that it is for, or "" where it is for the
	// address in URL.
	Cert, Name string
	// WebhookURL is that of the address for webhooks alone, or "".
	WebhookURL string
	Webhooks   WebhookConfig
	File       string            // absolute path
	Targets    map[string]string // name → "lab" or "real"
	Words      Words
	// Throwaway: the file goes when the program stops.
	Throwaway bool
	// Insecure: other machines reach it though nobody may have a password.
	Insecure bool
	// RequireLogin: the API takes a token at this machine too.
	RequireLogin bool
}

// bannerOrder is an order that has no credit, so that the first curl shows a refund.
const bannerOrder = `{"event_id":"EVT-1","order_id":"ORD-2041","customer_id":"CUS-7","amount":2154.00,"currency":"MXN","line_items":[{"sku":"CF-ARA-500","quantity":12}]}`

// Banner says where everything is, what to try, how to stop and how to start afresh.
func Banner(w io.Writer, b BannerInfo) {
	var modes []string
	for _, name := range slices.Sorted(maps.Keys(b.Targets)) {
		modes = append(modes, name+" "+strings.ToUpper(b.Targets[name]))
	}
	insecure := ""
	if b.Insecure {
		insecure = b.Words.Text("insecure")
	}
	b.URL, b.WebhookURL = fromHere(b.URL), fromHere(b.WebhookURL)
	_, _ = io.WriteString(w, b.Words.Text("banner", "URL", b.named(b.URL), "Webhooks", b.webhooks(), "Try", b.try(), "Look", b.look(), "File", b.File, "Targets", strings.Join(modes, ", "), "Afresh", b.afresh(), "Insecure", insecure))
}

// fromHere is an address as this machine reaches it, and is then known for what it is.
func fromHere(base string) string {
	for _, everywhere := range []string{"://[::]:", "://0.0.0.0:"} {
		if scheme, port, ok := strings.Cut(base, everywhere); ok {
			return scheme + "://127.0.0.1:" + port
		}
	}
	return base
}

// webhooks are the addresses that orders are sent to, one below the other.
func (b BannerInfo) webhooks() string {
	all := []string{b.webhookURL() + "/webhooks/orders"}
	for _, s := range b.Webhooks.Senders {
		if s.Name != "" {
			all = append(all, b.webhookURL()+"/webhooks/"+s.Name+"/orders")
		}
	}
	return strings.Join(all, "\n              ")
}

func (b BannerInfo) webhookURL() string { return b.named(cmp.Or(b.WebhookURL, b.URL)) }

// named is an address as the certificate has it.
func (b BannerInfo) named(address string) string {
	u, err := url.Parse(address)
	if err != nil || b.Name == "" {
		return address
	}
	return u.Scheme + "://" + net.JoinHostPort(b.Name, u.Port())
}

// curl is the command that reaches the server as it is: it trusts the certificate, and asks no name server for the name.
func (b BannerInfo) curl() string {
	if b.Cert == "" {
		return "curl -sS"
	}
	c := "curl -sS --cacert " + shellQuote(b.Cert)
	if u, err := url.Parse(b.URL); err == nil && b.Name != "" {
		c += " --connect-to " + shellQuote("::"+strings.TrimSuffix(u.Host, u.Port()))
	}
	return c
}

// try is a line that sends the order when it is pasted, signed where that is needed.
func (b BannerInfo) try() string {
	to := b.webhookURL() + "/webhooks/orders"
	if b.Webhooks.Unsigned() {
		return b.curl() + " " + to + " -H 'Content-Type: application/json' -d '" + bannerOrder + "'"
	}
	return "t=$(date +%s) b='" + bannerOrder + "'; k=$(grep -m1 ^whsec_ " + shellQuote(b.Webhooks.Senders[0].SecretFile) + ` | cut -c7- | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n'); ` +
		b.curl() + ` ` + to + ` -H 'Content-Type: application/json' -H webhook-id:msg_1 -H webhook-timestamp:$t ` +
		`-H "webhook-signature: v1,$(printf %s "msg_1.$t.$b" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$k -binary | openssl base64 -A)" -d "$b"`
}

// look is a command that shows what came of the order. Beyond loopback the API takes a token, the command at the shell
// does not.
func (b BannerInfo) look() string {
	if u, err := url.Parse(b.named(b.URL)); err == nil && !b.RequireLogin {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() || u.Hostname() == "localhost" {
			return b.curl() + " " + b.named(b.URL) + "/api/orders/ORD-2041"
		}
	}
	return "comanda order show ORD-2041 --db " + shellQuote(b.File)
}

func (b BannerInfo) afresh() string {
	if b.Throwaway {
		return b.Words.Text("afresh-throwaway")
	}
	return b.Words.Text("afresh", "File", shellQuote(b.File))
}

// shellQuote makes a path safe to paste into a shell.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// SayWhatWaits tells whoever stops the program how many tickets wait in the file.
func SayWhatWaits(w io.Writer, words Words, db *store.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var counts store.Counts
	err := db.View(ctx, func(tx *store.Tx) (err error) {
		counts, err = tx.Counts()
		return err
	})
	if err == nil {
		fmt.Fprintln(w, words.Text("waiting", "Tickets", counts.Waiting()))
	}
}
