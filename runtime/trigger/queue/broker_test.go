package queue_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/trigger/queue"
)

// What is published can be read, in order, by topic, and by nobody but its app.
func TestPublishAndRead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		publish(t, b, shop(), "orders.new", "1", "Content-Type", "text/plain")
		publish(t, b, zoo(), "orders.new", "of the zoo")
		publish(t, b, shop(), "orders.paid", "2")
		last := publish(t, b, shop(), "orders.new", "3")
		for pattern, want := range map[string][]string{
			"orders.new": {"1", "3"}, "orders.*": {"1", "2", "3"}, ">": {"1", "2", "3"}, "orders.old": nil,
		} {
			if diff := cmp.Diff(want, bodies(read(t, b, shop(), pattern))); diff != "" {
				t.Errorf("%s (-want +got)\n%s", pattern, diff)
			}
		}
		first := read(t, b, shop(), "orders.new")[0]
		if first.Topic != "orders.new" || first.Sequence != 1 || first.Time.IsZero() ||
			first.Header["Content-Type"][0] != "text/plain" {
			t.Errorf("got %+v", first)
		}
		page, more, err := b.Read(t.Context(), shop(), ">", first.Sequence, 1)
		if err != nil || len(page) != 1 || string(page[0].Data) != "2" || !more {
			t.Errorf("the second page of one is %v, %v", page, err)
		}
		b.Close()
		again := read(t, open(), shop(), "orders.new")
		if diff := cmp.Diff([]string{"1", "3"}, bodies(again)); diff != "" || again[1].Sequence != last.Sequence {
			t.Errorf("after a restart (-want +got)\n%s", diff)
		}
	})
}

// A repeat is stored once.
func TestPublishRepeat(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		var got []landfall.Message
		for range 2 {
			m, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders", ID: "7", Data: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m)
		}
		if got[0].Duplicate || !got[1].Duplicate || got[0].Sequence != got[1].Sequence {
			t.Errorf("got %+v", got)
		}
		if all := read(t, b, shop(), "orders"); len(all) != 1 || all[0].ID != "7" {
			t.Errorf("there is %v", all)
		}
	})
}

// What cannot be stored is refused, and says why.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		for _, topic := range []string{"", "a..b", "orders.*", ">", "$JS.API.STREAM.LIST", "or ders"} {
			if _, err := b.Publish(t.Context(), shop(),
				landfall.Message{Topic: topic}); landfall.KindOf(err) != landfall.Invalid {
				t.Errorf("publishing at %q: got %v, want invalid", topic, err)
			}
		}
		if _, err := b.Publish(t.Context(), shop(),
			landfall.Message{Topic: "big", Data: make([]byte, queue.MaxMessage+1)}); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("publishing too much: got %v, want invalid", err)
		}
		nonsense := landfall.Message{Topic: "events",
			Header: map[string][]string{"Content-Type": {"application/cloudevents+json"}}, Data: []byte("{}")}
		if _, err := b.Publish(t.Context(), shop(), nonsense); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("publishing what is no event: got %v, want invalid", err)
		}
		b = open()
		b.Bytes = 10_000
		stored := 0
		var err error
		for ; err == nil && stored < 100; stored++ {
			_, err = b.Publish(t.Context(), shop(), landfall.Message{Topic: "many", Data: make([]byte, 1000)})
		}
		if landfall.KindOf(err) != landfall.Unavailable ||
			!strings.Contains(landfall.MessageOf(err), "LANDFALL_QUEUE_BYTES") || stored < 5 {
			t.Errorf("after %d messages: %v, want that the queue is full", stored, err)
		}
		publish(t, b, zoo(), "many", "has room")
	})
}

// What is damaged is named, and what is not works.
func TestDamage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	b := embedded(t, folder)()
	publish(t, b, shop(), "orders", "1")
	publish(t, b, zoo(), "orders", "2")
	b.Close()
	damaged := filepath.Join(folder, "jetstream", "$G", "streams", "landfall-1")
	if err := os.WriteFile(filepath.Join(damaged, "meta.inf"), []byte("{nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	b = embedded(t, folder)()
	_, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders"})
	if landfall.KindOf(err) != landfall.Unavailable || !strings.Contains(landfall.MessageOf(err), damaged) {
		t.Errorf("publishing: got %v, want one that names %s", err, damaged)
	}
	if diff := cmp.Diff([]string{"2"}, bodies(read(t, b, zoo(), "orders"))); diff != "" {
		t.Errorf("of the other app (-want +got)\n%s", diff)
	}
	b.Close()
	if err := os.Rename(damaged, filepath.Join(folder, "moved")); err != nil {
		t.Fatal(err)
	}
	publish(t, embedded(t, folder)(), shop(), "orders", "3")
}

// The messages of deleted apps go, and nothing is started to find that there are none.
func TestRemove(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		publish(t, b, shop(), "orders", "1")
		publish(t, b, zoo(), "orders", "2")
		if err := b.Remove(t.Context(), []string{"1", "3"}); err != nil {
			t.Fatal(err)
		}
		if got := bodies(read(t, b, shop(), ">")); len(got) != 0 {
			t.Errorf("of the deleted app there is %q", got)
		}
		if got := bodies(read(t, b, zoo(), ">")); len(got) != 1 {
			t.Errorf("of the other app there is %q", got)
		}
	})
	folder := filepath.Join(t.TempDir(), "nats")
	if err := embedded(t, folder)().Remove(t.Context(), []string{"1"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for messages made a folder (%v)", err)
	}
}

// An administrator grants an app what lies elsewhere; without it the same words name something of its own.
func TestGranted(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, open engine) {
		b := open()
		publish(t, b, zoo(), "orders.new", "of the zoo")
		if got := read(t, b, shop(), "team.zoo.orders.>"); len(got) != 0 {
			t.Errorf("without a grant: got %v", got)
		}
		publish(t, b, shop(), "team.zoo.orders.new", "of the shop")
		b.Close()
		b = open()
		b.Granted = map[string][]string{"shop": {"team.zoo.orders.>"}}
		if diff := cmp.Diff([]string{"of the zoo"}, bodies(read(t, b, shop(), "team.zoo.orders.>"))); diff != "" {
			t.Errorf("with a grant (-want +got)\n%s", diff)
		}
		publish(t, b, shop(), "team.zoo.orders.new", "from the shop")
		if diff := cmp.Diff([]string{"of the zoo", "from the shop"}, bodies(read(t, b, zoo(), ">"))); diff != "" {
			t.Errorf("after writing there (-want +got)\n%s", diff)
		}
	})
}

// A server that does not answer is said, and works once it does.
func TestServerDown(t *testing.T) {
	t.Parallel()
	b := bounded(t, &queue.Broker{URL: "nats://127.0.0.1:1"})
	_, err := b.Publish(t.Context(), shop(), landfall.Message{Topic: "orders"})
	if landfall.KindOf(err) != landfall.Unavailable || !strings.Contains(landfall.MessageOf(err), "LANDFALL_NATS") {
		t.Errorf("got %v", err)
	}
}
