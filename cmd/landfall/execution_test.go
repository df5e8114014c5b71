package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// post posts with the site's token.
func (s *site) post(address, contentType, body string, header ...string) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
	resp, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page{body: string(data), status: resp.StatusCode, header: resp.Header}
}

// landfall runs a command that must succeed.
func (s *site) landfall(args ...string) string {
	s.t.Helper()
	out, code := s.run(s.t.TempDir(), args...)
	if code != 0 {
		s.t.Fatalf("landfall %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// greeting is a function that logs its configuration's length and who it greets, and fails when there is nobody.
const greeting = `import os, sys

def main(event):
    print('greeting\x1b[31m', event['data']['name'], file=sys.stderr)
    if not event['data']['name']:
        raise ValueError('nobody is there')
    return 'Hello, ' + event['data']['name']
`

// A person sees what became of each call, and what it logged.
func TestExecutions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"),
		"specs/app.yaml", appSpec("shop", "config: {password: hunter2}"), "site/index.html", "page", "hello/hello.py", greeting)
	s.pushed(r, "shop", "A function")

	answer := s.post(s.URL+"/functions/default/hello:1", "application/cloudevents+json",
		`{"specversion":"1.0","id":"7","source":"/me","type":"greet","datacontenttype":"application/json","data":{"name":"Ada"}}`)
	wantEqual(t, "status", answer.status, http.StatusOK)
	id := answer.header.Get("Landfall-Execution")
	x := decode[landfall.Execution](t, []byte(s.landfall("execution", "show", id, "-o", "json")))
	wantEqual(t, "state", x.State, landfall.ExecutionSucceeded)
	wantEqual(t, "number of the version", x.Number, 1)
	wantEqual(t, "event", x.Event, landfall.ExecutionEvent{Source: "/me", Type: "greet", ID: "7"})
	wantEqual(t, "app", x.App, "shop")

	visitor := s.get(s.at("shop", "/api/hello"))
	visited := decode[landfall.Execution](t, []byte(s.landfall("execution", "show", visitor.header.Get("Landfall-Execution"), "-o", "json")))
	wantEqual(t, "release that a visitor called", string(visited.Release), visitor.header.Get("Landfall-Release"))
	wantEqual(t, "trigger", visited.Trigger, "hello")
	wantEqual(t, "source", visited.Event.Source, "/r/default/shop/hello")

	// E-042: the log is fetched apart from the answer, with what a terminal would obey made visible
	wantEqual(t, "log", s.landfall("execution", "logs", id), `greeting Ada`+"\n")
	// E-042: and at /log, as text
	log := s.readAs(s.URL + "/log?execution=" + id)
	wantEqual(t, "text at /log", log.body, "greeting\x1b[31m Ada\n")
	wantEqual(t, "policy of /log", log.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
	wantEqual(t, "status of /log for a stranger", s.get(s.URL+"/log?execution="+id).status, http.StatusUnauthorized)

	// What logs show of an id is enough to ask for the execution.
	shown := s.landfall("function", "logs", "hello:1")
	wantText(t, told{shown}, "  "+id[:8]+"  ")
	wantEqual(t, "execution by what the log shows", decode[landfall.Execution](t, []byte(s.landfall("execution", "show", id[:8], "-o", "json"))).ID, id)
	wantEqual(t, "its log", s.landfall("execution", "logs", id[:8]), `greeting Ada`+"\n")
	for _, wrong := range []string{id[:7], "00000000", id[:8] + "%"} {
		out, code := s.run(t.TempDir(), "execution", "show", wrong)
		wantEqual(t, "exit code of "+wrong, code, 3)
		wantText(t, told{out}, "there is no execution "+wrong)
	}

	// E-052: a call is created by the API
	made, code := s.run(t.TempDir(), "execution", "create", "hello", "--data", `{"name": ""}`, "-o", "json")
	wantEqual(t, "exit code of a failure", code, 1)
	made, _, _ = strings.Cut(made, "landfall: ")
	failed := decode[landfall.Execution](t, []byte(made))
	wantEqual(t, "state of a failure", failed.State, landfall.ExecutionFailed)
	wantEqual(t, "reason", failed.Reason, "ValueError")
	wantEqual(t, "message", failed.Message, "nobody is there")

	// C-014, C-027: without a number, and with 0, it is the latest
	r.write("hello/hello.py", strings.Replace(greeting, "Hello", "Ahoy", 1))
	s.pushed(r, "shop", "Another version")
	var latest, first landfall.Execution
	s.call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 0, "input": map[string]string{"name": "Ada"}}, &latest)
	wantEqual(t, "version of 0", latest.Number, 2)
	wantText(t, told{string(latest.Result)}, "Ahoy, Ada")
	// C-027: with a number, it is that one
	s.call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 1, "input": map[string]string{"name": "Ada"}}, &first)
	wantText(t, told{string(first.Result)}, "Hello, Ada")

	list := s.landfall("execution", "list", "--function", "hello", "--state", "failed")
	// E-052: calls are listed
	wantText(t, told{list}, "EXECUTION", failed.ID, "ValueError")
	wantEqual(t, "lines of failures", strings.Count(list, "\n"), 3) // the heading, and the visitor's

	// L-037: logs are kept by version
	wantEqual(t, "lines of the first version", strings.Count(s.landfall("function", "logs", "hello:1"), `greeting `), 3)
	wantEqual(t, "lines of the latest", strings.Count(s.landfall("function", "logs", "hello"), `greeting `), 1)

	s.landfall("execution", "delete", id)
	// E-053: a log is deleted, with its call
	wantEqual(t, "status of the log that was deleted", s.readAs(s.URL+"/log?execution="+id).status, http.StatusNotFound)

	// E-041: neither configuration nor what functions log is in the server's own log
	wantEqual(t, "lines of the server's log about it", strings.Count(s.log.String(), "hunter2")+strings.Count(s.log.String(), "greeting"), 0)
}

// The newest records of a version are kept, as many as the administrator wants, and not for longer than that. What was called is counted
// by version, whatever is kept.
func TestExecutionsAreKeptUpToABound(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_MAX_EXECUTIONS=3")
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main():\n    print('said')\n    return 'hello'\n")
	s.pushed(r, "shop", "A function")
	var newest []string
	var version string
	for range 6 {
		answer := s.get(s.at("shop", "/api/hello"))
		wantEqual(t, "answer", answer.body, "hello")
		newest, version = append(newest, answer.header.Get("Landfall-Execution")), answer.header.Get("Landfall-Version")
	}
	kept := func() (ids []string) {
		for _, x := range list[landfall.Execution](s, "/executions?function=hello") {
			ids = append([]string{x.ID}, ids...)
		}
		return ids
	}
	s.eventually("the newest three are kept", func() bool { return slices.Equal(kept(), newest[3:]) })
	wantEqual(t, "logs that are kept", strings.Count(s.landfall("function", "logs", "hello:1"), "said"), 3)
	labels := `{function="hello",namespace="default",outcome="succeeded",version="` + version + `"} 6`
	wantText(t, told{s.readAs(s.URL + "/metrics").body}, "landfall_function_calls_total"+labels)
	s.stop()
	s.start("LANDFALL_KEEP_EXECUTIONS=1ms")
	s.eventually("none is kept", func() bool { return len(kept()) == 0 })
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

// Whoever does not want to wait is answered at once, and the version that was asked for then answers, whatever happens meanwhile.
func TestExecutionAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	g := newGate(t)
	slow := "import os, time\n\ndef main(event):\n" + g.wait() + "    return 'one'\n"
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "hello/hello.py", slow)
	s.pushed(r, "shop", "A function")
	accepted := s.post(s.URL+"/functions/default/hello:latest", "application/cloudevents+json",
		`{"specversion":"1.0","id":"7","source":"/me","type":"greet"}`, "Prefer", "respond-async")
	wantEqual(t, "status", accepted.status, http.StatusAccepted)
	wantEqual(t, "preference", accepted.header.Get("Preference-Applied"), "respond-async")
	x := decode[landfall.Execution](t, []byte(accepted.body))
	wantEqual(t, "location", accepted.header.Get("Location"), "/api/v1/executions/"+x.ID)

	s.eventually("it runs", func() bool {
		s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
		return x.State == landfall.ExecutionRunning
	})
	_, code := s.run(t.TempDir(), "execution", "delete", x.ID)
	wantEqual(t, "exit code of deleting one that runs", code, 4)
	s.kill()
	r.write("hello/hello.py", strings.Replace(slow, "one", "two", 1))
	s.pushed(r, "shop", "Another version")
	g.open(t)
	s.eventually("it is over", func() bool {
		s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
		return x.State.Final()
	})
	wantEqual(t, "state", x.State, landfall.ExecutionSucceeded)
	wantEqual(t, "number of the version", x.Number, 1)
	wantEqual(t, "attempts", x.Attempt, 2)
	wantText(t, told{string(x.Result)}, `"data":"one"`)
}

// One token does not wait for more than a bound: others can, and it can again when something of it is over. What is refused did not
// begin.
func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main(event): return 'one'\n")
	s.pushed(r, "shop", "A function")
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
		wantEqual(t, "status", status, http.StatusOK)
	}
	refused := s.post(s.URL+"/api/v1/executions", "application/json", `{"function":"hello"}`)
	wantEqual(t, "status of one that is too many", refused.status, http.StatusServiceUnavailable)
	wantEqual(t, "when to try again", refused.header.Get("Retry-After"), "1")
	wantText(t, told{refused.body}, "100 requests of the token")
	wantEqual(t, "executions", len(list[landfall.Execution](s, "/executions?app=shop")), 0)
	wantEqual(t, "status of one that does not wait", s.post(s.URL+"/api/v1/executions", "application/json", `{"function":"hello","sync":false}`).status, http.StatusCreated)
	wantEqual(t, "status of the log as it is", s.readAs(s.URL+"/api/v1/functions/hello/log?follow=false").status, http.StatusOK)
	leave()
	s.eventually("another one may wait", func() bool {
		return s.post(s.URL+"/api/v1/executions", "application/json", `{"function":"hello"}`).status == http.StatusCreated
	})
}

// A log is read while the function writes it.
func TestExecutionLogIsFollowed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SANDBOX=off")
	r := s.repository(s.app("shop"))
	g := newGate(t)
	r.write("specs/functions.yaml", functionsSpec("python-env", "hello hello.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "import os, time\n\ndef main(event):\n    print('begins')\n"+g.wait()+"    print('ends')\n    return 'one'\n")
	s.pushed(r, "shop", "A function")
	var x landfall.Execution
	s.call(http.MethodPost, "/executions", map[string]any{"function": "hello", "sync": false}, &x)
	door, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/log?execution="+x.ID, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	door.Header.Set("Authorization", "Bearer "+s.Token)
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
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
			s.call(http.MethodGet, "/executions/"+x.ID, nil, &now)
			wantEqual(t, "state when it is read that it begins", now.State, landfall.ExecutionRunning)
			g.open(t)
		}
		seen = append(seen, l.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.call(http.MethodGet, "/executions/"+x.ID, nil, &x)
	wantEqual(t, "state and message", string(x.State)+x.Message, "succeeded")
	// E-053: a log is read as it comes
	wantEqual(t, "log", strings.Join(seen, "|"), "begins\n|ends\n")
}
