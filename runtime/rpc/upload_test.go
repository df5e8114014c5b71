package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/test/testkit"
)

// reader is a program that takes bodies in parts, and sends them back while they come. The type of an event says what
// else it does.
const reader = `while read -r event; do
	end='{"last":true,"dataread":true}'
	printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","protocol":"{\\"streaming\\":true}"}\n'
	case "$event" in
	*'"type":"early"'*) echo '{"data":"early","last":true}'; end='{"dataread":true}' ;;
	esac
	while read -r part; do
		case "$part" in
		*'"last":true'*) break ;;
		*'"error"'*) echo "$part" >&2; break ;;
		esac
		case "$end" in *last*) echo "$part" ;; esac
	done
	echo "$end"
done
`

// flow is a body that a test writes.
type flow struct {
	*io.PipeReader

	in      *io.PipeWriter
	taken   atomic.Int64
	stopped chan struct{}
	stop    func()
}

func newFlow() *flow {
	b := &flow{stopped: make(chan struct{})}
	b.PipeReader, b.in = io.Pipe()
	b.stop = sync.OnceFunc(func() {
		_ = b.CloseWithError(errors.New("stopped"))
		close(b.stopped)
	})
	return b
}

// Read implements function.Body.
func (b *flow) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	b.taken.Add(int64(n))
	return n, err
}

// Stop implements function.Body.
func (b *flow) Stop() { b.stop() }

// Taken implements function.Body.
func (b *flow) Taken() int64 { return b.taken.Load() }

func (b *flow) say(text string) { _, _ = b.in.Write([]byte(text)) }

// reads makes a function that takes bodies in parts.
func (w *world) reads(name string) *landfall.Function {
	f := w.function(name, reader)
	f.Body = 1 << 20
	return f
}

// settled waits until a function has one process, which waits.
func settled(t *testing.T, r runs, f *landfall.Function) {
	t.Helper()
	testkit.Eventually(t, "the process waits", func() bool { n, idle := r.runner.Count(f.ID); return n == 1 && idle == 1 })
}

// What was sent of a body is with the function, and what it made of that is back, before the rest is sent.
func TestBodiesTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	for name, address := range map[string]string{"a runner": at, "a router": w.serve(w.router(nil, at))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := newLogs()
			r, f := w.router(logs, address), w.reads(strings.ReplaceAll(name, " ", "-"))
			for range 2 {
				b, k := newFlow(), &taker{}
				over := begin(t.Context(), r, f, "good", b, k)
				b.say("one ")
				testkit.Eventually(t, "the first part is back", func() bool { return k.said() == "one " })
				b.say("two ")
				testkit.Eventually(t, "the second part is back", func() bool { return k.said() == "one two " })
				large := strings.Repeat("0123456789", 50_000)
				b.say(large)
				_ = b.in.Close()
				if end := <-over; end.err != nil || k.said() != "one two "+large || b.Taken() != int64(len("one two "+large)) {
					t.Errorf("got %d bytes, %v; want all that was sent", len(k.said()), end.err)
				}
				<-b.stopped
				settled(t, there, f)
			}
			// Bodies that break off: the function is told, and its process stays.
			b, k := newFlow(), &taker{}
			over := begin(t.Context(), r, f, "good", b, k)
			b.say("half")
			testkit.Eventually(t, "the half is back", func() bool { return k.said() == "half" })
			_ = b.in.CloseWithError(&landfall.Error{Op: "test", Kind: landfall.Canceled, Message: "a cloud came"})
			if end := <-over; landfall.KindOf(end.err) != landfall.Canceled ||
				!strings.Contains(landfall.MessageOf(end.err), "broke off: a cloud came") {
				t.Errorf("half a body makes %v, want that it broke off", end.err)
			}
			settled(t, there, f)
			if !strings.Contains(logs.of("x1"), "a cloud came") {
				t.Errorf("the function knows %q, want why there is no more", logs.of("x1"))
			}
			// An early answer does not wait for the body.
			b, k = newFlow(), &taker{}
			over = begin(t.Context(), r, f, "early", b, k)
			if end := <-over; end.err != nil || k.said() != "early" {
				t.Errorf("got %q, %v; want the early answer", k.said(), end.err)
			}
			<-b.stopped
			settled(t, there, f)
			// A caller that leaves costs no process.
			b, k = newFlow(), &taker{}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			over = begin(ctx, r, f, "good", b, k)
			b.say("half")
			testkit.Eventually(t, "the half is back", func() bool { return k.said() == "half" })
			leave()
			if end := <-over; landfall.KindOf(end.err) != landfall.Canceled {
				t.Errorf("got %v, want that it was given up", end.err)
			}
			<-b.stopped
			testkit.Eventually(t, "the call is over there", func() bool {
				n, idle := there.runner.Count(f.ID)
				return n == idle
			})
		})
	}
}

// A runner that dies while it is sent a body loses the call, and the body ends.
func TestRunnerDiesInTheBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.reads("echo")
	for name, through := range map[string]bool{"a runner": false, "a router": true} {
		at, kill := w.process()
		if through {
			at = w.serve(w.router(nil, at))
		}
		b, k := newFlow(), &taker{}
		over := begin(t.Context(), w.router(nil, at), f, "good", b, k)
		b.say("one")
		testkit.Eventually(t, "the first part is back", func() bool { return k.said() == "one" })
		kill()
		if end := <-over; reason(end.err) != function.ReasonLost {
			t.Errorf("by way of %s got %v; want that the call is lost", name, end.err)
		}
		<-b.stopped
	}
}

// While nobody has begun to read a body, the call may go to another runner; when all are busy, nothing of the body was
// taken.
func TestBodyOfABusyFunction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, first, _ := w.runner()
	two, second, _ := w.runner()
	f := w.reads("echo")
	f.Resources.Concurrency = 1
	for name, r := range map[string]function.Caller{"here": w.router(nil, one, two),
		"a router": w.router(nil, w.serve(w.router(nil, one, two)))} {
		var flows []*flow
		var overs []chan ended
		for _, at := range []string{one, ""} {
			run := r
			if at != "" {
				run = w.router(nil, at) // of which r knows nothing
			}
			b, k := newFlow(), &taker{}
			overs, flows = append(overs, begin(t.Context(), run, f, "good", b, k)), append(flows, b)
			b.say("one")
			testkit.Eventually(t, "the part is back", func() bool { return k.said() == "one" })
		}
		b := newFlow()
		go b.say("three")
		if end := <-begin(t.Context(), r, f, "good", b, &taker{}); reason(end.err) != function.ReasonBusy || b.Taken() != 0 {
			t.Errorf("%s: got %v, and %d bytes were taken; want that all are busy, and none", name, end.err, b.Taken())
		}
		for i, b := range flows {
			_ = b.in.Close()
			if end := <-overs[i]; end.err != nil {
				t.Errorf("%s: got %v", name, end.err)
			}
		}
		settled(t, first, f)
		settled(t, second, f)
	}
}

// What is no whole body is never taken for one, whatever a sender says; who does not know the secret says nothing.
func TestLyingBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	f := w.reads("echo")
	f.Body = 100
	const head = `h{"specversion":"1.0","id":"1","source":"/x","type":"good"}`
	post := func(address string, body io.Reader, change func(*http.Request)) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/run", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Accept": {rpc.ContentType}, "Content-Type": {"application/cloudevents+json"},
			rpc.FunctionHeader: {rpc.NameOf(f).String()}, rpc.BodyHeader: {"yes"}, rpc.StreamHeader: {"yes"},
			"Authorization": {"Bearer " + roleSecret.Reveal()},
		}
		change(r)
		answer, err := (&http.Client{Timeout: testkit.Patience}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || !answer.Close {
			t.Errorf("got %v, and the connection goes on: %v", err, !answer.Close)
		}
		return answer.StatusCode, string(text)
	}
	for _, address := range []string{at, w.serve(w.router(nil, at))} {
		for name, test := range map[string]struct {
			frames []byte
			want   string
		}{
			"whole":              {frames(head, "done ", "z"), `"type":"t"`},
			"as large as it may": {frames(head, "d"+strings.Repeat("x", 100), "z"), `"type":"t"`},
			"no end":             {frames(head, "done "), "broke off"},
			"half a frame":       {frames(head, "done ")[:len(frames(head, "done "))-2], "broke off"},
			"more than the end":  {frames(head, "done ", "z", "dtwo"), "broke off"},
			"an end with more":   {frames(head, "done ", "zmore"), "broke off"},
			"two heads":          {frames(head, "done ", head, "z"), "broke off"},
			"too large a frame":  {append(frames(head), 'd', 0xff, 0, 0, 0), "broke off"},
			"an error":           {frames(head, "done ", `e{"kind":"canceled","message":"a cloud came"}`), "a cloud came"},
			"no error":           {frames(head, "done ", "e{}"), "broke off"},
			"too large":          {frames(head, "d"+strings.Repeat("x", 101), "z"), "larger than the limit of 100 bytes"},
			"no event":           {frames("hnull", "z"), `"kind":"invalid"`},
			"a piece first":      {frames("done", "z"), "could not be read"},
			"too large an event": {[]byte{'h', 0xff, 0, 0, 0}, "could not be read"},
		} {
			// The body is of unknown length, as senders' are.
			_, text := post(address, io.MultiReader(bytes.NewReader(test.frames)), func(*http.Request) {})
			if !strings.Contains(text, test.want) || strings.Count(text, "a\x00\x00") > 0 != (test.want == `"type":"t"`) {
				t.Errorf("%s: got %q, want %q", name, text, test.want)
			}
			testkit.Eventually(t, "the call is over there", func() bool {
				n, idle := there.runner.Count(f.ID)
				return n == idle
			})
		}
		asked := make(chan struct{}, 100)
		unread := readFunc(func(p []byte) (int, error) { // what HTTP itself reads ahead is little
			select {
			case asked <- struct{}{}:
			default:
			}
			return copy(p, "x"), nil
		})
		if status, _ := post(address, io.LimitReader(unread, 1000), func(r *http.Request) {
			r.Header.Del("Authorization")
		}); status != http.StatusUnauthorized {
			t.Errorf("without the secret: got %d", status)
		}
		if status, text := post(address, bytes.NewReader(frames(head, "z")), func(r *http.Request) {
			r.Header.Del("Accept")
		}); status != http.StatusBadRequest {
			t.Errorf("without frames as an answer: got %d %q", status, text)
		}
	}
	f.Body = 0
	plain := w.function("plain", counter)
	if _, text := post(at, bytes.NewReader(frames(head, "z")), func(r *http.Request) {
		r.Header.Set(rpc.FunctionHeader, rpc.NameOf(plain).String())
	}); !strings.Contains(text, "takes no body") {
		t.Errorf("a function that takes no parts: got %q", text)
	}
}

// readFunc is a reader.
type readFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (r readFunc) Read(p []byte) (int, error) { return r(p) }
