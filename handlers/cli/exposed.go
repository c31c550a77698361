package cli

import (
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
)

// Addresses are where a server listens: the one that serves everything, and that of the webhooks alone.
func (c ServeConfig) Addresses() []string {
	if c.Webhooks.Addr == "" {
		return []string{c.Addr}
	}
	return []string{c.Addr, c.Webhooks.Addr}
}

// Exposed reports whether --insecure was needed to listen where other machines reach it.
func (c ServeConfig) Exposed() bool { return c.Insecure && !onlyHere(c.Addr) }

const exposed = "started with --insecure: other machines reach this server, and perhaps nobody has a password"

// WarnOfExposure adds that to what watch is worried about, for as long as it is true.
func (c ServeConfig) WarnOfExposure(watch func() (reasons, warnings []string)) func() (reasons, warnings []string) {
	if !c.Exposed() {
		return watch
	}
	return func() (reasons, warnings []string) {
		reasons, warnings = watch()
		return reasons, append(warnings, exposed)
	}
}

// LogListening names the endpoints of the server on a file and where its targets' effects go, lab or real, and warns of one by which anybody may send orders, or
// through which passwords are seen.
func (c ServeConfig) LogListening(log *slog.Logger, all []Endpoint, file string, targets map[string]string) {
	if c.Exposed() {
		log.Warn(exposed+"; `comanda passwd` sets one", "url", all[0].Base)
	}
	if !onlyHere(c.Addr) && strings.HasPrefix(all[0].Base, "http:") {
		log.Warn("passwords, sessions and tokens cross the network in clear at this address", "url", all[0].Base)
	}
	var modes []any
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		modes = append(modes, slog.String(name, targets[name]))
	}
	log.Info("listening", "url", all[0].Base, "db", file, slog.Group("targets", modes...))
	for _, e := range all[1:] {
		log.Info("listening for webhooks alone", "url", e.Base)
	}
	for _, e := range all {
		if at, ok := e.Addr().(*net.TCPAddr); ok && c.Webhooks.Unsigned() && !at.IP.IsLoopback() {
			log.Warn("whoever reaches this address may send orders: /webhooks/orders asks for no signature; give --webhook-secret-file", "url", e.Base)
		}
	}
}
