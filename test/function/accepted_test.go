package function_test

import (
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Who gives an event to triggers need not wait for their functions: what was live then answers, with the configuration
// that it had, also after another push and a kill, and the answer is read later.
func TestEventsAccepted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	g := newGate(t)
	slow := "import json, os, time\n\ndef main(event):\n" + g.wait() +
		"    return 'one ' + json.loads(event['config'])['currency'] + ' ' + event['subject']\n"
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop", "config: {currency: EUR}"),
		"site/index.html", "page", "hello/hello.py", slow)
	first := s.Pushed(r, "shop", "A function")
	const event = `{"specversion":"1.0","id":"7","source":"/r/default/shop/hello","type":"greet","subject":"s1"}`
	accept := func(door string) landfall.Execution {
		t.Helper()
		answer := s.Post(s.URL+door, "application/cloudevents+json", event, "Prefer", "respond-async")
		testkit.Equal(t, "status at "+door, answer.Status, http.StatusAccepted)
		testkit.Equal(t, "preference at "+door, answer.Header.Get("Preference-Applied"), "respond-async")
		x := testkit.Decode[landfall.Execution](t, []byte(answer.Body))
		testkit.Equal(t, "location", answer.Header.Get("Location"), "/api/v1/executions/"+x.ID)
		testkit.Equal(t, "execution in the headers", answer.Header.Get("Landfall-Execution"), x.ID)
		testkit.Equal(t, "release in the headers", answer.Header.Get("Landfall-Release"), string(x.Release))
		testkit.Equal(t, "trigger", x.Trigger, "hello")
		return x
	}
	ended := func(x landfall.Execution) landfall.Execution {
		t.Helper()
		s.Eventually("it is over", func() bool {
			s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State.Final()
		})
		testkit.Equal(t, "state", string(x.State)+x.Message, string(landfall.ExecutionSucceeded))
		return x
	}

	run, fired := accept("/run"), accept("/fire")
	for _, x := range []landfall.Execution{run, fired} {
		s.Eventually("it runs", func() bool {
			s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
			return x.State == landfall.ExecutionRunning
		})
	}
	r.Write("hello/hello.py", strings.Replace(slow, "one", "two", 1), "specs/app.yaml",
		site.AppSpec("shop", "config: {currency: USD}"))
	second := s.Pushed(r, "shop", "Another version")
	s.Kill()
	g.open(t)
	for _, x := range []landfall.Execution{ended(run), ended(fired)} {
		testkit.Equal(t, "release", x.Release, first)
		testkit.Equal(t, "number of the version", x.Number, 1)
		testkit.Contains(t, site.Told{string(x.Result)}, `"data":"one EUR s1"`)
		testkit.Contains(t, site.Told{s.Landfall("execution", "show", x.ID)}, "one EUR s1")
	}
	last := ended(accept("/fire"))
	testkit.Equal(t, "release of what is accepted now", last.Release, second)
	testkit.Contains(t, site.Told{string(last.Result)}, `"data":"two USD s1"`)

	// An event for nobody, and one that cannot be read, are not accepted.
	nobody := s.Post(s.URL+"/run", "application/cloudevents+json", strings.Replace(event, "shop/hello", "shop/nobody", 1),
		"Prefer", "respond-async")
	testkit.Equal(t, "status of an event for nobody", nobody.Status, http.StatusNotFound)
	unlike := s.Post(s.URL+"/fire", "application/cloudevents+json", `{"specversion":"1.0"}`, "Prefer", "respond-async")
	testkit.Equal(t, "status of no event", unlike.Status, http.StatusBadRequest)
	// Of several events the sender waits for all answers.
	many := s.Post(s.URL+"/run", "application/cloudevents-batch+json", "["+event+"]", "Prefer", "respond-async")
	testkit.Equal(t, "status of a batch", many.Status, http.StatusOK)
	testkit.Contains(t, site.Told{many.Body}, "two USD s1")
}
