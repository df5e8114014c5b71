package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// plain is a Caller that knows of a call only the function and the event.
type plain func(ctx context.Context, f *landfall.Function, e event.Event) (event.Event, error)

// Call implements function.Caller.
func (f plain) Call(ctx context.Context, c function.Call) (event.Event, error) {
	return f(ctx, c.Function, c.Event)
}

// says is a function that answers with a text.
func says(text string) plain {
	return func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		return textOf(e, text, event.Protocol{}), nil
	}
}

// textOf returns the answer to an event: a text, and what the protocol says.
func textOf(e event.Event, text string, p event.Protocol) event.Event {
	answer := event.Answer(e, "answer")
	answer.SetDataContentType("text/plain")
	answer.DataEncoded = []byte(text)
	event.SetProtocol(&answer, p)
	return answer
}

// greeter is the version of a function that most routes of the tests lead to.
func greeter() *landfall.Function {
	return &landfall.Function{ID: "greeter-1", Namespace: "team", Name: "greeter", Version: "vvvvvvv2"}
}

// routeTo returns a route of the shop.
func routeTo(f *landfall.Function, name string, access landfall.Access, patterns ...string) registry.Route {
	return registry.Route{Patterns: patterns,
		Trigger: &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.HTTPTrigger,
			HTTP: landfall.HTTPSource{Access: access}}, Namespace: "team", AppName: "shop", Name: name, Function: f}}
}

// routed returns the shop with routes beside its files: each pattern is one to greeter.
func routed(s *store, content files, access landfall.Access, patterns ...string) registry.App {
	app := shop(s, content)
	var routes []registry.Route
	for _, pattern := range patterns {
		routes = append(routes, routeTo(greeter(), "greet", access, pattern))
	}
	app.Releases[0].Routes = registry.NewRoutes(routes)
	return app
}

// open returns a site of the shop whose routes lead to f, and no file.
func open(t testing.TB, f function.Caller, change func(*gateway.Config), patterns ...string) *site {
	t.Helper()
	content := newStore()
	return newSite(t, content, func(c *gateway.Config) {
		c.Functions = f
		if change != nil {
			change(c)
		}
	}, routed(content, files{}, "", patterns...))
}

// send sends a body to host, with headers given as pairs.
func (s *site) send(t testing.TB, method, host, target string, body io.Reader, headers ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+target, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatalf("%s %s%s: %v", method, host, target, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s%s: body: %v", method, host, target, err)
	}
	return response{answer, string(text)}
}

// A release has routes beside its files. Who asks for one gets what its function answers, and is told which version it
// was and by what the log is found.
func TestRoutes(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{"/index.html": "page", "/hello/file.txt": "file"})
	other := &landfall.Function{ID: "bye-1", Namespace: "team", Name: "bye", Version: "wwwwwww2"}
	app.Releases[0].Routes = registry.NewRoutes([]registry.Route{
		routeTo(greeter(), "greet", "", "GET /hello/{name}"),
		routeTo(greeter(), "greetings", "", "GET /salut/{name}"),
		routeTo(other, "leave", "", "POST /bye"),
	})
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
			p, err := event.ProtocolOf(e)
			return textOf(e, f.Name+" "+p.Params["name"]+" by "+event.ExecutionOf(e), event.Protocol{}), err
		})
	}, app)

	answer := s.get(t, host, "/hello/ann")
	execution := answer.Header.Get(page.ExecutionHeader)
	// E-066: the routes that triggers set say where a request goes
	answer.want(t, http.StatusOK, "aaaaaaa2", "greeter ann by "+execution)
	answer.wantHeaders(t, page.VersionHeader, "vvvvvvv2", "Content-Type", "text/plain")
	if _, err := uuid.Parse(execution); err != nil {
		t.Errorf("got execution %q, want a UUID: %v", execution, err)
	}
	if again := s.get(t, host, "/hello/ann").Header.Get(page.ExecutionHeader); again == execution {
		t.Errorf("got execution %s twice", again)
	}
	// E-061: each route leads to its trigger's function
	answer = s.send(t, http.MethodPost, host, "/bye", http.NoBody)
	answer.want(t, http.StatusOK, "aaaaaaa2", "bye  by "+answer.Header.Get(page.ExecutionHeader))
	answer.wantHeaders(t, page.VersionHeader, "wwwwwww2")
	// E-001: the function knows nothing of routes: another one leads to it as well
	answer = s.get(t, host, "/salut/bob")
	answer.want(t, http.StatusOK, "aaaaaaa2", "greeter bob by "+answer.Header.Get(page.ExecutionHeader))
	// E-067: no match is 404
	s.get(t, host, "/hello/ann/more").wantPage(t, http.StatusNotFound, "aaaaaaa2", "No such page")
	// E-062: what matches goes to the function, even where there is a file, and what does not is a file
	answer = s.get(t, host, "/hello/file.txt")
	answer.want(t, http.StatusOK, "aaaaaaa2", "greeter file.txt by "+answer.Header.Get(page.ExecutionHeader))
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "page")
	s.get(t, host, "/").wantHeaders(t, page.VersionHeader, "", page.ExecutionHeader, "")
}

// Each release runs its own versions, whichever is live.
func TestRoutesOfReleases(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{"/index.html": "page"})
	release := content.release("bbbbbbb2", files{"/index.html": "page"})
	for i, r := range []*registry.Release{&app.Releases[0], &release} {
		f := greeter()
		f.Version = landfall.UID([]string{"vvvvvvv2", "wwwwwww2"}[i])
		r.Routes = registry.NewRoutes([]registry.Route{routeTo(f, "greet", "", "/hello")})
	}
	app.Releases = append(app.Releases, release)
	app.Live = "bbbbbbb2"
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
			return textOf(e, "hello", event.Protocol{Headers: map[string][]string{"X-Robots-Tag": {"all"}}}), nil
		})
	}, app)
	s.get(t, "shop.aaaaaaa2.releases.test", "/hello").want(t, http.StatusOK, "aaaaaaa2", "hello")
	s.get(t, "shop.aaaaaaa2.releases.test", "/hello").wantHeaders(t, page.VersionHeader, "vvvvvvv2",
		"X-Robots-Tag", "noindex")
	if tags := s.get(t, "shop.aaaaaaa2.releases.test", "/hello").Header["X-Robots-Tag"]; len(tags) != 1 {
		t.Errorf("got X-Robots-Tag %q, want noindex alone", tags)
	}
	s.get(t, host, "/hello").want(t, http.StatusOK, "bbbbbbb2", "hello")
	s.get(t, host, "/hello").wantHeaders(t, page.VersionHeader, "wwwwwww2", "X-Robots-Tag", "all")
}

// The function gets the whole request as one event, without what is the connection's or Landfall's, and nobody can tell
// it where the request came from but the connection.
func TestEventOfRequest(t *testing.T) {
	t.Parallel()
	var got event.Event
	var called *landfall.Function
	s := open(t, plain(func(_ context.Context, f *landfall.Function, e event.Event) (event.Event, error) {
		got, called = e.Clone(), f
		return textOf(e, "", event.Protocol{}), nil
	}), nil, "PUT /orders/{id}/{rest...}", "GET /orders/{$}")
	before := time.Now()
	answer := s.send(t, http.MethodPut, host, "/orders/7%C3%A9/a/b?x=%2F&y=\xff", strings.NewReader(`{"n": 1}`),
		"Content-Type", "application/json", "X-Custom", "one", "X-Custom", "two", "Authorization", "Bearer mine",
		"Connection", "X-Secret-Hop, keep-alive, X-Forwarded-For", "X-Secret-Hop", "1", "Keep-Alive", "5", "Te", "trailers",
		"Proxy-Authorization", "1", "Cookie", "a=1; __Host-landfall=session; __Host-own=2", "Cookie", "b=3",
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Prefix", "/evil", "Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6",
		"Landfall-Execution", "mine", "X-Fission-Params-Id", "8", "X-Fission-Params-Other", "9",
		"X_Fission_Params_Id", "8", "X_Forwarded_For", "6.6.6.6", "User-Agent", "test", "Expect", "100-continue")
	answer.want(t, http.StatusOK, "aaaaaaa2", "")

	p, err := event.ProtocolOf(got)
	if err != nil {
		t.Fatal(err)
	}
	want := event.Protocol{
		Type: "http", Method: "PUT", RequestURL: "http://" + host + "/orders/7%C3%A9/a/b?x=%2F&y=%FF",
		Headers: map[string][]string{
			"Content-Type": {"application/json"}, "X-Custom": {"one", "two"}, "Authorization": {"Bearer mine"},
			"Content-Length": {"8"}, "User-Agent": {"test"}, "Cookie": {"a=1; __Host-own=2; b=3"},
			"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {host},
			"X-Fission-Params-Id": {"7é"}, "X-Fission-Params-Rest": {"a/b"},
		},
		Params: map[string]string{"id": "7é", "rest": "a/b"},
	}
	// E-068: a request is an event: its body is the data, and the protocol has its headers
	if got, want := asJSON(t, p), asJSON(t, want); got != want {
		t.Errorf("got protocol\n%s, want\n%s", got, want)
	}
	for name, pair := range map[string][2]string{
		"source": {got.Source(), "/r/team/shop/greet"}, "type": {got.Type(), "dev.landfall.http.request"},
		"content type": {got.DataContentType(), "application/json"}, "data": {string(got.Data()), `{"n": 1}`},
		"execution": {event.ExecutionOf(got), answer.Header.Get(page.ExecutionHeader)}, "function": {called.ID, "greeter-1"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("got %s %q, want %q", name, pair[0], pair[1])
		}
	}
	if got.Time().Before(before.Add(-time.Millisecond)) || got.Time().After(time.Now()) {
		t.Errorf("got time %s, want one since %s", got.Time(), before)
	}
	if _, err := uuid.Parse(got.ID()); err != nil || got.ID() == event.ExecutionOf(got) ||
		got.Extensions()["eventtypeversion"] != "1.0" {
		t.Errorf("got ID %q and type version %v, want a UUID of its own and 1.0", got.ID(),
			got.Extensions()["eventtypeversion"])
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the event is not valid: %v", err)
	}

	s.get(t, host, "/orders/").want(t, http.StatusOK, "aaaaaaa2", "")
	p, err = event.ProtocolOf(got)
	if err != nil || got.Data() != nil || got.DataContentType() != "" || p.Params != nil {
		t.Errorf("got data %q of type %q and params %v (%v), want none of them", got.Data(), got.DataContentType(),
			p.Params, err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Data is what was sent, whatever it is, and its type is one that an event can have.
func TestDataOfRequest(t *testing.T) {
	t.Parallel()
	var got event.Event
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		got = e.Clone()
		line, err := event.Append(nil, event.Structured, e)
		if err != nil {
			return e, err
		}
		answer, _, err := event.Parse(line) // as a function would that writes back what it read
		return answer, err
	}), nil, "POST /")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, c := range []struct{ given, want, data string }{
		{"text/plain; charset=utf-8", "text/plain; charset=utf-8", "some text\n"},
		{"application/octet-stream", "application/octet-stream", string(all)},
		{"application/json", "application/json", `{"a":[1,2]}`},
		{"application/json", "application/json", `{"no json`},
		{"application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "a=1&b=%20"},
		{"", "application/octet-stream", `{"a":1}`},
		{";;; no type", "application/octet-stream", "x"},
		{"text/\xff", "application/octet-stream", "x"},
		{"image/png", "image/png", strings.Repeat(string(all), 1000)},
	} {
		headers := []string{"Content-Type", c.given}
		if c.given == "" {
			headers = nil
		}
		answer := s.send(t, http.MethodPost, host, "/", strings.NewReader(c.data), headers...)
		answer.want(t, http.StatusOK, "aaaaaaa2", c.data)
		answer.wantHeaders(t, "Content-Type", c.want)
		if got.DataContentType() != c.want {
			t.Errorf("%q: got content type %q, want %q", c.given, got.DataContentType(), c.want)
		}
	}
}

// What is no text in an address is no route's, and does no harm.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		calls.Add(1)
		return textOf(e, "called", event.Protocol{}), nil
	}), nil, "/{rest...}")
	for _, path := range []string{"/%ff", "/a%00b", "/a%2fb", "/../x", "/%2e%2e/x", "/a\\b", "/a%0d%0aX:1"} {
		s.get(t, host, path).wantPage(t, http.StatusNotFound, "aaaaaaa2", "No such page")
	}
	s.send(t, http.MethodPost, host, "//a///b?x", http.NoBody).wantHeaders(t, "Location", "/a/b?x")
	if n := calls.Load(); n != 0 {
		t.Errorf("the function was called %d times, want none", n)
	}
	for _, path := range []string{"/caf%C3%A9", "/a?%ff", "/a?\xff\x80", "/a?%", "/a?;=&&"} {
		s.get(t, host, path).want(t, http.StatusOK, "aaaaaaa2", "called")
	}
}

// A path with routes answers other methods by a file, or says which methods there are.
func TestMethodsOfRoutes(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := routed(content, files{"/index.html": "page", "/form.html": "form", "/folder/index.html": "folder"}, "",
		"POST /form", "POST /api", "PUT /api", "GET /read", "DELETE /folder")
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = says("called") }, app)
	for _, c := range []struct {
		method, path string
		status       int
		body, allow  string
	}{
		{"POST", "/form", 200, "called", ""},
		{"GET", "/form", 200, "form", ""},
		{"HEAD", "/form", 200, "", ""},
		{"PUT", "/form", 405, "", "GET, HEAD, POST"},
		{"GET", "/api", 405, "", "POST, PUT"},
		{"HEAD", "/api", 405, "", "POST, PUT"},
		{"OPTIONS", "/api", 405, "", "POST, PUT"},
		{"GET", "/read", 200, "called", ""},
		{"HEAD", "/read", 200, "", ""},
		{"POST", "/read", 405, "", "GET, HEAD"},
		{"GET", "/folder", 308, "", ""},
		{"POST", "/folder", 405, "", "DELETE, GET, HEAD"},
		{"POST", "/", 405, "", "GET, HEAD"},
		{"POST", "/nothing", 404, "", ""},
		{"get", "/read", 405, "", "GET, HEAD"},
	} {
		answer := s.do(t, c.method, host, c.path)
		if answer.StatusCode != c.status || answer.Header.Get("Allow") != c.allow ||
			(c.status == 200 && answer.body != c.body) {
			t.Errorf("%s %s: got status %d, Allow %q and %.40q, want %d, %q and %q",
				c.method, c.path, answer.StatusCode, answer.Header.Get("Allow"), answer.body, c.status, c.allow, c.body)
		}
	}
	unread := newStore()
	s = newSite(t, unread, nil, routed(unread, files{"/form.html": "form"}, "", "POST /form"))
	unread.err = &landfall.Error{Kind: landfall.Unavailable, Message: "no store"}
	s.do(t, http.MethodPut, host, "/form").wantPage(t, http.StatusBadGateway, "aaaaaaa2", "cannot be read")
}

// HEAD runs the function of GET, and gets all but the body.
func TestHeadOfRoute(t *testing.T) {
	t.Parallel()
	var method string
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		method = p.Method
		return textOf(e, "hello", event.Protocol{Status: http.StatusAccepted, Headers: map[string][]string{"X-A": {"1"}}}),
			err
	}), nil, "GET /")
	answer := s.do(t, http.MethodHead, host, "/")
	answer.want(t, http.StatusAccepted, "aaaaaaa2", "")
	answer.wantHeaders(t, "Content-Length", "5", "X-A", "1")
	if method != http.MethodHead {
		t.Errorf("the function was told %q, want HEAD", method)
	}
}

// Only who is allowed calls a route that is not public, and the function never gets the token that is for Landfall.
func TestAccess(t *testing.T) {
	t.Parallel()
	var authorization []string
	f := plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		authorization = p.Headers["Authorization"]
		return textOf(e, "called", event.Protocol{}), err
	})
	site := func(access landfall.Access, allowed func(*http.Request, string, landfall.Access) error) *site {
		content := newStore()
		return newSite(t, content, func(c *gateway.Config) {
			c.Functions, c.Allowed = f, allowed
		}, routed(content, files{}, access, "/"))
	}
	answers := func(kind landfall.Kind) func(*http.Request, string, landfall.Access) error {
		return func(*http.Request, string, landfall.Access) error {
			return &landfall.Error{Kind: kind, Message: "a secret reason"}
		}
	}
	const unknown = `Bearer error="invalid_token"`
	for _, c := range []struct {
		name      string
		access    landfall.Access
		allowed   func(*http.Request, string, landfall.Access) error
		status    int
		challenge string
	}{
		{"nobody can tell, token", landfall.AccessToken, nil, 401, unknown},
		{"nobody can tell, signed in", landfall.AccessSignedIn, nil, 401, unknown},
		{"a kind that nobody knows", "friends", nil, 403, ""},
		{"unknown token", landfall.AccessToken, answers(landfall.Unauthorized), 401, unknown},
		{"token of others", landfall.AccessToken, answers(landfall.Forbidden), 403, ""},
		{"unknown token of who is not signed in", landfall.AccessSignedIn, answers(landfall.Unauthorized), 401, unknown},
		{"may not read", landfall.AccessSignedIn, answers(landfall.Forbidden), 403, ""},
		{"store down", landfall.AccessToken, answers(landfall.Unavailable), 503, ""},
		{"broken", landfall.AccessSignedIn, answers(landfall.Internal), 503, ""},
		{"public", landfall.AccessPublic, answers(landfall.Forbidden), 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := site(c.access, c.allowed).get(t, host, "/", "Authorization", "Bearer wrong")
			if answer.StatusCode != c.status || strings.Contains(answer.body, "secret") {
				t.Errorf("got status %d and %q, want %d and no reason", answer.StatusCode, answer.body, c.status)
			}
			answer.wantHeaders(t, "WWW-Authenticate", c.challenge, page.ReleaseHeader, "aaaaaaa2", page.VersionHeader,
				"vvvvvvv2")
			if c.status != http.StatusOK {
				answer.wantHeaders(t, page.ExecutionHeader, "", "Cache-Control", "no-store")
			}
		})
	}
	// a token is asked for only where there is none
	for _, access := range []landfall.Access{landfall.AccessToken, landfall.AccessSignedIn} {
		strangers := site(access, answers(landfall.Unauthorized))
		for _, sent := range []string{"", "Bearer ", "Basic own"} {
			strangers.get(t, host, "/", "Authorization", sent, "Accept", "application/json").wantHeaders(t,
				"WWW-Authenticate", "Bearer")
		}
		if body := strangers.get(t, host, "/", "Authorization", "Bearer wrong").body; !strings.Contains(body,
			"The token is not known") {
			t.Errorf("access %s: got %q for a wrong token, want that it is not known", access, body)
		}
	}
	right := func(r *http.Request, app string, access landfall.Access) error {
		if r.Header.Get("Authorization") == "Bearer right" && app == "shop" && access == landfall.AccessToken {
			return nil
		}
		return &landfall.Error{Kind: landfall.Unauthorized}
	}
	s := site(landfall.AccessToken, right)
	s.get(t, host, "/", "Authorization", "Bearer right").want(t, http.StatusOK, "aaaaaaa2", "called")
	if authorization != nil {
		t.Errorf("the function got %q, want nothing: the token is for Landfall", authorization)
	}
	site("", nil).get(t, host, "/", "Authorization", "Basic own").want(t, http.StatusOK, "aaaaaaa2", "called")
	if !slices.Equal(authorization, []string{"Basic own"}) {
		t.Errorf("the function of a public route got %q, want what its caller sent", authorization)
	}
}

// A process that runs no functions says so where a route is, and serves files.
func TestNoFunctions(t *testing.T) {
	t.Parallel()
	content := newStore()
	s := newSite(t, content, nil, routed(content, files{"/index.html": "page"}, "", "/hello"))
	s.get(t, host, "/hello").wantPage(t, http.StatusServiceUnavailable, "aaaaaaa2", "Functions do not run here")
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "page")
}

// What a function did instead of answering is a page that says so, with the execution, and never what the function
// wrote.
func TestFailures(t *testing.T) {
	t.Parallel()
	const secret = "postgres://secret"
	failed := func(kind landfall.Kind, reason function.Reason) error {
		return &landfall.Error{Kind: kind, Message: secret,
			Err: &function.Error{Reason: reason, Trace: secret, RetryAfter: 1500 * time.Millisecond}}
	}
	for _, c := range []struct {
		name   string
		err    error
		status int
		words  string
		retry  string
	}{
		{"busy", failed(landfall.Unavailable, function.ReasonBusy), 503, "Busy", "2"},
		{"timeout", failed(landfall.Internal, function.ReasonTimeout), 504, "too long", ""},
		{"exit", failed(landfall.Internal, function.ReasonExit), 502, "ended", ""},
		{"memory", failed(landfall.Internal, function.ReasonMemory), 502, "memory", ""},
		{"protocol", failed(landfall.Internal, function.ReasonProtocol), 502, "no event", ""},
		{"too large", failed(landfall.Internal, function.ReasonTooLarge), 502, `answer bytes`, ""},
		{"refused here", &landfall.Error{Kind: landfall.Forbidden, Message: secret}, 503, "do not run here", ""},
		{"stopping", &landfall.Error{Kind: landfall.Canceled, Message: secret}, 503, "Not right now", "1"},
		{"storage down", &landfall.Error{Kind: landfall.Unavailable, Message: secret}, 503, "Not right now", "1"},
		{"no such package", &landfall.Error{Kind: landfall.NotFound, Message: secret}, 502, "cannot be run", ""},
		{"unclassified", io.ErrUnexpectedEOF, 502, "cannot be run", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, plain(func(context.Context, *landfall.Function, event.Event) (event.Event, error) {
				return event.Event{}, c.err
			}), nil, "/")
			answer := s.get(t, host, "/", "Accept", "application/json")
			var problem struct {
				Type, Title, Detail, Execution string
				Status                         int
			}
			if err := json.Unmarshal([]byte(answer.body), &problem); err != nil {
				t.Fatalf("got %q, want problem details: %v", answer.body, err)
			}
			execution := answer.Header.Get(page.ExecutionHeader)
			if answer.StatusCode != c.status || problem.Status != c.status || problem.Execution != execution || execution == "" {
				t.Errorf("got status %d and %+v, want %d and execution %q", answer.StatusCode, problem, c.status, execution)
			}
			if said := problem.Title + problem.Detail; !strings.Contains(said, c.words) ||
				!strings.Contains(said, "execution "+execution) {
				t.Errorf("got %q, want %q and the execution", said, c.words)
			}
			answer.wantHeaders(t, "Content-Type", "application/problem+json", "Retry-After", c.retry, "Cache-Control",
				"no-store", page.ReleaseHeader, "aaaaaaa2", page.VersionHeader, "vvvvvvv2")
			html := s.get(t, host, "/", "Accept", "text/html")
			html.wantPage(t, c.status, "aaaaaaa2", html.Header.Get(page.ExecutionHeader))
			// N-030: busy is 503, and says when to come again
			if c.name == "busy" && (html.StatusCode != http.StatusServiceUnavailable || html.Header.Get("Retry-After") != "2") {
				t.Errorf("got status %d, Retry-After %q, want 503 and 2", html.StatusCode, html.Header.Get("Retry-After"))
			}
			// N-022: an answer over the limit is 502 with the limit's name
			if c.name == "too large" && (html.StatusCode != http.StatusBadGateway ||
				!strings.Contains(html.body, "answer bytes")) {
				t.Errorf("got status %d and %q, want 502 and the limit", html.StatusCode, html.body)
			}
			if strings.Contains(answer.body+html.body, secret) {
				t.Errorf("got a page with what the function wrote: %q", html.body)
			}
			if logged := strings.Contains(s.log.String(), execution); logged == (c.name == "busy") {
				t.Errorf("got the log %q, want the execution in it unless it was too many", s.log.String())
			}
		})
	}
}

// An answer that is an event with an error is a problem. Only when the function says that the request is
// wrong, its message is for the caller.
func TestErrorEvents(t *testing.T) {
	t.Parallel()
	var status int
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		answer := textOf(e, "", event.Protocol{Status: status})
		event.SetError(&answer, event.Error{Message: "<b>amount</b> is missing", Type: "ValueError",
			Trace: "line 7 of secret.py"})
		return answer, nil
	}), nil, "/")
	for _, c := range []struct {
		status, want int
		said         bool
	}{{0, 502, false}, {200, 502, false}, {422, 422, true}, {500, 500, false}, {503, 503, false}, {599, 599, false},
		{302, 502, false}} {
		status = c.status
		answer := s.get(t, host, "/", "Accept", "text/plain")
		if answer.StatusCode != c.want || strings.Contains(answer.body, "amount") != c.said ||
			strings.Contains(answer.body, "secret.py") {
			t.Errorf("status %d: got %d and %q, want %d", c.status, answer.StatusCode, answer.body, c.want)
		}
		answer.wantHeaders(t, page.VersionHeader, "vvvvvvv2", "Cache-Control", "no-store")
	}
	status = http.StatusTeapot
	if html := s.get(t, host, "/"); strings.Contains(html.body, "<b>") ||
		!strings.Contains(html.body, "&lt;b&gt;amount&lt;/b&gt; is missing. More stands") {
		t.Errorf("got the page %q, want the message as text, and as a sentence", html.body)
	}
	if log := s.log.String(); strings.Contains(log, "secret.py") || !strings.Contains(log, "ValueError") {
		t.Errorf("got the log %q, want what went wrong, and no trace: it is the execution's", log)
	}
}

// Answers of functions are counted as those of files are.
func TestFunctionsAreCounted(t *testing.T) {
	t.Parallel()
	type count struct {
		app    string
		status int
		bytes  int64
	}
	counts := make(chan count, 1)
	s := open(t, says("hello"), func(c *gateway.Config) {
		c.Answered = func(app string, status int, bytes int64) { counts <- count{app, status, bytes} }
	}, "/")
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "hello")
	if got, want := <-counts, (count{"shop", http.StatusOK, 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.do(t, http.MethodHead, host, "/").want(t, http.StatusOK, "aaaaaaa2", "")
	if got, want := <-counts, (count{"shop", http.StatusOK, 0}); got != want {
		t.Errorf("got %+v for HEAD, want %+v", got, want)
	}
}

// A route whose function's version is gone says so; the others go on.
func TestRouteWithoutFunction(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{})
	app.Releases[0].Routes = registry.NewRoutes([]registry.Route{
		routeTo(nil, "gone", "", "GET /gone"), routeTo(greeter(), "greet", "", "GET /hello")})
	s := newSite(t, content, func(c *gateway.Config) { c.Functions = says("hello") }, app)
	if answer := s.get(t, host, "/gone"); answer.StatusCode != http.StatusBadGateway ||
		!strings.Contains(answer.body, "is not there any more") {
		t.Errorf("got %d %s, want 502 and why", answer.StatusCode, answer.body)
	}
	s.get(t, host, "/hello").want(t, http.StatusOK, "aaaaaaa2", "hello")
}

// Who says no more after the request, and is taken for gone, is not told that all is well.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	s := open(t, plain(func(ctx context.Context, _ *landfall.Function, _ event.Event) (event.Event, error) {
		close(begun)
		<-ctx.Done()
		return event.Event{}, &landfall.Error{Op: "test", Kind: landfall.Canceled, Err: ctx.Err()}
	}), nil, "/")
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	<-begun
	if half, ok := c.(*net.TCPConn); !ok || half.CloseWrite() != nil {
		t.Fatal("the connection cannot be closed by half")
	}
	if said, _ := io.ReadAll(c); len(said) > 0 {
		t.Errorf("got %q, want no answer", said)
	}
}
