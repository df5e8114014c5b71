package queue_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/runtime/trigger/queue/natstest"
	"landfall.dev/landfall/test/testkit"
)

// A message fires the trigger at its topic, and the answer lies at the topic for answers.
func TestSource(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		s := listen(t, b, &records{}, func(c call) (event.Event, error) { return says(c, "done with "+c.data()) },
			on(shop(), "bill", "orders.*", func(t *registry.Trigger) { t.Queue.RespTopic = "bills" }),
			on(zoo(), "feed", ">"))
		publish(t, b, shop(), "orders.new", `{"n": 1}`)
		publish(t, b, shop(), "other", `not for the trigger`)
		testkit.Eventually(t, "there is an answer", func() bool { return len(read(t, b, shop(), "bills")) == 1 })
		answer := read(t, b, shop(), "bills")[0]
		if string(answer.Data) != `done with {"n": 1}` || answer.Header["Content-Type"][0] != "text/plain" ||
			answer.Header["Ce-Type"][0] != "dev.landfall.message" {
			t.Errorf("the answer is %s %v", answer.Data, answer.Header)
		}
		calls := s.calls()
		if len(calls) != 1 {
			t.Fatalf("there were the calls %q", s.data())
		}
		// E-009, E-110, E-112: a message is pushed to a function, by the call that every source makes
		e := calls[0].event
		if calls[0].trigger.Name != "bill" || e.Source() != "/r/team/shop/bill" || e.Type() != "dev.landfall.message" ||
			e.Subject() != "orders.new" ||
			e.ID() == "" || e.Time().IsZero() || e.DataContentType() != "application/json" || e.Validate() != nil {
			t.Errorf("the event is\n%s", e)
		}
		if got := s.calls(); len(got) != 1 { // nothing of one app reaches another
			t.Errorf("the other app got %q", s.data())
		}
	})
}

// A message that is an event reaches the function as that event.
func TestSourceEvents(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		s := listen(t, b, &records{}, echo, on(shop(), "bill", "orders"))
		publish(t, b, shop(), "orders",
			`{"specversion":"1.0","id":"7","source":"/till","type":"order","execution":"mine","data":1}`,
			"Content-Type", "application/cloudevents+json")
		publish(t, b, shop(), "orders", "2", "ce-specversion", "1.0", "ce-id", "8", "ce-source", "/till", "ce-type", "order",
			"ce-region", "eu", "Content-Type", "application/json")
		nonsense := landfall.Message{Topic: "orders",
			Header: map[string][]string{"Content-Type": {"application/cloudevents+json"}}, Data: []byte("nonsense")}
		if err := b.PublishAsIs(t.Context(), shop(), nonsense); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "two are through, and one is a dead letter", func() bool {
			return len(s.calls()) == 2 && len(read(t, b, shop(), "dead.bill")) == 1
		})
		if letter := read(t, b, shop(), "dead.bill")[0]; letter.Header["Landfall-Attempts"][0] != "0" ||
			string(letter.Data) != "nonsense" {
			t.Errorf("what is no event became %s %v", letter.Data, letter.Header)
		}
		ids := map[string]string{}
		for _, c := range s.calls() {
			ids[c.event.ID()] = c.event.Source() + " " + c.event.Type() + " " + c.data()
			if event.ExecutionOf(c.event) == "mine" {
				t.Error("a message chose the name of its execution")
			}
		}
		if diff := cmp.Diff(map[string]string{"7": "/till order 1", "8": "/till order 2"}, ids); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// Every message that passes the filter fires the trigger, and no other does.
func TestSourceFilter(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		s := listen(t, b, &records{}, echo, on(shop(), "bill", "orders.>", func(t *registry.Trigger) {
			t.Filters = []byte(`[{"any":[{"suffix":{"subject":".eu"}},{"exact":{"type":"urgent"}}]}]`)
		}))
		publish(t, b, shop(), "orders.eu", "1")
		publish(t, b, shop(), "orders.us", "2")
		publish(t, b, shop(), "orders.us", "3", "ce-specversion", "1.0", "ce-id", "8", "ce-source", "/till",
			"ce-type", "urgent")
		publish(t, b, shop(), "orders.eu", "4")
		testkit.Eventually(t, "three are through", func() bool { return len(s.calls()) >= 3 })
		// E-065: those that pass, each of them
		if diff := cmp.Diff([]string{"1", "3", "4"}, s.data()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// A message that always fails is tried as often as the trigger allows, and is a dead letter then, as it was.
func TestSourceDeadLetters(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		s := listen(t, b, &records{}, func(c call) (event.Event, error) {
			answer := event.Answer(c.event, "1")
			switch c.trigger.Name {
			case "says":
				event.SetError(&answer, event.Error{Message: "no\nmore", Type: "Exception"})
				return answer, nil
			case "refuses":
				event.SetProtocol(&answer, event.Protocol{Status: http.StatusBadGateway})
				return answer, nil
			}
			return event.Event{}, &landfall.Error{Op: "test", Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
		},
			on(shop(), "says", "orders", func(t *registry.Trigger) { t.Queue.MaxRetries = 1 }),
			on(shop(), "refuses", "orders"),
			on(shop(), "ends", "orders", func(t *registry.Trigger) { t.Queue.ErrorTopic = "errors" }))
		publish(t, b, shop(), "orders", "x", "ce-specversion", "1.0", "ce-id", "8", "ce-source", "/till", "ce-type", "order")
		testkit.Eventually(t, "all are dead letters", func() bool {
			return len(read(t, b, shop(), "dead.says")) == 1 && len(read(t, b, shop(), "errors")) == 1 &&
				len(read(t, b, shop(), "dead.refuses")) == 1
		})
		if got := read(t, b, shop(),
			"dead.refuses")[0].Header; got["Landfall-Error"][0] != "the function answered with the status 502" {
			t.Errorf("the letter of one that answered with the status of an error says %v", got)
		}
		letter := read(t, b, shop(), "dead.says")[0]
		got := map[string]string{"data": string(letter.Data)}
		for name, values := range letter.Header {
			got[name] = values[0]
		}
		want := map[string]string{
			"data": "x", "Ce-Specversion": "1.0", "Ce-Id": "8", "Ce-Source": "/till", "Ce-Type": "order",
			"Landfall-Error": "no more", "Landfall-Error-Type": "Exception", "Landfall-Attempts": "2",
			"Landfall-Topic": "orders", "Landfall-Trigger": "/r/team/shop/says",
		}
		// N-031: with its error and how often it was tried
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the dead letter (-want +got)\n%s", diff)
		}
		if other := read(t, b, shop(), "errors")[0]; other.Header["Landfall-Attempts"][0] != "1" ||
			other.Header["Landfall-Error"][0] != "it ended" {
			t.Errorf("without retries it is %v", other.Header)
		}
		if calls := s.calls(); len(calls) != 4 {
			t.Errorf("there were %d calls, want two, one and one", len(calls))
		}
	})
}

// JetStream takes 64 KiB of headers. An answer with more attributes is a failure of its function, which is not run for
// ever, and a message that has as many itself becomes a dead letter without them.
func TestSourceHeadersTooLarge(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		const room = 64 << 10
		s := listen(t, b, &records{}, func(c call) (event.Event, error) {
			if c.trigger.Name == "fails" {
				return event.Event{}, &landfall.Error{Op: "test", Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
			}
			answer := event.Answer(c.event, "1")
			answer.SetExtension("large", strings.Repeat("x", room))
			return answer, nil
		},
			on(shop(), "answers", "orders", func(t *registry.Trigger) { t.Queue.RespTopic, t.Queue.MaxRetries = "bills", 1 }),
			on(shop(), "fails", "large"))
		publish(t, b, shop(), "orders", "x")
		publish(t, b, shop(), "large", "y", "ce-specversion", "1.0", "ce-id", "8", "ce-source", "/till", "ce-type", "order",
			"ce-large", strings.Repeat("x", room-200))
		testkit.Eventually(t, "both are dead letters", func() bool {
			return len(read(t, b, shop(), "dead.answers")) == 1 && len(read(t, b, shop(), "dead.fails")) == 1
		})
		answered, failed := read(t, b, shop(), "dead.answers")[0], read(t, b, shop(), "dead.fails")[0]
		if got := answered.Header; got["Landfall-Attempts"][0] != "2" ||
			!strings.Contains(got["Landfall-Error"][0], "64 KiB of headers") {
			t.Errorf("the letter of an answer that is too large says %v", got)
		}
		if got := failed.Header; got["Landfall-Error"][0] != "it ended" || got["Ce-Large"] != nil ||
			string(failed.Data) != "y" {
			t.Errorf("the letter of a message with many headers says %v", got)
		}
		if calls := s.calls(); len(calls) != 3 {
			t.Errorf("there were %d calls, want two and one", len(calls))
		}
	})
	_, err := embedded(t, t.TempDir())().Publish(t.Context(), shop(),
		landfall.Message{Topic: "a", Header: http.Header{"Kept": {strings.Repeat("x", 70<<10)}}})
	if landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("a message with too many headers: got %v, want that it is not right", err)
	}
}

// What is no event, or what a contract refuses, is a dead letter at once, and the log does not say that it was tried
// too often.
func TestSourceRefused(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())()
	s := listen(t, b, &records{}, func(call) (event.Event, error) {
		return event.Event{}, &landfall.Error{Op: "test", Message: "it is no order", Err: &contract.MismatchError{}}
	}, on(shop(), "takes", "orders", func(t *registry.Trigger) { t.Queue.MaxRetries = 3 }))
	publish(t, b, shop(), "orders", "x")
	if err := b.PublishAsIs(t.Context(), shop(),
		landfall.Message{Topic: "orders", Header: http.Header{"Ce-Specversion": {"1.0"}}}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both are dead letters", func() bool {
		return strings.Count(s.log.String(), `msg="a message is a dead letter now"`) == 2
	})
	if text := s.log.String(); strings.Contains(text, "too often") || !strings.Contains(text, "it is no order") ||
		strings.Count(text, "attempts=0") != 2 {
		t.Errorf("the log is %s", text)
	}
}

// What fails is tried again after a second, and then after twice as long as before.
func TestSourceBacksOff(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		times := make(chan time.Time, 10)
		listen(t, b, &records{}, func(call) (event.Event, error) {
			times <- time.Now()
			return event.Event{}, &landfall.Error{Op: "test", Message: "it ended", Err: &function.Error{Reason: function.ReasonExit}}
		}, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Queue.MaxRetries = 2 }))
		publish(t, b, shop(), "orders", "x")
		testkit.Eventually(t, "it is a dead letter", func() bool { return len(read(t, b, shop(), "dead.bill")) == 1 })
		close(times)
		var waits []time.Duration
		last := <-times
		for at := range times {
			waits, last = append(waits, at.Sub(last)), at
		}
		const early = 100 * time.Millisecond // by another clock
		if len(waits) != 2 || waits[0] < time.Second-early || waits[1] < 2*time.Second-early {
			t.Errorf("it came again after %s, want twice, after a second and after two at least", waits)
		}
	})
}

// A busy function loses nothing, whatever a trigger allows in retries, and has never more than its calls at a time.
func TestSourceBusy(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		var now, most atomic.Int64
		refused := atomic.Int64{}
		s := listen(t, b, &records{}, func(c call) (event.Event, error) {
			running := now.Add(1)
			defer now.Add(-1)
			most.Store(max(most.Load(), running))
			if refused.Add(1) <= 5 {
				return event.Event{}, &landfall.Error{Op: "test", Kind: landfall.Unavailable,
					Err: &function.Error{Reason: function.ReasonBusy, RetryAfter: time.Millisecond}}
			}
			<-time.After(time.Millisecond)
			return echo(c)
		}, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Resources.Concurrency, t.Queue.RespTopic = 2, "done" }))
		const n = 50
		for i := range n {
			publish(t, b, shop(), "orders", fmt.Sprint(i))
		}
		testkit.Eventually(t, "all are through", func() bool { return len(read(t, b, shop(), "done")) == n })
		done := bodies(read(t, b, shop(), "done"))
		slices.Sort(done)
		// N-030: every message is answered once
		if len(slices.Compact(done)) != n || len(read(t, b, shop(), "dead.>")) != 0 {
			t.Errorf("there are %d answers and the dead letters %v", len(done), read(t, b, shop(), "dead.>"))
		}
		if most.Load() > 2 {
			t.Errorf("%d calls at a time, and 2 are allowed", most.Load())
		}
		if got := len(s.calls()); got != n+5 {
			t.Errorf("%d calls, want one for each message and one for each refusal", got)
		}
	})
}

// Messages that are taken one by one follow each other at once, also on a busy machine. Where a request for the next
// one gets lost it is half a minute late, which all of them together do not have.
func TestSourceSteady(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b, r := open(), &records{}
		const n = 1500
		for i := range n {
			publish(t, b, shop(), "orders", fmt.Sprint(i))
		}
		listen(t, b, r, echo, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Resources.Concurrency = 1 }))
		began := time.Now()
		for last, at := 0, began; last != n; <-time.After(5 * time.Millisecond) {
			if count := r.count(); count != last {
				last, at = count, time.Now()
			}
			if time.Since(at) > testkit.Patience/3 {
				t.Fatalf("nothing was taken for %s after %d of %d", testkit.Patience/3, last, n)
			}
			if time.Since(began) > 10*testkit.Patience { // a busy machine needs some of that for so many
				t.Fatalf("%d of %d were taken after %s", last, n, time.Since(began))
			}
		}
	})
}

// The release that is live when a message is taken has it, the position stays, and a trigger that is gone leaves its
// messages.
func TestSourceLive(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		first := on(shop(), "bill", "orders")
		s := listen(t, b, &records{}, echo, first)
		got := func(data string) *registry.Trigger {
			t.Helper()
			publish(t, b, shop(), "orders", data)
			var by *registry.Trigger
			testkit.Eventually(t, data+" is through", func() bool {
				calls := s.calls()
				i := slices.IndexFunc(calls, func(c call) bool { return c.data() == data })
				if i >= 0 {
					by = calls[i].trigger
				}
				return i >= 0
			})
			return by
		}
		if by := got("1"); by != first {
			t.Errorf("the first was for %p, want %p", by, first)
		}
		second := on(shop(), "bill", "orders")
		s.show(second)
		if by := got("2"); by != second {
			t.Errorf("the second was for %p, want %p", by, second)
		}
		s.show(on(shop(), "probe", "probes")) // a release without the trigger
		for _, probe := range []string{"seen", "silent"} {
			if by := probed(t, b, s, probe); by.Name != "probe" {
				t.Errorf("a probe was for %s", by.Name)
			}
			publish(t, b, shop(), "orders", "later")
		}
		if slices.Contains(s.data(), "later") {
			t.Error("a trigger that is gone took a message")
		}
		s.show(first) // back again
		if by := got("4"); by != first {
			t.Errorf("after the way back it was for %p, want %p", by, first)
		}
		testkit.Eventually(t, "what waited is through, too", func() bool { return slices.Contains(s.data(), "later") })
		// E-113: the source itself knows how far each trigger is
		if data := s.data(); len(slices.DeleteFunc(data, func(d string) bool { return len(d) > 1 })) != 3 {
			t.Errorf("some came twice: %q", s.data())
		}
		moved := on(shop(), "bill", "returns")
		s.show(moved)
		testkit.Eventually(t, "it hears another topic", func() bool { // from when the source has seen it
			publish(t, b, shop(), "returns", "5")
			return slices.Contains(s.data(), "5")
		})
	})
}

// probed publishes a probe and returns the trigger that got it.
func probed(t *testing.T, b *queue.Broker, s *source, data string) (by *registry.Trigger) {
	t.Helper()
	publish(t, b, shop(), "probes", data)
	testkit.Eventually(t, data+" is through", func() bool {
		calls := s.calls()
		i := slices.IndexFunc(calls, func(c call) bool { return c.data() == data })
		if i >= 0 {
			by = calls[i].trigger
		}
		return i >= 0
	})
	return by
}

// What was not settled when the source ended comes again, as the same event, and so does what could not be recorded.
func TestSourceAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b, r := open(), &records{}
		bound := on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Queue.RespTopic = "done" })
		hang := make(chan struct{})
		s := listen(t, b, r, func(c call) (event.Event, error) {
			<-hang
			return echo(c)
		}, bound)
		publish(t, b, shop(), "orders", "1")
		testkit.Eventually(t, "it is taken", func() bool { return len(s.calls()) == 1 })
		b.Close() // the broker is gone, and the function does not know
		close(hang)
		s.stop()
		id := s.calls()[0].event.ID()

		b = open()
		s = listen(t, b, r, echo, bound)
		testkit.Eventually(t, "it comes again", func() bool { return len(read(t, b, shop(), "done")) == 1 })
		if again := s.calls()[0].event.ID(); again != id {
			t.Errorf("it came as %q, and then as %q", id, again)
		}
		s.stop()

		// A message whose outcome cannot be recorded is not acknowledged.
		r.breaks(errors.New("the disk is full"))
		s = listen(t, b, r, echo, bound)
		publish(t, b, shop(), "orders", "2")
		testkit.Eventually(t, "it ran twice", func() bool { return len(s.calls()) >= 2 })
		r.breaks(nil)
		testkit.Eventually(t, "it is done", func() bool { return r.count() == 2 })
	})
}

// When JetStream loses what it had not written yet, what is done is not done again, and what is not is.
func TestSourceTailLost(t *testing.T) {
	t.Parallel()
	folder, tail := filepath.Join(t.TempDir(), "nats"), filepath.Join(t.TempDir(), "nats")
	b, r := embedded(t, folder)(), &records{}
	for i := range 3 {
		publish(t, b, shop(), "orders", fmt.Sprint(i))
	}
	b.Close()
	if err := os.CopyFS(tail, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	b = embedded(t, folder)()
	s := listen(t, b, r, func(c call) (event.Event, error) {
		if c.data() == "1" {
			return event.Event{}, &landfall.Error{Op: "test", Kind: landfall.Unavailable, Message: "not now"}
		}
		return echo(c)
	}, on(shop(), "bill", "orders"))
	testkit.Eventually(t, "two are done", func() bool { return r.count() == 2 })
	s.stop()
	b.Close()

	s = listen(t, embedded(t, tail)(), r, echo, on(shop(), "bill", "orders"))
	testkit.Eventually(t, "the last one is done", func() bool { return r.count() == 3 })
	if diff := cmp.Diff([]string{"1"}, s.data()); diff != "" {
		t.Errorf("ran again (-want +got)\n%s", diff)
	}
}

// What triggers are done with makes room, and what waits does not.
func TestSourceMakesRoom(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		b.Bytes = 100_000
		s := listen(t, b, &records{}, echo, on(shop(), "bill", "orders.*"), on(shop(), "count", "orders.>"))
		data := strings.Repeat("x", 10_000)
		for i := range 30 {
			publish(t, b, shop(), "orders.new", fmt.Sprint(i)+data)
			testkit.Eventually(t, "both have it", func() bool { return len(s.calls()) == 2*(i+1) })
		}
		s.show()
		s.stop()
		var err error
		for i := 0; err == nil && i < 30; i++ {
			_, err = b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders.new", Data: []byte("waits" + data)})
		}
		waiting := read(t, b, shop(), "orders.new")
		if landfall.KindOf(err) != landfall.Unavailable || !strings.HasPrefix(string(waiting[len(waiting)-1].Data), "waits") {
			t.Errorf("with %d that wait: %v", len(waiting), err)
		}
	})
}

// A trigger does not hear itself, however wide its topic is.
func TestSourceHearsNotItself(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())()
	s := listen(t, b, &records{}, func(c call) (event.Event, error) {
		if c.data() == "bad" {
			return event.Event{}, &landfall.Error{Op: "test", Err: &function.Error{Reason: function.ReasonExit}}
		}
		return echo(c)
	}, on(shop(), "all", ">", func(t *registry.Trigger) { t.Queue.RespTopic = "echoes" }))
	publish(t, b, shop(), "a", "good")
	publish(t, b, shop(), "a", "bad")
	publish(t, b, shop(), "a", "last")
	testkit.Eventually(t, "all is written", func() bool { return len(read(t, b, shop(), ">")) == 6 })
	publish(t, b, shop(), "a", "end")
	testkit.Eventually(t, "the end is heard", func() bool { return slices.Contains(s.data(), "end") })
	if diff := cmp.Diff([]string{"bad", "end", "good", "last"}, s.data()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What only we write is no word of a publisher: a message cannot hide from a trigger as if it were the trigger's own
// answer.
func TestSourceHearsForeignMessages(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		b.Granted = map[string][]string{"shop": {"team.zoo.orders.>"}}
		publish(t, b, zoo(), "orders.first", "the stream is there")
		s := listen(t, b, &records{}, echo, on(shop(), "all", ">"), on(shop(), "granted", "team.zoo.orders.>"))
		forged := http.Header{"Landfall-Trigger": {"/r/team/shop/granted"}}
		// As anybody writes who has the NATS server: past the broker's own Publish.
		if err := b.PublishAsIs(t.Context(), zoo(),
			landfall.Message{Topic: "orders.new", Header: forged, Data: []byte("past us")}); err != nil {
			t.Fatal(err)
		}
		own := landfall.Message{Topic: "a", Header: http.Header{"Landfall-trigger": {"/r/team/shop/all"},
			"Landfall-Error": {"x"}, "Kept": {"y"}}, Data: []byte("by us")}
		if _, err := b.Publish(t.Context(), shop(), own); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "both are heard", func() bool {
			return slices.Contains(s.data(), "past us") && slices.Contains(s.data(), "by us")
		})
		stored := read(t, b, shop(), "a")
		if diff := cmp.Diff(map[string][]string{"Kept": {"y"}}, stored[0].Header); diff != "" {
			t.Errorf("headers that were stored (-want +got)\n%s", diff)
		}
	})
}

// A trigger that cannot be followed is silent, and no other is.
func TestSourceDeaf(t *testing.T) {
	t.Parallel()
	b := embedded(t, t.TempDir())()
	s := listen(t, b, &records{}, echo, on(shop(), "wide", "no topic"),
		on(shop(), "strange", "orders", func(t *registry.Trigger) {
			t.Filters = []byte(`[{}]`)
		}),
		on(shop(), "bill", "orders"))
	publish(t, b, shop(), "orders", "1")
	testkit.Eventually(t, "it is through", func() bool { return len(s.calls()) == 1 })
	if by := s.calls()[0].trigger.Name; by != "bill" {
		t.Errorf("it was for %s", by)
	}
}

// A function that fails here has no say any more when another process was done with the message meanwhile.
func TestSourceDoneElsewhere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b, r := open(), &records{}
		var runs atomic.Int64
		s := listen(t, b, r, func(c call) (event.Event, error) {
			if c.data() == "1" && runs.Add(1) == 2 { // as if this process stood still for now
				r.settle()
			}
			return event.Event{}, &landfall.Error{Op: "test", Err: &function.Error{Reason: function.ReasonTimeout}}
		}, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Queue.MaxRetries, t.Resources.Concurrency = 1, 1 }))
		publish(t, b, shop(), "orders", "1")
		testkit.Eventually(t, "it ran twice", func() bool { return runs.Load() == 2 })
		publish(t, b, shop(), "orders", "2")
		testkit.Eventually(t, "the other one is a dead letter", func() bool {
			return len(read(t, b, shop(), "dead.bill")) > 0
		})
		if diff := cmp.Diff([]string{"2"}, bodies(read(t, b, shop(), "dead.bill"))); diff != "" || len(s.calls()) != 4 {
			t.Errorf("with %d calls the dead letters are (-want +got)\n%s", len(s.calls()), diff)
		}
	})
}

// While a NATS server does not answer, whoever wants to publish hears it, and waits for none of the triggers that try
// the same.
func TestSourceServerSilent(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	b := bounded(t, &queue.Broker{URL: "nats://" + silent.Addr().String()})
	var triggers []*registry.Trigger
	for i := range 40 {
		triggers = append(triggers, on(shop(), fmt.Sprintf("t%d", i), "orders"))
	}
	listen(t, b, &records{}, echo, triggers...)
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		for range 3 {
			_, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders"})
			if landfall.KindOf(err) != landfall.Unavailable || !strings.Contains(landfall.MessageOf(err), "LANDFALL_NATS") {
				t.Errorf("publishing: %v", err)
			}
		}
	}()
	select {
	case <-refused:
	case <-time.After(testkit.Patience):
		t.Error("publishing hangs")
	}
}

// A trigger takes messages when a NATS server comes that was not there at the start.
func TestSourceServerLate(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	publish(t, external(t, server)(), shop(), "orders", "1")
	server.Kill()
	var tried atomic.Int64
	s := listen(t, bounded(t, &queue.Broker{URL: server.Behind(func() {
		tried.Add(1)
	})}), &records{}, echo, on(shop(), "bill", "orders"))
	testkit.Eventually(t, "it tries", func() bool { return tried.Load() > 1 })
	server.Start()
	testkit.Eventually(t, "it is through", func() bool { return len(s.calls()) == 1 })
}

// A NATS server that wants another password for a while is used again when it wants the old one, without a restart.
func TestSourcePassword(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	var tried atomic.Int64
	b := bounded(t, &queue.Broker{URL: server.Behind(func() { tried.Add(1) })})
	s := listen(t, b, &records{}, echo, on(shop(), "bill", "orders"))
	publish(t, b, shop(), "orders", "1")
	testkit.Eventually(t, "it is through", func() bool { return len(s.calls()) == 1 })
	server.Kill()
	server.Demand("another")
	server.Start()
	before := tried.Load()
	testkit.Eventually(t, "three tries are refused", func() bool { return tried.Load() > before+3 })
	server.Kill()
	server.Demand("")
	server.Start()
	testkit.Eventually(t, "it takes messages", func() bool {
		_, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders", ID: "2", Data: []byte("2")})
		return err == nil
	})
	testkit.Eventually(t, "they are through", func() bool { return len(s.calls()) == 2 })
}

// What an operator deletes at the NATS server is made again: a consumer, which passes over what was done just now and
// does not run beside itself what is still running, and a stream.
func TestSourceDeleted(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b, hang := external(t, server)(), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(hang) })
	s := listen(t, b, &records{}, func(c call) (event.Event, error) {
		if c.data() == "hangs" {
			<-hang
		}
		return echo(c)
	}, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Queue.RespTopic, t.Resources.Concurrency = "done", 2 }))
	t.Cleanup(goOn)
	through := func(data string) {
		t.Helper()
		testkit.Eventually(t, data+" is through", func() bool {
			return slices.Contains(bodies(read(t, b, shop(), "done")), data)
		})
	}
	conn, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, shop(), "orders", "before")
	through("before")
	publish(t, b, shop(), "orders", "hangs")
	testkit.Eventually(t, "it hangs", func() bool { return slices.Contains(s.data(), "hangs") })
	if err := js.DeleteConsumer(t.Context(), "landfall-1", "1-bill"); err != nil {
		t.Fatal(err)
	}
	publish(t, b, shop(), "orders", "after")
	through("after")
	goOn()
	through("hangs")
	if diff := cmp.Diff([]string{"after", "before", "hangs"}, s.data()); diff != "" {
		t.Errorf("what ran (-want +got)\n%s", diff)
	}
	if err := js.DeleteStream(t.Context(), "landfall-1"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "there is a stream again", func() bool {
		_, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders", Data: []byte("anew")})
		return err == nil
	})
	through("anew")
}

// A NATS server that is killed again and again while messages come and go loses none of those that it took: each is
// answered.
func TestSourceServerKilled(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	b := external(t, server)()
	s := listen(t, b, &records{}, echo, on(shop(), "bill", "orders", func(t *registry.Trigger) {
		t.Queue.RespTopic, t.Resources.Concurrency = "done", 4
	}))
	var want []string
	for round := range 4 {
		for i := range 25 {
			data := fmt.Sprintf("%d-%d", round, i)
			if _, err := b.Publish(t.Context(), shop(),
				landfall.Message{Topic: "orders", ID: data, Data: []byte(data)}); err == nil {
				want = append(want, data)
			}
		}
		server.Kill()
		server.Start()
		testkit.Eventually(t, "it takes messages again", func() bool {
			_, _, err := b.Read(t.Context(), shop(), "orders", 0, 1)
			return err == nil
		})
	}
	if len(want) < 50 {
		t.Fatalf("it took %d only", len(want))
	}
	testkit.Eventually(t, "all are answered", func() bool {
		got := map[string]bool{}
		for _, m := range read(t, b, shop(), "done") {
			got[string(m.Data)] = true
		}
		return !slices.ContainsFunc(want, func(data string) bool { return !got[data] })
	})
	t.Logf("%d messages, %d calls", len(want), len(s.calls()))
}
