package environment_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/test/testkit"
)

// sent is a body that comes in pieces.
type sent struct {
	pieces []string
	end    error
	hold   chan struct{} // closed by Stop; nil: nothing is held back
}

// Read implements io.Reader.
func (s *sent) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		if s.hold != nil {
			<-s.hold
			return 0, errors.New("nobody reads on")
		}
		return 0, s.end
	}
	n := copy(p, s.pieces[0])
	s.pieces = s.pieces[1:]
	return n, nil
}

// Stop implements function.Body.
func (s *sent) Stop() {
	if s.hold != nil {
		select {
		case <-s.hold:
		default:
			close(s.hold)
		}
	}
}

// Taken implements function.Body.
func (*sent) Taken() int64 { return 0 }

// Functions in every language read a body while it comes, and their processes go on with the next event: also when the
// function did not read it to its end, and when it broke off.
func TestUploads(t *testing.T) {
	t.Parallel()
	const flask = "from flask import request\ncalls = 0\ndef main():\n    global calls\n    calls += 1\n"
	const asgi = "calls = 0\nasync def app(scope, receive, send):\n    global calls\n    if scope['type'] != " +
		"'http':\n        raise ValueError\n    calls += 1\n"
	answer := func(body string) string {
		return "    await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', " +
			"b'text/plain')]})\n" +
			"    await send({'type': 'http.response.body', 'body': b'%d ' % calls + " + body + "})\n    await receive()\n"
	}
	const program = "package main\n\nimport (\n\t\"fmt\"\n\t\"io\"\n\t\"net/http\"\n)\n\nvar calls int\n\nfunc " +
		"Handler(w http.ResponseWriter, r *http.Request) {\n\tcalls++\n"
	type code struct{ language, entry, file, read, early string }
	for name, c := range map[string]code{
		"python": {"python", "", "main.py", "calls = 0\ndef main(event):\n    global calls\n    calls += 1\n    return " +
			"f\"{calls} {b''.join(event['data']).decode()}\"\n",
			"calls = 0\ndef main(event):\n    global calls\n    calls += 1\n    return f\"{calls} early\"\n"},
		"flask": {"python", "", "main.py", flask +
			"    return f\"{calls} {request.stream.read(2).decode()}{request.get_data(as_text=True)}\"\n",
			flask + "    return f\"{calls} early\"\n"},
		"asgi": {"python", "main.app", "main.py",
			asgi + "    body, more = b'', True\n    while more:\n        m = await receive()\n        body, more = body + " +
				"m['body'], m['more_body']\n" + answer("body"),
			asgi + answer("b'early'")},
		"nodejs events": {"nodejs", "event:index", "index.js",
			"let n = 0; module.exports = async (e) => { n++; let text = ''; for await (const piece of e.data) text += piece; " +
				"return `${n} ${text}`; }",
			"let n = 0; module.exports = async (e) => `${++n} early`"},
		"nodejs": {"nodejs", "index", "index.js",
			"let n = 0; module.exports = async ({request}) => { n++; let text = ''; for await (const piece of request.body) " +
				"text += piece; return `${n} ${text}`; }",
			"let n = 0; module.exports = async ({request}) => `${++n} early`"},
		"go": {"go", "Handler", "main.go", program + "\tall, err := io.ReadAll(r.Body)\n\tif err != nil " +
			"{\n\t\tpanic(err)\n\t}\n\tfmt.Fprintf(w, \"%d %s\", calls, all)\n}\n",
			program + "\t_ = io.EOF\n\tfmt.Fprintf(w, \"%d early\", calls)\n}\n"},
		"exec": {"binary", "exec:run", "run*", "#!/bin/sh\nprintf '0 '\nexec cat\n", "#!/bin/sh\nprintf '0 early'\n"},
	} {
		made := func(t *testing.T, text string) runner.Function {
			content := files{c.file: text}
			if c.language == "go" {
				content = files{"main*": goProgram(t,
					fstest.MapFS{"main.go": &fstest.MapFile{Data: []byte(text), Mode: os.FileMode(0o644)}})}
			}
			f := runnable(t, c.language, c.entry, content)
			f.Body, f.Env, f.Resources.Concurrency = 1<<30, map[string]string{"LANDFALL_STREAM_BODY": "true"}, 1
			return f
		}
		send := func(t *testing.T, r *runner.Runner, f runner.Function, s *sent) (string, error) {
			t.Helper()
			answer, err := r.Run(t.Context(), f,
				function.Call{Event: request(t, "", event.Protocol{Method: "POST", RequestURL: "/"}, "", ""), Body: s})
			if fault, is, _ := event.ErrorOf(answer); is {
				t.Errorf("got the error %+v", fault)
			}
			return string(answer.Data()), err
		}
		settled := func(t *testing.T, r *runner.Runner, f runner.Function) {
			t.Helper()
			testkit.Eventually(t, "nothing is under way", func() bool { all, idle := r.Count(f.ID); return all == idle })
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "off")
			f := made(t, c.read)
			count := func(n string) string {
				if name == "exec" {
					return "0 "
				}
				return n + " "
			}
			for _, n := range []string{"1", "2"} { // at once: it has said that it read all
				if got, err := send(t, r, f, &sent{pieces: []string{"one ", "two ", "three"}, end: io.EOF}); err != nil ||
					got != count(n)+"one two three" {
					t.Errorf("got %q, %v", got, err)
				}
			}
			processes, _ := r.Count(f.ID)
			if _, err := send(t, r, f, &sent{pieces: []string{"half"}, end: errors.New("gone")}); err == nil ||
				!strings.Contains(err.Error(), "broke off") {
				t.Errorf("got %v for half a body", err)
			}
			settled(t, r, f)
			if after, _ := r.Count(f.ID); after != processes || processes != 1 {
				t.Errorf("there are %d processes after it broke off, and were %d", after, processes)
			}
			whole := run(t, r, f, request(t, "", event.Protocol{Method: "POST", RequestURL: "/"}, "text/plain", "whole"))
			if got := string(whole.Data()); got != count("4")+"whole" {
				t.Errorf("got %q for a body that came with the event", got)
			}
		})
		t.Run(name+", early", func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "off")
			f := made(t, c.early)
			for _, n := range []string{"1", "2"} {
				if name == "exec" {
					n = "0"
				}
				if got, err := send(t, r, f, &sent{pieces: []string{"one"}, hold: make(chan struct{})}); err != nil ||
					got != n+" early" {
					t.Errorf("got %q, %v; want %s", got, err, n)
				}
				settled(t, r, f)
			}
		})
	}
}
