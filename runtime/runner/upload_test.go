package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/test/testkit"
)

// flow is a body that a test sends.
type flow struct {
	*io.PipeReader
	to *io.PipeWriter
}

func newFlow() flow {
	r, w := io.Pipe()
	return flow{r, w}
}

// Stop implements function.Body.
func (f flow) Stop() { _ = f.CloseWithError(errors.New("nobody reads any more")) }

// Taken implements function.Body.
func (flow) Taken() int64 { return 0 }

// whole returns a body that is all there.
func whole(text string) flow {
	f := newFlow()
	go func() {
		_, err := io.WriteString(f.to, text)
		_ = f.to.CloseWithError(err)
	}()
	return f
}

// collect reads parts in shell, up to the last one, into $text. Behind an error it has an exclamation mark.
const collect = `text=; while read -r part; do case "$part" in *'"last":true'*) break ;; *'"error"'*) text="$text!"; break ;; esac; ` +
	`part="${part#*data_base64\":\"}"; text="$text$(echo "${part%%\"*}" | base64 -d)"; done; `

// reply answers in shell with $text, and more attributes.
func reply(more string) string {
	return `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain",` + more +
		`"data":"%s"}\n' "$n $text"; `
}

const (
	said  = `"dataread":true,`
	later = `echo '{"dataread":true}'; `
)

// uploader returns a counter that takes parts for events of the type bad.
func uploader(t *testing.T, bad string) runner.Function {
	t.Helper()
	f := counter(t, bad)
	f.Body, f.Resources.Concurrency, f.Resources.Timeout = mib, 1, testkit.Patience
	return f
}

// send calls a function with a body.
func send(t *testing.T, r *runner.Runner, f runner.Function, b function.Body) (string, error) {
	t.Helper()
	answer, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", ""), Body: b})
	return string(answer.Data()), err
}

// settled waits until the one process of a function is idle, or gone.
func settled(t *testing.T, r *runner.Runner, f runner.Function) {
	t.Helper()
	testkit.Eventually(t, "nothing is under way", func() bool {
		processes, idle := r.Count(f.ID)
		return processes == idle
	})
}

// A body reaches its function in parts behind the event, and the process goes on when it has read them all.
func TestUpload(t *testing.T) {
	t.Parallel()
	r, f := start(t, &runner.Runner{Sandbox: box(t, "off")}), uploader(t, collect+reply(said))
	for i, text := range []string{"one", ""} {
		if got, err := send(t, r, f, whole(text)); err != nil || got != fmt.Sprint(i+1, " ", text) {
			t.Errorf("got %.80q, %v; want %d %.80q", got, err, i+1, text)
		}
	}
	if n := count(t, r, f); n != 3 {
		t.Errorf("the next event was number %d of its process, want 3", n)
	}
}

// A part is with the function before the next one is sent, and what it answers to that is with its caller.
func TestUploadWhileAnswering(t *testing.T) {
	t.Parallel()
	r, b, k := start(t, &runner.Runner{Sandbox: box(t, "off")}), newFlow(), &taker{}
	f := uploader(t,
		head+
			`while read -r part; do case "$part" in *'"last":true'*) break ;; esac; echo "$part"; done; echo '{"last":true,"dataread":true}'`)
	took := make(chan struct{}, 10)
	k.took = func() { took <- struct{}{} }
	go func() {
		<-took // the answer's beginning
		for _, text := range []string{"two ", "three ", "four"} {
			_, _ = io.WriteString(b.to, text)
			<-took
		}
		_ = b.to.Close()
	}()
	if _, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", ""), Body: b, Stream: k}); err != nil ||
		k.text.String() != "one two three four" {
		t.Errorf("got %q, %v", k.text.String(), err)
	}
	if n := count(t, r, f); n != 2 {
		t.Errorf("the next event was number %d of its process, want 2", n)
	}
}

// Only a process that has said that it read all parts gets another event: no part is an event for it.
func TestUploadReadOnlyOnce(t *testing.T) {
	t.Parallel()
	quick := `text=quick; `
	drain := `while read -r part; do case "$part" in *'"last"'*|*'"error"'*) break ;; esac; done; `
	for _, c := range []struct {
		name, bad, answer string
		next              int
	}{
		{"all is read", collect + reply(said), "1 body", 2},
		{"all is read, and said later", collect + reply("") + later, "1 body", 2},
		{"an early answer, and the rest is read", quick + reply("") + drain + later, "1 quick", 2},
		{"all is read, and nothing said", collect + reply(""), "1 body", 1},
		{"nothing is read", quick + reply(""), "1 quick", 1},
		{"nothing is read, and it lies", quick + reply(said), "1 quick", 1},
		{"nothing is read, and it lies twice", quick + reply("") + later, "1 quick", 1},
		{"something else is said", collect + reply("") + reply(""), "1 body", 1},
		{"another word", collect + reply("") + `echo '{"dataread":false}'; `, "1 body", 1},
		{"a part that is last", head + `echo '{"last":true}'; `, "one ", 1},
		{"a part that is last, and all is read", collect + head + `echo '{"last":true,"dataread":true}'; `, "one ", 2},
		{"it ends", quick + reply("") + `exit; `, "1 quick", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, f := start(t, &runner.Runner{Sandbox: box(t, "off")}), uploader(t, c.bad)
			if got, err := send(t, r, f, whole("body")); err != nil || got != c.answer {
				t.Errorf("got %q, %v; want %q", got, err, c.answer)
			}
			settled(t, r, f)
			if n := count(t, r, f); n != c.next {
				t.Errorf("the next event was number %d of its process, want %d", n, c.next)
			}
		})
	}
}

// What is no event is no answer, also with more behind it, and while parts are read.
func TestUploadAnsweredWithNoEvent(t *testing.T) {
	t.Parallel()
	r, f := start(t, &runner.Runner{Sandbox: box(t, "off")}), uploader(t, `printf '{} {}\n'; `)
	if got, err := send(t, r, f, whole("body")); reason(err) != function.ReasonProtocol {
		t.Errorf("got %q, %v; want that it is no event", got, err)
	}
}

// An answer does not wait for a body that is still coming; the function is told that nobody reads on.
func TestUploadEarlyAnswer(t *testing.T) {
	t.Parallel()
	r, b := start(t, &runner.Runner{Sandbox: box(t, "off")}), newFlow()
	f := uploader(t, `text=early; `+reply("")+collect+later+`echo "$text" >&2`)
	go func() { _, _ = io.WriteString(b.to, "begun") }()
	if got, err := send(t, r, f, b); err != nil || got != "1 early" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := io.WriteString(b.to, "more"); err == nil {
		t.Error("the body is read on, and nobody wants it")
	}
	settled(t, r, f)
	if n := count(t, r, f); n != 2 {
		t.Errorf("the next event was number %d of its process, want 2", n)
	}
}

// A body that breaks off is an error of the call. The process stays when it reads to the error, and goes when it does
// not.
func TestBrokenUpload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, bad string
		next      int
	}{
		{"it reads on", collect + `echo "$text" >&2; ` + reply(said), 2},
		{"it does not care", `read -r part; exec sleep 600; `, 1},
		{"it answers, and reads nothing", `read -r part; ` + reply(""), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log := newLogs()
			r, f, b := start(t, &runner.Runner{Sandbox: box(t, "off"), Logs: log}), uploader(t, c.bad), newFlow()
			go func() {
				_, _ = io.WriteString(b.to, "half")
				_ = b.to.CloseWithError(&landfall.Error{Kind: landfall.Canceled, Message: "the caller went away"})
			}()
			_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x"), Body: b})
			if c.next == 2 && log.of("x") != "half!\n" {
				t.Errorf("the function has read %q", log.of("x"))
			}
			if !strings.Contains(c.name, "answers") && (landfall.KindOf(err) != landfall.Canceled ||
				!strings.Contains(landfall.MessageOf(err), "broke off: the caller went away")) {
				t.Errorf("got %v: %s", err, landfall.MessageOf(err))
			}
			settled(t, r, f)
			if n := count(t, r, f); n != c.next {
				t.Errorf("the next event was number %d of its process, want %d", n, c.next)
			}
		})
	}
}

// A function that goes on with its answer ends as soon as another one when the body breaks off that it is for.
func TestBrokenUploadOfStream(t *testing.T) {
	t.Parallel()
	r := start(t, &runner.Runner{Sandbox: box(t, "off"), Limits: runner.Limits{Silence: testkit.Patience / 2}})
	f := uploader(t,
		head+`while [ $n -lt 100 ]; do n=$((n+1)); echo '{"data":"."}'; sleep 0.2; done; echo '{"last":true}'; `)
	for name, to := range map[string]function.Stream{"streamed": &taker{}, "gathered": nil} {
		settled(t, r, f)
		b := newFlow()
		go func() {
			_ = b.to.CloseWithError(&landfall.Error{Kind: landfall.Canceled, Message: "the caller went away"})
		}()
		answer, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", ""), Body: b, Stream: to})
		if landfall.KindOf(err) != landfall.Canceled ||
			!strings.Contains(landfall.MessageOf(err), "broke off: the caller went away") {
			t.Errorf("%s: got %q, %v; want that the body broke off", name, answer.Data(), err)
		}
	}
}

// What ends a call ends it also while a body is awaited, and while nobody reads it.
func TestUploadEnds(t *testing.T) {
	t.Parallel()
	endless := func(b flow) {
		for err := error(nil); err == nil; {
			_, err = b.to.Write(make([]byte, 1<<20))
		}
	}
	for name, of := range map[string]struct {
		bad  string
		body func(b flow)
	}{
		"nothing comes":                   {collect, func(flow) {}},
		"nobody reads":                    {`exec sleep 600`, endless},
		"all comes":                       {collect, endless},
		"it is read and nothing answered": {collect + `exec sleep 600`, func(b flow) { _ = b.to.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f, b := start(t, &runner.Runner{Sandbox: box(t, "off")}), uploader(t, of.bad), newFlow()
			f.Resources.Timeout = 300 * time.Millisecond
			go of.body(b)
			if _, err := send(t, r, f, b); reason(err) != function.ReasonTimeout {
				t.Errorf("got %v, want that it took too long", err)
			}
			settled(t, r, f)
			f.Resources.Timeout = testkit.Patience
			if n := count(t, r, f); n != 1 {
				t.Errorf("the next event was number %d of its process, want the first", n)
			}
			b = newFlow()
			go of.body(b)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			if _, err := r.Run(ctx, f, function.Call{Event: ask("bad", ""),
				Body: b}); landfall.KindOf(err) != landfall.Canceled {
				t.Errorf("got %v, want that it was given up", err)
			}
			settled(t, r, f)
		})
	}
}

// Who sends an event cannot say that parts follow it: the function would take the next one for a part.
func TestNobodySaysThatPartsFollow(t *testing.T) {
	t.Parallel()
	for _, body := range []int64{mib, 0} {
		r, f := start(t, &runner.Runner{Sandbox: box(t, "off")}),
			uploader(t, `case "$event" in *datafollows*) n=bad ;; esac; text=; `+reply(""))
		f.Body = body
		e := ask("bad", "")
		event.SetFollows(&e, true)
		if answer, err := r.Run(t.Context(), f, function.Call{Event: e}); err != nil || string(answer.Data()) != "1 " {
			t.Errorf("got %q, %v", answer.Data(), err)
		}
		if e.Extensions()["datafollows"] != true {
			t.Error("the event of the caller is another one now")
		}
		if n := count(t, r, f); n != 2 {
			t.Errorf("the next event was number %d of its process, want 2", n)
		}
	}
}
