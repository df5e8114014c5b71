package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"landfall.dev/landfall"
)

// Broker is where messages are kept: JetStream in the process, or at a NATS server elsewhere. It starts, or connects,
// when it is first needed. Its fields are set before that. It is safe for concurrent use.
type Broker struct {
	Folder      string              // of JetStream in the process
	URL         string              // of a NATS server elsewhere, or of several with commas between; empty: in the process
	Credentials string              // for that server, as the text of a credentials file; may be empty
	Bytes       int64               // of the messages of one app
	Age         time.Duration       // how long a message is kept
	Granted     map[string][]string // app name to the subjects elsewhere that it may use
	Logger      *slog.Logger

	// making is held while a stream changes and while a consumer is made in the process: the server that runs here does
	// one of them without a lock against the other.
	making sync.Mutex

	mu     sync.Mutex
	server *server.Server // nil before the start, and with a URL
	conn   *nats.Conn     // nil before the start
	js     jetstream.JetStream
	bad    map[string]string // stream that cannot be read to why
	ready  map[string]bool   // streams that are as they should be
	back   chan struct{}     // closed when the NATS server is there again; nil: nobody asked
	closed bool

	started time.Time // JetStream in the process
}

const (
	// MaxMessage is how many bytes a message may have, headers included.
	MaxMessage = 8 << 20

	startTimeout = 10 * time.Second
	callTimeout  = 5 * time.Second
	// restartInterval is how long JetStream is left alone after a start: one stream that cannot be written stops all the
	// others.
	restartInterval = 10 * time.Second
	repeats         = 2 * time.Minute // for how long a message of the same id is known to be a repeat
	streamPrefix    = "landfall-"     // of the names of our streams; the id of the app follows
)

func unavailable(op landfall.Op, err error, format string, args ...any) error {
	return &landfall.Error{Op: op, Kind: landfall.Unavailable, Message: fmt.Sprintf(format, args...), Err: err}
}

// open returns JetStream, which it starts or connects to when that was not done yet.
func (b *Broker) open() (jetstream.JetStream, error) {
	const op landfall.Op = "queue.open"
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, landfall.Errorf(op, landfall.Canceled, "the server stops")
	}
	if b.server != nil && !b.server.JetStreamEnabled() { // it gives up when the disk is full
		b.stop()
	}
	if b.js == nil {
		if err := b.start(); err != nil {
			b.stop()
			return nil, err
		}
	}
	if !b.conn.IsConnected() {
		return nil, unavailable(op, b.conn.LastError(),
			"the NATS server (LANDFALL_NATS) cannot be reached, or does not accept who asks")
	}
	return b.js, nil
}

func (b *Broker) start() error {
	const op landfall.Op = "queue.start"
	b.ready, b.bad = map[string]bool{}, nil
	options := []nats.Option{nats.Name("landfall"), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.Logger.Warn("messages: the connection has trouble", "error", err)
		})}
	address := b.URL
	if address == "" {
		if err := b.embed(); err != nil {
			return err
		}
		options = append(options, nats.InProcessServer(b.server))
	} else {
		options = append(options, b.patience()...)
	}
	var err error
	if b.conn, err = nats.Connect(address, options...); err != nil {
		return unavailable(op, err,
			"the NATS server (LANDFALL_NATS) cannot be asked: its address or the credentials are not right")
	}
	if b.js, err = jetstream.New(b.conn, jetstream.WithDefaultTimeout(callTimeout)); err != nil {
		return unavailable(op, err, "JetStream does not answer")
	}
	if b.URL != "" {
		return nil
	}
	if err = b.look(); err != nil {
		return unavailable(op, err, "JetStream in the folder %s does not answer", b.Folder)
	}
	return nil
}

// patience are the options by which a connection is tried until it is there, also by a server that accepts nobody for a
// while. Who needs it does not wait for that.
func (b *Broker) patience() []nats.Option {
	isBack := func(conn *nats.Conn) {
		if conn.Stats().Reconnects > 0 { // else it was there at once, and nobody waits
			b.isBack()
		}
	}
	options := []nats.Option{nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.ConnectHandler(isBack),
		nats.ReconnectHandler(isBack)}
	if b.Credentials != "" {
		options = append(options, nats.UserCredentialBytes([]byte(b.Credentials)))
	}
	return options
}

// isBack says that the NATS server is there. What was asked of it before it does not know any more, and what lies there
// may be other.
func (b *Broker) isBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.ready)
	if b.back != nil {
		close(b.back)
		b.back = nil
	}
}

// whenBack returns what is closed when the NATS server is there the next time.
func (b *Broker) whenBack() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back == nil {
		b.back = make(chan struct{})
	}
	return b.back
}

// lock takes the lock of what is made, when it is made in the process, and returns what lets go of it.
func (b *Broker) lock() (unlock func()) {
	if b.URL != "" {
		return func() {}
	}
	b.making.Lock()
	return b.making.Unlock
}

// embed starts JetStream in the process. It syncs each message to the disk before it acknowledges it.
func (b *Broker) embed() error {
	const op landfall.Op = "queue.embed"
	const unlimited = 1 << 60 // streams are bounded one by one, and may promise together more than the disk has
	options := &server.Options{
		ServerName: "landfall", DontListen: true, NoSigs: true, JetStream: true, StoreDir: b.Folder, SyncAlways: true,
		MaxPayload: MaxMessage, JetStreamMaxStore: unlimited, DisableJetStreamBanner: true,
	}
	embedded, err := server.NewServer(options)
	if err != nil {
		return unavailable(op, err, "JetStream in the folder %s cannot be started: %v", b.Folder, err)
	}
	embedded.SetLogger(serverLog{b.Logger}, false, false)
	b.server, b.started = embedded, time.Now()
	embedded.Start()
	if !embedded.ReadyForConnections(startTimeout) || !embedded.JetStreamEnabled() {
		return unavailable(op, nil, "JetStream in the folder %s did not start; the log says why", b.Folder)
	}
	return nil
}

// look finds the streams that lie in the folder and that JetStream in the process could not read.
func (b *Broker) look() error {
	unread := b.folders()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	names := b.js.StreamNames(ctx)
	for name := range names.Name() {
		delete(unread, name)
	}
	for _, folder := range unread {
		b.Logger.Error("the messages of an app cannot be read; those of others can", "folder", folder)
	}
	b.bad = unread
	return names.Err()
}

// folders returns the streams that lie in the folder of JetStream in the process, and where.
func (b *Broker) folders() map[string]string {
	streams := filepath.Join(b.Folder, "jetstream", "$G", "streams")
	entries, err := os.ReadDir(streams)
	if err != nil {
		return nil // there is none yet
	}
	all := map[string]string{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), streamPrefix) {
			all[entry.Name()] = filepath.Join(streams, entry.Name())
		}
	}
	return all
}

// stop lets go of the connection, and of JetStream in the process.
func (b *Broker) stop() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	b.server, b.conn, b.js = nil, nil, nil
}

// restart stops JetStream in the process when it did not answer, and reports whether it did. The next use starts it
// again: a stream that could once not be written, because the disk was full, answers nothing more for as long as it is
// open.
func (b *Broker) restart(js jetstream.JetStream, err error) bool {
	if b.URL != "" || !outOfTime(err) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.js == js && time.Since(b.started) > restartInterval {
		b.Logger.Warn("messages: JetStream does not answer, and is started again", "folder", b.Folder)
		b.stop()
	}
	return true
}

// outOfTime reports whether JetStream did not answer.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// Close lets go of everything. Nothing of the broker works afterwards.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stop()
}

// serverLog writes what goes wrong in JetStream into the server's log.
type serverLog struct{ *slog.Logger }

// Noticef implements server.Logger.
func (serverLog) Noticef(string, ...any) {}

// Warnf implements server.Logger.
func (l serverLog) Warnf(format string, args ...any) {
	l.Warn("messages: " + fmt.Sprintf(format, args...))
}

// Fatalf implements server.Logger. The process goes on.
func (l serverLog) Fatalf(format string, args ...any) { l.Errorf(format, args...) }

// Errorf implements server.Logger.
func (l serverLog) Errorf(format string, args ...any) {
	l.Error("messages: " + fmt.Sprintf(format, args...))
}

// Debugf implements server.Logger.
func (serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (serverLog) Tracef(string, ...any) {}

// Owner is an app as far as messages know it.
type Owner struct{ ID, Name, Namespace string }

func (o Owner) stream() string { return streamPrefix + o.ID }
func (o Owner) prefix() string { return o.Namespace + "." + o.Name + "." }

// subject returns what a topic of an app is called in NATS, and whether it is granted, not of the app's own stream. A
// topic that a grant covers is meant as it stands.
func (b *Broker) subject(o Owner, topic string) (subject string, granted bool) {
	for _, grant := range b.Granted[o.Name] {
		if landfall.TopicCovers(grant, topic) {
			return topic, true
		}
	}
	return o.prefix() + topic, false
}

// own returns the stream of an app, which it makes when there is none. It is brought to the bounds that are set now.
func (b *Broker) own(ctx context.Context, o Owner) (jetstream.JetStream, error) {
	const op landfall.Op = "queue.stream"
	js, err := b.open()
	if err != nil {
		return nil, err
	}
	name := o.stream()
	b.mu.Lock()
	folder, bad := b.bad[name]
	b.mu.Unlock()
	if bad {
		return nil,
			unavailable(op, nil, "the messages of the app %s cannot be read: %s is damaged; to go on without them, stop the "+
				"server and move that folder away",
				o.Name, folder)
	}
	if b.isReady(name) {
		return js, nil
	}
	defer b.lock()()
	if b.isReady(name) {
		return js, nil
	}
	stream, err := js.Stream(ctx, name)
	config := jetstream.StreamConfig{
		Name: name, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, Duplicates: min(repeats, b.Age),
		Replicas: 1,
	}
	switch {
	case err == nil:
		config = stream.CachedInfo().Config // with what an operator changed
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, failed(op, err)
	}
	config.Subjects, config.MaxBytes, config.MaxAge = []string{o.prefix() + ">"}, b.Bytes, b.Age
	if _, err = js.CreateOrUpdateStream(ctx, config); err != nil {
		return nil, failed(op, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready[name] = true
	return js, nil
}

// failed is the error of a call of JetStream.
func failed(op landfall.Op, err error) error {
	if errors.Is(err, context.Canceled) {
		return &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
	}
	return unavailable(op, err, "the queue does not do what it should: %v", err)
}

// isReady reports whether a stream is as it should be.
func (b *Broker) isReady(stream string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready[stream]
}

// forget makes the next use look at a stream again, which may be gone.
func (b *Broker) forget(o Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ready, o.stream())
}

// Remove deletes the messages of apps, by their ids, if there are any. It starts nothing when there is nothing to
// delete.
func (b *Broker) Remove(ctx context.Context, apps []string) error {
	const op landfall.Op = "queue.Remove"
	if b.URL == "" {
		stored, some := b.folders(), false
		for _, id := range apps {
			_, ok := stored[streamPrefix+id]
			some = some || ok
		}
		if !some {
			return nil
		}
	}
	js, err := b.open()
	if err != nil {
		return err
	}
	for _, id := range apps {
		if err := js.DeleteStream(ctx, streamPrefix+id); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return failed(op, err)
		}
		b.forget(Owner{ID: id})
	}
	return nil
}
