package environment_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/spec"
)

// flawed are functions that do what the path of a request says, in each language. They count their requests.
func flawed() map[string]files {
	return map[string]files{
		"python": {"main.py": `
import asyncio, ctypes, json, os, subprocess, sys, threading
from flask import abort, request, Response

count = 0

def main():
    global count
    count += 1
    return getattr(sys.modules[__name__], request.path[1:])()

def good(): return str(count)
def exception(): return inner()
def inner(): raise ValueError("no such order: ü \ud800")
def chained():
    try: inner()
    except ValueError as e: raise LookupError("lost") from e
def library(): return json.loads("{")
def leaves(): sys.exit(3)
def segfault(): ctypes.string_at(0)
def nothing(): pass
def number(): return 5
def status(): return "x", 999
def header(): return "x", 200, {"X-A": "a\r\nSet-Cookie: b"}
def name(): return "x", 200, {"X A": "a"}
def kind(): return "x", 200, {"Content-Type": "no type"}
def prints():
    print("printed", flush=True)
    os.write(1, b"written\n")
    subprocess.run(["echo", "echoed"])
    return sys.stdin.read() + "quiet"
def aborts(): abort(404, "no such order")
def surrogate(): return Response('{"a": "\\ud800"}', mimetype="application/json")
def nan(): return {"a": float("nan")}
def broken(): return Response('{"a": ', mimetype="application/json")
def bytes_(): return b"\xff\x00"
async def cancelled(): raise asyncio.CancelledError("the task was cancelled")
def cancels():
    yield "a piece"
    raise asyncio.CancelledError("the task was cancelled")
class Unsayable(Exception):
    def __str__(self): raise ValueError
def unsayable(): raise Unsayable
class Log:
    def write(self, text): pass
def takes_log():
    sys.stderr = {"none": None, "other": Log()}[request.args["log"]]
    return "answered"
def closes_log():
    sys.stderr.close()
    if request.args: raise ValueError("said to who calls")
    return "answered"
def path(): raise ValueError("no file " + os.path.dirname(os.path.abspath(__file__)) + "/orders.json")
`},
		"nodejs": {"index.js": `
const { execSync } = require("child_process");
let count = 0;
module.exports = async (context) => {
  count++;
  return functions[context.request.path.slice(1)](context);
};
const inner = () => { throw new RangeError("no such order: ü \ud800"); };
const functions = {
  good: () => ({ status: 200, body: String(count) }),
  exception: () => inner(),
  text: () => { throw "only text"; },
  empty: () => { throw undefined; },
  later: () => new Promise(() => setTimeout(() => { throw new RangeError("thrown later"); }, 1)),
  rejection: () => new Promise(() => { Promise.reject(new RangeError("nobody waits")); }),
  leaves: () => process.exit(3),
  path: () => { throw new RangeError("no file " + __dirname + "/orders.json"); },
  segfault: () => process.kill(process.pid, "SIGSEGV") && new Promise(() => {}),
  nothing: () => {},
  number: () => 5,
  odd: () => ({ hello: "world" }),
  status: () => ({ status: 999, body: "x" }),
  header: () => ({ body: "x", headers: { "X-A": "a\r\nSet-Cookie: b" } }),
  name: () => ({ body: "x", headers: { "X A": "a" } }),
  kind: () => ({ body: "x", headers: { "content-type": "no type" } }),
  prints: () => {
    console.log("printed");
    process.stdout.write("written\n");
    console.error(execSync("echo echoed").toString().trim());
    return "quiet";
  },
  surrogate: () => ({ body: { a: "\ud800" } }),
  broken: () => ({ body: '{"a": ', headers: { "Content-Type": "application/json" } }),
  bytes_: () => ({ body: Buffer.from([0xff, 0]) }),
  odd_names: () => ({ body: "answered", headers: { constructor: "a", "X-A": "b" } }),
  unsayable: () => { throw Object.create(null); },
  getter: () => { throw { get message() { throw new Error("another"); } }; },
  unsayable_piece: async function* () { yield "a piece"; throw Object.create(null); },
};
`},
	}
}

// A function that fails says in its answer what went wrong, of what type it is and where, and stays. One that ends is
// started again.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		language, path       string
		message, kind, trace string // of an error event
	}{
		{"python", "exception", "no such order: ü", "ValueError", "main.py\", line 14, in inner"},
		{"python", "chained", "lost", "LookupError", "main.py\", line 14, in inner"},
		{"python", "library", "Expecting property name", "JSONDecodeError", "json/decoder.py"},
		{"python", "missing", "no attribute 'missing'", "AttributeError", "main.py\", line 10, in main"},
		{"python", "nothing", "the function returned None; return a string", "TypeError", ""},
		{"python", "number", "the function returned a value of type int; return a string", "TypeError", ""},
		{"python", "status", "the status 999; a status is a number from 200 to 599", "InvalidAnswer", ""},
		{"python", "header", "the header 'X-A'", "InvalidAnswer", ""},
		{"python", "name", "the header 'X A'", "InvalidAnswer", ""},
		{"python", "kind", "the content type 'no type'", "InvalidAnswer", ""},
		{"python", "cancelled", "the task was cancelled", "CancelledError", "main.py\", line 37, in cancelled"},
		{"python", "cancels", "the task was cancelled", "CancelledError", "main.py\", line 40, in cancels"},
		{"python", "unsayable", "its __str__ raised ValueError", "Unsayable", "main.py\", line 43, in unsayable"},
		{"python", "path", "no file /", "ValueError", "ValueError: no file /"}, // a path in a message is not a frame's
		{"nodejs", "path", "no file /", "RangeError", "RangeError: no file /"},
		{"nodejs", "unsayable", "what cannot be written as text, of type object", "Error", ""},
		{"nodejs", "getter", "what cannot be written as text, of type object", "Error", ""},
		{"nodejs", "unsayable_piece", "what cannot be written as text, of type object", "Error", ""},
		{"nodejs", "exception", "no such order: ü", "RangeError", "at inner (index.js:8:29)"},
		{"nodejs", "text", "only text", "Error", ""},
		{"nodejs", "empty", "Error", "Error", ""},
		{"nodejs", "later", "thrown later", "RangeError", "(index.js:14:"},
		{"nodejs", "rejection", "nobody waits", "RangeError", "index.js:15:"},
		{"nodejs", "missing", "is not a function", "TypeError", "index.js:6:"},
		{"nodejs", "nothing", "the function returned nothing; return {status, body, headers}", "InvalidAnswer", ""},
		{"nodejs", "number", "a value of type number, without status and body", "InvalidAnswer", ""},
		{"nodejs", "odd", "a value of type object, without status and body", "InvalidAnswer", ""},
		{"nodejs", "status", "the status 999; a status is a number from 200 to 599", "InvalidAnswer", ""},
		{"nodejs", "header", `the header "X-A"`, "InvalidAnswer", ""},
		{"nodejs", "name", `the header "X A"`, "InvalidAnswer", ""},
		{"nodejs", "kind", `the content type "no type"`, "InvalidAnswer", ""},
	} {
		t.Run(test.language+"/"+test.path, func(t *testing.T) {
			t.Parallel()
			r, log := start(t, "confined")
			f := runnable(t, test.language, "", flawed()[test.language])
			answer := run(t, r, f, get(t, "bad", "http://a/"+test.path))
			fault, ok, err := event.ErrorOf(answer)
			// E-018, E-021, N-023, N-024: an error is an event with a message, and no data
			if !ok || err != nil || !strings.Contains(fault.Message, test.message) || answer.Data() != nil {
				t.Errorf("the answer is %v, want an error with %q", answer, test.message)
			}
			// E-022: and with its type
			if fault.Type != test.kind {
				t.Errorf("the error's type is %q, want %q", fault.Type, test.kind)
			}
			// E-023: and where it arose
			if !strings.Contains(fault.Trace, test.trace) || (test.trace == "" && strings.Contains(fault.Trace, "line ")) {
				t.Errorf("the error's trace is %q, want %q", fault.Trace, test.trace)
			}
			if strings.Contains(fault.Trace, "adaptor") || strings.Contains(fault.Trace, "flask.py") ||
				strings.Contains(fault.Trace, "node:") {
				t.Errorf("the error's trace has frames that are not the function's: %s", fault.Trace)
			}
			if text := log.of("bad"); !strings.Contains(text, test.message) {
				t.Errorf("the log is %q, want the error in it", text)
			}
			if got := string(run(t, r, f, get(t, "next", "http://a/good")).Data()); got != "2" {
				t.Errorf("the next answer is %q, want 2: the process lives", got)
			}
		})
	}
}

// A function that closed its log is told of its errors all the same: by its answer.
func TestClosedLog(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "off")
	f := runnable(t, "python", "", flawed()["python"])
	fault, ok, err := event.ErrorOf(run(t, r, f, get(t, "x", "http://a/closes_log?then=fails")))
	if !ok || err != nil || fault.Message != "said to who calls" {
		t.Errorf("the error is %+v, %t, %v", fault, ok, err)
	}
}

// A function that ends instead of answering is an error of its caller, and the next caller gets a new process.
func TestExits(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"python", "nodejs"} {
		for path, message := range map[string]string{"leaves": "exit code 3", "segfault": "signal 11"} {
			t.Run(language+"/"+path, func(t *testing.T) {
				t.Parallel()
				r, _ := start(t, "confined")
				f := runnable(t, language, "", flawed()[language])
				_, err := r.Run(t.Context(), f, function.Call{Event: get(t, "bad", "http://a/"+path)})
				failure, ok := errors.AsType[*function.Error](err)
				// N-023: an exit and a segfault are said to be
				if !ok || failure.Reason != function.ReasonExit || !strings.Contains(landfall.MessageOf(err), message) {
					t.Errorf("the error is %v, want %q", err, message)
				}
				if got := string(run(t, r, f, get(t, "next", "http://a/good")).Data()); got != "1" {
					t.Errorf("the next answer is %q, want 1, by a new process", got)
				}
			})
		}
	}
}

// What a call leaves behind and fails while another is answered is in the log, and is not told to who calls then.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	r, log := start(t, "confined")
	f := runnable(t, "nodejs", "event:index.handler", files{"index.js": `
let release;
let failed = 0;
const second = new Promise((resolve) => { release = resolve; });
process.on("uncaughtException", () => { failed++; });
exports.handler = async (event) => {
  if (event.subject === "first") {
    second.then(() => { throw new Error("the first caller's promise"); });
    second.then(() => setImmediate(() => { throw Object.create(null); }));
    const timer = setInterval(() => { if (failed === 2) { clearInterval(timer); throw new Error("the first caller's timer"); } }, 1);
    return "first";
  }
  release();
  while (failed < 3) await new Promise((resolve) => setTimeout(resolve, 1));
  return "second";
};
`})
	for _, name := range []string{"first", "second"} {
		e := arrival(t, name, "")
		e.SetSubject(name)
		answer := run(t, r, f, e)
		if got := string(answer.Data()); got != name {
			t.Errorf("the answer is %q (%v), want %q", got, answer, name)
		}
	}
	for _, what := range []string{"the first caller's promise", "what cannot be written as text",
		"the first caller's timer"} {
		if got := log.of("second"); !strings.Contains(got, what) {
			t.Errorf("the log is %q, want it with %q", got, what)
		}
	}
}

// A script whose interpreter the machine does not have is said to lack it: the file itself is there.
func TestNoInterpreter(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	f := runnable(t, "binary", "main", files{"main*": "#!/usr/bin/nowhere\n"})
	_, err := r.Run(t.Context(), f, function.Call{Event: get(t, "none", "http://a/")})
	failure, ok := errors.AsType[*function.Error](err)
	if !ok || !strings.Contains(failure.Trace,
		"the program cannot be started: ./main: it is there, but not the interpreter") {
		t.Errorf("the error is %v, want what is missing", err)
	}
	for entrypoint, content := range map[string]files{"exec:main": {"main*": "#!/usr/bin/nowhere -x\n"},
		"main": {"main*": "#!/usr/bin/nowhere -x\necho a shell\n"}} {
		e, err := environment.Of(landfall.Environment{Name: "binary", Programs: spec.Either})
		if err != nil {
			t.Fatal(err)
		}
		f := runnable(t, "binary", "exec:main", content)
		if f.Args, _, err = e.Command(f.Dir, entrypoint); err != nil {
			t.Fatal(err)
		}
		f.ID += entrypoint
		fault, failed, err := event.ErrorOf(run(t, r, f, get(t, entrypoint, "http://a/")))
		if !failed || err != nil || !strings.Contains(fault.Message,
			"the first line of ./main names /usr/bin/nowhere, which the server does not have") {
			t.Errorf("%s: the error is %+v, %v, want what is missing", entrypoint, fault, err)
		}
	}
}

// What a function prints, and what its children print, is its log and never its answer. It has nothing to read.
func TestPrints(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"python", "nodejs"} {
		r, log := start(t, "confined")
		f := runnable(t, language, "", flawed()[language])
		for n := 1; n <= 2; n++ {
			execution := strconv.Itoa(n)
			if got := string(run(t, r, f, get(t, execution, "http://a/prints")).Data()); got != "quiet" {
				t.Errorf("%s: the answer is %q", language, got)
			}
			// E-013: standard output of a handler is its log
			if got, want := log.of(execution), "printed\nwritten\nechoed\n"; got != want {
				t.Errorf("%s: the log is %q, want %q", language, got, want)
			}
		}
	}
}

// What a function answers that is no text, or JSON that not everybody reads, arrives as it is.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ language, path, want string }{
		{"python", "bytes_", "\xff\x00"},
		{"python", "broken", `{"a": `},
		{"python", "surrogate", `{"a": "\ud800"}`},
		{"python", "nan", `{"a":NaN}` + "\n"},
		{"python", "aborts",
			"<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>no such order</p>\n"},
		{"python", "takes_log?log=none", "answered"},
		{"python", "takes_log?log=other", "answered"},
		{"python", "closes_log", "answered"},
		{"nodejs", "odd_names", "answered"},
		{"nodejs", "bytes_", "\xff\x00"},
		{"nodejs", "broken", `{"a": `},
		{"nodejs", "surrogate", `{"a":"\ud800"}`},
	} {
		r, _ := start(t, "off")
		f := runnable(t, test.language, "", flawed()[test.language])
		if got := string(run(t, r, f, get(t, "x", "http://a/"+test.path)).Data()); got != test.want {
			t.Errorf("%s: %s is %q, want %q", test.language, test.path, got, test.want)
		}
	}
}

// A handler that is not there, or cannot be loaded, is an error that says what was looked for and what there is.
func TestMissing(t *testing.T) {
	t.Parallel()
	python := files{"main.py": "def handler():\n  pass\nsize = 5\n", "cart.py": "import nowhere\n",
		"bad.py": "def main(:\n", "two.py": "def main(a, b): pass\n", "lib/x.py": ""}
	node := files{"index.js": "exports.main = () => {}; exports.size = 5", "cart.js": "require('nowhere')",
		"bad.js": "const = 5", "esm.mjs": "export const main = () => {}"}
	for _, test := range []struct {
		language, entry string
		content         files
		message, trace  string
	}{
		{"python", "main.main", python, "the module main has no function main; it has: handler", ""},
		{"python", "main.size", python, "it has: handler", ""},
		{"python", "basket.main", python, "no module basket in the package: neither basket.py nor basket/__init__.py; the " +
			"package has: bad.py, cart.py, lib, main.py, two.py", ""},
		{"python", "lib.y.main", python, "no module lib.y in the package: neither lib/y.py", ""},
		{"python", "cart.main", python, "No module named 'nowhere'; a module that Python does not have itself must be in " +
			"the package", `File "cart.py", line 1`},
		{"python", "bad.main", python, "invalid syntax", `File "bad.py", line 1`},
		{"python", "two.main", python, "two.main takes 2 parameters; a function takes none", ""},
		{"nodejs", "", node, "exports neither a function as module.exports nor a function handler; it exports: ", ""},
		{"nodejs", "index.size", node, "index.js exports size, which is no function but number; it exports: main, size", ""},
		{"nodejs", "basket", node, "there is no module basket in it, and none of basket.js, basket.mjs, basket.cjs, " +
			"basket/index.js, basket/index.mjs; the package has: bad.js, cart.js, esm.mjs, index.js", ""},
		{"nodejs", "esm", node, "esm.mjs exports neither", ""},
		{"nodejs", "", files{"README": ""},
			"no main in package.json, and none of index.js, index.mjs, index.cjs; the package has: README", ""},
		{"nodejs", "cart", node,
			"Cannot find module 'nowhere'; a module that Node.js does not have itself must be in the package", "cart.js:1:1"},
		{"nodejs", "bad", node, "Unexpected token", "bad.js:1"},
	} {
		t.Run(test.language+"/"+test.entry, func(t *testing.T) {
			t.Parallel()
			r, log := start(t, "confined")
			f := runnable(t, test.language, test.entry, test.content)
			for _, execution := range []string{"first", "second"} {
				fault, ok, err := event.ErrorOf(run(t, r, f, arrival(t, execution, "")))
				// N-023: a missing handler is an error that says what there is
				if !ok || err != nil || !strings.Contains(fault.Message, test.message) {
					t.Errorf("the error is %q, %v; want %q", fault.Message, err, test.message)
				}
				if !strings.Contains(fault.Trace, test.trace) || (test.trace == "" && fault.Trace != "") ||
					strings.Contains(fault.Trace, "adaptor") {
					t.Errorf("the error's trace is %q, want %q", fault.Trace, test.trace)
				}
				if text := log.of(execution); !strings.Contains(text, test.message) {
					t.Errorf("the log is %q, want the error in it", text)
				}
			}
		})
	}
}

// A module that failed to load is loaded again: what it lacked may be there by then.
func TestRecovers(t *testing.T) {
	t.Parallel()
	flag := filepath.Join(t.TempDir(), "there")
	for _, test := range []struct {
		language string
		content  files
	}{
		{"python", files{"main.py": "import os\nopen(os.environ['FLAG'])\ndef main(event): return 'well'\n"}},
		{"nodejs", files{"index.js": "require('fs').readFileSync(process.env.FLAG); exports.handler = () => 'well'"}},
		{"nodejs",
			files{"index.mjs": "import fs from 'fs'; fs.readFileSync(process.env.FLAG); export const handler = () => 'well'"}},
	} {
		language := test.language
		r, _ := start(t, "off")
		f := runnable(t, language, "", test.content)
		f.Env = map[string]string{"FLAG": flag}
		if _, ok, _ := event.ErrorOf(run(t, r, f, arrival(t, "first", ""))); !ok {
			t.Errorf("%s: the module was loaded", language)
		}
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := string(run(t, r, f, arrival(t, "second", "")).Data()); got != "well" {
			t.Errorf("%s: the answer is %q, want well", language, got)
		}
		if err := os.Remove(flag); err != nil {
			t.Fatal(err)
		}
		if processes, _ := r.Count(f.ID); processes != 1 {
			t.Errorf("%s: there are %d processes, want 1", language, processes)
		}
	}
}
