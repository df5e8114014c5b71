package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// A function's name is a URL that leads to it at any registry.
func TestName(t *testing.T) {
	t.Parallel()
	f := &landfall.Function{ID: "shop/cart:7 sha256:00 a&b=c +%", Namespace: "shop", Name: "cart", Version: "abcdefgh",
		Group: "ijklmnop"}
	const want = "/functions/shop/cart:abcdefgh?group=ijklmnop&id=shop%2Fcart%3A7+sha256%3A00+a%26b%3Dc+%2B%25"
	if got := NameOf(f).String(); got != want {
		t.Errorf("it is %s, want %s", got, want)
	}
	for _, text := range []string{want, "https://landfall.example" + want} {
		if n, err := parseName(text); err != nil || n != NameOf(f) {
			t.Errorf("%s is %+v, %v; want %+v", text, n, err, NameOf(f))
		}
	}
	for text, want := range map[string]landfall.Reference{
		"https://functions.somewhere.com/shop/cart:stable": {Namespace: "shop", Name: "cart", Selector: "stable"},
		"/functions/functions/functions:1":                 {Namespace: "functions", Name: "functions", Selector: "1"},
		"cart":                                             {Name: "cart", Selector: landfall.Latest},
	} {
		if n, err := parseName(text); err != nil || n != (Name{Reference: want}) {
			t.Errorf("%s is %+v, %v; want %+v", text, n, err, want)
		}
	}
	for _, text := range []string{"", "/functions/", "https://[", "http://169.254.169.254/latest/meta-data/x",
		"/functions/a/b/c:1", "\x00"} {
		if n, err := parseName(text); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%q is %+v, %v; want that it is none", text, n, err)
		}
	}
}

// Whatever a name has in it, it is the same on the other side, and a URL reference without a host.
func TestNameTravels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?`)
		n := Name{
			Reference: landfall.Reference{Namespace: word.Draw(t, "namespace"), Name: word.Draw(t, "name"),
				Selector: rapid.StringMatching(`[a-z1-9]{1,12}`).Draw(t, "selector")},
			Group: landfall.UID(word.Draw(t, "group")), ID: rapid.String().Draw(t, "id"),
		}
		text := n.String()
		if u, err := url.Parse(text); err != nil || u.Host != "" {
			t.Fatalf("%q is the URL %+v, %v", text, u, err)
		}
		if got, err := parseName(text); err != nil || got != n {
			t.Fatalf("%q is %+v, %v; want %+v", text, got, err, n)
		}
	})
}

// Resources are the same on the other side; what is no resource is refused.
func TestResourcesTravel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<40)
		r := landfall.Resources{
			Memory: n.Draw(t, "memory"), MilliCPU: int(n.Draw(t, "cpu")), Disk: n.Draw(t, "disk"),
			Timeout:     time.Duration(n.Draw(t, "timeout")),
			IdleTimeout: time.Duration(n.Draw(t, "idle")), Concurrency: int(n.Draw(t, "concurrency")),
			KeepWarm: int(n.Draw(t, "warm")),
		}
		if got, err := parseResources(resourcesText(r)); err != nil || got != r {
			t.Fatalf("%+v is %+v, %v on the other side", r, got, err)
		}
	})
	for _, text := range []string{"memory", "memory=-1", "memory=1e9", "timeout=30s", "root=1",
		"memory=99999999999999999999", "=1"} {
		if r, err := parseResources(text); landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%q is %+v, %v; want that it is none", text, r, err)
		}
	}
}

// Errors of every kind and reason are the same on the other side, but for their causes, which are for the log where
// they were.
func TestFaultsTravel(t *testing.T) {
	t.Parallel()
	for _, kind := range landfall.Kinds() {
		for _, cause := range []*function.Error{nil, {Reason: function.ReasonBusy, RetryAfter: 1500 * time.Millisecond},
			{Reason: function.ReasonExit, Trace: "a\n\x00\"b"}} {
			sent := &landfall.Error{Op: "runner.Run", Kind: kind, Message: "it is \"so\"",
				Err: errors.New("a secret of the operator")}
			if cause != nil {
				sent.Err = errors.Join(cause, sent.Err)
			}
			text := encodeFault(sent)
			if bytes.Contains(text, []byte("operator")) {
				t.Errorf("%s has the cause", text)
			}
			var got error = decodeFault("call", text)
			fault, _ := errors.AsType[*function.Error](got)
			if landfall.KindOf(got) != kind || landfall.MessageOf(got) != sent.Message || (fault == nil) != (cause == nil) ||
				(fault != nil && *fault != *cause) {
				t.Errorf("%v (%+v) is %v (%+v) on the other side", sent, cause, got, fault)
			}
		}
	}
}

// FuzzAnswer: whatever a process answers, the call ends, and holds no more than its limits.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("a\x00\x00\x00\x02{}"))
	f.Add(appendFrame(appendFrame(nil, logFrame, []byte("hello")), errorFrame, encodeFault(lost(nil))))
	f.Fuzz(func(t *testing.T, answer []byte) {
		limits := map[byte]int{logFrame: 16, answerFrame: 16, errorFrame: 16}
		for from := bytes.NewReader(answer); ; {
			kind, text, err := readFrame(from, limits)
			if err != nil {
				return
			}
			if len(text) > limits[kind] {
				t.Fatalf("a frame %q has %d bytes", kind, len(text))
			}
			_ = decodeFault("call", text)
		}
	})
}

// A frame that says it is large takes no memory before it comes, and one that ends early is none.
func TestFrameThatLies(t *testing.T) {
	t.Parallel()
	limits := map[byte]int{answerFrame: maxAnswer}
	head := []byte{answerFrame, 0, 0xff, 0xff, 0xff, 'x'} // not quite 16 MiB
	_, text, err := readFrame(bytes.NewReader(head), limits)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cap(text) > 1<<20 {
		t.Errorf("got %v, and it took %d bytes", err, cap(text))
	}
}

// A process that says nonsense of when to try again does not put a call off for ever, nor into the past.
func TestNonsenseToRetry(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000} {
		err := decodeFault("call", fmt.Appendf(nil,
			`{"kind":"unavailable","message":"no","reason":"busy","retry_after":%d}`, ms))
		fault, ok := errors.AsType[*function.Error](err)
		if !ok || fault.RetryAfter < 0 || fault.RetryAfter > time.Hour {
			t.Errorf("%d ms: got %v", ms, err.Err)
		}
	}
}

// What the processes of a server tell each other goes through no proxy that the environment names for the world
// outside.
func TestRegistryWithoutProxy(t *testing.T) {
	t.Parallel()
	var c Registry
	c.open()
	if transport, ok := c.Client.Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Errorf("it asks through %v", c.Client.Transport)
	}
}

// A process without a secret of the roles knows nobody: neither who has none nor who has an empty one.
func TestEmptySecret(t *testing.T) {
	t.Parallel()
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer x"} {
		if r := (&http.Request{Header: http.Header{"Authorization": {authorization}}}); knows(r, "") {
			t.Errorf("%q is known", authorization)
		}
	}
}

// A gate lets so many calls in, and tells the next one when to come again; it lets that in when another one has left.
func TestGateIsFull(t *testing.T) {
	t.Parallel()
	var g gate
	for range maxCalls {
		if err := g.enter(); err != nil {
			t.Fatal(err)
		}
	}
	fault, ok := errors.AsType[*function.Error](g.enter())
	if !ok || fault.Reason != function.ReasonBusy || fault.RetryAfter <= 0 {
		t.Errorf("call %d makes %+v, want that the gate is busy", maxCalls+1, fault)
	}
	g.leave()
	if err := g.enter(); err != nil {
		t.Errorf("a call in the place of one that left makes %v", err)
	}
}

// Who is refused because nobody can run the function now is told so by the status, and when to come again.
func TestComeAgain(t *testing.T) {
	t.Parallel()
	const full, failed = "a runner may be free in a moment", "the function is broken"
	for _, c := range []struct {
		err                  error
		status               int
		again, why, contains string
	}{
		{&landfall.Error{Kind: landfall.Unavailable, Message: full, Err: &function.Error{Reason: function.ReasonBusy}}, 503, "1",
			Busy, full}, {refused(full, nil), 503, "1", "", full},
		{&landfall.Error{Message: failed, Err: &function.Error{Reason: function.ReasonExit}}, 502, "", "", failed},
	} {
		for _, accept := range []string{"", ContentType} {
			w := httptest.NewRecorder()
			WriteError(w, &http.Request{Header: http.Header{"Accept": {accept}}}, event.Structured, standIn(), c.err)
			h := w.Header()
			if w.Code != c.status || h.Get("Retry-After") != c.again || h.Get(RefusedHeader) != c.why ||
				!strings.Contains(w.Body.String(), c.contains) {
				t.Errorf("%v to who accepts %q: %d %v %s, want %d, to come again after %q s, refused as %q", c.err, accept, w.Code,
					h, w.Body, c.status, c.again, c.why)
			}
		}
	}
}

// An event between roles has a limit, also when nobody says before how large it is.
func TestEventTooLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, said int64
		large      bool
	}{{maxEvent, maxEvent, false}, {maxEvent, -1, false}, {maxEvent + 1, -1, true}, {0, maxEvent + 1, true}} {
		body, err := readBody(&http.Request{ContentLength: c.said, Body: io.NopCloser(bytes.NewReader(make([]byte, c.size)))})
		limit, large := errors.AsType[*event.TooLargeError](err)
		if large != c.large || large && limit.Max != maxEvent || !large && (err != nil || int64(len(body)) != c.size) {
			t.Errorf("%d bytes, of which %d were announced: got %d bytes and %v", c.size, c.said, len(body), err)
		}
	}
}
