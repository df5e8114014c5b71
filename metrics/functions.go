package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/trigger"
)

// mostVersions bounds the versions of functions with metrics of their own. Further versions are counted together,
// without a name. A version without a call for staleAfter gives its place to another.
const (
	mostVersions = 200
	staleAfter   = time.Hour
)

// functionCalls counts calls by version of a function.
type functionCalls struct {
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
	unfit *prometheus.CounterVec

	mu       *sync.Mutex
	versions map[functionVersion]*callsOf
	others   *callsOf // of all other versions
}

type functionVersion struct{ namespace, function, version string }

// callsOf has the counters of one version.
type callsOf struct {
	outcomes map[execution.Outcome]prometheus.Counter
	took     prometheus.Observer
	unfit    map[trigger.Side]prometheus.Counter
	app      string // the id of its app; empty: there are several apps
	last     time.Time
}

func newFunctionCalls() functionCalls {
	labels := []string{"namespace", "function", "version"}
	return functionCalls{
		mu: &sync.Mutex{}, versions: map[functionVersion]*callsOf{},
		calls: counters("landfall_function_calls_total",
			"Calls of functions by version and outcome: succeeded, failed (the function did), busy (refused), canceled "+
				"(nobody waited), error (it could not be run). Versions beyond the first 200 in use count together, without a "+
				"name.", "namespace", "function", "version", "outcome"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "landfall_function_duration_seconds",
			Help:    "How long calls of functions took, refused ones left out.",
			Buckets: []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 300},
		}, labels),
		unfit: counters("landfall_function_unfit_total",
			"Data that does not fit the contract of a function, by version and side: input (refused before anything was "+
				"run), output (answered all the same).", "namespace", "function", "version", "side"),
	}
}

// of returns the counters of a version. The caller holds the lock.
func (c *functionCalls) of(f *landfall.Function, now time.Time) *callsOf {
	v := functionVersion{f.Namespace, f.Name, string(f.Version)}
	of, ok := c.versions[v]
	switch {
	case ok:
	case len(c.versions) < mostVersions || c.forgetStale(now):
		of = c.add(v)
		of.app = f.App
		c.versions[v] = of
	default:
		if c.others == nil {
			c.others = c.add(functionVersion{})
		}
		of = c.others
	}
	of.last = now
	return of
}

func (c *functionCalls) add(v functionVersion) *callsOf {
	of := &callsOf{
		outcomes: map[execution.Outcome]prometheus.Counter{}, unfit: map[trigger.Side]prometheus.Counter{},
		took: c.took.WithLabelValues(v.namespace, v.function, v.version),
	}
	for _, outcome := range execution.Outcomes() {
		of.outcomes[outcome] = c.calls.WithLabelValues(v.namespace, v.function, v.version, string(outcome))
	}
	for _, side := range []trigger.Side{trigger.Input, trigger.Output} {
		of.unfit[side] = c.unfit.WithLabelValues(v.namespace, v.function, v.version, string(side))
	}
	return of
}

// forgetStale makes room, and reports whether there is some. The caller holds the lock.
func (c *functionCalls) forgetStale(now time.Time) bool {
	c.drop(func(of *callsOf) bool { return now.Sub(of.last) >= staleAfter })
	return len(c.versions) < mostVersions
}

// forget forgets versions.
func (c *functionCalls) forget(which func(*callsOf) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(which)
}

// drop forgets versions. The caller holds the lock.
func (c *functionCalls) drop(which func(*callsOf) bool) {
	for v, of := range c.versions {
		if !which(of) {
			continue
		}
		labels := prometheus.Labels{"namespace": v.namespace, "function": v.function, "version": v.version}
		c.calls.DeletePartialMatch(labels)
		c.took.DeletePartialMatch(labels)
		c.unfit.DeletePartialMatch(labels)
		delete(c.versions, v)
	}
}

var _ execution.Meter = (*Metrics)(nil)

// Called counts a call of a function.
func (m *Metrics) Called(f *landfall.Function, outcome execution.Outcome, took time.Duration) {
	m.functions.mu.Lock()
	of := m.functions.of(f, time.Now())
	m.functions.mu.Unlock()
	of.outcomes[outcome].Inc()
	if outcome != execution.Busy {
		of.took.Observe(took.Seconds())
	}
}

// Asked counts a connection for which a function asked.
func (m *Metrics) Asked(allowed bool) { m.asked.WithLabelValues(strconv.FormatBool(allowed)).Inc() }

// Proxied counts bytes that functions sent and received.
func (m *Metrics) Proxied(sent, received int) {
	m.proxied.WithLabelValues("sent").Add(float64(sent))
	m.proxied.WithLabelValues("received").Add(float64(received))
}

// Unfit counts data that does not fit the contract of a function.
func (m *Metrics) Unfit(f *landfall.Function, side trigger.Side) {
	m.functions.mu.Lock()
	of := m.functions.of(f, time.Now())
	m.functions.mu.Unlock()
	of.unfit[side].Inc()
}

// Unrecorded counts executions without a record.
func (m *Metrics) Unrecorded(n int) { m.unrecorded.Add(float64(n)) }
