package queue

import (
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/event"
)

// The headers that we write.
const (
	headerTrigger  = "Landfall-Trigger"    // the address of the trigger that wrote the message
	headerError    = "Landfall-Error"      // of a dead letter: what went wrong
	headerType     = "Landfall-Error-Type" //
	headerAttempts = "Landfall-Attempts"   // of a dead letter: how often the function was given the message
	headerTopic    = "Landfall-Topic"      // of a dead letter: where the message was
	ourPrefix      = "Landfall-"
	natsPrefix     = "Nats-"
)

// What JetStream says when it does not store a message. Of fullCode the figures of the stream say why.
const (
	fullCode     jetstream.ErrorCode = 10077
	headersCode  jetstream.ErrorCode = 10097 // more than 64 KiB of headers
	narrowerCode                     = jetstream.JSErrCodeStreamMessageExceedsMaximum
)

// Publish stores a message at a topic of an app, and returns what it is then; Duplicate when a message of the same ID,
// if it has one, was stored in the last two minutes, and nothing more was stored. Invalid when the topic or the size
// are not right, or the message says that it is an event and is none; Unavailable when it could not be stored, and
// nobody knows whether it was when JetStream did not answer.
func (b *Broker) Publish(ctx context.Context, o Owner, m landfall.Message) (landfall.Message, error) {
	if err := landfall.CheckTopic(m.Topic); err != nil {
		return m, err
	}
	if _, _, err := event.ReadMessage(event.Message{Header: m.Header, Body: m.Data}); err != nil {
		return m, err
	}
	m.Header = without(m.Header, ourPrefix) // which say what became of a message here
	return b.publish(ctx, o, m)
}

func (b *Broker) publish(ctx context.Context, o Owner, m landfall.Message) (landfall.Message, error) {
	const op landfall.Op = "queue.Publish"
	js, err := b.own(ctx, o)
	if err != nil {
		return m, err
	}
	subject, granted := b.subject(o, m.Topic)
	out := &nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data}
	if most := js.Conn().MaxPayload(); int64(out.Size()) > most {
		return m, landfall.Wrapf(op, landfall.Invalid, errTooLarge,
			"the message has %d bytes with its headers; the queue takes %d", out.Size(), most)
	}
	var options []jetstream.PublishOpt
	if m.ID != "" {
		options = append(options, jetstream.WithMsgID(m.ID))
	}
	if !granted {
		options = append(options, jetstream.WithExpectStream(o.stream()))
	}
	ack, err := js.PublishMsg(ctx, out, options...)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == fullCode && !granted {
		if err = b.trim(ctx, js, o); err == nil {
			ack, err = js.PublishMsg(ctx, out, options...)
		}
	}
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok &&
		(refused.ErrorCode == headersCode || refused.ErrorCode == narrowerCode) {
		return m, &landfall.Error{Op: op, Kind: landfall.Invalid, Err: errTooLarge,
			Message: "the message is larger than its queue takes, or has more than 64 KiB of headers and attributes: " +
				refused.Description}
	}
	if err != nil {
		b.forget(o)
		if b.restart(js, err) {
			return m, unavailable(op, err, "the message could not be written; the log says why")
		}
		return m, b.refused(ctx, js, o, out, err)
	}
	crashpoint.Here("message.stored")
	m.Sequence, m.Duplicate = ack.Sequence, ack.Duplicate
	return m, nil
}

// errTooLarge is the cause of an error that sending again does not help.
var errTooLarge = errors.New("too large")

// refused says why a message was not stored.
func (b *Broker) refused(ctx context.Context, js jetstream.JetStream, o Owner, m *nats.Msg, err error) error {
	const op landfall.Op = "queue.Publish"
	if stream, found := js.Stream(ctx, o.stream()); found == nil {
		info := stream.CachedInfo()
		const overhead = 1 << 10 // of a message in the stream, at most
		if info.State.Bytes+uint64(m.Size())+overhead > uint64(max(0, info.Config.MaxBytes)) {
			return unavailable(op, err,
				"the queue of the app %s is full: %d bytes wait for its triggers, or are kept at topics that none of them hears; "+
					"the limit is %d (setting LANDFALL_QUEUE_BYTES)", o.Name, info.State.Bytes, info.Config.MaxBytes)
		}
	}
	if outOfTime(err) {
		return unavailable(op, err, "the NATS server did not store the message in time; its own log says why. After a "+
			"full disk it has to be started again")
	}
	return failed(op, err)
}

// trim removes the messages of an app that every trigger is done with that would get them.
func (b *Broker) trim(ctx context.Context, js jetstream.JetStream, o Owner) error {
	const op landfall.Op = "queue.trim"
	stream, err := js.Stream(ctx, o.stream())
	if err != nil {
		return failed(op, err)
	}
	type position struct {
		subject string
		next    uint64 // the first message that is not done
	}
	var all []position
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		all = append(all, position{info.Config.FilterSubject, info.AckFloor.Stream + 1})
	}
	if err := consumers.Err(); err != nil {
		return failed(op, err)
	}
	for _, p := range all {
		for _, other := range all {
			if landfall.TopicsOverlap(p.subject, other.subject) {
				p.next = min(p.next, other.next)
			}
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(p.subject), jetstream.WithPurgeSequence(p.next)); err != nil {
			return failed(op, err)
		}
	}
	return nil
}

// The bounds of a page of messages.
const (
	maxPage      = 1000
	maxPageBytes = 8 << 20
)

// Read returns messages at topics of an app that are still kept, in the order in which they were stored, from the first
// behind a number, and whether there may be more behind them. It takes none away. No more than limit, nor more than 8
// MiB but for the last.
func (b *Broker) Read(ctx context.Context, o Owner, pattern string, after uint64, limit int) (page []landfall.Message,
	more bool, err error) {
	const op landfall.Op = "queue.Read"
	if err := landfall.CheckTopicPattern(pattern); err != nil {
		return nil, false, err
	}
	js, err := b.own(ctx, o)
	if err != nil {
		return nil, false, err
	}
	subject, granted := b.subject(o, pattern)
	name := o.stream()
	if granted {
		if name, err = js.StreamNameBySubject(ctx, subject); err != nil {
			return nil, false, subjectError(op, subject, err)
		}
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		b.forget(o)
		return nil, false, failed(op, err)
	}
	for bytes := 0; len(page) < min(limit, maxPage) && bytes < maxPageBytes; {
		stored, err := stream.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return page, false, nil
		}
		if err != nil {
			return nil, false, failed(op, err)
		}
		after = stored.Sequence
		bytes += len(stored.Data)
		topic := stored.Subject
		if !granted {
			topic = strings.TrimPrefix(topic, o.prefix())
		}
		page = append(page, landfall.Message{
			Topic: topic, Sequence: stored.Sequence, ID: stored.Header.Get(jetstream.MsgIDHeader), Time: stored.Time,
			Header: without(stored.Header, natsPrefix), Data: stored.Data,
		})
	}
	return page, true, nil
}

// subjectError is the error for a granted subject that no stream has.
func subjectError(op landfall.Op, subject string, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return landfall.Wrapf(op, landfall.NotFound, err,
			"no stream has the subject %s, which is granted (setting LANDFALL_SUBJECTS); make one at "+"the NATS server",
			subject)
	}
	return failed(op, err)
}

// without returns headers without those whose names begin with a prefix: orders to JetStream, or what only we write.
// Their names are as everybody expects them.
func without(header map[string][]string, prefix string) http.Header {
	kept := http.Header{}
	for name, values := range header {
		if canonical := textproto.CanonicalMIMEHeaderKey(name); !strings.HasPrefix(canonical, prefix) {
			kept[canonical] = append(kept[canonical], values...)
		}
	}
	return kept
}
