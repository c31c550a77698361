package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"comanda/store"
)

// lookFor is how long a scrape waits for the file and its disk.
const lookFor = 3 * time.Second

// file reads the file at each scrape. Scrapes that come while it is read share what is found.
type file struct {
	db   *store.DB
	opt  Options
	desc map[string]*prometheus.Desc

	mu    sync.Mutex
	under *look // nil: none
}

// look is one reading of the file, for all who ask while it lasts.
type look struct {
	began time.Time
	done  chan struct{}
	dials store.Dials // once it is done
	err   error
}

// dials are the names of what is read at each scrape, with their labels.
var dials = []struct {
	name, help string
	labels     []string
}{
	{"file_readable", "1 if the file could be read for this scrape; if 0 the series that come from it are missing.", nil},
	{"outbox_tickets", "Tickets of the file by target and state.", []string{"target", "state"}},
	{"outbox_oldest_pending_seconds", "Age of the pending ticket that was put first; 0 when none is pending.", []string{"target"}},
	{"outbox_tickets_created_total", "Tickets put on the rail since the file was made.", nil},
	{"lab_effects_total", "Effects of the lab's own world since the file was made.", nil},
	{"recorded_attempts_total", "Attempts recorded since the file was made.", nil},
	{"relay_paused", "1 while the relays of the file are paused.", nil},
	{"relays", "Relays that have noted a pass and were not swept away.", nil},
	{"relay_last_pass_seconds", "How long ago a relay last noted a pass: the relay that did so last, and the one that did not for longest.", []string{"relay"}},
	{"target_real", "1 if the target's effects go out for real.", []string{"target"}},
	{"target_state", "1 for the state in which the target is: up, paused, offline or held.", []string{"target", "state"}},
	{"database_bytes", "Size of the file without its WAL.", nil},
	{"wal_bytes", "Size of the WAL.", nil},
	{"disk_free_bytes", "Free room on the file's disk.", nil},
	{"disk_size_bytes", "Size of the file's disk.", nil},
	{"clock_behind_seconds", "How far the clock stands before what was put into the file last.", nil},
	{"clock_synchronised", "1 if the kernel says that something keeps the clock right; missing where that can't be told.", nil},
	{"writer_busy_seconds", "How long this process's writer has been about one thing.", nil},
	{"last_commit_failed", "1 if the last commit of this process failed.", nil},
}

// states are those of a ticket and of a target; each has a series, also at 0.
var (
	ticketStates = []string{"pending", "processing", "done", "dead", "review", "discarded"}
	targetStates = []string{"up", "paused", "offline", "held"}
)

func newFile(db *store.DB, opt Options) *file {
	f := &file{db: db, opt: opt, desc: map[string]*prometheus.Desc{}}
	for _, d := range dials {
		f.desc[d.name] = prometheus.NewDesc("comanda_"+d.name, d.help, d.labels, nil)
	}
	return f
}

// Describe is part of prometheus.Collector.
func (f *file) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range f.desc {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (f *file) Collect(ch chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name string, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(f.desc[name], kind, value, labels...)
	}
	gauge := func(name string, value float64, labels ...string) {
		send(prometheus.GaugeValue, name, value, labels...)
	}
	gauge("writer_busy_seconds", f.db.Writer().For.Seconds())
	gauge("last_commit_failed", truth(f.db.LastCommit() != nil))
	if ok, err := store.ClockSynchronised(); err == nil {
		gauge("clock_synchronised", truth(ok))
	}
	d, ok := f.look()
	gauge("file_readable", truth(ok))
	if !ok {
		return
	}
	total := func(name string, n int64) { send(prometheus.CounterValue, name, float64(n)) }
	total("outbox_tickets_created_total", d.TicketsEver)
	total("lab_effects_total", d.EffectsEver)
	total("recorded_attempts_total", d.AttemptsEver)
	gauge("relay_paused", truth(d.Paused))
	gauge("relays", float64(len(d.PassAges)))
	if len(d.PassAges) > 0 {
		gauge("relay_last_pass_seconds", float64(slices.Min(d.PassAges))/1000, "newest")
		gauge("relay_last_pass_seconds", float64(slices.Max(d.PassAges))/1000, "oldest")
	}
	gauge("database_bytes", float64(d.DatabaseBytes))
	gauge("wal_bytes", float64(d.WALBytes))
	gauge("disk_free_bytes", float64(d.Space.Free))
	gauge("disk_size_bytes", float64(d.Space.Total))
	gauge("clock_behind_seconds", float64(d.ClockBehindMS)/1000)
	f.depths(d, gauge)
	for _, t := range d.Targets {
		gauge("target_real", truth(t.Real()), t.Name)
		for _, state := range targetStates {
			gauge("target_state", truth(t.State(d.At) == state), t.Name, state)
		}
	}
}

// depths sums up the effect types of each target.
func (f *file) depths(d store.Dials, gauge func(name string, value float64, labels ...string)) {
	counts, oldest := map[string]map[string]int64{}, map[string]int64{}
	for _, name := range f.opt.Names {
		counts[name] = map[string]int64{}
	}
	for _, depth := range d.Depths {
		target := f.target(depth.EffectType)
		if counts[target] == nil {
			counts[target] = map[string]int64{}
		}
		counts[target][depth.Status] += depth.N
	}
	for kind, age := range d.OldestPending {
		oldest[f.target(kind)] = max(oldest[f.target(kind)], age)
	}
	for target, states := range counts {
		for _, state := range ticketStates {
			gauge("outbox_tickets", float64(states[state]), target, state)
		}
		gauge("outbox_oldest_pending_seconds", float64(oldest[target])/1000, target)
	}
}

func (f *file) target(effectType string) string {
	if target := f.opt.Targets[effectType]; target != "" {
		return target
	}
	return "other"
}

// look reads the file, or waits for whoever reads it already; false is that it could not be read in time.
func (f *file) look() (store.Dials, bool) {
	f.mu.Lock()
	under := f.under
	if under == nil {
		under = &look{began: time.Now(), done: make(chan struct{})}
		f.under = under
		go f.read(under)
	}
	f.mu.Unlock()
	select {
	case <-under.done:
		return under.dials, under.err == nil
	case <-time.After(time.Until(under.began.Add(lookFor))):
		return store.Dials{}, false
	}
}

func (f *file) read(l *look) {
	ctx, cancel := context.WithTimeout(context.Background(), lookFor)
	defer cancel()
	l.dials, l.err = f.db.Dials(ctx, f.opt.Names...)
	f.mu.Lock()
	f.under = nil
	f.mu.Unlock()
	close(l.done)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
