package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/test/testkit"
)

// order is an event that somebody sent.
const order = `{"specversion":"1.0","id":"7","source":"/shop","type":"order","datacontenttype":"application/json","data":{"total":1}}`

// draftOrder is the same in the shape of the document.
const draftOrder = `{"cloud-events-version":"0.1","event-id":"7","source":"/shop","event-type":"order","event-type-version":"v2","content-type":"application/json","data":{"total":1}}`

func parse(t testing.TB, text string) event.Event {
	t.Helper()
	e, _, err := event.Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return e
}

func line(t testing.TB, form event.Form, e event.Event) string {
	t.Helper()
	out, err := event.Append(nil, form, e)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What could not be answered is an event that says why and has no data, in the shape of the request.
func TestErrors(t *testing.T) {
	t.Parallel()
	for form, test := range map[event.Form]struct{ request, want string }{
		event.Structured: {order,
			`{"specversion":"1.0","id":"8","source":"/shop","type":"order","datacontenttype":"application/json","time":"2018-04-01T23:12:34Z","error":"{\"message\":\"it broke\",\"type\":\"Exception\",\"trace\":\"line 1\"}","protocol":"{\"headers\":{\"Content-Type\":[\"application/json\"]},\"status_code\":500}"}`},
		event.Draft: {draftOrder,
			`{"cloud-events-version":"0.1","event-id":"8","source":"/shop","event-type":"order","event-type-version":"v2","event-time":"2018-04-01T23:12:34Z","content-type":"application/json","error":{"message":"it broke","type":"Exception","trace":"line 1"},"extensions":{"protocol":{"headers":{"Content-Type":["application/json"]},"status_code":500}}}`},
	} {
		request := parse(t, test.request)
		answer := event.Answer(request, "8")
		answer.DataEncoded = []byte(`"what was there before"`)
		event.SetError(&answer, event.Error{Message: "it broke", Type: "Exception", Trace: "line 1"})
		event.SetProtocol(&answer, event.Protocol{Status: http.StatusInternalServerError})
		event.Respond(request, &answer)
		if since := time.Since(answer.Time()); since < 0 || since > testkit.Patience {
			t.Errorf("the error is of %v, want now", answer.Time())
		}
		answer.SetTime(time.Date(2018, 4, 1, 23, 12, 34, 0, time.UTC))
		// E-019, E-020: an error has all fields of the document, time and content type too, and the headers of its protocol
		if got := line(t, form, answer); got != test.want {
			t.Errorf("the error is\n%s\nwant\n%s", got, test.want)
		}
		// E-018: it has an error, and no data
		if len(answer.Data()) > 0 {
			t.Errorf("the error has the data %q", answer.Data())
		}
		fault, ok, err := event.ErrorOf(parse(t, test.want))
		if want := (event.Error{Message: "it broke", Type: "Exception", Trace: "line 1"}); err != nil || !ok ||
			fault != want {
			t.Errorf("ErrorOf = %+v, %t, %v; want %+v", fault, ok, err, want)
		}
	}
	if _, ok, err := event.ErrorOf(parse(t, order)); ok || err != nil {
		t.Errorf("an event without an error has one: %t, %v", ok, err)
	}
	short := parse(t, order)
	event.SetError(&short, event.Error{Message: "it broke"})
	written := line(t, event.Draft, short)
	fault, ok, err := event.ErrorOf(parse(t, written))
	// E-022: a type is optional
	if err != nil || !ok || fault.Message != "it broke" || fault.Type != "" {
		t.Errorf("an error with a message alone is %+v, %t, %v", fault, ok, err)
	}
	// E-023: so is a trace; what is not there is not written either
	if !strings.Contains(written, `"error":{"message":"it broke"}`) || fault.Trace != "" {
		t.Errorf("it is written as %s, and read with the trace %q", written, fault.Trace)
	}
	for _, text := range []string{`"error":"it broke"`, `"error":"{\"type\":\"x\"}"`, `"error":5`} {
		e := parse(t, strings.Replace(order, `"type"`, text+`,"type"`, 1))
		// E-021: a message is required
		if _, _, err := event.ErrorOf(e); landfall.KindOf(err) != landfall.Invalid ||
			!strings.HasPrefix(landfall.MessageOf(err), "error") {
			t.Errorf("%s: the error is %v, want one that names the field", text, err)
		}
	}
}

// What a trigger adds comes out as the document has it, and is taken away before the caller sees an answer.
func TestTrigger(t *testing.T) {
	t.Parallel()
	e := parse(t, draftOrder)
	config := map[string]string{"COLOUR": "red"}
	event.SetTrigger(&e, event.Trigger{FunctionURL: "https://example.com/default/hello:1", Config: config})
	event.SetConfig(&e, config)
	event.SetExecution(&e, "x1")
	// E-026, E-027, E-071: the function's address and the merged configuration stand in the extensions
	if got, want := line(t, event.Draft, e),
		`"extensions":{"config":{"COLOUR":"red"},"execution":"x1","function":"https://example.com/default/hello:1","trigger":{"function_url":"https://example.com/default/hello:1","config":{"COLOUR":"red"}}}`; !strings.Contains(got, want) {
		t.Errorf("the event is\n%s\nwant in it\n%s", got, want)
	}
	trigger, err := event.TriggerOf(e)
	if err != nil || trigger.FunctionURL != "https://example.com/default/hello:1" || trigger.Config["COLOUR"] != "red" {
		t.Errorf("TriggerOf = %+v, %v", trigger, err)
	}
	if got, err := event.ConfigOf(e); err != nil || !cmp.Equal(got, config) {
		t.Errorf("ConfigOf = %v, %v", got, err)
	}
	if got := event.ExecutionOf(e); got != "x1" {
		t.Errorf("ExecutionOf = %q", got)
	}
	event.Strip(&e)
	// E-041, E-077: nothing of it is left for the caller
	if got := line(t, event.Structured, e); strings.Contains(got, "red") || strings.Contains(got, "hello") {
		t.Errorf("an answer still has what only the function is told: %s", got)
	}
}

// An event that is of a trace stays in it, and one that is of none becomes of the trace that there is.
func TestTraceStays(t *testing.T) {
	t.Parallel()
	e := event.New()
	for _, step := range []struct{ set, want string }{{"", ""}, {"first", "first"}, {"second", "first"}} {
		event.SetTrace(&e, step.set)
		if _, has := e.Extensions()["traceparent"]; event.TraceOf(e) != step.want || has != (step.want != "") {
			t.Errorf("after %q the trace is %q (%t), want %q", step.set, event.TraceOf(e), has, step.want)
		}
	}
}

// Every form of an answer is read back as the same event.
func TestAnswers(t *testing.T) {
	t.Parallel()
	e := parse(t, strings.Replace(order, `"type"`, `"note":"caf\u00e9, 100 %\n","type"`, 1))
	for form, contentType := range map[event.Form]string{
		event.Structured: "application/cloudevents+json", event.Binary: "application/json",
		event.Batch: "application/cloudevents-batch+json", event.Draft: "application/cloudevents+json",
	} {
		w := httptest.NewRecorder()
		if err := event.Write(w, http.StatusAccepted, form, e); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusAccepted || got != contentType {
			t.Errorf("form %d: %d %s, want 202 %s", form, w.Code, got, contentType)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/run", bytes.NewReader(w.Body.Bytes()))
		r.Header = w.Header()
		events, got, err := event.Read(r, event.Limits{})
		// E-002, E-003: one event in every form, and every form is answered in kind
		if err != nil || len(events) != 1 || got != form {
			t.Fatalf("form %d: read back as form %d, %d events, %v", form, got, len(events), err)
		}
		if diff := cmp.Diff(line(t, event.Structured, e), line(t, event.Structured, events[0])); diff != "" {
			t.Errorf("form %d: it changed (-want +got):\n%s", form, diff)
		}
	}
}

// An error is never put into headers, which are too small for a trace.
func TestErrorIsNoHeader(t *testing.T) {
	t.Parallel()
	answer := event.Answer(parse(t, order), "8")
	event.SetError(&answer, event.Error{Message: "it broke"})
	w := httptest.NewRecorder()
	if err := event.Write(w, http.StatusBadGateway, event.Binary, answer); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Body.String(), "it broke") || w.Code != http.StatusBadGateway {
		t.Errorf("the answer is %d %s", w.Code, w.Body)
	}
}

// What is larger than a limit is refused by the limit's name, without reading on.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		contentType, body string
		limits            event.Limits
		limit             string
		declared          bool
	}{
		"declared": {"application/cloudevents+json", order, event.Limits{Bytes: 50}, "event bytes", true},
		"streamed": {"application/cloudevents+json", order, event.Limits{Bytes: 50}, "event bytes", false},
		"in batch": {"application/cloudevents-batch+json", "[" + order + "," + order + "]", event.Limits{Events: 1},
			"events in a batch", true}, "unlimited": {"application/cloudevents+json", order, event.Limits{}, "", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/run", strings.NewReader(test.body))
		r.Header.Set("Content-Type", test.contentType)
		if !test.declared {
			r.ContentLength = -1
		}
		_, _, err := event.Read(r, test.limits)
		large, ok := errors.AsType[*event.TooLargeError](err)
		// N-022: what is too large is told apart, with the limit's name
		if ok != (test.limit != "") || (ok && (large.Limit != test.limit ||
			!strings.Contains(landfall.MessageOf(err), test.limit) || landfall.KindOf(err) != landfall.Invalid)) {
			t.Errorf("%s: the error is %v, want limit %q", name, err, test.limit)
		}
	}
}

// An event has as many attributes as somebody means, in every form: each costs a hundred times its bytes.
func TestTooManyAttributes(t *testing.T) {
	t.Parallel()
	const most = 128
	for name, write := range map[string]func(n int) *http.Request{
		"structured": func(n int) *http.Request {
			return posted(t, strings.TrimSuffix(order, "}")+","+attributes(n)+"}")
		},
		"0.1": func(n int) *http.Request {
			return posted(t, `{"cloud-events-version":"0.1","event-id":"1","source":"s","event-type":"t","extensions":{`+
				attributes(n)+"}}")
		},
		"binary": func(n int) *http.Request {
			r := posted(t, "")
			r.Header = http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"s"}, "Ce-Type": {"t"}}
			for i := range n {
				r.Header.Set(fmt.Sprintf("Ce-X%d", i), "1")
			}
			return r
		},
	} {
		events, _, err := event.Read(write(most), event.Limits{})
		if err != nil || len(events) != 1 {
			t.Errorf("%s: %d attributes are refused: %v", name, most, err)
		}
		_, _, err = event.Read(write(50_000), event.Limits{})
		if large, ok := errors.AsType[*event.TooLargeError](err); !ok || large.Limit != "attributes of one event" {
			t.Errorf("%s: the error for very many attributes is %v", name, err)
		}
	}
	e, _, err := event.Parse([]byte(strings.TrimSuffix(order, "}") + "," + attributes(most) + "}"))
	if err != nil {
		t.Fatal(err)
	}
	event.SetExecution(&e, "x")
	event.SetTrigger(&e, event.Trigger{FunctionURL: "/f", Config: map[string]string{"a": "b"}})
	text, err := event.Append(nil, event.Structured, e)
	if err == nil {
		_, _, err = event.Parse(text)
	}
	if err != nil {
		t.Errorf("what a trigger adds is too much: %v", err)
	}
}

func posted(t *testing.T, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/run", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	return r
}

// attributes returns so many members of a JSON object.
func attributes(n int) string {
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, fmt.Sprintf(`"x%d":"1"`, i))
	}
	return strings.Join(all, ",")
}

// An event on one line is one line, whatever is in it: nobody can put a second event into somebody's stream.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		order, draftOrder, "{}", "[]", `{"specversion":"1.0","data_base64":5}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"\n"}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"t","datacontenttype":"x/y+json","data":{"a":` + "\n" + `1}}`,
		strings.Replace(draftOrder, "application/json", "AppliCAtion/json", 1),
		`{"cloud-events-version":"0.1","event-id":"1","source":"s","event-type":"t","extensions":{"a":[1,{}],"protocol":{}},"data":[]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, form, err := event.Parse(data)
		if err != nil {
			if landfall.KindOf(err) != landfall.Invalid || landfall.MessageOf(err) == "" {
				t.Fatalf("the error is %v with message %q, want invalid with a reason", err, landfall.MessageOf(err))
			}
			return
		}
		for _, shape := range []event.Form{event.Structured, event.Draft} {
			out := line(t, shape, e)
			if strings.ContainsAny(out, "\n\r") {
				t.Fatalf("it is not one line: %q", out)
			}
			again, got, err := event.Parse([]byte(out))
			if err != nil || got != shape {
				t.Fatalf("what was written is not read: %q: %v", out, err)
			}
			if shape == form && again.ID() != e.ID() ||
				!bytes.Equal(again.Data(), e.Data()) && !again.DataBase64 && !e.DataBase64 && e.DataContentType() == "text/plain" {
				t.Fatalf("it changed: %q", out)
			}
		}
	})
}

// A request can be anything.
func FuzzRead(f *testing.F) {
	f.Add("application/json", "Ce-Id", "1", []byte("{}"))
	f.Add("application/cloudevents+json", "Ce-", "x", []byte(order))
	f.Add("application/cloudevents-batch+json", "Ce-A-B", "%", []byte("["+order+"]"))
	f.Add("a/b+json", "Ce-Time", "%E9", []byte("\xff\n"))
	f.Fuzz(func(t *testing.T, contentType, name, value string, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/run", bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {contentType}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"},
			"Ce-Type": {"t"}}
		r.Header.Add(name, value)
		events, form, err := event.Read(r, event.Limits{})
		if err != nil {
			if landfall.KindOf(err) != landfall.Invalid || landfall.MessageOf(err) == "" {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		for _, e := range events {
			if out := line(t, event.Structured, e); strings.ContainsAny(out, "\n\r") {
				t.Fatalf("it is not one line: %q", out)
			}
		}
		if err := event.Write(httptest.NewRecorder(), http.StatusOK, form, events...); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkParseAndAppend(b *testing.B) {
	text := []byte(strings.Replace(order, `{"total":1}`, `{"text":"`+strings.Repeat("x", 1000)+`"}`, 1))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		e, form, err := event.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if out, err = event.Append(out[:0], form, e); err != nil {
			b.Fatal(err)
		}
	}
}
