package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// receive returns what comes next, or ends the test when nothing does.
func receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(testkit.Patience):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}

// work starts a queue, whose jobs f does. The returned function stops it and waits; the end of the test does too.
func work(t testing.TB, db *store.DB, workers int, logger *slog.Logger,
	f func(ctx context.Context, topic, id string) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	q := store.Queue{DB: db, Queues: map[string]int{"": workers}, Work: f, Logger: logger}
	go func() { ended <- q.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := receive(t, "the end of the queue", ended); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// into returns a function that does jobs by sending their names.
func into(done chan<- string) func(ctx context.Context, topic, id string) error {
	return func(_ context.Context, topic, id string) error {
		done <- topic + " " + id
		return nil
	}
}

func enqueue(t testing.TB, db *store.DB, topic, id string) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error { tx.Enqueue(topic, id, time.Time{}); return nil })
}

func testQueue(t *testing.T, open opener) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	t.Run("a job that this process seems to be at, and is not, is done", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		started, block := make(chan string, 10), make(chan struct{})
		queue := func(topics string, f func(ctx context.Context, topic, id string) error) (end func()) {
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			ended := make(chan error, 1)
			q := store.Queue{DB: db, Process: "one", Queues: map[string]int{topics: 2}, Work: f, Logger: quiet}
			go func() { ended <- q.Run(ctx) }()
			return func() {
				cancel()
				_ = receive(t, "the end of a queue", ended)
			}
		}
		// One of the same process, and not at the job: as if what it fetched had never arrived.
		ready := make(chan string, 10)
		endOther := queue("other", into(ready))
		enqueue(t, db, "other/first", "b")
		testkit.Same(t, "at work", receive(t, "a job", ready), "other/first b")
		end := queue("", func(_ context.Context, _, id string) error {
			started <- id
			<-block
			return nil
		})
		t.Cleanup(func() { // the other one must not take away what this one is just done with
			endOther()
			close(block)
			end()
		})
		enqueue(t, db, "run", "a")
		testkit.Same(t, "at work", receive(t, "a job", started), "a")
		testkit.Same(t, "at work again", receive(t, "a job", started), "a")
	})
	t.Run("a job exists if and only if its transaction commits", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		undone := errors.New("no")
		for _, enqueue := range []func(tx *store.Tx){
			func(tx *store.Tx) { tx.Enqueue("run", "undone", time.Time{}) },
			func(tx *store.Tx) { tx.EnqueueOnce("run", "undone", 0) },
		} {
			f := func(tx *store.Tx) error {
				enqueue(tx)
				return undone
			}
			for _, err := range []error{
				db.Update(ctx, f), db.GroupCommit(ctx, func(_ context.Context, tx *store.Tx) error { return f(tx) }),
			} {
				if !errors.Is(err, undone) {
					t.Fatal(err)
				}
			}
		}
		enqueue(t, db, "run", "done")
		done := make(chan string, 10)
		work(t, db, 1, quiet, into(done)) // one at a time, in order
		testkit.Same(t, "the first job", receive(t, "a job", done), "run done")
		enqueue(t, db, "collect", "later")
		testkit.Same(t, "a job that came while the queue ran", receive(t, "a job", done), "collect later")
	})
	t.Run("a job waits for its time", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		update(t, db, func(tx *store.Tx) error { tx.Enqueue("run", "tomorrow", time.Now().Add(24*time.Hour)); return nil })
		enqueue(t, db, "run", "now")
		done := make(chan string, 10)
		work(t, db, 1, quiet, into(done))
		testkit.Same(t, "the first job", receive(t, "a job", done), "run now")
		enqueue(t, db, "run", "then")
		testkit.Same(t, "the second", receive(t, "a job", done), "run then")
	})
	t.Run("once is once, until it is done", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		once := func(topic, id string) {
			update(t, db, func(tx *store.Tx) error { tx.EnqueueOnce(topic, id, 0); return nil })
		}
		for range 3 {
			once("run", "a")
		}
		once("run", "b")
		once("collect", "a")
		done := make(chan string, 10)
		stop := work(t, db, 1, quiet, into(done))
		for _, want := range []string{"run a", "run b", "collect a"} {
			testkit.Same(t, "the next job", receive(t, "a job", done), want)
		}
		stop()
		once("run", "a") // the first is done
		work(t, db, 1, quiet, into(done))
		testkit.Same(t, "the same again", receive(t, "a job", done), "run a")
	})
	t.Run("another round does not wait for a job whose worker may be dead", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		begun, end := make(chan string), make(chan struct{})
		work(t, db, 2, quiet, func(_ context.Context, _, id string) error {
			begun <- id
			<-end
			return nil
		})
		for round := range int64(2) {
			update(t, db, func(tx *store.Tx) error { tx.EnqueueOnce("run", "a", round); return nil })
			testkit.Same(t, fmt.Sprint("the job of round ", round), receive(t, "a job", begun), "a")
			update(t, db, func(tx *store.Tx) error { tx.EnqueueOnce("run", "a", round); return nil }) // at work
		}
		close(end)
	})
	t.Run("a job that fails is said, and not tried again", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		var log logtest.Buffer
		tried := make(chan string, 10)
		work(t, db, 1, slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, topic, id string) error {
			tried <- topic + " " + id
			switch id {
			case "broken":
				return errors.New("it broke")
			case "interrupted":
				return &landfall.Error{Kind: landfall.Canceled, Message: "stopping"}
			}
			return nil
		})
		for _, id := range []string{"broken", "interrupted", "fine"} {
			enqueue(t, db, "run", id)
			testkit.Same(t, "the next job", receive(t, "a job", tried), "run "+id)
		}
		if got := log.String(); strings.Count(got, "it broke") != 1 || !strings.Contains(got, "id=broken") ||
			strings.Contains(got, "stopping") {
			t.Errorf("the log: got %q, want the one failure, with its job", got)
		}
		if got := log.String(); strings.Contains(got, "level=INFO") || strings.Contains(got, "level=DEBUG") {
			t.Errorf("the log: got the library's routine: %q", got)
		}
	})
	t.Run("jobs run side by side, as many as there are workers", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		started, release := make(chan string, 10), make(chan struct{})
		work(t, db, 2, quiet, func(_ context.Context, _, id string) error {
			started <- id
			<-release
			return nil
		})
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, db, "run", id)
		}
		receive(t, "the first", started)
		receive(t, "the second, beside it", started)
		select {
		case id := <-started:
			t.Errorf("job %s started beside two others", id)
		default:
		}
		close(release)
		receive(t, "the third", started)
	})
	t.Run("a queue that stops waits for what is at work, and leaves the rest", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		started, release, ended := make(chan string, 10), make(chan struct{}), make(chan error, 10)
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		defer cancel()
		q := store.Queue{DB: db, Queues: map[string]int{"": 1}, Logger: quiet,
			Work: func(ctx context.Context, _, id string) error {
				started <- id
				<-release
				ended <- ctx.Err()
				return nil
			}}
		over := make(chan error, 1)
		go func() { over <- q.Run(ctx) }()
		enqueue(t, db, "run", "first")
		testkit.Same(t, "at work", receive(t, "a job", started), "first")
		enqueue(t, db, "run", "second")
		cancel()
		select {
		case err := <-over:
			t.Fatalf("Run returned while a job was at work: %v", err)
		default:
		}
		close(release)
		if err := receive(t, "the job's end", ended); err != nil {
			t.Errorf("the job at work: its context ended with %v before it was done", err)
		}
		if err := receive(t, "the queue's end", over); err != nil {
			t.Errorf("Run: %v", err)
		}
		// The second may have begun before the queue saw that it is to stop: then it was waited for, too.
		if len(started) == 1 {
			testkit.Same(t, "a job that began", <-started, "second")
			testkit.Same(t, "its end", receive(t, "the job's end", ended), nil)
			return
		}
		done := make(chan string, 10)
		work(t, db, 1, quiet, into(done))
		testkit.Same(t, "what the next start does", receive(t, "a job", done), "run second")
	})
}
