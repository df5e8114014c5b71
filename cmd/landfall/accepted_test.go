package main

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// Who gives an event to triggers need not wait for their functions: what was live then answers, with the configuration that it had,
// also after another push and a kill, and the answer is read later.
func TestEventsAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	g := newGate(t)
	slow := "import json, os, time\n\ndef main(event):\n" + g.wait() +
		"    return 'one ' + json.loads(event['config'])['currency'] + ' ' + event['subject']\n"
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop", "config: {currency: EUR}"),
		"site/index.html", "page", "hello/hello.py", slow)
	first := s.pushed(r, "shop", "A function")
	const event = `{"specversion":"1.0","id":"7","source":"/r/default/shop/hello","type":"greet","subject":"s1"}`
	accept := func(door string) landfall.Execution {
		t.Helper()
		answer := s.post(s.URL+door, "application/cloudevents+json", event, "Prefer", "respond-async")
		wantEqual(t, "status at "+door, answer.status, http.StatusAccepted)
		wantEqual(t, "preference at "+door, answer.header.Get("Preference-Applied"), "respond-async")
		x := decode[landfall.Execution](t, []byte(answer.body))
		wantEqual(t, "location", answer.header.Get("Location"), "/api/v1/executions/"+x.ID)
		wantEqual(t, "execution in the headers", answer.header.Get("Landfall-Execution"), x.ID)
		wantEqual(t, "release in the headers", answer.header.Get("Landfall-Release"), string(x.Release))
		wantEqual(t, "trigger", x.Trigger, "hello")
		return x
	}
	ended := func(x landfall.Execution) landfall.Execution {
		t.Helper()
		s.eventually("it is over", func() bool {
			s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State.Final()
		})
		wantEqual(t, "state", string(x.State)+x.Message, string(landfall.ExecutionSucceeded))
		return x
	}

	run, fired := accept("/run"), accept("/fire")
	for _, x := range []landfall.Execution{run, fired} {
		s.eventually("it runs", func() bool {
			s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State == landfall.ExecutionRunning
		})
	}
	r.write("hello/hello.py", strings.Replace(slow, "one", "two", 1), "specs/app.yaml", appSpec("shop", "config: {currency: USD}"))
	second := s.pushed(r, "shop", "Another version")
	s.kill()
	g.open(t)
	for _, x := range []landfall.Execution{ended(run), ended(fired)} {
		wantEqual(t, "release", x.Release, first)
		wantEqual(t, "number of the version", x.Number, 1)
		wantText(t, told{string(x.Result)}, `"data":"one EUR s1"`)
		wantText(t, told{s.landfall("execution", "show", x.ID)}, "one EUR s1")
	}
	last := ended(accept("/fire"))
	wantEqual(t, "release of what is accepted now", last.Release, second)
	wantText(t, told{string(last.Result)}, `"data":"two USD s1"`)

	// An event for nobody, and one that cannot be read, are not accepted.
	nobody := s.post(s.URL+"/run", "application/cloudevents+json", strings.Replace(event, "shop/hello", "shop/nobody", 1), "Prefer", "respond-async")
	wantEqual(t, "status of an event for nobody", nobody.status, http.StatusNotFound)
	unlike := s.post(s.URL+"/fire", "application/cloudevents+json", `{"specversion":"1.0"}`, "Prefer", "respond-async")
	wantEqual(t, "status of no event", unlike.status, http.StatusBadRequest)
	// Of several events the sender waits for all answers.
	many := s.post(s.URL+"/run", "application/cloudevents-batch+json", "["+event+"]", "Prefer", "respond-async")
	wantEqual(t, "status of a batch", many.status, http.StatusOK)
	wantText(t, told{many.body}, "two USD s1")
}
