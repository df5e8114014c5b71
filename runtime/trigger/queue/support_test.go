package queue_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/runtime/trigger/queue/natstest"
)

// engine is where the messages of a test lie: what opens a broker there.
type engine func() *queue.Broker

// everywhere runs a test on JetStream in the process and on a NATS server of its own.
func everywhere(t *testing.T, test func(t *testing.T, open engine)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embedded(t, t.TempDir()))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, external(t, natstest.New(t)))
	})
}

func embedded(t testing.TB, folder string) engine {
	t.Helper()
	return func() *queue.Broker { return bounded(t, &queue.Broker{Folder: folder}) }
}

func external(t *testing.T, s *natstest.Server) engine {
	t.Helper()
	return func() *queue.Broker { return bounded(t, &queue.Broker{URL: s.URL}) }
}

func bounded(t testing.TB, b *queue.Broker) *queue.Broker {
	t.Helper()
	b.Bytes, b.Age, b.Logger = 16<<20, time.Hour, slog.New(slog.DiscardHandler)
	t.Cleanup(b.Close)
	return b
}

// shop and zoo are two apps.
func shop() queue.Owner { return queue.Owner{ID: "1", Name: "shop", Namespace: "team"} }
func zoo() queue.Owner  { return queue.Owner{ID: "2", Name: "zoo", Namespace: "team"} }

// publish stores a message that must be taken.
func publish(t testing.TB, b *queue.Broker, o queue.Owner, topic, data string, headers ...string) landfall.Message {
	t.Helper()
	m := landfall.Message{Topic: topic, Data: []byte(data), Header: map[string][]string{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	m, err := b.Publish(t.Context(), o, m)
	if err != nil {
		t.Fatalf("publishing at %s: %v", topic, err)
	}
	return m
}

// read returns what is kept at topics.
func read(t testing.TB, b *queue.Broker, o queue.Owner, pattern string) []landfall.Message {
	t.Helper()
	all, _, err := b.Read(t.Context(), o, pattern, 0, 1000)
	if err != nil {
		t.Fatalf("reading %s: %v", pattern, err)
	}
	return all
}

// bodies returns the data of messages.
func bodies(all []landfall.Message) []string {
	var data []string
	for _, m := range all {
		data = append(data, string(m.Data))
	}
	return data
}

// records are outcomes in memory.
type records struct {
	mu   sync.Mutex
	all  map[string]queue.Outcome
	fail error // of SetOutcome
}

// Outcome implements queue.Record.
func (r *records) Outcome(_ context.Context, app, trigger, message string) (queue.Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[app+" "+trigger+" "+message], nil
}

// SetOutcome implements queue.Record.
func (r *records) SetOutcome(_ context.Context, app, trigger, message string, o queue.Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	if r.all == nil {
		r.all = map[string]queue.Outcome{}
	}
	r.all[app+" "+trigger+" "+message] = o
	return nil
}

// Forget implements queue.Record.
func (*records) Forget(context.Context, time.Time, time.Time) error { return nil }

// count returns of how many messages there is an outcome.
func (r *records) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// settle makes all messages done of which there is an outcome.
func (r *records) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for message, o := range r.all {
		r.all[message] = queue.Outcome{Failures: o.Failures, Done: true}
	}
}

func (r *records) breaks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// source is a queue source at work, whose functions a test is.
type source struct {
	*queue.Source

	table atomic.Pointer[registry.Table]
	stop  func() // and waits
	log   logtest.Buffer

	mu   sync.Mutex
	seen []call
	run  func(call) (event.Event, error)
}

// call is one event that a trigger was fired for.
type call struct {
	trigger *registry.Trigger
	event   event.Event
}

func (c call) data() string { return string(c.event.Data()) }

// Call implements function.Caller.
func (s *source) Call(_ context.Context, fired function.Call) (event.Event, error) {
	s.mu.Lock()
	c := call{fired.Trigger, fired.Event}
	s.seen = append(s.seen, c)
	s.mu.Unlock()
	return s.run(c)
}

// calls returns what was called so far.
func (s *source) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// data returns the sorted data of all calls so far.
func (s *source) data() []string {
	var all []string
	for _, c := range s.calls() {
		all = append(all, c.data())
	}
	slices.Sort(all)
	return all
}

// show makes triggers those of the live releases of their apps.
func (s *source) show(triggers ...*registry.Trigger) {
	apps := map[string]*registry.App{}
	for _, o := range []queue.Owner{shop(), zoo()} {
		apps[o.ID] = &registry.App{ID: o.ID, Name: o.Name, Live: "live", Releases: []registry.Release{{ID: "live"}}}
	}
	for _, t := range triggers {
		apps[t.App].Releases[0].Triggers = append(apps[t.App].Releases[0].Triggers, t)
	}
	s.table.Store(registry.New([]registry.App{*apps["1"], *apps["2"]}))
}

// listen starts a source whose functions f is.
func listen(t testing.TB, b *queue.Broker, r queue.Record, f func(call) (event.Event, error),
	triggers ...*registry.Trigger) *source {
	t.Helper()
	s := &source{run: f}
	s.show(triggers...)
	s.Source = &queue.Source{
		Broker: b, Table: s.table.Load, Functions: s, Record: r, Lease: 3 * time.Second, Patience: time.Second,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx) // it returns nil
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(s.stop)
	return s
}

// on returns a trigger of an app.
func on(o queue.Owner, name, topic string, change ...func(*registry.Trigger)) *registry.Trigger {
	t := &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.QueueTrigger,
		Queue: landfall.QueueSource{Topic: topic}}, Name: name, App: o.ID, AppName: o.Name, Namespace: o.Namespace,
		Function: &landfall.Function{ID: name, Name: name}}
	for _, f := range change {
		f(t)
	}
	return t
}

// says answers with text.
func says(c call, text string) (event.Event, error) {
	answer := event.Answer(c.event, "answer to "+c.event.ID())
	answer.SetDataContentType("text/plain")
	answer.DataEncoded = []byte(text)
	return answer, nil
}

// echo answers with what it got.
func echo(c call) (event.Event, error) { return says(c, c.data()) }
