package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/files"
	"landfall.dev/landfall/store"
)

// state reads the store on request.
type state struct {
	Config

	up, unfinished, ended, oldest, waiting, owed, owedAge, dead, reported, bytes, builds *prometheus.Desc
}

func newState(c Config) *state {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("landfall_"+name, help, labels, nil)
	}
	return &state{
		Config: c,
		up: desc("database_up",
			"1 if the database answered this scrape. If it did not, what is read from it is missing here."),
		unfinished: desc("runs_unfinished", "Runs that are not over, by state.", "state"),
		ended:      desc("runs_ended_total", "Runs that ended, by state, since the database was made.", "state"),
		oldest: desc("oldest_unfinished_commit_age_seconds",
			"Age of the oldest commit that was accepted and whose run is not over; 0 when there is none."),
		waiting: desc("queue_age_seconds", "How long the oldest run waits that could be worked on; 0 when none does."),
		owed:    desc("outbox_owed", "Commit statuses and comments that GitHub is to be told.", "kind"),
		owedAge: desc("outbox_age_seconds", "Age of the oldest of them; 0 when there is none.", "kind"),
		dead:    desc("dead_letters", "Asynchronous executions that failed for good, and can be sent again."),
		reported: desc("outbox_ended_total",
			"Commit statuses and comments that were sent, or dropped, since the database was made.", "kind", "outcome"),
		bytes: desc("release_bytes_total",
			"Bytes of the static files of releases when they were made: uploaded, or unchanged and not uploaded again.",
			"transfer"),
		builds: desc("builds_total", "Builds of runs that made a release: run, or cached from the same input.", "result"),
	}
}

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.up, s.unfinished, s.ended, s.oldest, s.waiting, s.owed, s.owedAge, s.dead,
		s.reported, s.bytes, s.builds} {
		out <- d
	}
}

// patience is how long a scrape waits for the database.
const patience = 5 * time.Second

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	now := s.Now()
	age := func(since time.Time) float64 {
		if since.IsZero() {
			return 0
		}
		return max(0, now.Sub(since).Seconds())
	}
	pulse, err := s.DB.Stats(ctx, now)
	if err != nil {
		s.Logger.Warn("metrics of the database cannot be read", "error", err)
		gauge(s.up, 0)
		return
	}
	gauge(s.up, 1)
	for _, state := range []landfall.RunState{landfall.RunQueued, landfall.RunRunning, landfall.RunWaiting} {
		gauge(s.unfinished, float64(pulse.Unfinished[state]), string(state))
	}
	for _, state := range []landfall.RunState{landfall.RunSucceeded, landfall.RunFailed, landfall.RunError,
		landfall.RunSuperseded, landfall.RunSkipped, landfall.RunCancelled, landfall.RunDeclined,
		landfall.RunExpired} {
		counter(s.ended, pulse.Totals.Runs[state], string(state))
	}
	gauge(s.oldest, age(pulse.Oldest))
	gauge(s.waiting, age(pulse.Waiting))
	for kind, owed := range map[string]store.Backlog{"status": pulse.Statuses, "comment": pulse.Comments} {
		gauge(s.owed, float64(owed.Count), kind)
		gauge(s.owedAge, age(owed.Since), kind)
	}
	gauge(s.dead, float64(pulse.Dead))
	totals := pulse.Totals
	counter(s.reported, totals.StatusesSent, "status", "sent")
	counter(s.reported, totals.StatusesDropped, "status", "dropped")
	counter(s.reported, totals.CommentsWritten, "comment", "sent")
	counter(s.reported, totals.CommentsDropped, "comment", "dropped")
	counter(s.bytes, totals.BytesUploaded, "uploaded")
	counter(s.bytes, totals.BytesUnchanged, "unchanged")
	counter(s.builds, totals.BuildsRun, "run")
	counter(s.builds, totals.BuildsCached, "cached")
}

// cache reads the figures of the gateway's cache.
type cache struct {
	read                   func() files.Cache
	lookups, loaded, bytes *prometheus.Desc
}

func newCache(read func() files.Cache) cache {
	return cache{
		read: read,
		lookups: prometheus.NewDesc("landfall_gateway_cache_lookups_total",
			"Look-ups of bodies in the gateway's cache: memory, folder, or miss.", []string{"result"}, nil),
		loaded: prometheus.NewDesc("landfall_gateway_loaded_bytes_total",
			"Bytes that the gateway read from the object store.", nil, nil),
		bytes: prometheus.NewDesc("landfall_gateway_cache_bytes", "Bytes in the gateway's cache: memory, folder.",
			[]string{"place"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c cache) Describe(out chan<- *prometheus.Desc) {
	out <- c.lookups
	out <- c.loaded
	out <- c.bytes
}

// Collect implements prometheus.Collector.
func (c cache) Collect(out chan<- prometheus.Metric) {
	now := c.read()
	for _, m := range []struct {
		desc   *prometheus.Desc
		kind   prometheus.ValueType
		value  int64
		labels []string
	}{
		{c.lookups, prometheus.CounterValue, now.InMemory, []string{"memory"}},
		{c.lookups, prometheus.CounterValue, now.InFolder, []string{"folder"}},
		{c.lookups, prometheus.CounterValue, now.Missed, []string{"miss"}},
		{c.loaded, prometheus.CounterValue, now.Loaded, nil},
		{c.bytes, prometheus.GaugeValue, now.MemoryBytes, []string{"memory"}},
		{c.bytes, prometheus.GaugeValue, now.FolderBytes, []string{"folder"}},
	} {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.value), m.labels...)
	}
}
