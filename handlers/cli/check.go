package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"comanda/handlers/door"
	"comanda/store"
)

// The bounds of the settings.
const (
	maxBatch   = 10_000
	maxWorkers = 256
	minLease   = 100 * time.Millisecond
	maxLease   = 24 * time.Hour
)

func (f relayFlags) check() error {
	if f.Batch < 1 || f.Batch > maxBatch {
		return Usage(fmt.Errorf("--batch must be between 1 and %d, not %d", maxBatch, f.Batch))
	}
	if f.Workers < 1 || f.Workers > maxWorkers {
		return Usage(fmt.Errorf("--workers must be between 1 and %d, not %d", maxWorkers, f.Workers))
	}
	if f.Lease < minLease || f.Lease > maxLease {
		return Usage(fmt.Errorf("--lease must be between %s and %s, not %s", minLease, "24h", f.Lease))
	}
	if err := checkSchedule(f.Schedule, time.Now()); err != nil {
		return Usage(fmt.Errorf("--schedule %q %w: try '@every 10s' or a cron spec such as '*/5 * * * *'", f.Schedule, err))
	}
	return nil
}

// checkSchedule refuses a spec that can't be parsed or that never comes round. The parser panics on
// a time zone without a schedule.
func checkSchedule(spec string, now time.Time) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("can't be read")
		}
	}()
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return fmt.Errorf("can't be read (%w)", err)
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(strings.TrimSpace(every)); err == nil && d <= 0 {
			return errors.New("does not go forward")
		}
	}
	if schedule.Next(now).IsZero() {
		return errors.New("never comes round")
	}
	return nil
}

// checkAddr refuses what is not host:port, and every host that is not this machine alone as long as nobody has a
// password, unless --insecure says that this is meant.
func (c *serveCmd) checkAddr(s *session) error {
	host, err := checkHostPort("--addr", c.Addr)
	if err != nil || door.IsLoopback(host) && !c.RequireLogin || c.Insecure || c.AdminPasswordFile != "" {
		return err
	}
	has, err := store.HasAccounts(s.ctx, c.DB)
	if err == nil && !has && door.IsLoopback(host) {
		return Usage(errors.New("--require-login asks for a password and nobody has one: give --admin-password-file, or set one with `comanda passwd`"))
	}
	if err == nil && !has {
		err = Usage(fmt.Errorf("--addr %s can be reached from other machines and nobody has a password: give --admin-password-file, set one with `comanda passwd`, or use 127.0.0.1; --insecure starts all the same", c.Addr))
	}
	return err
}

// checkHostPort returns the host of HOST:PORT.
func checkHostPort(flag, addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", Usage(fmt.Errorf("%s must be HOST:PORT such as 127.0.0.1:8080, not %q", flag, addr))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || port[0] == '+' {
		return "", Usage(fmt.Errorf("%s needs a port between 0 and 65535, not %q", flag, port))
	}
	return host, nil
}

// readZone reads the name of a time zone; "" is nil.
func readZone(name string) (*time.Location, error) {
	if name == "" {
		return nil, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, Usage(fmt.Errorf("--zone must be a name of the time zone database such as America/Mexico_City, not %q", name))
	}
	return zone, nil
}

// onlyHere reports whether nobody but this machine reaches an address, HOST:PORT.
func onlyHere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && door.IsLoopback(host)
}

var proofs = []string{"A", "B", "C", "D", "relays", "world", "kills", "power", "disk"}

// checkProofs returns the named proofs as they are spelled, each once, in the order of their naming.
func checkProofs(names []string, all bool) ([]string, error) {
	if all && len(names) > 0 {
		return nil, Usage(fmt.Errorf("prove takes names or --all, not both: --all runs every proof there is"))
	}
	var known []string
	for _, name := range names {
		i := slices.IndexFunc(proofs, func(p string) bool { return strings.EqualFold(p, name) })
		if i < 0 {
			return nil, Usage(fmt.Errorf("there is no proof %q: the proofs are %s", name, strings.Join(proofs, ", ")))
		}
		if !slices.Contains(known, proofs[i]) {
			known = append(known, proofs[i])
		}
	}
	return known, nil
}
