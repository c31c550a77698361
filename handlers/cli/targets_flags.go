package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"comanda/handlers/door"
)

// targetFlags are the flags of one target, behind its prefix: --refund-url.
type targetFlags struct {
	URL         string        `name:"url" placeholder:"URL" help:"The complete address that is POSTed to. Without one the effect is a row in this file."`
	Timeout     time.Duration `default:"20s" placeholder:"DURATION" help:"How long one request may take in all, 100ms to 10m; the lease must be twice as long."`
	TokenFile   string        `placeholder:"FILE" help:"The file with the bearer token."`
	KeyTTL      time.Duration `name:"key-ttl" default:"24h" placeholder:"DURATION" help:"How long the target honours an idempotency key; 0 says that it honours none, and an unknown try is never repeated."`
	LookupURL   string        `name:"lookup-url" placeholder:"URL" help:"Where to ask whether a key was carried out; {key} in it becomes the key."`
	LookupGrace time.Duration `default:"60s" placeholder:"DURATION" help:"How long after a request the target may not yet know it, 0 to 24h."`
	Rate        string        `default:"20/s" placeholder:"N/s" help:"Requests a second, N/s, N/m or N/h; 0 is without limit."`
	Concurrency int           `default:"4" placeholder:"N" help:"Requests at the same time, 1 to 256."`
	Accept      string        `enum:"json,any" default:"json" placeholder:"WHAT" help:"What counts as done besides a status of 2xx: json, an object that does not say otherwise, or any."`
	RejectCodes []string      `placeholder:"CODE" help:"Which code in a 409 says no for good, by commas; for inventory out_of_stock unless given."`
	QuoteKey    bool          `help:"Send the key in double quotes, as the IETF draft has it."`

	InsecureHTTP bool `name:"insecure-http" help:"Take an address with plain http, which anybody on the way reads and answers; for this machine it is taken anyway."`
}

// remoteFlags are what serve and relay share about the world outside.
type remoteFlags struct {
	Refund        targetFlags   `embed:"" prefix:"refund-" group:"Refund target"`
	Inventory     targetFlags   `embed:"" prefix:"inventory-" group:"Inventory target"`
	Release       targetFlags   `embed:"" prefix:"release-" group:"Release target"`
	RetryBase     time.Duration `group:"Retries" default:"5s" placeholder:"DURATION" help:"The longest first wait after a try that came to nothing; it doubles with each."`
	RetryMax      time.Duration `group:"Retries" default:"6h" placeholder:"DURATION" help:"The longest wait there is, at most 24h."`
	RetryBudget   int           `group:"Retries" default:"12" placeholder:"N" help:"Unknown answers before the target is asked, or a person, 1 to 1000."`
	OnLineFailure string        `enum:"review,compensate" default:"review" placeholder:"WHAT" help:"What a line that was rejected does to its order: review leaves it to a person, compensate takes the other lines back and refunds."`
	AlertURL      string        `name:"alert-url" placeholder:"URL" help:"Where to tell a person that something needs one (Slack, ntfy, n8n)."`
	AlertInsecure bool          `name:"alert-insecure-http" help:"Take an address with plain http, which anybody on the way reads and answers; for this machine it is taken anyway."`
	AlertFormat   string        `enum:"json,text" default:"json" placeholder:"FORMAT" help:"How to tell it: json, an object with text in it as Slack and n8n take it, or text, as an ntfy topic does."`
}

// TargetConfig is one target that has an address.
type TargetConfig struct {
	Name        string // "refund", "inventory" or "release"
	URL         string
	Timeout     time.Duration
	Token       string
	KeyTTL      time.Duration // 0: keys are not honoured
	LookupURL   string        // with {key} in it; "" when it can't be asked
	LookupGrace time.Duration
	Rate        float64 // a second; 0 is without limit
	Concurrency int
	AcceptAny   bool
	RejectCodes []string
	QuoteKey    bool

	InsecureHTTP bool // plain http will do for URL and LookupURL
}

// RetryConfig says how tries that came to nothing are repeated.
type RetryConfig struct {
	Base, Max time.Duration
	Budget    int
}

// RemoteConfig is what serve and relay are told about the world outside.
type RemoteConfig struct {
	Targets    []TargetConfig // only those with an address: refund, inventory, release
	Retry      RetryConfig
	Compensate bool
	AlertURL   string
	AlertPlain bool // the text itself instead of JSON

	AlertInsecureHTTP bool // plain http will do for AlertURL
}

// config checks the flags against each other and against the lease.
func (f remoteFlags) config(lease time.Duration) (c RemoteConfig, err error) {
	for _, t := range []struct {
		name  string
		flags targetFlags
	}{{"refund", f.Refund}, {"inventory", f.Inventory}, {"release", f.Release}} {
		target, err := t.flags.config(t.name, lease)
		if err != nil {
			return c, Usage(err)
		}
		if target.URL != "" {
			c.Targets = append(c.Targets, target)
		}
	}
	if f.RetryBase < time.Millisecond || f.RetryMax < f.RetryBase || f.RetryMax > 24*time.Hour {
		return c, Usage(fmt.Errorf("--retry-base %s and --retry-max %s must be in order, from 1ms to 24h", f.RetryBase, f.RetryMax))
	}
	if f.RetryBudget < 1 || f.RetryBudget > 1000 {
		return c, Usage(fmt.Errorf("--retry-budget must be between 1 and 1000, not %d", f.RetryBudget))
	}
	c.Compensate = f.OnLineFailure == "compensate"
	if c.Compensate && f.Inventory.URL != "" && f.Release.URL == "" {
		return c, Usage(errors.New("--on-line-failure compensate needs --release-url where there is an --inventory-url: stock that was really taken can't be given back in this file"))
	}
	if f.AlertURL != "" {
		if err := checkURL("--alert-url", f.AlertURL); err != nil {
			return c, Usage(err)
		}
	}
	c.Retry = RetryConfig{Base: f.RetryBase, Max: f.RetryMax, Budget: f.RetryBudget}
	c.AlertURL, c.AlertPlain = f.AlertURL, f.AlertFormat == "text"
	c.AlertInsecureHTTP = f.AlertInsecure
	return c, nil
}

// config refuses what is out of bounds even for a target without an address: it is a typing error all the same.
func (f targetFlags) config(name string, lease time.Duration) (c TargetConfig, err error) {
	c = TargetConfig{Name: name, URL: f.URL, Timeout: f.Timeout, KeyTTL: f.KeyTTL, LookupURL: f.LookupURL, LookupGrace: f.LookupGrace,
		Concurrency: f.Concurrency, AcceptAny: f.Accept == "any", RejectCodes: f.RejectCodes, QuoteKey: f.QuoteKey, InsecureHTTP: f.InsecureHTTP}
	flag := func(s string) string { return "--" + name + "-" + s }
	if c.Rate, err = parseRate(f.Rate); err != nil {
		return c, fmt.Errorf("%s %q %w", flag("rate"), f.Rate, err)
	}
	if err := f.check(flag); err != nil {
		return c, err
	}
	if f.URL == "" {
		if f.LookupURL != "" || f.TokenFile != "" {
			return c, fmt.Errorf("%s and %s are for a target with an address: give %s too", flag("lookup-url"), flag("token-file"), flag("url"))
		}
		return c, nil
	}
	if name == "inventory" && len(f.RejectCodes) == 0 {
		c.RejectCodes = []string{"out_of_stock"}
	}
	if err := f.checkAddresses(flag); err != nil {
		return c, err
	}
	if lease < 2*f.Timeout {
		return c, fmt.Errorf("--lease %s is under twice %s %s, and a claim must outlast its request: make the lease longer or the timeout shorter", lease, flag("timeout"), f.Timeout)
	}
	c.Token, err = secret(flag("token-file"), f.TokenFile)
	return c, err
}

func (f targetFlags) checkAddresses(flag func(string) string) error {
	if err := checkURL(flag("url"), f.URL); err != nil || f.LookupURL == "" {
		return err
	}
	if !strings.Contains(f.LookupURL, "{key}") {
		return fmt.Errorf("%s must have {key} where the key goes", flag("lookup-url"))
	}
	if err := checkURL(flag("lookup-url"), strings.ReplaceAll(f.LookupURL, "{key}", "key")); err != nil {
		return err
	}
	if f.TokenFile != "" && !strings.EqualFold(hostname(f.URL), hostname(f.LookupURL)) {
		return fmt.Errorf("%s is at another host than %s, and the token in %s goes to that one alone: ask at the same host, or use no token", flag("lookup-url"), flag("url"), flag("token-file"))
	}
	return nil
}

// hostname is the host of an address that checkURL has taken.
func hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func (f targetFlags) check(flag func(string) string) error {
	switch {
	case f.Timeout < 100*time.Millisecond || f.Timeout > 10*time.Minute:
		return fmt.Errorf("%s must be between 100ms and 10m, not %s", flag("timeout"), f.Timeout)
	case f.KeyTTL < 0 || f.KeyTTL > 8760*time.Hour:
		return fmt.Errorf("%s must be between 0 and 8760h, not %s", flag("key-ttl"), f.KeyTTL)
	case f.LookupGrace < 0 || f.LookupGrace > 24*time.Hour:
		return fmt.Errorf("%s must be between 0 and 24h, not %s", flag("lookup-grace"), f.LookupGrace)
	case f.Concurrency < 1 || f.Concurrency > 256:
		return fmt.Errorf("%s must be between 1 and 256, not %d", flag("concurrency"), f.Concurrency)
	case slices.ContainsFunc(f.RejectCodes, func(code string) bool { return code == "" || code != strings.TrimSpace(code) }):
		return fmt.Errorf("%s must be codes with a comma and nothing else between them, not %q", flag("reject-codes"), strings.Join(f.RejectCodes, ","))
	}
	return nil
}

// checkURL refuses what is not a plain web address. The address itself is not repeated: it may hold a secret.
func checkURL(flag, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%s must be a complete address such as https://gateway.example/refunds", flag)
	case !isPort(u):
		return fmt.Errorf("%s must have a port between 1 and 65535, or none", flag)
	case u.User != nil:
		return fmt.Errorf("%s must not hold a name or password: put a token into a file and name that", flag)
	case u.Fragment != "":
		return fmt.Errorf("%s must not have a part after #, which is never sent", flag)
	}
	return nil
}

func isPort(u *url.URL) bool {
	if !strings.HasSuffix(u.Host, ":"+u.Port()) {
		return true
	}
	n, err := strconv.Atoi(u.Port())
	return err == nil && n > 0 && n <= 65535
}

var perSecond = map[string]float64{"s": 1, "m": 60, "h": 3600}

// parseRate reads "20/s", "5/m", "100/h" or "0" as a number a second.
func parseRate(text string) (float64, error) {
	if text == "0" {
		return 0, nil
	}
	n, unit, _ := strings.Cut(text, "/")
	count, err := strconv.Atoi(n)
	seconds, ok := perSecond[unit]
	if err != nil || !ok || count < 1 || count > 100_000 || n[0] == '+' {
		return 0, errors.New("is not a rate: try 20/s, 30/m or 100/h, or 0 for none")
	}
	return float64(count) / seconds, nil
}

// secret reads a file that holds one secret and nothing else; no path is no secret.
func secret(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	var named *fs.PathError
	if errors.As(err, &named) { // the name is not repeated: it may be the token itself, given in place of its file
		return "", fmt.Errorf("%s can't be read: %w; it must name the file that the token is in", flag, named.Err)
	}
	if err != nil {
		return "", fmt.Errorf("%s can't be read", flag)
	}
	s := strings.TrimSpace(string(text))
	switch {
	case s == "":
		return "", fmt.Errorf("%s names an empty file: put the token into it", flag)
	case strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) || r == ' ' }):
		return "", fmt.Errorf("%s holds more than one token of visible ASCII: put the token alone into it", flag)
	}
	return s, nil
}

// creditFlags are serve's about check-credit.
type creditFlags struct {
	URL       string        `name:"url" placeholder:"URL" help:"Who is asked for credit instead of the local book: POSTed to, answers {\"credit_ok\":true}."`
	Timeout   time.Duration `default:"2s" placeholder:"DURATION" help:"How long the answer may take, 50ms to 15s."`
	TokenFile string        `placeholder:"FILE" help:"The file with the bearer token."`
	Fallback  string        `enum:"refuse,book" default:"refuse" placeholder:"WHAT" help:"When there is no answer: refuse the order for now, or ask the local book."`

	InsecureHTTP bool `name:"insecure-http" help:"Take an address with plain http, which anybody on the way reads and answers; for this machine it is taken anyway."`
}

// CreditConfig says who is asked for credit; without URL it is the local book.
type CreditConfig struct {
	URL            string
	Timeout        time.Duration
	Token          string
	FallbackToBook bool
	InsecureHTTP   bool // plain http will do for URL
}

func (f creditFlags) config() (CreditConfig, error) {
	c := CreditConfig{URL: f.URL, Timeout: f.Timeout, FallbackToBook: f.Fallback == "book", InsecureHTTP: f.InsecureHTTP}
	if f.Timeout < 50*time.Millisecond || f.Timeout > 15*time.Second {
		return c, Usage(fmt.Errorf("--credit-timeout must be between 50ms and 15s, not %s", f.Timeout))
	}
	if f.URL == "" {
		if f.TokenFile != "" {
			return c, Usage(errors.New("--credit-token-file is for a credit source with an address: give --credit-url too"))
		}
		return CreditConfig{}, nil
	}
	if err := checkURL("--credit-url", f.URL); err != nil {
		return c, Usage(err)
	}
	token, err := secret("--credit-token-file", f.TokenFile)
	c.Token = token
	return c, Usage(err)
}

// worldCmd has no twins either: see demoCmd.
type worldCmd struct {
	Addr   string        `env:"-" default:"127.0.0.1:8090" placeholder:"HOST:PORT" help:"Where to listen; this machine only."`
	DB     string        `name:"db" env:"-" default:"world.db" placeholder:"FILE" help:"The world's own file."`
	KeyTTL time.Duration `name:"key-ttl" env:"-" default:"24h" placeholder:"DURATION" help:"How long a key is honoured; 0 honours none."`
	Fault  []string      `env:"-" sep:"none" placeholder:"TARGET:FAULT[:N]" help:"What goes wrong, and how often: refund:perform-then-500:2, or * for ever. Targets are refund, inventory, release, lookup, credit, all; GET / lists the faults. Can be given more than once."`
	TLS    string        `name:"tls" env:"-" enum:",expired" default:"" placeholder:"expired" help:"Speak TLS with a certificate that has expired."`
}

// WorldConfig are the settings of `comanda world`.
type WorldConfig struct {
	Addr   string
	DB     string
	KeyTTL time.Duration
	Faults []string
	TLS    string // "" or "expired"
}

func (c *worldCmd) Run(s *session) error {
	host, err := checkHostPort("--addr", c.Addr)
	if err != nil {
		return err
	}
	if !door.IsLoopback(host) {
		return Usage(fmt.Errorf("--addr %s can be reached from other machines, and the lab's world is for this one only: use 127.0.0.1", c.Addr))
	}
	if c.KeyTTL < 0 {
		return Usage(fmt.Errorf("--key-ttl must not be negative: %s", c.KeyTTL))
	}
	return call(s, s.program.World, WorldConfig{Addr: c.Addr, DB: c.DB, KeyTTL: c.KeyTTL, Faults: c.Fault, TLS: c.TLS})
}
