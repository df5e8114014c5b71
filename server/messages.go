package server

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/store"
)

// messageSettings are what messages are kept by.
type messageSettings struct {
	Server      string // of NATS; empty: in the process
	Credentials string
	Bytes       int64
	Age         time.Duration
	Granted     map[string][]string // app name to subjects
}

// parseMessages reads where messages are kept, and for how long.
func (c *config) parseMessages(v map[string]string) (err error) {
	m := messageSettings{Server: v["NATS"], Credentials: v["NATS_CREDENTIALS"], Granted: map[string][]string{}}
	if m.Server != "" {
		for address := range strings.SplitSeq(m.Server, ",") { // not shown: there may be a password in it
			u, err := url.Parse(strings.TrimSpace(address))
			if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
				return badSetting("NATS",
					"is no address; right would be nats://HOST:4222 or tls://HOST:4222, or several with commas between")
			}
		}
	} else if m.Credentials != "" {
		return badSetting("NATS_CREDENTIALS", "is of no use without LANDFALL_NATS")
	}
	if err := above0(v, "QUEUE_BYTES", &m.Bytes); err != nil {
		return err
	}
	age, err := landfall.ParseAge(v["QUEUE_AGE"])
	if m.Age = age.Duration(); err != nil || m.Age < time.Second {
		return badSetting("QUEUE_AGE", "is %q; right would be a time such as 7d or 12h", v["QUEUE_AGE"])
	}
	for grant := range strings.SplitSeq(v["SUBJECTS"], ",") {
		if grant = strings.TrimSpace(grant); grant == "" {
			continue
		}
		app, subject, _ := strings.Cut(grant, "=")
		if err := landfall.CheckTopicPattern(subject); err != nil || app == "" || strings.HasPrefix(subject, ">") ||
			strings.HasPrefix(subject, "*") {
			return badSetting("SUBJECTS",
				"has %q; right would be APP=SUBJECT, for example shop=legacy.orders.>, with commas between", grant)
		}
		m.Granted[app] = append(m.Granted[app], subject)
	}
	c.Messages = m
	return nil
}

// newBroker returns what keeps messages; nil where there are none. Without a NATS server, they are this process's
// alone: the one that is both asked to store them and to run functions.
func newBroker(s *shared) *queue.Broker {
	c := s.config.Messages
	if s.db == nil || c.Server == "" && (!s.config.has(roleAPI) || !s.config.has(roleTrigger)) {
		return nil
	}
	return &queue.Broker{
		Folder: filepath.Join(s.config.Data, "nats"), URL: c.Server, Credentials: c.Credentials, Bytes: c.Bytes, Age: c.Age,
		Granted: c.Granted, Logger: s.logger,
	}
}

// newMessages returns what fires triggers for messages; nil where there are none.
func newMessages(s *serving, functions function.Caller) *queue.Source {
	if s.broker == nil {
		return nil
	}
	return &queue.Source{
		Broker: s.broker, Table: s.registry.Table, Functions: functions, Record: messageOutcomes{s.db}, Lease: s.config.Lease,
		Patience: drainTimeout, Logger: s.logger,
	}
}

// messageOutcomes keeps what became of messages in the database.
type messageOutcomes struct{ db *store.DB }

var _ queue.Record = messageOutcomes{}

// Outcome implements queue.Record.
func (m messageOutcomes) Outcome(ctx context.Context, app, trigger, message string) (queue.Outcome, error) {
	o, err := m.db.MessageOutcome(ctx, app, trigger, message)
	return queue.Outcome(o), err
}

// SetOutcome implements queue.Record.
func (m messageOutcomes) SetOutcome(ctx context.Context, app, trigger, message string, o queue.Outcome) error {
	return m.db.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.SetMessageOutcome(ctx, app, trigger, message, store.MessageOutcome(o), time.Now())
	})
}

// Forget implements queue.Record.
func (m messageOutcomes) Forget(ctx context.Context, done, others time.Time) error {
	return m.db.Update(ctx, func(tx *store.Tx) error { return tx.ForgetMessages(ctx, done, others) })
}

// appMessages keeps the messages of apps for the API.
type appMessages struct{ broker *queue.Broker }

// Publish implements api.Queues.
func (m appMessages) Publish(ctx context.Context, app landfall.App,
	message landfall.Message) (landfall.Message, error) {
	if m.broker == nil {
		return message, errNoMessages
	}
	return m.broker.Publish(ctx, queue.Owner{ID: app.ID, Name: app.Name, Namespace: app.Namespace}, message)
}

// Read implements api.Queues.
func (m appMessages) Read(ctx context.Context, app landfall.App, pattern string, after uint64,
	limit int) ([]landfall.Message, bool, error) {
	if m.broker == nil {
		return nil, false, errNoMessages
	}
	return m.broker.Read(ctx, queue.Owner{ID: app.ID, Name: app.Name, Namespace: app.Namespace}, pattern, after, limit)
}

var errNoMessages = landfall.Errorf("messages", landfall.Unavailable,
	"there are no queues here: this process has not all roles, and several processes need a NATS server (setting "+
		"LANDFALL_NATS)")
