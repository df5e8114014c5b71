// Package metrics exports metrics of an installation for Prometheus.
package metrics

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// Config has the sources of metrics that are read on request.
type Config struct {
	DB    *store.DB // nil: the process has none
	Cache func() files.Cache
	// Deleted returns the apps that were deleted, which have no metrics any more. nil: the process knows no apps.
	Deleted func() []registry.App
	Now     func() time.Time
	Logger  *slog.Logger
}

// Metrics counts what happens in this process, and reads the rest from the store on request. Its labels have few
// values: an existing app, and the words that are listed here. All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	deleted  func() []registry.App
	logger   *slog.Logger

	deliveries *prometheus.CounterVec
	steps      *prometheus.HistogramVec
	releases   prometheus.Histogram
	requests   *prometheus.CounterVec
	bytes      *prometheus.CounterVec
	firings    *prometheus.CounterVec

	functions  functionCalls
	unrecorded prometheus.Counter
	asked      *prometheus.CounterVec // what functions asked the network for
	proxied    *prometheus.CounterVec // and its bytes

	apps   atomic.Pointer[map[string]*gatewayOf] // replaced as a whole, so a request reads it without a lock
	change sync.Mutex                            // of apps
}

// gatewayOf has the counters of the gateway's answers for one app.
type gatewayOf struct {
	classes [classes]prometheus.Counter
	bytes   prometheus.Counter
}

// The status classes of answers: 2xx, 3xx, 4xx, 5xx.
const (
	firstClass = 2
	classes    = 4
)

// New returns metrics with a registry of their own.
func New(c Config) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		deleted:  c.Deleted,
		logger:   c.Logger,
		deliveries: counters("landfall_deliveries_total",
			"Webhook deliveries by event (push, pull_request, ping, other) and decision: accepted (it has runs), recorded "+
				"(there was nothing to run), unmatched (no app has its repository), repeat, refused.", "event", "decision"),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "landfall_run_step_duration_seconds",
			Help:    "How long the steps of runs took, each attempt by itself.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 1800},
		}, []string{"step"}),
		releases: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "landfall_release_duration_seconds",
			Help:    "From the acceptance of a commit to its release.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}),
		requests: counters("landfall_gateway_requests_total",
			"Answers for the hosts of releases by app and status class. The app is empty where there is no such "+
				"app.", "app", "class"),
		bytes: counters("landfall_gateway_response_bytes_total", "Bytes of the bodies of these answers by app.", "app"),
		firings: counters("landfall_schedule_firings_total",
			"Firings of time triggers that this process ended, by state: succeeded, failed, skipped (an earlier one was "+
				"still running).", "state"),
		functions: newFunctionCalls(),
		asked: counters("landfall_function_connections_total",
			"Connections that functions asked the proxy for, by whether they got one.", "allowed"),
		proxied: counters("landfall_function_network_bytes_total",
			"Bytes of these connections by direction: sent, received.", "direction"),
	}
	m.unrecorded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "landfall_executions_unrecorded_total",
		Help: "Executions of which no record is kept, because there were more than LANDFALL_MAX_EXECUTION_RATE a second.",
	})
	m.apps.Store(&map[string]*gatewayOf{})
	m.registry.MustRegister(m.deliveries, m.steps, m.releases, m.requests, m.bytes, m.firings, m.functions.calls,
		m.functions.took, m.functions.unfit, m.unrecorded, m.asked, m.proxied, newCache(c.Cache),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	if c.DB != nil {
		m.registry.MustRegister(newState(c))
	}
	return m
}

// counters makes counters that differ by their labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gatherer returns all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler answers with all metrics in the form that Prometheus asks for.
func (m *Metrics) Handler() http.Handler {
	const scrapes = 4 // at once
	all := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{m.logger}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes,
		EnableOpenMetrics: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.forgetDeleted()
		all.ServeHTTP(w, r)
	})
}

// errorLog logs errors of a scrape.
type errorLog struct{ logger *slog.Logger }

// Println implements promhttp.Logger.
func (c errorLog) Println(what ...any) { c.logger.Warn("metrics are incomplete", "error", what) }

// Delivered counts a webhook delivery.
func (m *Metrics) Delivered(event string, decision webhook.Decision) {
	switch event {
	case "push", "pull_request", "ping":
	default:
		event = "other"
	}
	m.deliveries.WithLabelValues(event, string(decision)).Inc()
}

// StepDone counts an attempt at a step that came to an end.
func (m *Metrics) StepDone(step landfall.Step, took time.Duration) {
	m.steps.WithLabelValues(string(step)).Observe(took.Seconds())
}

// Released counts a release.
func (m *Metrics) Released(took time.Duration) { m.releases.Observe(took.Seconds()) }

// Answered counts an answer of the gateway; app is empty when the app does not exist.
func (m *Metrics) Answered(app string, status int, bytes int64) {
	of, ok := (*m.apps.Load())[app]
	if !ok {
		of = m.add(app)
	}
	of.classes[min(max(0, status/100-firstClass), classes-1)].Inc()
	of.bytes.Add(float64(bytes))
}

// Fired counts a firing of a time trigger that is over.
func (m *Metrics) Fired(state store.FiringState) { m.firings.WithLabelValues(string(state)).Inc() }

// add makes the counters of an app, unless another goroutine just did.
func (m *Metrics) add(app string) *gatewayOf {
	m.change.Lock()
	defer m.change.Unlock()
	if of, ok := (*m.apps.Load())[app]; ok {
		return of
	}
	app = strings.Clone(app) // it may be a part of a request's header
	of := &gatewayOf{bytes: m.bytes.WithLabelValues(app)}
	for i := range of.classes {
		of.classes[i] = m.requests.WithLabelValues(app, fmt.Sprintf("%dxx", i+firstClass))
	}
	apps := maps.Clone(*m.apps.Load())
	apps[app] = of
	m.apps.Store(&apps)
	return of
}

// forgetDeleted removes the counters of deleted apps.
func (m *Metrics) forgetDeleted() {
	if m.deleted == nil {
		return
	}
	ids := map[string]bool{}
	m.change.Lock()
	defer m.change.Unlock()
	apps := maps.Clone(*m.apps.Load())
	for _, app := range m.deleted() {
		ids[app.ID] = true
		if _, counted := apps[app.Name]; !counted {
			continue
		}
		delete(apps, app.Name)
		m.requests.DeletePartialMatch(prometheus.Labels{"app": app.Name})
		m.bytes.DeleteLabelValues(app.Name)
	}
	m.apps.Store(&apps)
	m.functions.forget(func(of *callsOf) bool { return ids[of.app] })
}
