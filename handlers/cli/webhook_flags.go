package cli

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"comanda/handlers/door"
)

// webhookFlags are serve's about who may send orders, behind the prefix webhook-.
type webhookFlags struct {
	SecretFile  string        `placeholder:"FILE" help:"The secrets that sign what comes to /webhooks/orders, as Standard Webhooks has it: whsec_ and base64, one a line; read again when it changes. Without it nothing has to be signed there."`
	Addr        string        `placeholder:"HOST:PORT" help:"Another address that serves /webhooks alone, for a tunnel or a proxy to end at."`
	Window      time.Duration `default:"5m" placeholder:"DURATION" help:"How old a signature may be, and how far ahead, 1s to 24h; 0 leaves its time out."`
	Rate        string        `default:"0" placeholder:"N/s" help:"Requests that each sender may make, N/s, N/m or N/h; 0 is without limit."`
	Concurrency int           `default:"768" placeholder:"N" help:"Requests of each sender at the same time, 1 to 1024."`
}

// sourceFlag has no prefix: --source shop2=FILE.
type sourceFlag struct {
	Source []string `group:"Webhooks" placeholder:"NAME=FILE" help:"A sender with a path, secrets and ids of its own: orders to /webhooks/NAME/orders are signed with the secrets in FILE, and their event and order ids begin with NAME/ here. Can be given more than once, or with commas between."`
}

// WebhookConfig says who may send orders and where.
type WebhookConfig struct {
	Addr        string // of the webhooks alone, or ""
	Senders     []SenderConfig
	Window      time.Duration // 0 leaves the time of a signature out
	Rate        float64       // requests a second of each sender; 0 is without limit
	Concurrency int
}

// SenderConfig is one sender that signs. The one without a name is that of /webhooks/orders.
type SenderConfig struct {
	Name       string
	Flag       string // that names the file
	SecretFile string
}

// Unsigned reports whether /webhooks/orders takes orders from whoever reaches it.
func (c WebhookConfig) Unsigned() bool {
	return len(c.Senders) == 0 || c.Senders[0].Name != ""
}

func (c *serveCmd) webhooks() (w WebhookConfig, err error) {
	f := c.Webhook
	w = WebhookConfig{Addr: f.Addr, Window: f.Window, Concurrency: f.Concurrency}
	if f.Window != 0 && (f.Window < time.Second || f.Window > 24*time.Hour) {
		return w, Usage(fmt.Errorf("--webhook-window must be between 1s and 24h, or 0, not %s", f.Window))
	}
	if f.Concurrency < 1 || f.Concurrency > 1024 {
		return w, Usage(fmt.Errorf("--webhook-concurrency must be between 1 and 1024, not %d", f.Concurrency))
	}
	if w.Rate, err = parseRate(f.Rate); err != nil {
		return w, Usage(fmt.Errorf("--webhook-rate %q %w", f.Rate, err))
	}
	if f.SecretFile != "" {
		w.Senders = append(w.Senders, SenderConfig{Flag: "--webhook-secret-file", SecretFile: f.SecretFile})
	}
	if w.Senders, err = withSources(w.Senders, c.Source); err != nil {
		return w, Usage(err)
	}
	return w, c.checkWebhookAddr(w)
}

// sourceName is what can stand in a path as it is, and is short enough to leave room for the ids behind it.
var sourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,19}$`)

func withSources(senders []SenderConfig, sources []string) ([]SenderConfig, error) {
	known := map[string]bool{"orders": true} // /webhooks/orders/orders would only be mistaken for the other
	for _, source := range sources {
		name, file, ok := strings.Cut(source, "=")
		switch {
		case !ok || file == "":
			return nil, fmt.Errorf("--source must be a name and the file with its secrets, such as shop2=/etc/comanda/shop2.secret, not %q", source)
		case !sourceName.MatchString(name):
			return nil, fmt.Errorf("--source %q: the name must be 1 to 20 of a-z, 0-9 and -, and not begin with -", name)
		case known[name]:
			return nil, fmt.Errorf("--source %q is taken: give each sender a name of its own", name)
		}
		known[name] = true
		senders = append(senders, SenderConfig{Name: name, Flag: "--source " + name, SecretFile: file})
	}
	return senders, nil
}

func (c *serveCmd) checkWebhookAddr(w WebhookConfig) error {
	if w.Addr == "" {
		return nil
	}
	host, err := checkHostPort("--webhook-addr", w.Addr)
	if err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(w.Addr); w.Addr == c.Addr && port != "0" {
		return Usage(fmt.Errorf("--webhook-addr %s is --addr too, which serves everything: give another port", w.Addr))
	}
	if w.Unsigned() && !c.Insecure && !door.IsLoopback(host) {
		return Usage(fmt.Errorf("--webhook-addr %s can be reached from other machines and /webhooks/orders asks for no signature: give --webhook-secret-file, or --insecure if that is what you want", w.Addr))
	}
	return nil
}
