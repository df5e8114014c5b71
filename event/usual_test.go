package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
)

// texts are events in JSON.
func texts() []string {
	return []string{
		order,
		`{"data":{"total":1},"type":"order","source":"/shop","id":"7","specversion":"1.0"}`,
		`{"specversion":"1.0","id":"7","source":"/a?b=c#d","type":"order","subject":"s","time":"2026-11-20T15:00:00.25+01:00"}`,
		`{"specversion":"1.0","id":"7","source":"//host/a","type":"order","datacontenttype":"text/plain","data":"tab\t\u2028 \u0001<&>"}`,
		`{"specversion":"1.0","id":"7","source":"/a/./b/%2f","type":"order","datacontenttype":"application/json","data":[null]}`,
		`{"specversion":"1.0","id":"\u00e9\n","source":"/shop","type":"order","datacontenttype":"text/plain; charset=utf-8","data":"a\n\"b\" \ud83d\ude00"}`,
		`{"data":"text","datacontenttype":"text/plain","specversion":"1.0","id":"7","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"application/json","data":"a string"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","traceparent":"00-1","execution":"x","empty":""}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","number":7,"true":true}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","dataschema":"https://a/b","data_base64":"aGk="}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order"}`,
	}
}

// sdk returns an event as the CloudEvents SDK reads it.
func sdk(t *testing.T, text []byte) event.Event {
	t.Helper()
	var e event.Event
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// An event is what the CloudEvents SDK reads it as, in whatever order its members are.
func TestReadAsTheSDK(t *testing.T) {
	t.Parallel()
	for _, text := range texts() {
		if diff := cmp.Diff(sdk(t, []byte(text)), parse(t, text)); diff != "" {
			t.Errorf("%s\nis read otherwise:\n%s", text, diff)
		}
	}
}

// An event is written so that the CloudEvents SDK reads the same in it as in what it writes itself.
func TestWrittenAsByTheSDK(t *testing.T) {
	t.Parallel()
	for _, text := range texts() {
		e := sdk(t, []byte(text))
		own, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		written := line(t, event.Structured, e)
		if diff := cmp.Diff(sdk(t, own), sdk(t, []byte(written))); diff != "" {
			t.Errorf("%s\nis not %s:\n%s", written, own, diff)
		}
	}
}
