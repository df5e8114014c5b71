package rpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/test/testkit"
)

// streamer is a program whose answer comes in parts: one, then what the type of the event says, and then two and three.
const streamer = `while read -r event; do
	echo "it begins" >&2
	printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"one ","protocol":"{\\"streaming\\":true,\\"status_code\\":201}"}\n'
	case "$event" in
	*'"type":"hang"'*) while [ ! -e go ]; do sleep 0.02; done ;;
	*'"type":"exit"'*) echo "it goes" >&2; exit 3 ;;
	*'"type":"garbage"'*) echo two; exec sleep 600 ;;
	*'"type":"late"'*) exec sleep 600 ;;
	*'"type":"endless"'*) while :; do echo '{"data":"more "}'; done ;;
	*'"type":"error"'*) echo '{"error":{"message":"no more","type":"Empty"}}'; continue ;;
	esac
	printf '{"data":"two "}{"data_base64":"dGhyZWU="}\n{"last":true}\n'
done
`

// taker takes streamed answers, until it takes no more.
type taker struct {
	mu   sync.Mutex
	head event.Event
	text strings.Builder
	most int // bytes; 0: all
}

// Begin implements function.Stream.
func (k *taker) Begin(answer event.Event) error {
	k.mu.Lock()
	k.head = answer
	k.mu.Unlock()
	_, err := k.Write(answer.Data())
	return err
}

// Write implements function.Stream.
func (k *taker) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most > 0 && k.text.Len()+len(p) > k.most {
		return 0, errors.New("gone")
	}
	return k.text.Write(p)
}

func (k *taker) said() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// What a function has made of its answer is here before the rest is made there, and so is its log.
func TestStreamsTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	for name, address := range map[string]string{"a runner": at, "a router": w.serve(w.router(nil, at))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs, k := newLogs(), &taker{}
			r, f := w.router(logs, address), w.function(strings.ReplaceAll(name, " ", "-"), streamer)
			over := begin(t.Context(), r, f, "hang", nil, k)
			testkit.Eventually(t, "the first part is here", func() bool { return k.said() == "one " })
			if p, err := event.ProtocolOf(k.head); err != nil || p.Status != http.StatusCreated ||
				event.ExecutionOf(k.head) != "x1" {
				t.Errorf("it begins with %v, %v", k.head, err)
			}
			testkit.Eventually(t, "the log is here, too", func() bool { return logs.of("x1") == "it begins\n" })
			release(t, f)
			if end := <-over; end.err != nil || k.said() != "one two three" || len(end.answer.Data()) > 0 {
				t.Errorf("got %q and then %q, %v; want all parts and no data", k.said(), end.answer.Data(), end.err)
			}
			answer, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("good", "")})
			if err != nil || string(answer.Data()) != "one two three" {
				t.Errorf("where nobody takes parts: got %q, %v", answer.Data(), err)
			}
			if n, idle := there.runner.Count(f.ID); n != 1 || idle != 1 {
				t.Errorf("there are %d processes, %d idle; want the one that answered both", n, idle)
			}
		})
	}
}

// A streamed answer that breaks off there breaks off here, for the same reason, and is never a whole one.
func TestBrokenStreamsTravel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, here, _ := w.runner()
	direct, through := w.router(nil, at), w.router(nil, w.serve(w.router(nil, at)))
	for _, kind := range []string{"exit", "garbage", "late", "error"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := w.function(kind, streamer)
			if kind == "late" {
				f.Resources.Timeout = 2 * time.Second
			}
			broken := func(run function.Caller, k *taker, execution string) (answer event.Event, err error) {
				begun := func() bool {
					answer, err = run.Call(t.Context(), function.Call{Function: f, Event: ask(kind, execution), Stream: k})
					return kind != "late" || strings.Contains(function.EventError(err).Trace, "it begins")
				}
				testkit.Eventually(t, "the time is over after the function began, not before", begun)
				return answer, err
			}
			answer, want := broken(here.Functions, &taker{}, "x")
			fault, _, _ := event.ErrorOf(answer)
			if want == nil && fault.Message == "" {
				t.Fatal("here it does not break off")
			}
			for name, run := range map[string]function.Caller{"a runner": direct, "a router": through} {
				k := &taker{}
				answer, err := broken(run, k, "y")
				same(t, name, err, want)
				if got, _, _ := event.ErrorOf(answer); got != fault || k.said() != "one " {
					t.Errorf("by way of %s got %q and the error %+v, want %+v", name, k.said(), got, fault)
				}
			}
		})
	}
}

// A runner that dies in the middle of an answer loses it.
func TestRunnerDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("hang", streamer)
	for name, through := range map[string]bool{"a runner": false, "a router": true} {
		at, kill := w.process()
		if through {
			at = w.serve(w.router(nil, at))
		}
		k := &taker{}
		over := begin(t.Context(), w.router(nil, at), f, "hang", nil, k)
		testkit.Eventually(t, "the first part is here", func() bool { return k.said() == "one " })
		kill()
		if end := <-over; reason(end.err) != function.ReasonLost || k.said() != "one " {
			t.Errorf("by way of %s got %q, %v; want that the rest is lost", name, k.said(), end.err)
		}
	}
}

// frames returns frames of an answer: a kind, and what is in it.
func frames(texts ...string) (out []byte) {
	for _, text := range texts {
		out = append(binary.BigEndian.AppendUint32(append(out, text[0]), uint32(len(text)-1)), text[1:]...)
	}
	return out
}

// What breaks off after it began is lost, whatever came of it, and is not asked for again.
func TestHalfStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.function("greet", counter)
	const head, end = `h{"specversion":"1.0","id":"1","source":"/x","type":"t"}`,
		`a{"specversion":"1.0","id":"1","source":"/x","type":"t"}`
	for name, test := range map[string]struct {
		frames []byte
		text   string
	}{
		"its head and no end": {frames(head, "done "), "one "},
		"half a piece":        {frames(head, "done ", "dtwo")[:len(frames(head, "done "))+6], "one "},
		"two heads":           {frames(head, "done ", head, end), "one "},
		"a piece first":       {frames("done ", end), ""},
		"no event":            {frames("hnull", "done ", end), ""},
		"more than the end":   {frames(head, "done ", end, "dtwo"), "one "},
		"too large":           {append(frames(head), 'd', 0xff, 0, 0, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			half := func(out http.ResponseWriter, r *http.Request) {
				out.Header().Set("Content-Type", rpc.ContentType)
				_, _ = out.Write(test.frames)
				_ = http.NewResponseController(out).Flush()
				cut(out, r)
			}
			one, two := newStub(t, half), newStub(t, half)
			for i, r := range []*rpc.Router{w.router(nil, one.at(), two.at()),
				w.router(nil, w.serve(w.router(nil, one.at(), two.at())))} {
				k := &taker{}
				_, err := r.Call(t.Context(), function.Call{Function: f, Event: ask("good", "x"), Stream: k})
				if reason(err) != function.ReasonLost || k.said() != test.text {
					t.Errorf("got %q, %v; want %q and that the rest is lost", k.said(), err, test.text)
				}
				if n := one.calls.Load() + two.calls.Load(); n != int64(i+1) {
					t.Errorf("the event was sent %d times by %d calls", n, i+1)
				}
			}
		})
	}
	whole := newStub(t, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", rpc.ContentType)
		_, _ = out.Write(frames(head, "done ", end))
	})
	if _, err := w.router(nil, whole.at()).Call(t.Context(),
		function.Call{Function: f, Event: ask("good", "x")}); reason(err) != function.ReasonLost {
		t.Errorf("a stream that nobody wanted makes %v, want that the call is lost", err)
	}
}

// A function whose answer nobody takes any more ends there; so does one whose caller is gone.
func TestNobodyTakesThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	r := w.router(nil, w.serve(w.router(nil, at)))
	for kind, most := range map[string]int{"endless": 1000, "hang": 0} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f, k := w.function(kind, streamer), &taker{most: most}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			over := begin(ctx, r, f, kind, nil, k)
			if most == 0 {
				testkit.Eventually(t, "the first part is here", func() bool { return k.said() == "one " })
				end()
			}
			if end := <-over; landfall.KindOf(end.err) != landfall.Canceled {
				t.Errorf("got %v, want that it was given up", end.err)
			}
			testkit.Eventually(t, "the process is gone", func() bool { n, _ := there.runner.Count(f.ID); return n == 0 })
		})
	}
}

// A caller that reads nothing holds the function up, and nothing is kept for it on the way.
func TestSlowCallerHoldsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, there, _ := w.runner()
	r := w.router(nil, w.serve(w.router(nil, at)))
	f := w.function("flood", `while read -r event; do
	printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","protocol":"{\\"streaming\\":true}"}\n'
	piece=$(head -c 60000 /dev/zero | tr '\0' x)
	n=0
	while [ $n -lt 700 ]; do n=$((n+1)); echo "$n" > written; printf '{"data":"%s"}\n' "$piece"; done
	echo '{"last":true}'
done
`)
	k := &slow{let: make(chan struct{})}
	over := begin(t.Context(), r, f, "good", nil, k)
	written := func() string { text, _ := os.ReadFile(filepath.Join(f.Package.Key, "written")); return string(text) }
	last, same := "", 0
	testkit.Eventually(t, "it is held up", func() bool { // what is on the way is what sockets and pipes hold
		if now := written(); now != last || now == "" {
			last, same = now, 0
		} else {
			same++
		}
		return same > 40
	})
	if strings.TrimSpace(last) == "700" {
		t.Error("all of 42 MB went out to who read nothing of it")
	}
	close(k.let)
	if end := <-over; end.err != nil || k.bytes != 700*60000 {
		t.Errorf("got %d bytes, %v; want all", k.bytes, end.err)
	}
	if n, _ := there.runner.Count(f.ID); n != 1 {
		t.Errorf("there are %d processes, want the one that answered", n)
	}
}

// slow takes nothing until it is let.
type slow struct {
	let   chan struct{}
	bytes int
}

// Begin implements function.Stream.
func (*slow) Begin(event.Event) error { return nil }

// Write implements function.Stream.
func (s *slow) Write(p []byte) (int, error) {
	<-s.let
	s.bytes += len(p)
	return len(p), nil
}

// Half an answer to a plain event does not look like a whole one behind a router either.
func TestHalfPlainAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/cloudevents+json")
		_, _ = io.WriteString(w, `{"specversion":"1.0",`)
		_ = http.NewResponseController(w).Flush()
		cut(w, r)
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.serve(w.router(nil, there.at()))+"/run",
		strings.NewReader(
			`{"specversion":"1.0","id":"1","source":"/me","type":"good"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + roleSecret.Reveal()}, "Content-Type": {"application/cloudevents+json"},
		rpc.FunctionHeader: {rpc.NameOf(w.function("greet", counter)).String()},
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return // it broke off before
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("half an answer is %d %q, which ends as a whole one does", answer.StatusCode, text)
	}
}
