package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
)

// An event is what the CloudEvents SDK reads it as, in whatever order its members are.
func TestReadAsTheSDK(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		order,
		`{"data":{"total":1},"type":"order","source":"/shop","id":"7","specversion":"1.0"}`,
		`{"specversion":"1.0","id":"7","source":"/a?b=c#d","type":"order","subject":"s","time":"2026-11-20T15:00:00.25+01:00"}`,
		`{"specversion":"1.0","id":"\u00e9\n","source":"/shop","type":"order","datacontenttype":"text/plain; charset=utf-8","data":"a\n\"b\" \ud83d\ude00"}`,
		`{"data":"text","datacontenttype":"text/plain","specversion":"1.0","id":"7","source":"/shop","type":"order"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"application/json","data":"a string"}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","traceparent":"00-1","execution":"x","empty":""}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","number":7,"true":true}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order","dataschema":"https://a/b","data_base64":"aGk="}`,
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order"}`,
	} {
		var want event.Event
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, parse(t, text)); diff != "" {
			t.Errorf("%s\nis read otherwise:\n%s", text, diff)
		}
	}
}
