package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/wire"
)

// echo answers with the data that came.
func echo() plain {
	return func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) { return e, nil }
}

// connection is one on which a test writes what it likes.
type connection struct {
	net.Conn
	answers *bufio.Reader
}

// dial connects to a site.
func (s *site) dial(t *testing.T, text string) connection {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	w := connection{c, bufio.NewReader(c)}
	w.write(t, text)
	return w
}

func (w connection) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// next reads an answer.
func (w connection) next(t *testing.T) response {
	t.Helper()
	answer, err := http.ReadResponse(w.answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{answer, string(text)}
}

// post begins a request whose body follows.
func post(headers ...string) string {
	return "POST / HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
}

// A body over the limit is refused by the limit's name, whether its length was said or not, and the function is not
// called.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	called := 0
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		called++
		return e, nil
	}), func(c *gateway.Config) { c.MaxRequest = 100_000 }, "POST /")
	for _, size := range []int{0, 1, 99_999, 100_000} {
		body := strings.Repeat("x", size)
		s.send(t, http.MethodPost, host, "/", strings.NewReader(body)).want(t, http.StatusOK, "aaaaaaa2", body)
		s.send(t, http.MethodPost, host, "/", io.MultiReader(strings.NewReader(body))).want(t, http.StatusOK,
			"aaaaaaa2", body)
	}
	before := called
	for _, size := range []int{100_001, 5_000_000} {
		body := strings.Repeat("x", size)
		// N-022: 413, with the limit's name
		s.send(t, http.MethodPost, host, "/", strings.NewReader(body)).wantPage(t, http.StatusRequestEntityTooLarge,
			"aaaaaaa2", "The limit &#34;request bytes&#34; is 100000.")
		s.send(t, http.MethodPost, host, "/", io.MultiReader(strings.NewReader(body))).wantPage(t,
			http.StatusRequestEntityTooLarge, "aaaaaaa2", "100000")
	}
	// It is answered before the body comes: nobody waits for what is not wanted.
	s.dial(t, post("Content-Length: 100001")).next(t).wantPage(t, http.StatusRequestEntityTooLarge, "aaaaaaa2", "100000")
	if called != before {
		t.Errorf("the function was called %d times for what is too large, want none", called-before)
	}
}

// All bodies together take what they may, and no more; when one is answered there is room again.
func TestManyLargeRequests(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		inside <- struct{}{}
		<-leave
		return e, nil
	}), func(c *gateway.Config) { c.MaxRequests = 150_000 }, "POST /")
	body := strings.Repeat("x", 100_000)
	first := s.dial(t, post("Content-Length: 100000", "Content-Type: text/plain")+body)
	<-inside
	full := s.send(t, http.MethodPost, host, "/", strings.NewReader(body))
	full.wantPage(t, http.StatusServiceUnavailable, "aaaaaaa2", "bytes of all requests")
	full.wantHeaders(t, "Retry-After", "1")
	leave <- struct{}{}
	first.next(t).want(t, http.StatusOK, "aaaaaaa2", body)
	again := s.dial(t, post("Content-Length: 100000")+body)
	<-inside
	leave <- struct{}{}
	again.next(t).want(t, http.StatusOK, "aaaaaaa2", body)
}

// Who sends half a body and waits is told so, and who sends none.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	s := open(t, echo(), func(c *gateway.Config) { c.BodyTimeout = 20 * time.Millisecond }, "POST /")
	for name, text := range map[string]string{
		"half":  post("Content-Length: 10") + "12345",
		"none":  post("Content-Length: 10"),
		"chunk": post("Transfer-Encoding: chunked") + "5\r\n12",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.dial(t, text)
			answer := w.next(t)
			answer.wantPage(t, http.StatusRequestTimeout, "aaaaaaa2", "did not arrive")
			if _, err := w.answers.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want the connection closed", err)
			}
		})
	}
}

// The time for a body is over when the body is: the function and the next request on the connection have their own.
func TestTimeAfterBody(t *testing.T) {
	t.Parallel()
	const short = 250 * time.Millisecond
	var ended error
	s := open(t, plain(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		later := time.NewTimer(4 * short)
		defer later.Stop()
		select {
		case <-ctx.Done():
			ended = context.Cause(ctx)
		case <-later.C:
		}
		return e, nil
	}), func(c *gateway.Config) { c.BodyTimeout = short }, "POST /")
	w := s.dial(t, post("Content-Length: 2")+"ab")
	w.next(t).want(t, http.StatusOK, "aaaaaaa2", "ab")
	w.write(t, post("Content-Length: 2")+"cd")
	w.next(t).want(t, http.StatusOK, "aaaaaaa2", "cd")
	if ended != nil {
		t.Errorf("the function was ended: %v", ended)
	}
}

// Bodies that are none are refused, and the function never sees half of one.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		t.Error("the function was called")
		return e, nil
	}), nil, "POST /")
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"chunk size":         {post("Transfer-Encoding: chunked") + "zz\r\nhello\r\n0\r\n\r\n", 400},
		"chunk end":          {post("Transfer-Encoding: chunked") + "5\r\nhelloX\r\n0\r\n\r\n", 400},
		"coding":             {post("Transfer-Encoding: gzip") + "x", 501},
		"two codings":        {post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + "0\r\n\r\n", 501},
		"two lengths":        {post("Content-Length: 5", "Content-Length: 6") + "hello!", 400},
		"length below zero":  {post("Content-Length: -1"), 400},
		"a header's name":    {post("X A: 1", "Content-Length: 0"), 400},
		"a header's control": {post("X-A: 1\x002", "Content-Length: 0"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if answer := s.dial(t, c.text).next(t); answer.StatusCode != c.status {
				t.Errorf("got status %d, want %d", answer.StatusCode, c.status)
			}
		})
	}
}

// Who asks before sending is told to go on only when the body is wanted.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := open(t, echo(), nil, "POST /")
	w := s.dial(t, post("Content-Length: 5", "Expect: 100-continue"))
	if answer := w.next(t); answer.StatusCode != http.StatusContinue {
		t.Fatalf("got status %d, want 100", answer.StatusCode)
	}
	w.write(t, "hello")
	w.next(t).want(t, http.StatusOK, "aaaaaaa2", "hello")
	w = s.dial(t, post("Content-Length: 100000000", "Expect: 100-continue"))
	w.next(t).wantPage(t, http.StatusRequestEntityTooLarge, "aaaaaaa2", "too large")
}

// The call of somebody who went away ends, and nothing is answered or counted for it.
func TestClientGone(t *testing.T) {
	t.Parallel()
	inside, ended := make(chan struct{}), make(chan error)
	counted := make(chan int, 1)
	s := open(t, plain(func(ctx context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		p, err := event.ProtocolOf(e)
		if err != nil || p.Method == http.MethodGet {
			return e, err
		}
		inside <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return event.Event{}, context.Cause(ctx)
	}), func(c *gateway.Config) {
		c.Answered = func(_ string, status int, _ int64) { counted <- status }
	}, "POST /", "GET /")
	w := s.dial(t, post("Content-Length: 2")+"ab")
	<-inside
	w.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the call given up", err)
	}
	s.get(t, host, "/").want(t, http.StatusOK, "aaaaaaa2", "")
	if status := <-counted; status != http.StatusOK || s.log.String() != "" {
		t.Errorf("counted %d and logged %q, want only the call that was answered", status, s.log.String())
	}
}

// A stop waits for what is under way, which is answered.
func TestStop(t *testing.T) {
	t.Parallel()
	inside, leave := make(chan struct{}), make(chan struct{})
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		close(inside)
		<-leave
		return e, nil
	}), nil, "POST /")
	server := http.Server{Handler: s.gateway, ReadHeaderTimeout: testkit.Patience}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(wire.Listener(listener)) }()
	s.url = "http://" + listener.Addr().String()
	w := s.dial(t, post("Content-Length: 5", "Content-Type: text/plain")+"hello")
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(context.WithoutCancel(t.Context())) }()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) { // nothing new is taken from here on
		t.Fatal(err)
	}
	close(leave)
	w.next(t).want(t, http.StatusOK, "aaaaaaa2", "hello")
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// A function sees of a path what stands behind its route's prefix, and all of it where that is not at its beginning.
func TestTrimmedPaths(t *testing.T) {
	t.Parallel()
	content := newStore()
	app := shop(content, files{})
	var routes []registry.Route
	for trim, pattern := range map[string]string{"/api": "/api/", "/café": "/café/", "/slash/": "/slash/", "": "/whole/",
		"/other": "/another/"} {
		r := routeTo(greeter(), "greet", "", pattern)
		r.HTTP.Trim = trim
		routes = append(routes, r)
	}
	app.Releases[0].Routes = registry.NewRoutes(routes)
	s := newSite(t, content, func(c *gateway.Config) {
		c.Functions = plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
			p, err := event.ProtocolOf(e)
			return textOf(e, p.RequestURL, event.Protocol{}), err
		})
	}, app)
	for target, want := range map[string]string{
		"/api/": "/", "/api/a/b%20c?x=/api": "/a/b%20c?x=/api", "/api/api/": "/api/", "/caf%C3%A9/x": "/x", "/slash/x": "/x",
		"/whole/x": "/whole/x", "/another/x": "/another/x",
	} {
		if got := s.send(t, http.MethodGet, host, target, nil); got.body != "http://"+host+want {
			t.Errorf("%s: the function sees %s, want %s", target, got.body, want)
		}
	}
}
