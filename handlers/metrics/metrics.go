// Package metrics is what Prometheus reads of an appliance: what this process has seen since it started, and, at each
// scrape, what the file says. No label holds an id: there are as many series as the program has targets, states and routes.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"comanda/store"
)

// Options are what the instruments are built from. All may be zero.
type Options struct {
	Targets map[string]string // the target of each effect type; tickets of others count as "other"
	Names   []string          // the targets whose state is shown
	Build   prometheus.Labels // of comanda_build_info
}

// Metrics are the instruments of one process, with a registry of their own.
type Metrics struct {
	opt      Options
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	accepts  *prometheus.HistogramVec
	turns    *prometheus.CounterVec
	effects  *prometheus.HistogramVec
	sends    *prometheus.HistogramVec
	commits  prometheus.Histogram
	members  prometheus.Histogram
	failures prometheus.Counter
}

// From a tenth of a millisecond to a quarter of a minute: a local commit, a slow card, a gateway.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}

const perProcess = " Counted by this process since it started."

// New builds the instruments.
func New(opt Options) *Metrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help + perProcess, Buckets: seconds}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help + perProcess}, labels)
	}
	m := &Metrics{
		opt: opt, registry: prometheus.NewPedanticRegistry(),
		requests: counter("comanda_http_requests_total", "Answered requests by route and status.", "route", "method", "code"),
		accepts:  histogram("comanda_accept_duration_seconds", "How long an event waited for its answer.", "outcome"),
		turns:    counter("comanda_effect_attempts_total", "Turns of tickets in the hands of the relay, by what came of them.", "target", "outcome"),
		effects:  histogram("comanda_effect_duration_seconds", "From the beginning of a ticket's turn until what came of it was committed.", "target", "outcome"),
		sends:    histogram("comanda_target_request_duration_seconds", "Requests to targets outside, kind send or lookup, by what the answer says.", "target", "kind", "outcome"),
		commits:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "comanda_commit_duration_seconds", Help: "COMMITs that wrote, each with its one fsync." + perProcess, Buckets: seconds}),
		members:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "comanda_commit_members", Help: "How many transactions shared a commit." + perProcess, Buckets: prometheus.ExponentialBuckets(1, 2, 8)}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "comanda_commit_failures_total", Help: "COMMITs that failed." + perProcess}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "comanda_build_info", Help: "1, with the versions as labels.", ConstLabels: opt.Build})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.accepts, m.turns, m.effects, m.sends, m.commits, m.members, m.failures, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch shows what db says, at each scrape. It is called once, before the first scrape.
func (m *Metrics) Watch(db *store.DB) { m.registry.MustRegister(newFile(db, m.opt)) }

// Handler answers a scrape with 200, also when the file could not be read: comanda_file_readable is 0 then.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Request counts a request that was answered; accept is what came of an event, or "".
func (m *Metrics) Request(route, method string, status int, accept string, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if accept != "" {
		m.accepts.WithLabelValues(accept).Observe(took.Seconds())
	}
}

// Turn counts a ticket's turn in the hands of the relay.
func (m *Metrics) Turn(target, outcome string, took time.Duration) {
	m.turns.WithLabelValues(target, outcome).Inc()
	m.effects.WithLabelValues(target, outcome).Observe(took.Seconds())
}

// Sent counts a request to a target outside.
func (m *Metrics) Sent(target, kind, outcome string, took time.Duration) {
	m.sends.WithLabelValues(target, kind, outcome).Observe(took.Seconds())
}

// Commit counts a commit of the file by this process.
func (m *Metrics) Commit(members int, took time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.commits.Observe(took.Seconds())
	m.members.Observe(float64(members))
}
