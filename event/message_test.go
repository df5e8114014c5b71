package event_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

// An event that is written to a queue and read again is the same.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		order, filtered,
		`{"specversion":"1.0","id":"ä 1","source":"/shop","type":"order","subject":"50 % \"off\"","datacontenttype":"text/plain","data":"hi"}`,
		`{"specversion":"1.0","id":"1","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","id":"1","source":"/shop","type":"order","datacontenttype":"application/octet-stream","data_base64":"/wA="}`,
		`{"specversion":"1.0","id":"8","source":"/shop","type":"order","error":"{\"message\":\"it broke\"}"}`,
	} {
		want := parse(t, text)
		if want.Extensions()["priority"] != nil {
			want.SetExtension("priority", "3") // headers have no types
			want.SetExtension("urgent", "true")
		}
		m, err := event.WriteMessage(want)
		if err != nil {
			t.Fatal(err)
		}
		got, is, err := event.ReadMessage(m)
		if err != nil || !is {
			t.Fatalf("%s: read %t, %v", text, is, err)
		}
		if diff := cmp.Diff(line(t, event.Structured, want), line(t, event.Structured, got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
}

// What others write to queues is read, whatever they think of the case of headers and the place of the content type.
func TestReadMessage(t *testing.T) {
	t.Parallel()
	binary := map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/me"}, "ce-type": {"t"}}
	with := func(more ...string) map[string][]string {
		headers := maps.Clone(binary)
		for i := 0; i+1 < len(more); i += 2 {
			headers[more[i]] = []string{more[i+1]}
		}
		return headers
	}
	for name, test := range map[string]struct {
		message event.Message
		is      bool
		kind    landfall.Kind
	}{
		"no event": {event.Message{Body: []byte(order)}, false, 0},
		"another content type": {event.Message{Header: map[string][]string{"Content-Type": {"application/json"}},
			Body: []byte(order)}, false, 0},
		"structured": {event.Message{Header: map[string][]string{
			"content-type": {"application/cloudevents+json; charset=utf-8"}}, Body: []byte(order)}, true, 0},
		"structured by its prefix": {event.Message{Header: map[string][]string{"Content-Type": {"application/cloudevents"}},
			Body: []byte(order)}, true, 0},
		"another format": {event.Message{
			Header: map[string][]string{"Content-Type": {"application/cloudevents+avro"}}}, true, landfall.Invalid},
		"a batch": {event.Message{Header: map[string][]string{
			"Content-Type": {"application/cloudevents-batch+json"}}, Body: []byte(`[]`)}, true, landfall.Invalid},
		"binary": {event.Message{Header: binary, Body: []byte(`{}`)}, true, 0},
		"binary with its type": {event.Message{Header: with("ce-datacontenttype", "text/plain"), Body: []byte(`x`)}, true,
			0},
		"binary with a wrong time": {event.Message{Header: with("ce-time", "noon")}, true, landfall.Invalid},
		"structured nonsense": {event.Message{Header: map[string][]string{
			"Content-Type": {"application/cloudevents+json"}}, Body: []byte(`x`)}, true, landfall.Invalid},
	} {
		_, is, err := event.ReadMessage(test.message)
		if is != test.is || (err != nil) != (test.kind != 0) || err != nil && landfall.KindOf(err) != test.kind {
			t.Errorf("%s: got %t, %v, want %t and kind %v", name, is, err, test.is, test.kind)
		}
	}
}
