package invoke_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/invoke"
)

// functions run as a Go function.
type functions func(e event.Event) (event.Event, error)

// Call implements function.Caller.
func (f functions) Call(_ context.Context, c function.Call) (event.Event, error) { return f(c.Event) }

func hello() *landfall.Function {
	return &landfall.Function{
		ID: "x", App: "1", Namespace: "default", Name: "hello", Version: "owf2k7qa", Number: 3, Entrypoint: "hello.main",
		Environment: landfall.Environment{Name: "python", Image: "fission/python-env"},
		Config:      map[string]string{"secret": "canary", "currency": "EUR"},
		Resources: landfall.Resources{Memory: 64 << 20, MilliCPU: 500, Disk: 1 << 20, Timeout: 5 * time.Second,
			IdleTimeout: time.Minute},
	}
}

// door returns a handler for one function, which tokens "reader", "caller" and "stranger" ask for.
func door(run functions) http.Handler {
	return invoke.Confined(&invoke.Handler{
		Find: func(_ context.Context, ref landfall.Reference) (*landfall.Function, error) {
			switch {
			case ref.Namespace != "default" || ref.Name != "hello":
				return nil, &landfall.Error{Op: "test", Kind: landfall.NotFound, Message: "there is no such function"}
			case ref.Selector == "9":
				return nil, &landfall.Error{Op: "test", Kind: landfall.NotFound,
					Message: `there is no such function version; the newest is "1"`}
			}
			return hello(), nil
		},
		Owner: func(_ context.Context, ref landfall.Reference) (string, error) {
			if ref.Name != "hello" {
				return "", &landfall.Error{Op: "test", Kind: landfall.NotFound}
			}
			return "app", nil
		},
		Admit: func(r *http.Request, action invoke.Action, f *landfall.Function) error {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			switch {
			case token == "":
				return &landfall.Error{Op: "test", Kind: landfall.Unauthorized, Message: "send a token"}
			case token == "reader" && action == invoke.Call:
				return &landfall.Error{Op: "test", Kind: landfall.Forbidden, Message: "the token lacks the scope invoke"}
			case token == "stranger" && f != nil:
				return &landfall.Error{Op: "test", Kind: landfall.NotFound, Message: "there is no such function"}
			}
			return nil
		},
		Functions: run, Host: "functions.example.com", Logger: slog.New(slog.NewJSONHandler(&logtest.Buffer{}, nil)),
		Limits: event.Limits{Bytes: 1000, Events: 3},
	})
}

// Who may not know of a function is not told which versions it has.
func TestMissingVersion(t *testing.T) {
	t.Parallel()
	ask := func(token, name string) string {
		r := httptest.NewRequest(http.MethodGet, invoke.Path+"default/"+name, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		door(nil).ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := ask("reader", "hello:9"); !strings.Contains(got, "the newest is") {
		t.Errorf("who may read is told %s, want which versions there are", got)
	}
	if got, want := ask("stranger", "hello:9"), ask("stranger", "bye:9"); got != want {
		t.Errorf("a stranger is told %s, and %s of what is not there", got, want)
	}
}

func echo(e event.Event) (event.Event, error) {
	answer := event.Answer(e, "answer")
	event.SetExecution(&answer, event.ExecutionOf(e))
	_ = answer.SetData("text/plain", "got "+string(e.Data()))
	return answer, nil
}

func ask(h http.Handler, method, path, token, contentType, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	path       = "/functions/default/hello:latest"
	structured = "application/cloudevents+json"
	greet      = `{"specversion":"1.0","id":"1","source":"/me","type":"greet","datacontenttype":"text/plain","data":"hi"}`
	old        = `{"cloud-events-version":"0.1","event-id":"1","event-type":"greet","source":"/me","content-type":"text/plain","data":"hi"}`
)

func TestDescription(t *testing.T) {
	t.Parallel()
	w := ask(door(nil), "GET", path, "reader", "", "")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("got %d %s: %v", w.Code, w.Body, err)
	}
	// E-043: a function's version has an address of its own
	if got["url"] != "/functions/default/hello:owf2k7qa" {
		t.Errorf("url: got %v", got["url"])
	}
	// E-044: what is needed to run it, as its author said it
	for name, want := range map[string]any{"namespace": "default", "name": "hello", "version": "owf2k7qa", "number": 3.0,
		"image": "functions.example.com/default/hello:owf2k7qa", "entrypoint": "hello.main"} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	resources, _ := got["resources"].(map[string]any)
	// E-082: memory, cpus in thousandths, disk, timeout and idle_timeout
	for name, want := range map[string]any{"memory": 67108864.0, "cpus": 500.0, "disk": 1048576.0, "timeout": 5.0,
		"idle_timeout": 60.0} {
		if resources[name] != want {
			t.Errorf("%s: got %v, want %v", name, resources[name], want)
		}
	}
	if strings.Contains(w.Body.String(), "canary") ||
		!strings.Contains(w.Body.String(), `"config":["currency","secret"]`) {
		t.Errorf("configuration: got %s, want names and no values", w.Body)
	}
}

// An answer has the form of its request.
func TestCall(t *testing.T) {
	t.Parallel()
	h := door(echo)
	for name, c := range map[string]struct {
		contentType, body string
		headers           []string
		answerType, says  string
	}{
		"structured": {structured, greet, nil, structured, `"data":"got hi"`},
		"plain JSON": {"application/json", greet, nil, structured, `"data":"got hi"`},
		"binary": {"text/plain", "hi", []string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "/me", "ce-type",
			"greet"}, "text/plain", "got hi"},
		"batch": {"application/cloudevents-batch+json", "[" + greet + "," + greet + "]", nil,
			"application/cloudevents-batch+json", `"data":"got hi"`},
		"0.1": {"application/json", old, nil, structured, `"event-type":"greet"`},
	} {
		w := ask(h, "POST", path, "caller", c.contentType, c.body, c.headers...)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(got, c.answerType) ||
			!strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: got %d %s %s, want %s with %s", name, w.Code, got, w.Body, c.answerType, c.says)
		}
		if w.Header().Get(invoke.VersionHeader) != "owf2k7qa" || w.Header().Get(invoke.ExecutionHeader) == "" {
			t.Errorf("%s: the headers are %v, want the version and the execution", name, w.Header())
		}
		// what a function made is not for browsers
		if w.Header().Get("Content-Security-Policy") != "sandbox; default-src 'none'" ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v, want those that no browser runs", name, w.Header())
		}
	}
}

func TestCallRefused(t *testing.T) {
	t.Parallel()
	fails := func(err error) functions { return func(event.Event) (event.Event, error) { return event.Event{}, err } }
	because := func(reason function.Reason) functions {
		return fails(&landfall.Error{Op: "test", Message: "the function did not",
			Err: &function.Error{Reason: reason, Trace: "at line 3", RetryAfter: 1500 * time.Millisecond}})
	}
	for name, c := range map[string]struct {
		run                             functions
		method, path, token, body, kind string
		status                          int
		says                            string
	}{
		"no token":             {echo, "POST", path, "", greet, "application/problem+json", 401, "send a token"},
		"another scope":        {echo, "POST", path, "reader", greet, "application/problem+json", 403, "scope invoke"},
		"a function of others": {echo, "POST", path, "stranger", greet, "application/problem+json", 404, "no such function"},
		"no function": {echo, "POST", "/functions/default/hallo", "caller", greet, "application/problem+json", 404,
			"no such function"},
		"no version": {echo, "GET", "/functions/default/hello:9", "caller", "", "application/problem+json", 404,
			"no such function"},
		"no address": {echo, "GET", "/functions/a/b/c", "caller", "", "application/problem+json", 404,
			"NAMESPACE/NAME:VERSION"},
		"another method": {echo, "DELETE", path, "caller", "", "application/problem+json", 405,
			`called by POST","kind":"not-found"`},
		// what is no event is refused with an event that says so
		"no event": {echo, "POST", path, "caller", "hi", structured, 400, `error`},
		"another version": {echo, "POST", path, "caller", strings.Replace(greet, `"1.0"`, `"2.0"`, 1), structured, 400,
			"specversion"},
		"no source": {echo, "POST", path, "caller", strings.Replace(greet, `"source":"/me",`, "", 1), structured,
			400, "source"},
		// N-022: the limit is named
		"too large": {echo, "POST", path, "caller", strings.Replace(greet, "hi", strings.Repeat("x", 1000), 1), structured,
			413, "event bytes"}, "busy": {because(function.ReasonBusy), "POST", path, "caller", greet, structured, 503, "busy"},
		"timeout": {because(function.ReasonTimeout), "POST", path, "caller", greet, structured, 504, "timeout"},
		"exit":    {because(function.ReasonExit), "POST", path, "caller", greet, structured, 502, "at line 3"},
		"off": {fails(&landfall.Error{Op: "test", Kind: landfall.Forbidden, Message: "functions are refused here"}),
			"POST", path, "caller", greet, structured, 503, "refused here"},
	} {
		w := ask(door(c.run), c.method, c.path, c.token, structured, c.body)
		if got := w.Header().Get("Content-Type"); w.Code != c.status || !strings.HasPrefix(got, c.kind) ||
			!strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: got %d %s %s, want %d %s with %s", name, w.Code, got, w.Body, c.status, c.kind, c.says)
		}
		if c.kind != structured {
			continue
		}
		e, _, err := event.Parse(w.Body.Bytes())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// N-021: 400 with an event that has an error and no data
		if _, failed, err := event.ErrorOf(e); !failed || err != nil || len(e.Data()) > 0 {
			t.Errorf("%s: the event %s is none with an error and no data: %v", name, w.Body, err)
		}
		if retry := w.Header().Get("Retry-After"); (retry == "2") != (name == "busy") {
			t.Errorf("%s: Retry-After is %q", name, retry)
		}
	}
}
