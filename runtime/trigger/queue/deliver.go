package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// taken is a message on its way through a trigger.
type taken struct {
	jetstream.Msg

	*bound

	meta   *jetstream.MsgMetadata
	id     string // of the message in its queue, whatever becomes of the queue
	topic  string
	header http.Header // without what is JetStream's
}

// deliver gives a message to the trigger's function and settles it, whatever happens. It returns for how long the
// trigger should take no other.
func (c *consumer) deliver(ctx context.Context, m jetstream.Msg) (pause time.Duration) {
	meta, err := m.Metadata()
	t := c.current(c.key)
	if err != nil || t == nil {
		_ = m.NakWithDelay(c.Lease) // the release that is live does not know the trigger any more
		return 0
	}
	id := strconv.FormatUint(meta.Sequence.Stream, 10) + "-" + strconv.FormatInt(meta.Timestamp.UnixNano(), 36)
	if _, running := c.atWork.LoadOrStore(id, true); running { // JetStream forgot that it was taken
		_ = m.NakWithDelay(c.Lease)
		return 0
	}
	defer c.atWork.Delete(id)
	defer c.keep(m)()
	one := taken{m, t, meta, id, m.Subject(), without(m.Headers(), natsPrefix)}
	if _, granted := c.Broker.subject(t.owner(), t.Queue.Topic); !granted {
		one.topic = strings.TrimPrefix(one.topic, t.owner().prefix())
	}
	again, busy, err := c.settle(ctx, one)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		_ = m.Nak() // for the next start, or another process
		return 0
	}
	_ = m.NakWithDelay(again)
	if busy {
		return again
	}
	c.Logger.WarnContext(ctx, "a message comes again", "app", t.AppName, "trigger", t.Name, "topic", one.topic,
		"message", one.id, "delivered", meta.NumDelivered, "after", again, "error", err)
	return 0
}

// keep tells JetStream that a message is being worked on, until the returned function is called.
func (c *consumer) keep(m jetstream.Msg) (stop func()) {
	const signs = 3 // in a lease
	done := make(chan struct{})
	c.calls.Go(func() {
		tick := time.NewTicker(c.Lease / signs)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = m.InProgress()
			}
		}
	})
	return func() { close(done) }
}

// settle brings a message to its end: it is acknowledged when there is no error. Else it has to come again after a
// while, because the function is busy, or failed, or something else did.
func (c *consumer) settle(ctx context.Context, m taken) (again time.Duration, busy bool, err error) {
	again = backoff(m.meta.NumDelivered)
	// a message that comes for the first time may have come before JetStream lost what it knew
	known, err := c.Record.Outcome(ctx, m.App, m.Name, m.id)
	if err != nil {
		return again, false, err
	}
	// it does not answer its own answers
	if known.Done || m.header.Get(headerTrigger) == m.Source() && c.Broker.hearsItself(m.bound) {
		return again, false, c.acknowledge(ctx, m)
	}
	e, err := m.event()
	if err != nil {
		return again, false, c.die(ctx, m, known, err) // it will never be an event
	}
	if !m.filters.Pass(e) {
		return again, false, c.acknowledge(ctx, m)
	}
	crashpoint.Here("message.taken")
	answer, err := c.Functions.Call(ctx, function.Call{Function: m.Draw(), Trigger: m.Trigger, Event: e})
	crashpoint.Here("message.answered")
	if _, refused := errors.AsType[*contract.MismatchError](err); refused {
		return again, false, c.die(ctx, m, known, err) // it would be refused again
	}
	if fault, ok := errors.AsType[*function.Error](err); ok && fault.Reason == function.ReasonBusy {
		return max(fault.RetryAfter, minBusy), true, err
	} else if err != nil && !ok && landfall.KindOf(err) != landfall.Invalid {
		return again, false, err // the function was not run
	}
	if err == nil {
		err = failureOf(answer)
	}
	if err == nil && m.Queue.RespTopic != "" {
		err = c.answer(ctx, m, answer)
		if err != nil && !errors.Is(err, errTooLarge) {
			return again, false, err
		}
	}
	if err != nil {
		return c.fail(ctx, m, err)
	}
	crashpoint.Here("message.replied")
	if err := c.Record.SetOutcome(ctx, m.App, m.Name, m.id, Outcome{known.Failures, true}); err != nil {
		return again, false, err
	}
	crashpoint.Here("message.recorded")
	err = c.acknowledge(ctx, m)
	crashpoint.Here("message.acknowledged")
	return again, false, err
}

// minBusy is how long a message stays away that met a busy function, at least.
const minBusy = 100 * time.Millisecond

// backoff returns when something is tried again that was tried so many times: after 1 s, 2 s, 4 s … and no more
// than a minute.
func backoff(times uint64) time.Duration {
	const doublings = 6
	return min(minPause<<min(max(times, 1)-1, doublings), maxPause)
}

// failure is an answer that is an error, or has the status of one.
type failure struct{ said event.Error }

// Error implements error.
func (f failure) Error() string { return f.said.Message }

// failureOf returns the error that an answer is; nil when it is none.
func failureOf(answer event.Event) error {
	fault, is, err := event.ErrorOf(answer)
	if err != nil {
		fault.Message = landfall.MessageOf(err)
	}
	if is {
		return failure{fault}
	}
	if p, err := event.ProtocolOf(answer); err == nil && p.Status >= http.StatusBadRequest {
		return failure{event.Error{Message: fmt.Sprintf("the function answered with the status %d", p.Status)}}
	}
	return nil
}

// acknowledge tells JetStream that a message needs nothing any more, and waits until it knows.
func (*consumer) acknowledge(ctx context.Context, m taken) error {
	if err := m.DoubleAck(ctx); err != nil {
		return failed("queue.acknowledge", err)
	}
	return nil
}

// event returns the event that a message is, or that says of the message what it is. Its ID is the same whenever the
// message comes.
func (m taken) event() (event.Event, error) {
	e, is, err := event.ReadMessage(event.Message{Header: m.header, Body: m.Data()})
	if err != nil {
		return e, err
	}
	if !is {
		id := cmp.Or(m.Headers().Get(jetstream.MsgIDHeader), m.id)
		e = event.Of(id, m.Source(), landfall.MessageEvent, m.meta.Timestamp)
		e.SetSubject(m.topic)
		if len(m.Data()) > 0 {
			e.SetDataContentType(m.contentType())
			e.DataEncoded = m.Data()
		}
	}
	event.SetExecution(&e, uuid.NewString())
	return e, nil
}

// contentType returns what the data of a message is that is no event: what it says itself, else what the trigger says,
// if the data can be that, else what it looks like.
func (m taken) contentType() string {
	const plainJSON = "application/json"
	said := m.header.Get("Content-Type")
	isJSON := json.Valid(m.Data())
	switch trigger := m.Queue.ContentType; {
	case said != "":
		return said
	case trigger != "" && (isJSON || !strings.Contains(trigger, "json")):
		return trigger
	case isJSON:
		return plainJSON
	case utf8.Valid(m.Data()):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// answer stores what a function answered at the topic for answers.
func (c *consumer) answer(ctx context.Context, m taken, answer event.Event) error {
	written, err := event.WriteMessage(answer)
	if err != nil {
		return err
	}
	written.Header[headerTrigger] = []string{m.Source()}
	return c.store(ctx, m, landfall.Message{Topic: m.Queue.RespTopic, ID: m.repeat("answer"), Header: written.Header,
		Data: written.Body})
}

// repeat returns the ID by which what a trigger stores of a message is known when it stores it again.
func (m taken) repeat(what string) string { return m.Source() + " " + m.id + " " + what }

func (c *consumer) store(ctx context.Context, m taken, stored landfall.Message) error {
	_, err := c.Broker.publish(ctx, m.owner(), stored)
	return err
}

// fail records that a message failed once more, and makes it a dead letter when that was once too often. Another
// process may have had it, too, while this one stood still or could not reach JetStream for longer than a lease: what
// is known is looked up again.
func (c *consumer) fail(ctx context.Context, m taken, why error) (again time.Duration, busy bool, err error) {
	known, err := c.Record.Outcome(ctx, m.App, m.Name, m.id)
	if err != nil {
		return backoff(m.meta.NumDelivered), false, err
	}
	if known.Done {
		return 0, false, c.acknowledge(ctx, m)
	}
	known.Failures++
	again = backoff(uint64(known.Failures))
	if known.Failures > m.Queue.MaxRetries {
		return again, false, c.die(ctx, m, known, why)
	}
	if err := c.Record.SetOutcome(ctx, m.App, m.Name, m.id, known); err != nil {
		return again, false, err
	}
	return again, false, why
}

// die makes a message a dead letter, and records and acknowledges it.
func (c *consumer) die(ctx context.Context, m taken, known Outcome, why error) error {
	if err := c.bury(ctx, m, known.Failures, why); err != nil {
		return err
	}
	if err := c.Record.SetOutcome(ctx, m.App, m.Name, m.id, Outcome{known.Failures, true}); err != nil {
		return err
	}
	c.Logger.WarnContext(ctx, "a message is a dead letter now", "app", m.AppName, "trigger", m.Name, "topic", m.topic,
		"message", m.id, "attempts", known.Failures, "letter", m.deadTopic(), "error", why)
	return c.acknowledge(ctx, m)
}

// hearsItself reports whether a trigger listens to where it writes. What comes to any other says nothing by our
// headers: a message at a NATS server may be anybody's.
func (b *Broker) hearsItself(t *bound) bool {
	heard, _ := b.subject(t.owner(), t.Queue.Topic)
	return slices.ContainsFunc([]string{t.Queue.RespTopic, t.deadTopic()}, func(topic string) bool {
		written, _ := b.subject(t.owner(), topic)
		return topic != "" && landfall.TopicCovers(heard, written)
	})
}

// deadTopic returns where the messages go that fail.
func (b *bound) deadTopic() string { return cmp.Or(b.Queue.ErrorTopic, "dead."+b.Name) }

// bury stores a message as a dead letter: as it was, with what went wrong and how often.
func (c *consumer) bury(ctx context.Context, m taken, attempts int, why error) error {
	fault := function.EventError(why)
	if said, ok := errors.AsType[failure](why); ok {
		fault = said.said
	}
	header, said := m.header.Clone(), http.Header{}
	for name, value := range map[string]string{
		headerError: fault.Message, headerType: fault.Type, headerAttempts: strconv.Itoa(attempts), headerTopic: m.topic,
		headerTrigger: m.Source(),
	} {
		delete(header, name)
		if value != "" {
			said[name] = []string{oneLine(value)}
		}
	}
	maps.Copy(header, said)
	letter := landfall.Message{Topic: m.deadTopic(), ID: m.repeat("dead"), Header: header, Data: m.Data()}
	err := c.store(ctx, m, letter)
	if errors.Is(err, errTooLarge) { // its own headers may leave no room for ours
		letter.Header = said
		err = c.store(ctx, m, letter)
	}
	if errors.Is(err, errTooLarge) { // the queue has become narrower
		return fmt.Errorf("the dead letter: %w", err)
	}
	return err
}

// oneLine returns text as a header can hold it.
func oneLine(text string) string {
	const most = 4 << 10
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}
