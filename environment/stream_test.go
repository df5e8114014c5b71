package environment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
)

// taker takes a streamed answer.
type taker struct {
	head event.Event
	text strings.Builder
}

// Begin implements function.Stream.
func (k *taker) Begin(answer event.Event) error {
	k.head = answer
	_, err := k.Write(answer.Data())
	return err
}

// Write implements function.Stream.
func (k *taker) Write(p []byte) (int, error) { return k.text.Write(p) }

// A generator is an answer that is made piece by piece.
func TestStreams(t *testing.T) {
	t.Parallel()
	const events = `{specversion: "1.0", datacontenttype: "text/event-stream", protocol: {status_code: 201}}`
	for _, c := range []struct {
		name, language, entry, file, code string
		mediaType                         string
		status                            int
		text, fault                       string
	}{
		{"text", "python", "", "main.py", "def main(event):\n    yield 'one '\n    yield b'two'\n",
			"text/plain; charset=utf-8", 0, "one two", ""}, {"async", "python", "", "main.py",
			"async def main(event):\n    yield b'one '\n    yield 'two'\n", "application/octet-stream", 0, "one two", ""},
		{"nothing", "python", "", "main.py", "def main(event):\n    return\n    yield\n", "text/plain; charset=utf-8",
			0, "", ""},
		{"an event first", "python", "", "main.py",
			"def main(event):\n    yield {'specversion': '1.0', 'datacontenttype': 'text/event-stream', 'protocol': " +
				"{'status_code': 201}}\n    yield 'one'\n",
			"text/event-stream", 201, "one", ""},
		{"an exception", "python", "", "main.py", "def main(event):\n    yield 'one'\n    raise ValueError('no more')\n",
			"text/plain; charset=utf-8", 0, "one", "no more"}, {"no piece", "python", "", "main.py",
			"def main(event):\n    yield 'one'\n    yield 2\n", "text/plain; charset=utf-8", 0, "one", "yielded a int"},
		{"text", "nodejs", "event:index", "index.js",
			"module.exports = async function* (event) { yield 'one '; yield Buffer.from('two'); }",
			"text/plain; charset=utf-8", 0, "one two", ""},
		{"an event first", "nodejs", "event:index", "index.js",
			"module.exports = function* (event) { yield " + events + "; yield 'one'; }", "text/event-stream", 201, "one", ""},
		{"a body", "nodejs", "index", "index.js",
			"module.exports = async () => ({status: 201, headers: {'content-type': 'text/csv'}, body: " +
				"require('stream').Readable.from(['a,', 'b'])});",
			"text/csv", 201, "a,b", ""},
		{"an exception", "nodejs", "event:index", "index.js",
			"module.exports = async function* (event) { yield 'one'; throw new Error('no more'); }",
			"text/plain; charset=utf-8", 0, "one", "no more"},
	} {
		t.Run(c.language+": "+c.name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "off")
			f, k := runnable(t, c.language, c.entry, files{c.file: c.code}), &taker{}
			for range 2 { // the process goes on
				*k = taker{}
				answer, err := r.Run(t.Context(), f, function.Call{Event: request(t, "x", order, "text/plain", "hello"), Stream: k})
				if err != nil {
					t.Fatal(err)
				}
				p, err := event.ProtocolOf(k.head)
				if err != nil || !p.Streaming || p.Status != c.status || k.head.DataContentType() != c.mediaType ||
					k.text.String() != c.text {
					t.Errorf("got %+v of %s with %q, %v; want status %d of %s with %q", p, k.head.DataContentType(), k.text.String(),
						err, c.status, c.mediaType, c.text)
				}
				fault, failed, err := event.ErrorOf(answer)
				if err != nil || failed != (c.fault != "") || !strings.Contains(fault.Message, c.fault) {
					t.Errorf("got the error %+v, %v; want %q", fault, err, c.fault)
				}
			}
		})
	}
}

// A generator of which a piece is refused ends as one whose loop is left: what it holds is given back before the next
// event.
func TestRefusedPieces(t *testing.T) {
	t.Parallel()
	const python = "    try:\n        yield 'one'\n        yield 2\n    finally:\n        print('given', 'back')\n"
	const node = "try { yield 'one'; yield 2; } finally { console.log('given', 'back'); } }"
	for _, c := range []struct{ name, language, entry, file, code, text string }{
		{"a generator", "python", "", "main.py", "def main(event):\n" + python, "one"},
		{"an async one", "python", "", "main.py", "async def main(event):\n" + python, "one"},
		{"what fails then", "python", "", "main.py",
			"def main(event):\n" + python + "        raise ValueError('not now')\n", "one"},
		{"no event", "python", "", "main.py", strings.Replace("def main(event):\n"+python, "'one'",
			"{'specversion': '1.0', 'A': 1}", 1), ""},
		{"a generator", "nodejs", "event:index", "index.js", "module.exports = function* () { " + node, "one"},
		{"an async one", "nodejs", "event:index", "index.js", "module.exports = async function* () { " + node, "one"},
		{"what fails then", "nodejs", "event:index", "index.js", "module.exports = async function* () { " +
			strings.Replace(node, "; } }", "; throw new Error('not now'); } }", 1), "one"},
		{"no event", "nodejs", "event:index", "index.js",
			"module.exports = function* () { " + strings.Replace(node, "'one'", "{specversion: '1.0', A: 1}", 1), ""},
	} {
		t.Run(c.language+": "+c.name, func(t *testing.T) {
			t.Parallel()
			r, log := start(t, "off")
			f, k := runnable(t, c.language, c.entry, files{c.file: c.code}), &taker{}
			answer, err := r.Run(t.Context(), f, function.Call{Event: request(t, "x", order, "text/plain", "hello"), Stream: k})
			if err != nil {
				t.Fatal(err)
			}
			if fault, _, err := event.ErrorOf(answer); err != nil || fault.Type != "InvalidAnswer" || k.text.String() != c.text {
				t.Errorf("got %q and the error %+v, %v; want %q, and that a piece is refused", k.text.String(), fault, err, c.text)
			}
			if text := log.of("x"); !strings.Contains(text, "given back") ||
				strings.Contains(c.name, "fails") && !strings.Contains(text, "not now") {
				t.Errorf("the log is %q", text)
			}
		})
	}
}

// letting takes a streamed answer, and lets the function go on when it has the first piece.
type letting struct {
	taker

	dir string
}

// Write implements function.Stream.
func (l *letting) Write(p []byte) (int, error) {
	if len(p) > 0 {
		if err := os.WriteFile(filepath.Join(l.dir, "go"), nil, 0o600); err != nil {
			return 0, err
		}
	}
	return l.text.Write(p)
}

// Begin implements function.Stream.
func (l *letting) Begin(answer event.Event) error {
	l.head = answer
	_, err := l.Write(answer.Data())
	return err
}

const goStreams = `package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"time"
)

func Steps(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "one ")
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	w.Header().Set("X-Late", "yes")
	for _, err := os.Stat("go"); err != nil; _, err = os.Stat("go") {
		time.Sleep(time.Millisecond)
	}
	fmt.Fprint(w, "two ")
	w.(http.Flusher).Flush()
	fmt.Fprint(w, "\xff")
}

func Breaks(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "one")
	w.(http.Flusher).Flush()
	fmt.Fprint(w, "two")
	panic("no more")
}

func Flushes(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }

func Large(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("ü\x00"), 1<<20)) }

func Small(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte("ü\x00"), 10000)) }
`

// What a function in Go writes goes out when it flushes, or when it is much.
func TestGoStreams(t *testing.T) {
	t.Parallel()
	program := goProgram(t, fstest.MapFS{"functions.go": {Data: []byte(goStreams)}})
	for _, c := range []struct {
		entry, mediaType string
		status           int
		text, fault      string
		whole            bool
	}{
		{"Steps", "text/event-stream", 201, "one two \xff", "", false},
		{"Breaks", "text/plain; charset=utf-8", 200, "one", "no more", false},
		{"Flushes", "", 200, "", "", false},
		{"Large", "application/octet-stream", 200, strings.Repeat("ü\x00", 1<<20), "", false},
		{"Small", "application/octet-stream", 200, strings.Repeat("ü\x00", 10000), "", true},
	} {
		t.Run(c.entry, func(t *testing.T) {
			t.Parallel()
			r, log := start(t, "off")
			f := runnable(t, "go", c.entry, files{"main*": program})
			for range 2 { // the process goes on
				k := &letting{dir: f.Dir}
				answer, err := r.Run(t.Context(), f, function.Call{Event: get(t, "x", "http://a/"), Stream: k})
				if err != nil {
					t.Fatal(err)
				}
				if c.whole {
					k.head = answer
					k.text.Write(answer.Data())
				}
				p := protocol(t, k.head)
				if p.Streaming == c.whole || p.Status != c.status || p.Headers["X-Late"] != nil ||
					k.head.DataContentType() != c.mediaType || k.text.String() != c.text {
					t.Errorf("got %+v of %s with %d bytes; want status %d of %s with %d", p, k.head.DataContentType(), k.text.Len(),
						c.status, c.mediaType, len(c.text))
				}
				fault, failed, err := event.ErrorOf(answer)
				if err != nil || failed != (c.fault != "") || !strings.Contains(fault.Message, c.fault) ||
					!strings.Contains(log.of("x"), c.fault) {
					t.Errorf("got the error %+v, %v; want %q; the log is %q", fault, err, c.fault, log.of("x"))
				}
			}
			if c.fault == "" {
				if answer := run(t, r, f, get(t, "x", "http://a/")); string(answer.Data()) != c.text {
					t.Errorf("where nobody takes parts: got %d bytes, want %d", len(answer.Data()), len(c.text))
				}
			}
			if processes, _ := r.Count(f.ID); processes != 1 {
				t.Errorf("there are %d processes, want 1", processes)
			}
		})
	}
}

// What a function has made of its answer is here while it makes the rest, whatever it is written in.
func TestStreamsAsMade(t *testing.T) {
	t.Parallel()
	const wait = `    while not os.path.exists('go'): time.sleep(0.01)` + "\n"
	const flask = "import os, time\nfrom flask import Response, request, stream_with_context\n"
	generator := func(first, then string) string {
		return "  def made():\n    yield " + first + "\n" + wait + then
	}
	for _, c := range []struct {
		name, language, entry, file, code string
		mediaType                         string
		status                            int
		text, fault                       string
	}{
		{"a generator", "python", "", "main.py", "import os, time\ndef main(event):\n    yield 'one '\n" + wait +
			"    yield 'two'\n", "text/plain; charset=utf-8", 0, "one two", ""},
		{"a generator", "nodejs", "event:index", "index.js", `const fs = require('fs');
module.exports = async function* () { yield 'one '; while (!fs.existsSync('go')) await new Promise((f) => setTimeout(f, 10)); yield 'two'; }`,
			"text/plain; charset=utf-8", 0, "one two", ""},
		{"a response", "python", "", "main.py", flask + "def main():\n" + generator("'one '", "    yield b'two'\n") +
			"  return Response(made(), status=201, mimetype='text/event-stream', headers={'X-A': 'b'})\n",
			"text/event-stream; charset=utf-8", 201, "one two", ""}, {"a generator of a request", "python", "", "main.py",
			"import os, time\ndef main():\n  yield 'one '\n" + strings.TrimPrefix(wait, "  ") + "  yield 'two'\n",
			"text/html; charset=utf-8", 200, "one two", ""},
		{"an async one", "python", "", "main.py",
			"import os, asyncio\nasync def main():\n  yield 'one '\n  while not os.path.exists('go'): await " +
				"asyncio.sleep(0.01)\n  yield 'two'\n",
			"text/html; charset=utf-8", 200, "one two", ""},
		{"with its request", "python", "", "main.py",
			flask + "def main():\n" + generator("'one '", "    yield request.args['who']\n") +
				"  return Response(stream_with_context(made()), 201), 202\n", "text/html; charset=utf-8", 202, "one Ada", ""},
		{"decorated", "python", "", "main.py",
			flask + "def main():\n  @stream_with_context\n" + generator("'one '", "    yield request.path\n") +
				"  return Response(made())\n", "text/html; charset=utf-8", 200, "one /a", ""},
		{"without its request", "python", "", "main.py",
			flask + "def main():\n" + generator("'one '", "    yield request.path\n") +
				"  return Response(made())\n", "text/html; charset=utf-8", 200, "one ", "equest"},
		{"a response that breaks off", "python", "", "main.py",
			flask + "def main():\n" + generator("'one '", "    raise ValueError('no more')\n") +
				"  return Response(made())\n", "text/html; charset=utf-8", 200, "one ", "no more"},
		{"a program", "binary", "exec:main", "main*",
			"#!/bin/sh\nprintf 'one '\nwhile [ ! -e go ]; do sleep 0.01; done\ncat\n", "text/plain; charset=utf-8", 200,
			"one hello", ""}, {"a program that breaks off", "binary", "exec:main", "main*",
			"#!/bin/sh\nprintf '\\377'\nwhile [ ! -e go ]; do sleep 0.01; done\nexit 7\n",
			"application/octet-stream", 200, "\xff", "ended with exit code 7"},
		{"a program of events", "binary", "main", "main*", `#!/bin/sh
while read -r event; do
	echo '{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"one ","protocol":"{\"streaming\":true}"}'
	while [ ! -e go ]; do sleep 0.01; done
	echo '{"data":"two","last":true}'
done
`, "text/plain", 0, "one two", ""},
	} {
		t.Run(c.language+": "+c.name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "off")
			f := runnable(t, c.language, c.entry, files{c.file: c.code})
			for range 2 { // the process goes on
				k := &letting{dir: f.Dir}
				answer, err := r.Run(t.Context(), f,
					function.Call{Event: request(t, "x", event.Protocol{Method: "POST", RequestURL: "http://a/a?who=Ada"},
						"text/plain", "hello"), Stream: k})
				if err != nil {
					t.Fatal(err)
				}
				p := protocol(t, k.head)
				if !p.Streaming || p.Status != c.status || k.head.DataContentType() != c.mediaType || k.text.String() != c.text {
					t.Errorf("got %+v of %s with %q; want status %d of %s with %q", p, k.head.DataContentType(), k.text.String(),
						c.status, c.mediaType, c.text)
				}
				fault, failed, err := event.ErrorOf(answer)
				if err != nil || failed != (c.fault != "") || !strings.Contains(fault.Message, c.fault) {
					t.Errorf("got the error %+v, %v; want %q", fault, err, c.fault)
				}
				if err := os.Remove(filepath.Join(f.Dir, "go")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What fails before anything of its answer is made answers with an error, and what is made at once is one answer.
func TestNothingStreamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, language, entry, file, code string
		text, fault                       string
	}{
		{"a response", "python", "", "main.py",
			"from flask import Response\ndef main():\n  def made():\n    raise ValueError('no one')\n    yield\n  return " +
				"Response(made())\n", "", "no one"}, {"a list", "python", "", "main.py",
			"from flask import Response\ndef main(): return Response(['a', b'b'])\n", "ab", ""},
		{"a program", "binary", "exec:main", "main*", "#!/bin/sh\ncat\n", "hello", ""},
		{"a program that fails", "binary", "exec:main", "main*", "#!/bin/sh\necho one\nexit 7\n", "",
			"ended with exit code 7"},
		{"a program that says nothing", "binary", "exec:main", "main*", "#!/bin/sh\nsleep 1\n", "", ""},
		{"a program that fails late", "binary", "exec:main", "main*", "#!/bin/sh\nsleep 1\nexit 8\n", "",
			"ended with exit code 8"},
		{"a program that closes its output", "binary", "exec:main", "main*",
			"#!/bin/sh\necho one\nexec >&-\nsleep 1\nexit 9\n", "", "ended with exit code 9"},
	} {
		t.Run(c.language+": "+c.name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "off")
			k := &taker{}
			answer, err := r.Run(t.Context(), runnable(t, c.language, c.entry, files{c.file: c.code}),
				function.Call{Event: request(t, "x", event.Protocol{Method: "POST", RequestURL: "http://a/"}, "text/plain",
					"hello"), Stream: k})
			if err != nil {
				t.Fatal(err)
			}
			fault, failed, err := event.ErrorOf(answer)
			if err != nil || failed != (c.fault != "") || !strings.Contains(fault.Message, c.fault) ||
				string(answer.Data()) != c.text || k.text.Len() > 0 {
				t.Errorf("got %q, %q and the error %+v, %v; want %q in one piece, %q", k.text.String(), answer.Data(), fault, err,
					c.text, c.fault)
			}
		})
	}
}

// Large data goes into a program and out of it while it runs.
func TestProgramTakesAndGivesMuch(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "off")
	f := runnable(t, "binary", "exec:main", files{"main*": "#!/bin/sh\nexec cat\n"})
	body := strings.Repeat("0123456789\u00fc\x00", 200_000)
	for range 2 {
		k := &taker{}
		if _, err := r.Run(t.Context(), f, function.Call{Event: request(t, "x",
			event.Protocol{Method: "POST", RequestURL: "http://a/"}, "text/plain", body), Stream: k}); err != nil {
			t.Fatal(err)
		}
		if k.text.String() != body {
			t.Errorf("got %d bytes, want the %d that it was given", k.text.Len(), len(body))
		}
	}
	unread := runnable(t, "binary", "exec:main", files{"main*": "#!/bin/sh\necho done\n"})
	unread.ID += "unread"
	if answer := run(t, r, unread, request(t, "x", event.Protocol{Method: "POST", RequestURL: "http://a/"}, "text/plain",
		body)); string(answer.Data()) != "done\n" {
		t.Errorf("what reads nothing answers %q", answer.Data())
	}
}
