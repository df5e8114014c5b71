package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
)

// Outcome is what is known of a message that a trigger took.
type Outcome struct {
	Failures int  // how often its function failed
	Done     bool // it needs nothing any more
}

// Record keeps outcomes, on the disk when it returns.
type Record interface {
	// Outcome returns what is known of a message; nothing is the zero Outcome.
	Outcome(ctx context.Context, app, trigger, message string) (Outcome, error)
	SetOutcome(ctx context.Context, app, trigger, message string, o Outcome) error
	// Forget forgets what was recorded before a time, of messages that are done and of others.
	Forget(ctx context.Context, done, others time.Time) error
}

// Source fires the queue triggers of live releases for the messages at their topics. Its table is that of topics: it
// holds one position for each trigger in JetStream. Its fields are set before Run.
type Source struct {
	Broker    *Broker
	Table     func() *registry.Table // nil: nothing is known yet
	Functions function.Caller
	Record    Record
	Lease     time.Duration // after which a message comes again of which its taker gives no sign
	Patience  time.Duration // with functions that run when the source stops
	Logger    *slog.Logger

	mu       sync.Mutex
	table    *registry.Table
	triggers map[key]*bound // of table
}

// key names a trigger across releases.
type key struct{ app, name string }

// bound is a trigger of the live release, ready to take messages.
type bound struct {
	*registry.Trigger

	filters event.Filters
	deaf    error // why it takes nothing
}

func (b *bound) owner() Owner { return Owner{b.App, b.AppName, b.Namespace} }

const (
	lookInterval  = time.Second
	sweepInterval = time.Minute
	// remembered is how long it is known that a message is done: longer than JetStream takes to write what it
	// acknowledged.
	remembered = 15 * time.Minute
)

// Run takes messages until ctx ends, and then waits for the functions that it called, but not longer than its patience.
// It returns nil.
func (s *Source) Run(ctx context.Context) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.Patience, cancel) })()
	var group sync.WaitGroup
	defer group.Wait()
	consuming := map[key]listening{}
	var seen *registry.Table
	var gone []string
	look, sweep := time.NewTicker(lookInterval), time.NewTicker(sweepInterval)
	defer look.Stop()
	defer sweep.Stop()
	for tidy := false; ; {
		table := s.Table()
		if table != nil && table != seen {
			s.follow(ctx, calls, &group, consuming)
			seen, tidy = table, true
		}
		if tidy {
			gone, tidy = s.remove(ctx, removed(seen), gone), false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case now := <-sweep.C:
			tidy = seen != nil
			if err := s.Record.Forget(ctx, now.Add(-remembered), now.Add(-s.Broker.Age-remembered)); err != nil &&
				ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "outcomes of messages stay for now", "error", err)
			}
		}
	}
}

// removed returns the ids of the apps whose content is gone.
func removed(table *registry.Table) (ids []string) {
	for _, app := range table.Deleted() {
		if app.Removed {
			ids = append(ids, app.ID)
		}
	}
	return ids
}

// remove deletes the messages of deleted apps, unless they are those of which they were deleted before. It returns
// those of which they are deleted then.
func (s *Source) remove(ctx context.Context, deleted, before []string) []string {
	if slices.Equal(deleted, before) {
		return before
	}
	if err := s.Broker.Remove(ctx, deleted); err != nil {
		if ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "the messages of deleted apps stay for now", "error", err)
		}
		return before
	}
	return deleted
}

// follow begins to consume for triggers that are new, or listen to another topic now, and ends it for those that are
// gone.
func (s *Source) follow(ctx, calls context.Context, group *sync.WaitGroup, consuming map[key]listening) {
	triggers := s.live()
	for k, l := range consuming {
		if t, ok := triggers[k]; !ok || t.deaf != nil || t.Queue.Topic != l.topic {
			l.stop()
			delete(consuming, k)
		}
	}
	for k, t := range triggers {
		if _, ok := consuming[k]; ok {
			continue
		}
		if t.deaf != nil {
			s.Logger.WarnContext(ctx, "a queue trigger takes no messages", "app", t.AppName, "trigger", t.Name, "error", t.deaf)
			continue
		}
		own, stop := context.WithCancel(ctx)
		consuming[k] = listening{t.Queue.Topic, stop}
		group.Go(func() {
			defer stop()
			c := &consumer{Source: s, key: k, finished: make(chan time.Duration, maxInFlight)}
			c.run(own, calls)
		})
	}
}

// listening is a consumer at work.
type listening struct {
	topic string
	stop  context.CancelFunc
}

// live returns the queue triggers of the newest table.
func (s *Source) live() map[key]*bound {
	table := s.Table()
	s.mu.Lock()
	defer s.mu.Unlock()
	if table == s.table || table == nil {
		return s.triggers
	}
	s.table, s.triggers = table, map[key]*bound{}
	for _, t := range table.Triggers(landfall.QueueTrigger) {
		b := &bound{Trigger: t, deaf: landfall.CheckTopicPattern(t.Queue.Topic)}
		if b.deaf == nil {
			b.filters, b.deaf = event.ParseFilters(t.Filters)
		}
		s.triggers[key{t.App, t.Name}] = b
	}
	return s.triggers
}

// current returns a trigger as the live release has it; nil when it has none of that name any more.
func (s *Source) current(k key) *bound {
	t := s.live()[k]
	if t == nil || t.deaf != nil {
		return nil
	}
	return t
}

const (
	maxInFlight   = 256
	usualInFlight = 16 // as the runner has it
	minPause      = time.Second
	maxPause      = time.Minute
	// A request for a message lasts so long; of one that is longer, the library keeps a timer after its end.
	fetchTime       = 10 * time.Second
	consumerPending = 10_000 // messages that wait to come again, beyond which a trigger gets no new ones
)

// limit returns how many messages a trigger may have taken at a time: as many as its function may have calls.
func (b *bound) limit() int {
	calls := 0
	for _, f := range b.Functions() {
		calls = max(calls, b.Resources.Or(f.Resources).Concurrency)
	}
	return min(cmp.Or(calls, usualInFlight), maxInFlight)
}

// consumer takes the messages of one trigger.
type consumer struct {
	*Source

	key      key
	finished chan time.Duration // of each message that needs no more: how long the trigger should take none
	inFlight int
	paused   time.Time // until then the function is busy
	atWork   sync.Map  // the ids of the messages that the function has
	calls    sync.WaitGroup
}

// errMoved says that the trigger listens to another topic than the consumer.
var errMoved = errors.New("the trigger listens elsewhere now")

// run takes messages until ctx ends, and lets functions run until calls ends.
func (c *consumer) run(ctx, calls context.Context) {
	defer c.calls.Wait()
	for pause := minPause; ctx.Err() == nil; pause = min(max(2*pause, minPause), maxPause) {
		began, back := time.Now(), c.Broker.whenBack()
		err := c.listen(ctx, calls, back)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errMoved) {
			wait(ctx, lookInterval, nil) // until this consumer is ended, or the trigger is back
			continue
		}
		select {
		case <-back: // what went wrong is over
			pause = 0
			continue
		default:
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		c.Logger.WarnContext(ctx, "a queue trigger takes no messages for now", "app", c.key.app, "trigger", c.key.name,
			"again", pause, "error", err)
		wait(ctx, pause, back)
	}
}

// wait waits until ctx ends, or early, which may be nil, but not longer than pause.
func wait(ctx context.Context, pause time.Duration, early <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-early:
	case <-time.After(pause):
	}
}

// listen takes messages until something fails, or the NATS server is back: it does not know any more who waits for a
// message.
func (c *consumer) listen(ctx, calls context.Context, back <-chan struct{}) error {
	t := c.current(c.key)
	if t == nil {
		return errMoved
	}
	from, err := c.Broker.position(ctx, t, c.Lease)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.calls.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-back:
		}
	})
	for {
		now := c.current(c.key)
		if now == nil || now.Queue.Topic != t.Queue.Topic {
			return errMoved
		}
		if err := c.room(ctx, now.limit()); err != nil {
			return err
		}
		message, err := next(ctx, from)
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			return failed("queue.listen", err)
		}
		c.inFlight++
		c.calls.Go(func() { c.finished <- c.deliver(calls, message) })
	}
}

// errNone says that there was no message for a while.
var errNone = errors.New("there is no message")

// next returns the next message of a consumer.
//
// It is not of from.Messages: when a message comes before its sender of requests has noted that it sent one, it sends
// no other, and notices half a minute later (nats.go v1.55.0, pullSubscription.checkPending).
func next(ctx context.Context, from jetstream.Consumer) (jetstream.Msg, error) {
	fetch, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	message, err := from.Next(jetstream.FetchContext(fetch))
	switch {
	case errors.Is(err, nats.ErrTimeout):
		err = errNone
	case errors.Is(err, context.DeadlineExceeded): // not even that was said
		if _, err = from.Info(ctx); err == nil {
			err = errNone
		}
	}
	return message, err
}

// room waits until one message more may be taken.
func (c *consumer) room(ctx context.Context, limit int) error {
	for ctx.Err() == nil {
		select {
		case pause := <-c.finished:
			c.done(pause)
			continue
		default:
		}
		if c.inFlight < limit {
			wait(ctx, time.Until(c.paused), nil)
			return ctx.Err()
		}
		select {
		case pause := <-c.finished:
			c.done(pause)
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (c *consumer) done(pause time.Duration) {
	c.inFlight--
	if until := time.Now().Add(pause); pause > 0 && until.After(c.paused) {
		c.paused = until
	}
}

// position returns the place of a trigger in the messages at its topic, which is made when there is none: at the oldest
// one.
func (b *Broker) position(ctx context.Context, t *bound, lease time.Duration) (jetstream.Consumer, error) {
	const op landfall.Op = "queue.position"
	js, err := b.own(ctx, t.owner())
	if err != nil {
		return nil, err
	}
	subject, granted := b.subject(t.owner(), t.Queue.Topic)
	stream := t.owner().stream()
	if granted {
		if stream, err = js.StreamNameBySubject(ctx, subject); err != nil {
			return nil, subjectError(op, subject, err)
		}
	}
	defer b.lock()()
	from, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: t.App + "-" + t.Name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease,
		MaxDeliver: -1, MaxAckPending: consumerPending, InactiveThreshold: b.Age,
	})
	if err != nil {
		b.forget(t.owner())
		return nil, failed(op, err)
	}
	return from, nil
}
