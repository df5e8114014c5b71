package function_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// greeting is a function that logs its configuration's length and who it greets, and fails when there is nobody.
const greeting = `import os, sys, time

def main(event):
    time.sleep(event['data'].get('seconds', 0))
    print('greeting\x1b[31m', event['data']['name'], file=sys.stderr)
    if not event['data']['name']:
        raise ValueError('nobody is there')
    return 'Hello, ' + event['data']['name']
`

// A person sees what became of each call, and what it logged.
func TestExecutions(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", strings.Replace(site.FunctionsSpec("python-env", "hello hello.main"),
		"  package: {packageref", "  retries: 1\n  package: {packageref", 1),
		"specs/app.yaml", site.AppSpec("shop", "config: {password: hunter2}"), "site/index.html", "page",
		"hello/hello.py", greeting)
	s.Pushed(r, "shop", "A function")

	answer := s.Post(s.URL+"/functions/default/hello:1", "application/cloudevents+json",
		`{"specversion":"1.0","id":"7","source":"/me","type":"greet","datacontenttype":"application/json","data":{"name":"Ada"}}`)
	testkit.Equal(t, "status", answer.Status, http.StatusOK)
	id := answer.Header.Get("Landfall-Execution")
	x := testkit.Decode[landfall.Execution](t, []byte(s.Landfall("execution", "show", id, "-o", "json")))
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "number of the version", x.Number, 1)
	testkit.Equal(t, "event", x.Event, landfall.ExecutionEvent{Source: "/me", Type: "greet", ID: "7"})
	testkit.Equal(t, "app", x.App, "shop")

	visitor := s.Get(s.At("shop", "/api/hello"))
	visited := testkit.Decode[landfall.Execution](t,
		[]byte(s.Landfall("execution", "show", visitor.Header.Get("Landfall-Execution"), "-o", "json")))
	testkit.Equal(t, "release that a visitor called", string(visited.Release), visitor.Header.Get("Landfall-Release"))
	testkit.Equal(t, "trigger", visited.Trigger, "hello")
	testkit.Equal(t, "source", visited.Event.Source, "/r/default/shop/hello")

	// E-042: the log is fetched apart from the answer, with what a terminal would obey made visible
	testkit.Equal(t, "log", s.Landfall("execution", "logs", id), `greeting Ada`+"\n")
	// E-042: and at /log, as text
	log := s.ReadAs(s.URL + "/log?execution=" + id)
	testkit.Equal(t, "text at /log", log.Body, "greeting\x1b[31m Ada\n")
	testkit.Equal(t, "policy of /log", log.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
	testkit.Equal(t, "status of /log for a stranger", s.Get(s.URL+"/log?execution="+id).Status, http.StatusUnauthorized)

	// What logs show of an id is enough to ask for the execution.
	shown := s.Landfall("function", "logs", "hello:1")
	testkit.Contains(t, site.Told{shown}, "  "+id[:8]+"  ")
	testkit.Equal(t, "execution by what the log shows",
		testkit.Decode[landfall.Execution](t, []byte(s.Landfall("execution", "show", id[:8], "-o", "json"))).ID, id)
	testkit.Equal(t, "its log", s.Landfall("execution", "logs", id[:8]), `greeting Ada`+"\n")
	for _, wrong := range []string{id[:7], "00000000", id[:8] + "%"} {
		out, code := s.Run(t.TempDir(), "execution", "show", wrong)
		testkit.Equal(t, "exit code of "+wrong, code, 3)
		testkit.Contains(t, site.Told{out}, "there is no execution "+wrong)
	}

	// Whoever waits for a function waits as long as it runs.
	slow := rest(s, http.MethodPost, "/executions", `{"function": "hello", "input": {"name": "Ada", "seconds": 6}}`,
		"Idempotency-Key", "slow")
	testkit.Equal(t, "status of a call that takes longer than a body may: "+slow.Body, slow.Status, http.StatusCreated)
	testkit.Contains(t, site.Told{slow.Body}, `"state":"succeeded"`)

	// E-052: a call is created by the API
	made, code := s.Run(t.TempDir(), "execution", "create", "hello", "--data", `{"name": ""}`, "-o", "json")
	testkit.Equal(t, "exit code of a failure", code, 1)
	made, _, _ = strings.Cut(made, "landfall: ")
	failed := testkit.Decode[landfall.Execution](t, []byte(made))
	testkit.Equal(t, "state of a failure", failed.State, landfall.ExecutionFailed)
	testkit.Equal(t, "reason", failed.Reason, "ValueError")
	testkit.Equal(t, "message", failed.Message, "nobody is there")

	// It was tried again as its function says, and is a dead letter now, which can be sent again.
	testkit.Equal(t, "attempts", failed.Attempt, 2)
	testkit.Contains(t, site.Told{s.Landfall("execution", "list", "--dead")}, "ATTEMPTS", failed.ID, "nobody is there")
	testkit.Contains(t, site.Told{s.Landfall("execution", "retry", failed.ID)}, "sent again") // it may run already
	s.Eventually("a dead letter again", func() bool {
		var again landfall.Execution
		s.Call(http.MethodGet, "/executions/"+failed.ID, nil, &again)
		return again.Dead && again.Attempt == 4
	})
	told, code := s.Run(t.TempDir(), "execution", "retry", id)
	testkit.Equal(t, "exit code of one that is no dead letter", code, 4)
	testkit.Contains(t, site.Told{told}, "is succeeded; only a dead letter can be sent again")

	// C-014, C-027: without a number, and with 0, it is the latest
	r.Write("hello/hello.py", strings.Replace(greeting, "Hello", "Ahoy", 1))
	s.Pushed(r, "shop", "Another version")
	var latest, first landfall.Execution
	s.Call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 0,
		"input": map[string]string{"name": "Ada"}}, &latest)
	testkit.Equal(t, "version of 0", latest.Number, 2)
	testkit.Contains(t, site.Told{string(latest.Result)}, "Ahoy, Ada")
	// C-027: with a number, it is that one
	s.Call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 1,
		"input": map[string]string{"name": "Ada"}}, &first)
	testkit.Contains(t, site.Told{string(first.Result)}, "Hello, Ada")
	// C-027: with a number that no version has, it is not found
	site.WantRefused(t, s.Refused(http.MethodPost, "/executions", map[string]any{"function": "hello",
		"function_version": 9}), landfall.NotFound, `function hello has no version "9"`)

	list := s.Landfall("execution", "list", "--function", "hello", "--state", "failed")
	// E-052: calls are listed
	testkit.Contains(t, site.Told{list}, "EXECUTION", failed.ID, "ValueError")
	testkit.Equal(t, "lines of failures", strings.Count(list, "\n"), 3) // the heading, and the visitor's

	// L-037: logs are kept by version
	testkit.Equal(t, "lines of the first version",
		strings.Count(s.Landfall("function", "logs", "hello:1"), `greeting `), 7) // each attempt has its own
	testkit.Equal(t, "lines of the latest", strings.Count(s.Landfall("function", "logs", "hello"), `greeting `), 1)

	s.Landfall("execution", "delete", id)
	// E-053: a log is deleted, with its call
	testkit.Equal(t, "status of the log that was deleted", s.ReadAs(s.URL+"/log?execution="+id).Status,
		http.StatusNotFound)

	// E-041: neither configuration nor what functions log is in the server's own log
	testkit.Equal(t, "lines of the server's log about it",
		strings.Count(s.Log.String(), "hunter2")+strings.Count(s.Log.String(), "greeting"), 0)
}

// The newest records of a version are kept, as many as the administrator wants, and not for longer than that. What was
// called is counted by version, whatever is kept.
func TestExecutionsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_MAX_EXECUTIONS=3")
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py",
		"def main():\n    print('said')\n    return 'hello'\n")
	s.Pushed(r, "shop", "A function")
	var newest []string
	var version string
	for range 6 {
		answer := s.Get(s.At("shop", "/api/hello"))
		testkit.Equal(t, "answer", answer.Body, "hello")
		newest, version = append(newest, answer.Header.Get("Landfall-Execution")), answer.Header.Get("Landfall-Version")
	}
	kept := func() (ids []string) {
		for _, x := range site.List[landfall.Execution](s, "/executions?function=hello") {
			ids = append([]string{x.ID}, ids...)
		}
		return ids
	}
	s.Eventually("the newest three are kept", func() bool { return slices.Equal(kept(), newest[3:]) })
	testkit.Equal(t, "logs that are kept", strings.Count(s.Landfall("function", "logs", "hello:1"), "said"), 3)
	labels := `{function="hello",namespace="default",outcome="succeeded",version="` + version + `"} 6`
	testkit.Contains(t, site.Told{s.ReadAs(s.URL + "/metrics").Body}, "landfall_function_calls_total"+labels)
	s.Stop()
	s.Start("LANDFALL_KEEP_EXECUTIONS=1ms")
	s.Eventually("none is kept", func() bool { return len(kept()) == 0 })
}

// gate is a file that functions outside the sandbox wait for.
type gate string

func newGate(t *testing.T) gate {
	t.Helper()
	return gate(filepath.Join(t.TempDir(), "open"))
}

// wait is the line of Python that waits for it.
func (g gate) wait() string {
	return fmt.Sprintf("    while not os.path.exists(%q): time.sleep(0.01)\n", string(g))
}

func (g gate) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whoever does not want to wait is answered at once, and the version that was asked for then answers, whatever happens
// meanwhile.
func TestExecutionAccepted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	g := newGate(t)
	slow := "import os, time\n\ndef main(event):\n" + g.wait() + "    return 'one'\n"
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", slow)
	s.Pushed(r, "shop", "A function")
	accepted := s.Post(s.URL+"/functions/default/hello:latest", "application/cloudevents+json",
		`{"specversion":"1.0","id":"7","source":"/me","type":"greet"}`, "Prefer", "respond-async")
	testkit.Equal(t, "status", accepted.Status, http.StatusAccepted)
	testkit.Equal(t, "preference", accepted.Header.Get("Preference-Applied"), "respond-async")
	x := testkit.Decode[landfall.Execution](t, []byte(accepted.Body))
	testkit.Equal(t, "location", accepted.Header.Get("Location"), "/api/v1/executions/"+x.ID)

	s.Eventually("it runs", func() bool {
		s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
		return x.State == landfall.ExecutionRunning
	})
	_, code := s.Run(t.TempDir(), "execution", "delete", x.ID)
	testkit.Equal(t, "exit code of deleting one that runs", code, 4)
	s.Kill()
	r.Write("hello/hello.py", strings.Replace(slow, "one", "two", 1))
	s.Pushed(r, "shop", "Another version")
	g.open(t)
	s.Eventually("it is over", func() bool {
		s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
		return x.State.Final()
	})
	testkit.Equal(t, "state", x.State, landfall.ExecutionSucceeded)
	testkit.Equal(t, "number of the version", x.Number, 1)
	testkit.Equal(t, "attempts", x.Attempt, 2)
	testkit.Contains(t, site.Told{string(x.Result)}, `"data":"one"`)
}

// One token does not wait for more than a bound: others can, and it can again when something of it is over. What is
// refused did not begin.
func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main(event): return 'one'\n")
	s.Pushed(r, "shop", "A function")
	const most = 100
	c := http.Client{Transport: client.LocalTransport()}
	follow := func() (status int, leave context.CancelFunc) {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/functions/hello/log", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.Token)
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.StatusCode, leave
	}
	_, leave := follow()
	for range most - 1 {
		status, end := follow()
		t.Cleanup(end)
		testkit.Equal(t, "status", status, http.StatusOK)
	}
	refused := s.Post(s.URL+"/api/v1/executions", "application/json", `{"function":"hello"}`)
	testkit.Equal(t, "status of one that is too many", refused.Status, http.StatusServiceUnavailable)
	testkit.Equal(t, "when to try again", refused.Header.Get("Retry-After"), "1")
	testkit.Contains(t, site.Told{refused.Body}, "100 requests of the token")
	testkit.Equal(t, "executions", len(site.List[landfall.Execution](s, "/executions?app=shop")), 0)
	testkit.Equal(t, "status of one that does not wait", s.Post(s.URL+"/api/v1/executions", "application/json",
		`{"function":"hello","sync":false}`).Status, http.StatusCreated)
	testkit.Equal(t, "status of the log as it is", s.ReadAs(s.URL+"/api/v1/functions/hello/log?follow=false").Status,
		http.StatusOK)
	leave()
	s.Eventually("another one may wait", func() bool {
		return s.Post(s.URL+"/api/v1/executions", "application/json", `{"function":"hello"}`).Status == http.StatusCreated
	})
}

// A log is read while the function writes it.
func TestExecutionLogIsFollowed(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	r := s.Repository(s.App("shop"))
	g := newGate(t)
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py",
		"import os, time\n\ndef main(event):\n    print('begins')\n"+g.wait()+"    print('ends')\n    return 'one'\n")
	s.Pushed(r, "shop", "A function")
	var x landfall.Execution
	s.Call(http.MethodPost, "/executions", map[string]any{"function": "hello", "sync": false}, &x)
	door, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/log?execution="+x.ID, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	door.Header.Set("Authorization", "Bearer "+s.Token)
	c := http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}
	text, err := c.Do(door)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Body.Close()
	begun, err := bufio.NewReader(text.Body).ReadString('\n')
	// E-042: /log has it, too, while the function runs: the gate is closed
	if err != nil || begun != "begins\n" {
		t.Errorf("/log says %q, %v; want what the function wrote so far", begun, err)
	}
	var seen []string
	err = s.FollowExecutions(t.Context(), "/executions/"+x.ID+"/log", func(l landfall.ExecutionLog) error {
		if strings.Contains(l.Text, "begins") {
			var now landfall.Execution
			s.Call(http.MethodGet, "/executions/"+x.ID, nil, &now)
			testkit.Equal(t, "state when it is read that it begins", now.State, landfall.ExecutionRunning)
			g.open(t)
		}
		seen = append(seen, l.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Call(http.MethodGet, "/executions/"+x.ID, nil, &x)
	testkit.Equal(t, "state and message", string(x.State)+x.Message, "succeeded")
	// E-053: a log is read as it comes
	testkit.Equal(t, "log", strings.Join(seen, "|"), "begins\n|ends\n")
}
