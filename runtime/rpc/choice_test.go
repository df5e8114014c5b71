package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/test/testkit"
)

// Calls one after the other are answered by the process that is hot. Others that come meanwhile go to the least busy
// runner.
func TestBestRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addresses, there := make([]string, 3), make([]runs, 3)
	for i := range addresses {
		addresses[i], there[i], _ = w.runner()
	}
	r := w.router(nil, addresses...)
	f := w.function("greet", counter)
	first, _ := count(t, r, f, "good")
	for n := 2; n <= 20; n++ {
		process, number := count(t, r, f, "good")
		// E-054: to one that has the version hot
		if process != first || number != fmt.Sprint(n) {
			t.Fatalf("call %d is number %s of process %s, want of %s, which is hot", n, number, process, first)
		}
	}
	counts := func() (all []int) {
		for i := range there {
			n, _ := there[i].runner.Count(f.ID)
			all = append(all, n)
		}
		return all
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer release(t, f)
	for n := 1; n <= 6; n++ {
		group.Go(func() { _, _ = r.Call(t.Context(), function.Call{Function: f, Event: ask("hang", "")}) })
		testkit.Eventually(t, "the call is under way", func() bool {
			busy := 0
			for i := range there {
				n, idle := there[i].runner.Count(f.ID)
				busy += n - idle
			}
			return busy == n
		})
	}
	for i, n := range counts() {
		// E-074: else to the least busy
		if n != 2 {
			t.Errorf("runner %d has %d of 6 calls, want 2", i, n)
		}
	}
}

// stub is a runner that does as a test wants.
type stub struct {
	*httptest.Server

	calls atomic.Int64
}

func newStub(t testing.TB, answer http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) at() string { return s.Listener.Addr().String() }

func busy(w http.ResponseWriter, r *http.Request) {
	rpc.WriteError(w, r, event.Structured, ask("x", ""), &landfall.Error{
		Kind: landfall.Unavailable, Message: "as many as may be",
		Err: &function.Error{Reason: function.ReasonBusy, RetryAfter: 2 * time.Second},
	})
}

// cut ends the connection when the event was read.
func cut(http.ResponseWriter, *http.Request) {
	panic(http.ErrAbortHandler) //nolint:forbidigo // it is how net/http ends a connection
}

// What a busy runner refuses is sent elsewhere once.
func TestBusyElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	one, two, three := newStub(t, busy), newStub(t, busy), newStub(t, busy)
	_, err := w.router(nil, one.at(), two.at(), three.at()).Call(t.Context(),
		function.Call{Function: f, Event: ask("good", "")})
	if reason(err) != function.ReasonBusy || landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("where all are busy the error is %v, want that", err)
	}
	if n := one.calls.Load() + two.calls.Load() + three.calls.Load(); n != 2 {
		t.Errorf("%d runners were asked, want two", n)
	}
	at, _, _ := w.runner()
	full := newStub(t, busy)
	r := w.router(nil, full.at(), at)
	for range 10 {
		// of which nobody has a process: the one and the other are asked first
		count(t, r, w.function("other", counter), "good")
	}
	if full.calls.Load() == 0 {
		t.Error("the busy runner was never asked")
	}
	alone := w.router(nil, full.at())
	if _, err := alone.Call(t.Context(), function.Call{Function: f,
		Event: ask("good", "")}); reason(err) != function.ReasonBusy {
		t.Errorf("where there is no other one the error is %v, want that it is busy", err)
	}
}

// A call whose function may have begun is never made again.
func TestLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	one, two := newStub(t, cut), newStub(t, cut)
	through := w.router(nil, w.serve(w.router(nil, one.at(), two.at())))
	_, err := through.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
	if reason(err) != function.ReasonLost || !strings.Contains(landfall.MessageOf(err), "may have run") {
		t.Errorf("the error is %v, want that the call is lost and may have run", err)
	}
	if n := one.calls.Load() + two.calls.Load(); n != 1 {
		t.Errorf("the event was sent %d times, want once", n)
	}
}

// A runner that answers what no runner answers loses its call, and nothing else.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	frame := func(kind byte, size int, text string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(size)), text...)
	}
	const answer = `{"specversion":"1.0","id":"1","source":"/x","type":"t"}`
	for name, body := range map[string][]byte{
		"nothing":              nil,
		"half a head":          {'a', 0},
		"half an answer":       frame('a', 100, answer),
		"no event":             frame('a', 4, "null"),
		"garbage":              frame('a', 4, "\x00\xff{}"),
		"an answer too large":  frame('a', 1<<30, answer),
		"an error too large":   frame('e', 1<<30, "{}"),
		"an error of nothing":  frame('e', 2, "{}"),
		"no frame":             frame('z', 2, "{}"),
		"more than the answer": append(frame('a', len(answer), answer), 'x'),
		"a flood of log":       bytes.Repeat(frame('l', 1<<16, strings.Repeat("x", 1<<16)), 100),
		"a log and no end":     frame('l', 1, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := newLogs()
			bad := newStub(t, func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Content-Type", rpc.ContentType)
				_, _ = out.Write(body)
			})
			for _, r := range []*rpc.Router{w.router(logs, bad.at()), w.router(logs, w.serve(w.router(nil, bad.at())))} {
				if _, err := r.Call(t.Context(), function.Call{Function: f,
					Event: ask("good", "x")}); reason(err) != function.ReasonLost {
					t.Errorf("the error is %v, want that the call is lost", err)
				}
			}
			if n := len(logs.of("x")); n > 2<<20 {
				t.Errorf("%d bytes of log came of it", n)
			}
		})
	}
	t.Run("another server", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[int]landfall.Kind{
			http.StatusOK: landfall.Internal, http.StatusNotFound: landfall.Unavailable,
			http.StatusBadGateway: landfall.Internal,
		} {
			bad := newStub(t, func(out http.ResponseWriter, _ *http.Request) { http.Error(out, "<html>", status) })
			if _, err := w.router(nil, bad.at()).Call(t.Context(),
				function.Call{Function: f, Event: ask("good", "")}); err == nil || landfall.KindOf(err) != want {
				t.Errorf("a server that answers %d makes %v, want %s", status, err, want)
			}
		}
	})
}

// A runner that is not healthy gets no events, and gets them again when it is.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ill atomic.Bool
	_, there, _ := w.runner()
	sick := &proxy{Handler: there.Handler, ill: &ill}
	first := w.serve(sick)
	second, _, _ := w.runner()
	r := w.router(nil, first, second)
	w.watch(r)
	ill.Store(true)
	testkit.Eventually(t, "it is noticed", func() bool {
		return strings.Contains(w.log.String(), "a runner gets no events until it answers")
	})
	before := sick.calls.Load()
	for range 10 {
		count(t, r, w.function("new", counter), "good")
	}
	if n := sick.calls.Load() - before; n != 0 {
		t.Errorf("the runner that is not healthy got %d events", n)
	}
	ill.Store(false)
	testkit.Eventually(t, "it is used again", func() bool {
		count(t, r, w.function("new", counter), "good")
		return sick.calls.Load() > before
	})
}

// Where none is healthy, one that was not may be back before anybody knows.
func TestLastResort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ill atomic.Bool
	_, there, _ := w.runner()
	ill.Store(true)
	r := w.router(nil, w.serve(&proxy{Handler: there.Handler, ill: &ill}))
	w.watch(r)
	testkit.Eventually(t, "it is noticed", func() bool {
		return strings.Contains(w.log.String(), "a runner gets no events until it answers")
	})
	count(t, r, w.function("greet", counter), "good")
}

// proxy is a runner whose health a test decides.
type proxy struct {
	http.Handler

	ill   *atomic.Bool
	calls atomic.Int64
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		p.calls.Add(1)
	case p.ill.Load():
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	p.Handler.ServeHTTP(w, r)
}

// A runner that is killed while it works loses what is under way there, which is said, and nothing else.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, kill := w.process()
	second, _ := w.process()
	front := w.router(nil, first, second)
	w.watch(front)
	r := w.router(nil, w.serve(front))
	f := w.function("greet", counter)
	const callers, calls = 8, 60
	var answered, lost atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
				switch {
				case err == nil:
					if answered.Add(1) == callers*calls/4 {
						kill()
					}
				case reason(err) == function.ReasonLost:
					lost.Add(1)
				default:
					t.Errorf("a caller is told %v (%+v)", err, function.EventError(err))
				}
			}
		})
	}
	group.Wait()
	if n := answered.Load() + lost.Load(); n != callers*calls || lost.Load() > callers {
		t.Errorf("of %d calls %d were answered and %d lost, want all, and no more lost than were under way", callers*calls,
			answered.Load(), lost.Load())
	}
	t.Logf("%d calls were lost", lost.Load())
	for range 10 {
		count(t, r, f, "good")
	}
}

// A runner that stops sends new events elsewhere, and finishes what is under way.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	other, elsewhere, _ := w.runner()
	r := w.router(nil, at)
	f := w.function("greet", counter)
	answers := make(chan error, 1)
	go func() {
		_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("hang", "")})
		answers <- err
	}()
	testkit.Eventually(t, "the call is under way", func() bool { n, _ := there.runner.Count(f.ID); return n == 1 })
	there.Drain()
	if _, err := r.Call(t.Context(), function.Call{Function: f,
		Event: ask("good", "")}); landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("a runner that stops makes %v, want that it is not available", err)
	}
	for name, address := range map[string]string{"it": at, "a router that has no other": w.serve(r)} {
		status, text := send(t, http.MethodGet, "http://"+address+"/run",
			http.Header{"Authorization": {"Bearer " + roleSecret.Reveal()}}, "")
		if status != http.StatusServiceUnavailable {
			t.Errorf("%s says of its health %d %s, want that it is not available", name, status, text)
		}
	}
	asked, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.serve(w.router(nil, at))+"/run",
		strings.NewReader(
			`{"specversion":"1.0","id":"1","source":"/me","type":"good"}`))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header = http.Header{
		"Authorization": {"Bearer " + roleSecret.Reveal()}, "Content-Type": {"application/cloudevents+json"},
		rpc.FunctionHeader: {rpc.NameOf(f).String()},
	}
	refusal, err := http.DefaultClient.Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	_ = refusal.Body.Close()
	if got := refusal.Header.Get(rpc.RefusedHeader); got != rpc.Busy ||
		refusal.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a router whose runner stops answers %d, refused as %q; want %q: it does not stop itself",
			refusal.StatusCode, got, rpc.Busy)
	}
	both := w.router(nil, at, other)
	for range 4 {
		count(t, both, f, "good")
	}
	if n, _ := elsewhere.runner.Count(f.ID); n != 1 {
		t.Errorf("the other runner has %d processes, want the one that answered", n)
	}
	release(t, f)
	if err := <-answers; err != nil {
		t.Errorf("the call that was under way ended with %v", err)
	}
}

// The runners are the addresses of a name, whatever they are by now.
func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, one, _ := w.runner()
	host, port, err := net.SplitHostPort(first)
	if err != nil {
		t.Fatal(err)
	}
	// another machine has the same port
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	var later atomic.Int64
	two := httptest.NewUnstartedServer(&counted{one.Handler, &later})
	_ = two.Listener.Close()
	two.Listener = listener
	two.Start()
	t.Cleanup(two.Close)
	var addresses atomic.Value
	addresses.Store(host)
	r := w.router(nil, "runners.example:"+port)
	r.Resolve = func(_ context.Context, name string) ([]net.IPAddr, error) {
		if name != "runners.example" {
			return nil, fmt.Errorf("it asks for %s", name)
		}
		if text, _ := addresses.Load().(string); text != "" {
			return []net.IPAddr{{IP: net.IPv6loopback}, {IP: net.ParseIP(text)}}, nil
		}
		return nil, nil
	}
	w.watch(r)
	f := w.function("greet", counter)
	testkit.Eventually(t, "the first address is found", func() bool {
		_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
		return err == nil
	})
	if later.Load() != 0 {
		t.Fatal("the event went to an address that the name has not")
	}
	addresses.Store("127.0.0.2")
	testkit.Eventually(t, "the second address is found", func() bool { count(t, r, f, "good"); return later.Load() > 0 })
	addresses.Store("") // the name is gone: what is known stays
	before := later.Load()
	testkit.Eventually(t, "that the name is gone is said", func() bool {
		return strings.Contains(w.log.String(), "cannot be looked up")
	})
	count(t, r, f, "good")
	if later.Load() == before {
		t.Error("the event did not go where the ones before it went")
	}
}

// counted counts the events that a handler gets.
type counted struct {
	http.Handler

	calls *atomic.Int64
}

// ServeHTTP implements http.Handler.
func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		c.calls.Add(1)
	}
	c.Handler.ServeHTTP(w, r)
}

// Who has not the secret of the roles is refused everywhere, is told nothing, and makes nothing happen.
func TestRoleSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	front := w.serve(w.router(nil, at))
	f := w.function("secretive", counter)
	for name, url := range map[string]string{
		"a runner": "http://" + at + "/run", "a router": "http://" + front + "/run",
		"a registry": w.url.String() + rpc.NameOf(f).String(), "its list": w.url.String() + "/functions/",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			for _, authorization := range []string{"", "Bearer ", "Bearer " + string(roleSecret) + "x",
				"Basic " + string(roleSecret), string(roleSecret)} {
				status, body := send(t, method, url, http.Header{
					"Authorization": {authorization}, "Content-Type": {"application/cloudevents+json"},
					rpc.FunctionHeader: {rpc.NameOf(f).String()},
				}, `{"specversion":"1.0","id":"1","source":"/me","type":"good"}`)
				if status != http.StatusUnauthorized || strings.Contains(body, f.Name) || strings.Contains(body, "hello") {
					t.Errorf("%s of %s with %q: %d %q, want 401 and no word of the function", method, name, authorization,
						status, body)
				}
			}
		}
	}
	if n, _ := there.runner.Count(f.ID); n != 0 || w.asked.Load() != 0 {
		t.Errorf("%d processes were started and the registry asked %d times, want nothing of it", n, w.asked.Load())
	}
	stranger := w.router(nil, at)
	stranger.Secret = "another"
	w.watch(stranger)
	_, err := stranger.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
	if landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("with another secret the error is %v, want that it is not available", err)
	}
	testkit.Eventually(t, "the log says why", func() bool {
		return strings.Contains(w.log.String(), "does not know the role secret")
	})
	if strings.Contains(w.log.String(), string(roleSecret)) {
		t.Error("the log has the secret")
	}
}

// send sends a request, and returns what is answered.
func send(t testing.TB, method, url string, header http.Header, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(read)
}

// Whoever has the role secret sends an event as CloudEvents are sent, which names its function as the Fn document has
// it, and gets the result in the same form.
func TestPlainEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, _, _ := w.runner()
	f := w.function("greet", counter)
	const plain = "https://functions.somewhere.example/default/greet:"
	version := string(f.Version)
	draft := `{"cloud-events-version":"0.1","event-id":"1","source":"/me","event-type":"good","extensions":{"function":"` +
		plain + version + `"}}`
	structured := `{"specversion":"1.0","id":"1","source":"/me","type":"%s","function":"` + plain + `%s"}`
	for name, address := range map[string]string{"a runner": at, "a router": w.serve(w.router(nil, at))} {
		for _, test := range []struct {
			header http.Header
			body   string
			status int
			want   string
		}{
			{http.Header{"Content-Type": {"application/cloudevents+json"}}, fmt.Sprintf(structured, "good", version), 200,
				`"source":"/counter"`},
			{
				http.Header{
					"Content-Type": {"text/plain"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/me"},
					"Ce-Type": {"good"}, "Ce-Function": {plain + version},
				}, "hello", 200, " ",
			},
			{http.Header{"Content-Type": {"application/json"}}, draft, 200, `"event-type":"count"`},
			{http.Header{"Content-Type": {"application/cloudevents+json"}}, fmt.Sprintf(structured, "exit", version), 502,
				`it goes`},
			{http.Header{"Content-Type": {"application/cloudevents+json"}}, fmt.Sprintf(structured, "good", "none"), 502,
				`there is no function`},
			{http.Header{"Content-Type": {"application/cloudevents+json"}},
				`{"specversion":"1.0","id":"1","source":"/me","type":"good"}`, 400, `NAMESPACE/NAME:VERSION`},
			{http.Header{"Content-Type": {"application/cloudevents+json"}}, `{"half`, 400, `error`},
			{http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, `[]`, 400, `one event at a time`},
		} {
			test.header.Set("Authorization", "Bearer "+roleSecret.Reveal())
			status, body := send(t, http.MethodPost, "http://"+address+"/run", test.header, test.body)
			if name == "a router" {
				// E-055: the endpoint of a router is that of a runner
				if status != test.status || !strings.Contains(body, test.want) {
					t.Errorf("a router answers %s with %d %s, want %d and %s", test.body, status, body, test.status, test.want)
				}
				continue
			}
			// E-037: an event at /run
			if status != test.status {
				t.Errorf("a runner answers %s with %d, want %d", test.body, status, test.status)
			}
			// E-038: the result is an event, too
			if !strings.Contains(body, test.want) {
				t.Errorf("a runner answers %s with %s, want %s", test.body, body, test.want)
			}
		}
	}
}

// The registry tells runners all that is needed to run a function, by its address alone: with it, any process runs it.
func TestDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	f.Secrets = []landfall.SealedSecret{{Name: "key", Number: 2, Sealed: []byte("sealed")}, {Name: "revoked", Number: 1}}
	f.Resources = landfall.Resources{Memory: 1 << 20, MilliCPU: 2, Disk: 3, Timeout: 4, IdleTimeout: 5, Concurrency: 6,
		KeepWarm: 7}
	f.Environment = landfall.Environment{Name: "nodejs", Image: "node"}
	f.App, f.Network, f.Body = "an app's id", true, 1<<20
	f.Package.Digest, f.Package.Size = landfall.DigestOf([]byte("a package")), 8
	c := &rpc.Registry{URL: w.url, Secret: roleSecret}
	for _, name := range []rpc.Name{rpc.NameOf(f), {Reference: rpc.NameOf(f).Reference}} {
		got, err := c.Function(t.Context(), name)
		// E-047: over HTTP, from a registry that may be a process of its own
		if err != nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", *f) {
			t.Errorf("the registry says %+v, %v; want %+v", got, err, f)
		}
	}
	for _, path := range []string{"/functions/", rpc.NameOf(f).String()} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url.String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+roleSecret.Reveal())
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("what %s says may be kept (%q)", path, got)
		}
	}
	stranger := &rpc.Registry{URL: w.url, Secret: "another"}
	if _, err := stranger.Function(t.Context(), rpc.NameOf(f)); landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("with another secret it says %v, want that it cannot be asked", err)
	}
}
