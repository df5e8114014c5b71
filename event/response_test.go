package event_test

import (
	"testing"
	"time"

	"landfall.dev/landfall/event"
)

// What an answer does not say of itself is said for it, and what it says stays.
func TestRespond(t *testing.T) {
	t.Parallel()
	request := parse(t, draftOrder)
	event.SetProtocol(&request, event.Protocol{Method: "POST", Headers: map[string][]string{"Authorization": {"mine"}}})
	at := time.Date(2018, 4, 1, 23, 12, 34, 0, time.UTC)
	own := `"event-time":"2018-04-01T23:12:34Z"`
	for name, c := range map[string]struct{ answer, want string }{
		"nothing said": {`{"specversion":"1.0","id":"8","source":"/shop","type":"order","data":{"a":1}}`,
			`"event-type":"order","event-type-version":"v2",` + own + `,"content-type":"application/json","data":{"a":1},` +
				`"extensions":{"protocol":{"headers":{"Content-Type":["application/json"]}}}}`},
		"another type": {`{"specversion":"1.0","id":"8","source":"/shop","type":"bill","datacontenttype":"text/plain",` +
			`"data":"1"}`, `"event-type":"bill",` + own + `,"content-type":"text/plain","data":"1",` +
			`"extensions":{"protocol":{"headers":{"Content-Type":["text/plain"]}}}}`},
		"bytes": {`{"specversion":"1.0","id":"8","source":"/shop","type":"order","data_base64":"/w=="}`,
			`"event-type":"order","event-type-version":"v2",` + own + `,"content-type":"application/octet-stream",` +
				`"data":"/w==","extensions":{"encoding":"base64",` +
				`"protocol":{"headers":{"Content-Type":["application/octet-stream"]}}}}`},
		"its own headers": {`{"specversion":"1.0","id":"8","source":"/shop","type":"order","eventtypeversion":"v3",` +
			`"protocol":{"status_code":201,"headers":{"X-A":["1"]}},"data":1}`,
			`"event-type":"order","event-type-version":"v3",` + own + `,"content-type":"application/json","data":1,` +
				`"extensions":{"protocol":{"status_code":201,"headers":{"X-A":["1"]}}}}`},
		"the request's protocol": {`{"specversion":"1.0","id":"8","source":"/shop","type":"order",` +
			`"protocol":{"method":"POST","headers":{"Authorization":["mine"]}}}`,
			`"event-type":"order","event-type-version":"v2",` + own + `}`},
		"its own time, and more in its protocol": {`{"specversion":"1.0","id":"8","source":"/shop","type":"order",` +
			`"time":"2001-01-01T00:00:00Z","protocol":{"note":"mine"},"data":1}`,
			`"event-type":"order","event-type-version":"v2","event-time":"2001-01-01T00:00:00Z",` +
				`"content-type":"application/json","data":1,` +
				`"extensions":{"protocol":{"headers":{"Content-Type":["application/json"]},"note":"mine"}}}`},
	} {
		answer := parse(t, c.answer)
		timed := !answer.Time().IsZero()
		event.Respond(request, &answer)
		if answer.Time().IsZero() {
			t.Errorf("%s: the answer has no time", name)
		}
		if !timed {
			answer.SetTime(at)
		}
		want := `{"cloud-events-version":"0.1","event-id":"8","source":"/shop",` + c.want
		if got := line(t, event.Draft, answer); got != want {
			t.Errorf("%s: the answer is\n%s\nwant\n%s", name, got, want)
		}
	}
}
