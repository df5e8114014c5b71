package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/test/testkit"
)

// head begins an answer that is streamed, in a line of shell.
const head = `printf '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"one ","protocol":"{\\"streaming\\":true}"}\n'; `

// taker takes streamed answers, until it takes no more.
type taker struct {
	text  strings.Builder
	begun bool
	most  int // bytes; 0: all
	took  func()
}

// Begin implements function.Stream.
func (k *taker) Begin(answer event.Event) error {
	k.begun = true
	_, err := k.Write(answer.Data())
	return err
}

// Write implements function.Stream.
func (k *taker) Write(p []byte) (int, error) {
	if k.most > 0 && k.text.Len()+len(p) > k.most {
		return 0, errors.New("gone")
	}
	if k.took != nil {
		k.took()
	}
	return k.text.Write(p)
}

// An answer that is streamed is handed on part by part; where nobody takes parts, it is one answer.
func TestStream(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string]string{
		"one by one": head + `echo '{"data":"two "}'; echo '{"data_base64":"dGhyZWU="}'; echo '{"last":true}'`,
		"all at once": strings.Replace(head, "; ", "", 1) +
			` > /dev/null; printf '%s %s %s %s' '{"specversion":"1.0","id":"1","source":"/s","type":"t",` +
			`"datacontenttype":"text/plain","data":"one ","protocol":"{\"streaming\":true}"}' '{"data":"two "}' '{"data_base64":"dGhyZWU="}' '{"last":true}'`,
		"data in the last one": head + `echo '{"data":"two three","last":true}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off")}), counter(t, parts), &taker{}
			answer, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x"), Stream: k})
			if err != nil || k.text.String() != "one two three" || len(answer.Data()) > 0 {
				t.Fatalf("got %q and then %q, %v; want all parts and no data", k.text.String(), answer.Data(), err)
			}
			answer, err = r.Run(t.Context(), f, function.Call{Event: ask("bad", "y")})
			if err != nil || string(answer.Data()) != "one two three" {
				t.Errorf("where nobody takes parts: got %q, %v", answer.Data(), err)
			}
			if p, err := event.ProtocolOf(answer); err != nil || p.Streaming {
				t.Errorf("where nobody takes parts: the answer says that parts follow: %+v, %v", p, err)
			}
			if n := count(t, r, f); n != 3 {
				t.Errorf("the process is at its event %d, want 3: it goes on with the next one", n)
			}
		})
	}
}

// A streamed answer that breaks off says so, and its process is gone.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, bad string
		reason    function.Reason
		message   string
	}{
		{"exit", head + `exit 3`, function.ReasonExit, "exit code 3"},
		{"half a part", head + `printf '{"data":"t'; exit 4`, function.ReasonExit, "exit code 4 in the middle"},
		{"hang", head + `exec sleep 600`, function.ReasonTimeout, "did not answer within"},
		{"garbage", head + `echo two`, function.ReasonProtocol, `no part of its answer: "two"`},
		{"no part", head + `echo '{"data_base64":"?"}'`, function.ReasonProtocol, "no part of its answer"},
		{"more", head + `printf '{"last":true} {"data":"more"}'`, function.ReasonProtocol, "more after the last part"},
		{"a part without an end", head + `printf '{"data":"'; yes | tr -d '\\n'`, function.ReasonTooLarge,
			"larger than the limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off")}), counter(t, c.bad), &taker{}
			if c.reason == function.ReasonTimeout { // of which the start of a process is no part
				count(t, r, f)
				f.Resources.Timeout = 3 * time.Second
			}
			_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x"), Stream: k})
			f.Resources.Timeout = 0
			if reason(err) != c.reason || !strings.Contains(landfall.MessageOf(err), c.message) || k.text.String() != "one " {
				t.Errorf("got %q and %v: %s; want %s and %q", k.text.String(), reason(err), landfall.MessageOf(err),
					c.reason, c.message)
			}
			if n := count(t, r, f); n != 1 {
				t.Errorf("the next event was number %d of its process, want the first", n)
			}
		})
	}
}

// A function that ends with an error in the middle keeps its process, and its answer is that error.
func TestStreamEndsWithError(t *testing.T) {
	t.Parallel()
	r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off")}),
		counter(t, head+`echo '{"error":{"message":"no more","type":"Empty"}}'`), &taker{}
	answer, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x"), Stream: k})
	if err != nil {
		t.Fatal(err)
	}
	fault, ok, err := event.ErrorOf(answer)
	if !ok || err != nil || fault.Message != "no more" {
		t.Errorf("got %+v, %v", fault, err)
	}
	if n := count(t, r, f); n != 2 {
		t.Errorf("the process is at its event %d, want 2", n)
	}
}

// A function whose answer nobody takes any more ends; so does one whose caller is gone.
func TestStreamNobodyTakes(t *testing.T) {
	t.Parallel()
	endless := head + `while :; do echo '{"data":"more "}'; done`
	for name, of := range map[string]func(*taker, context.CancelFunc){
		"no more":       func(k *taker, _ context.CancelFunc) { k.most = 100 },
		"the call ends": func(k *taker, end context.CancelFunc) { k.took = end },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off")}), counter(t, endless), &taker{}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			of(k, end)
			_, err := r.Run(ctx, f, function.Call{Event: ask("bad", "x"), Stream: k})
			if landfall.KindOf(err) != landfall.Canceled {
				t.Errorf("got %v, want that it was given up", err)
			}
			testkit.Eventually(t, "the process is gone", func() bool { processes, _ := r.Count(f.ID); return processes == 0 })
		})
	}
}

// A function that goes on with its answer is not held to the time between two parts; one that does not is ended long
// before its time.
func TestSilentStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  string
		want function.Reason
		text string
	}{
		"silent": {head + `exec sleep 600`, function.ReasonTimeout, "one "},
		"goes on": {head + `for n in 1 2 3 4 5 6 7 8; do sleep 0.5; echo '{"data":"."}'; done; echo '{"last":true}'`, "",
			"one ........"},
		// of which its own limit is the one that counts
		"its first": {`sleep 4; ` + head + `echo '{"last":true}'`, "", "one "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off"), Limits: runner.Limits{Silence: 3 * time.Second}}),
				counter(t, c.bad), &taker{}
			f.Resources.Timeout = 10 * testkit.Patience
			_, err := r.Run(t.Context(), f, function.Call{Event: ask("bad", "x"), Stream: k})
			if reason(err) != c.want || k.text.String() != c.text {
				t.Errorf("got %q, %v; want %q and %q", k.text.String(), err, c.text, c.want)
			}
			if err != nil && !strings.Contains(landfall.MessageOf(err), "sent no part of its answer for 3s") {
				t.Errorf("the error is %s", landfall.MessageOf(err))
			}
		})
	}
}

// Who goes away while a function is silent ends the call at once.
func TestStreamGivenUpInSilence(t *testing.T) {
	t.Parallel()
	r, f, k := start(t, &runner.Runner{Sandbox: box(t, "off")}), counter(t, head+`exec sleep 600`), &taker{}
	f.Resources.Timeout = 10 * testkit.Patience
	ctx, end := context.WithCancel(t.Context())
	defer end()
	k.took = func() { time.AfterFunc(time.Millisecond, end) }
	if _, err := r.Run(ctx, f, function.Call{Event: ask("bad", "x"),
		Stream: k}); landfall.KindOf(err) != landfall.Canceled {
		t.Errorf("got %v, want that it was given up", err)
	}
	testkit.Eventually(t, "the process is gone", func() bool { processes, _ := r.Count(f.ID); return processes == 0 })
}

// A module writes parts as a program does.
func TestModuleStreams(t *testing.T) {
	t.Parallel()
	const begins = `{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"one ","protocol":"{\"streaming\":true}"}`
	loop := []byte{0x03, 0x40, 0x0c, 0, 0x0b}
	tests := []struct {
		name, text string
		goesOn     bool
		most       int
		reason     function.Reason
		kind       landfall.Kind
		message    string
		got        string
	}{
		{name: "parts", text: begins + "\n" + `{"data":"two "} {"data_base64":"dGhyZWU="}` + "\n" + `{"last":true}`,
			got: "one two three"},
		{name: "an error", text: begins + `{"data":"two","error":{"message":"no more"}}`, got: "one two", message: "no more"},
		{name: "no last", text: begins + `{"data":"two"}`, reason: function.ReasonExit,
			message: "in the middle of its answer", got: "one two"},
		{name: "half a part", text: begins + `{"data":"two`, reason: function.ReasonExit,
			message: "in the middle of its answer", got: "one "},
		{name: "garbage", text: begins + `two`, reason: function.ReasonProtocol, message: `no part of its answer: "two"`,
			got: "one "},
		{name: "no part", text: begins + `{"data_base64":"?"}`, reason: function.ReasonProtocol,
			message: "no part of its answer", got: "one "},
		{name: "more", text: begins + `{"last":true} {}`, reason: function.ReasonProtocol,
			message: "more after the last part", got: "one "},
		{name: "silent", text: begins + `{"data":"two"}`, goesOn: true, reason: function.ReasonTimeout,
			message: "no part of its answer for 500ms", got: "one two"}, {name: "nobody takes it",
			text: begins + `{"data":"two"}`, most: 4, kind: landfall.Canceled, message: "nobody takes the rest", got: "one "},
		{name: "nobody takes anything", text: begins, most: 1, message: "gone"},
	}
	var sources []wasmtest.Source
	for _, test := range tests {
		source := wasmtest.Says(test.text)
		if test.goesOn {
			source.Body = append(source.Body, loop...)
		}
		sources = append(sources, source)
	}
	r, f := modules(t, sources...)
	for i, test := range tests {
		r.Limits.Silence = testkit.Patience
		if test.reason == function.ReasonTimeout {
			r.Limits.Silence = 500 * time.Millisecond
		}
		k := &taker{most: test.most}
		answer, err := r.Run(t.Context(), f[i], function.Call{Event: ask("1", "x"), Stream: k})
		said, _, _ := event.ErrorOf(answer)
		if err != nil {
			said.Message = landfall.MessageOf(err) + err.Error()
		}
		if reason(err) != test.reason || landfall.KindOf(err) != test.kind || !strings.Contains(said.Message, test.message) ||
			k.text.String() != test.got {
			t.Errorf("%s: got %q, %v: %q; want %q and %q", test.name, k.text.String(), err, said.Message, test.got, test.message)
		}
		if err == nil && len(answer.Data()) > 0 {
			t.Errorf("%s: the answer has data: %q", test.name, answer.Data())
		}
	}
	if answer, err := r.Run(t.Context(), f[0], function.Call{Event: ask("1", "x")}); err != nil ||
		string(answer.Data()) != "one two three" {
		t.Errorf("where nobody takes parts: got %q, %v", answer.Data(), err)
	}
	if processes, _ := r.Count(f[0].ID); processes != 0 {
		t.Errorf("%d executions are counted, want none", processes)
	}
}
