package environment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
)

// order is a request as a browser sends it.
var order = event.Protocol{
	Method: "PUT", RequestURL: "http://shop.localhost:8080/orders/%C3%BC%20x?size=l&colour=red&colour=blue&empty=",
	Headers: map[string][]string{
		"Host": {"shop.localhost:8080"}, "Accept": {"text/html", "text/plain"}, "Cookie": {"a=1", "b=2"},
		"X-Fission-Params-Id": {"7"},
	},
}

// A function in Python sees a request as Flask shows it.
func TestPythonRequest(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	f := runnable(t, "python", "", files{"main.py": `
from flask import current_app, jsonify, make_response, request

def main():
    current_app.logger.info("an order")
    answer = make_response(jsonify(
        method=request.method, path=request.path, url=request.url, base_url=request.base_url, host=request.host,
        size=request.args["size"], colours=request.args.getlist("colour"), empty=request.args.get("empty"), none=request.args.get("none", 5, type=int),
        args=request.args.to_dict(), accept=request.headers["accept"], agent=request.headers.get("User-Agent", "nobody"), cookies=dict(request.cookies),
        type=request.mimetype, text=request.get_data(as_text=True), data=len(request.data), form=request.form.to_dict(),
        json=request.get_json(silent=True), param=request.headers["X-Fission-Params-Id"],
    ), 202)
    answer.headers["X-Order"] = "7"
    answer.headers.add("Set-Cookie", "c=3")
    answer.headers.add("Set-Cookie", "d=4")
    return answer
`})
	want := map[string]any{
		"method": "PUT", "path": "/orders/ü x",
		"url":      "http://shop.localhost:8080/orders/ü%20x?size=l&colour=red&colour=blue&empty=",
		"base_url": "http://shop.localhost:8080/orders/ü%20x", "host": "shop.localhost:8080", "size": "l",
		"colours": []any{"red", "blue"}, "empty": "", "none": 5.0,
		"args": map[string]any{"size": "l", "colour": "red", "empty": ""}, "accept": "text/html, text/plain",
		"agent": "nobody", "cookies": map[string]any{"a": "1", "b": "2"}, "param": "7",
	}
	for _, test := range []struct {
		contentType, body string
		form, json        any
	}{
		{"application/x-www-form-urlencoded", "a=1&b=%C3%BC", map[string]any{"a": "1", "b": "ü"}, nil},
		{"application/json", `{"a":[1,"ü"]}`, map[string]any{}, map[string]any{"a": []any{1.0, "ü"}}},
		{"application/json", `{"a":`, map[string]any{}, nil},
		{"text/plain", "ü", map[string]any{}, nil},
	} {
		answer := run(t, r, f, request(t, "x", order, test.contentType, test.body))
		want["type"], want["text"], want["data"], want["form"], want["json"] = test.contentType, test.body,
			float64(len(test.body)), test.form, test.json
		var got map[string]any
		if err := json.Unmarshal(answer.Data(), &got); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the request is (-want, +got):\n%s", diff)
		}
		p := protocol(t, answer)
		// E-017: status and headers are the function's
		if diff := cmp.Diff(event.Protocol{Type: "http", Status: 202, Headers: map[string][]string{
			"Content-Type": {"application/json"}, "X-Order": {"7"}, "Set-Cookie": {"c=3", "d=4"},
		}}, p); diff != "" {
			t.Errorf("the protocol is (-want, +got):\n%s", diff)
		}
	}
}

// A function in Node.js sees a request as Fission shows it.
func TestNodeRequest(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	f := runnable(t, "nodejs", "", files{"index.js": `
module.exports = async ({ request }) => ({
  status: 202,
  headers: { "X-Order": 7, "Set-Cookie": ["c=3", "d=4"] },
  body: {
    method: request.method, path: request.path, url: request.url, hostname: request.hostname, query: request.query, accept: request.get("Accept"),
    cookie: request.headers.cookie, params: request.params, type: request.headers["content-type"], raw: request.rawBody.toString(),
    body: Buffer.isBuffer(request.body) ? "bytes" : request.body,
  },
});
`})
	want := map[string]any{
		"method": "PUT", "path": "/orders/%C3%BC%20x", "url": "/orders/%C3%BC%20x?size=l&colour=red&colour=blue&empty=",
		"hostname": "shop.localhost", "query": map[string]any{"size": "l", "colour": []any{"red", "blue"}, "empty": ""},
		"accept": "text/html, text/plain", "cookie": "a=1; b=2", "params": map[string]any{"id": "7"},
	}
	for _, test := range []struct {
		contentType, body string
		want              any
	}{
		{"application/x-www-form-urlencoded", "a=1&b=%C3%BC", map[string]any{"a": "1", "b": "ü"}},
		{"application/json", `{"a":[1,"ü"]}`, map[string]any{"a": []any{1.0, "ü"}}},
		{"application/json", `{"a":`, `{"a":`},
		{"text/plain", "ü", "ü"},
		{"image/png", "ü", "bytes"},
	} {
		answer := run(t, r, f, request(t, "x", order, test.contentType, test.body))
		want["type"], want["raw"], want["body"] = test.contentType, test.body, test.want
		var got map[string]any
		if err := json.Unmarshal(answer.Data(), &got); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the request is (-want, +got):\n%s", diff)
		}
		p := protocol(t, answer)
		// E-017: status and headers are the function's
		if diff := cmp.Diff(event.Protocol{Type: "http", Status: 202, Headers: map[string][]string{
			"Content-Type": {"application/json"}, "X-Order": {"7"}, "Set-Cookie": {"c=3", "d=4"},
		}}, p); diff != "" {
			t.Errorf("the protocol is (-want, +got):\n%s", diff)
		}
	}
}

// A function in Node.js finds the wildcards of its route under the names that the route gives them.
func TestNodeParams(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	f := runnable(t, "nodejs", "",
		files{"index.js": "module.exports = async ({ request }) => ({ status: 200, body: request.params });"})
	asked := event.Protocol{
		Method: "GET", RequestURL: "http://shop.localhost/orders/7", Params: map[string]string{"orderId": "7"},
		Headers: map[string][]string{"X-Fission-Params-Orderid": {"7"}},
	}
	answer := run(t, r, f, request(t, "x", asked, "", ""))
	if got := string(answer.Data()); got != `{"orderId":"7"}` {
		t.Errorf("the parameters are %s", got)
	}
}

// A function with two parameters that returns its answer, as on Lambda, is told at once how to answer. One that calls
// back later may return what it likes, such as a timer.
func TestNodeReturnsAndNeverCalls(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	content := files{"index.js": "exports.lambda = async (event, context) => ({ statusCode: 200 });\nexports.called = " +
		"(context, callback) => setTimeout(callback, 1, 200, 'called');"}
	fault, _, err := event.ErrorOf(run(t, r, runnable(t, "nodejs", "index.lambda", content),
		request(t, "x", order, "", "")))
	if err != nil || fault.Type != "WrongHandler" || !strings.Contains(fault.Message, "the function has two parameters") {
		t.Errorf("the error is %+v (%v)", fault, err)
	}
	called := runnable(t, "nodejs", "index.called", content)
	called.ID += "/called"
	answer := run(t, r, called, request(t, "x", order, "", ""))
	if got := string(answer.Data()); got != "called" {
		t.Errorf("the answer is %q", got)
	}
}

// A plain program reads the data, and finds the request in its environment. It is a new process for each event.
func TestPlainProgram(t *testing.T) {
	t.Parallel()
	r, log := start(t, "confined")
	f := runnable(t, "binary", "exec:", files{"main*": "#!/bin/sh\necho $$ >&2\n" +
		`echo "$REQUEST_METHOD $REQUEST_URI $PATH_INFO $HTTP_COOKIE $CONTENT_TYPE ${HTTP_PROXY:-none}: $(cat)"; [ "$QUERY_STRING" != fail ] || exit 7` + "\n"})
	for _, execution := range []string{"a", "b"} {
		p := order
		p.Headers = map[string][]string{"Cookie": {"a=1"}, "Proxy": {"http://evil"}}
		answer := run(t, r, f, request(t, execution, p, "text/plain", "two\nlines"))
		if got, want := string(answer.Data()),
			"PUT /orders/%C3%BC%20x?size=l&colour=red&colour=blue&empty= /orders/ü x a=1 text/plain none: two\nlines\n"; got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
	}
	if log.of("a") == log.of("b") {
		t.Errorf("one process answered both: %s", log.of("a"))
	}
	fault, _, err := event.ErrorOf(run(t, r, f, get(t, "c", "http://a/?fail")))
	// N-023: what a plain program ends with is an error
	if err != nil || fault.Type != "ExitError" || fault.Message != "the program ./main ended with exit code 7" {
		t.Errorf("the error is %+v, %v", fault, err)
	}
}

// Whatever style a function is written in, it finds what app and trigger are configured to.
func TestConfig(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, language, entry string
		content               files
	}{
		{"Flask", "python", "",
			files{"main.py": "from flask import request\ndef main(): return request.environ['landfall.config']['currency']"}},
		{"Python", "python", "",
			files{"main.py": "import json\ndef main(event): return json.loads(event['config'])['currency']"}},
		{"Node.js", "nodejs", "", files{"index.js": "module.exports = async ({ config }) => config.currency;"}},
		{"Node.js with an event", "nodejs", "",
			files{"index.js": "exports.handler = async (event) => JSON.parse(event.config).currency;"}},
		{"a plain program", "binary", "exec:",
			files{"main*": "#!/bin/sh\nprintf '%s' \"$currency${LANDFALL_FUNCTION#none}\"\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "confined")
			f := runnable(t, test.language, test.entry, test.content)
			for _, currency := range []string{"EUR", "CHF"} {
				e := get(t, "x", "http://a/")
				event.SetConfig(&e, map[string]string{"currency": currency, "LANDFALL_FUNCTION": "none", "no-variable": "x",
					"null": "\x00"})
				if got := string(run(t, r, f, e).Data()); got != currency {
					t.Errorf("the answer is %q, want %q", got, currency)
				}
			}
			if got := string(run(t, r, f, get(t, "y", "http://a/")).Data()); test.entry == "exec:" && got != "" {
				t.Errorf("the answer without configuration is %q", got)
			}
		})
	}
}

// The styles in which functions are written, and what each answers.
func TestStyles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, language, entry string
		content               files
		contentType, want     string
	}{
		{"text", "python", "", files{"main.py": "def main(): return '<b>'"}, "text/html; charset=utf-8", "<b>"},
		{"bytes", "python", "", files{"main.py": "def main(): return b'x'"}, "text/html; charset=utf-8", "x"},
		{"a map", "python", "", files{"main.py": "def main(): return {'a': 'ü'}"}, "application/json", `{"a":"\u00fc"}`},
		{"a list", "python", "", files{"main.py": "def main(): return [1]"}, "application/json", `[1]`},
		{"a generator", "python", "", files{"main.py": "def main():\n  yield 'a'\n  yield b'b'"},
			"text/html; charset=utf-8", "ab"},
		{"async", "python", "", files{"main.py": "import asyncio\nasync def main():\n  await asyncio.sleep(0)\n  return 'x'"},
			"text/html; charset=utf-8", "x"}, {"a package", "python", "shop.cart.main",
			files{"shop/__init__.py": "", "shop/cart.py": "from .price import p\ndef main(): return p",
				"shop/price.py": "p = '5'"}, "text/html; charset=utf-8", "5"},
		{"its own flask", "python", "", files{"main.py": "import flask\ndef main(): return flask.mine",
			"flask.py": "from types import SimpleNamespace as N\nfrom contextlib import nullcontext\nmine = 'mine'\nclass " +
				"Flask:\n  def __init__(self, name): pass\n  def request_context(self, e): return nullcontext()\n  def " +
				"make_response(self, v): return N(status_code=200, headers={'Content-Type': 'text/x'}, get_data=lambda: v.encode())"}, "text/x", "mine"},
		{"an event: text", "python", "", files{"main.py": "def main(event): return event['type']"},
			"text/plain; charset=utf-8", "arrival"}, {"an event: bytes", "python", "",
			files{"main.py": "def main(event): return b'\\xff'"}, "application/octet-stream", "\xff"}, {"an event: value",
			"python", "", files{"main.py": "def main(event): return event['data']"}, "application/json", `{"a":"ü"}`},
		{"an event: nothing", "python", "", files{"main.py": "def main(event): pass"}, "", ""},
		{"an event: async", "python", "", files{"main.py": "async def main(event): return 5"}, "application/json", "5"},
		{"an event: itself", "python", "", files{"main.py": "def main(event): return event"}, "application/json",
			`{"a":"ü"}`},
		{"an event: an object", "python", "main.main",
			files{"main.py": "class M:\n  def __call__(self, event): return 'called'\nmain = M()"},
			"text/plain; charset=utf-8", "called"},

		{"text", "nodejs", "", files{"index.js": "module.exports = async () => ({body: '<b>'})"},
			"text/html; charset=utf-8", "<b>"},
		{"bytes", "nodejs", "", files{"index.js": "module.exports = async () => Buffer.from('x')"},
			"application/octet-stream", "x"}, {"a map", "nodejs", "",
			files{"index.js": "module.exports = async () => ({status: 200, body: {a: 'ü'}})"}, "application/json",
			`{"a":"ü"}`}, {"callback", "nodejs", "",
			files{"index.js": "module.exports = (context, callback) => setTimeout(() => callback(200, 'x'), 1)"},
			"text/html; charset=utf-8", "x"}, {"an export", "nodejs", "lib/cart.order",
			files{"lib/cart.js": "exports.order = async () => ({body: 'x'})"}, "text/html; charset=utf-8", "x"},
		{"main of package.json", "nodejs", "",
			files{"package.json": `{"main": "src/a.js"}`, "src/a.js": "module.exports = async () => ({body: 'x'})"},
			"text/html; charset=utf-8", "x"}, {"the only file", "nodejs", "",
			files{"hello.js": "module.exports = async () => ({body: 'x'})"}, "text/html; charset=utf-8", "x"},
		{"ES module", "nodejs", "", files{"package.json": `{"type": "module"}`, "index.js": "import fs from 'fs'; export " +
			"default async () => ({body: typeof fs.open})"}, "text/html; charset=utf-8", "function"},
		{"mjs", "nodejs", "cart.order", files{"cart.mjs": "export const order = async () => ({body: 'x'})"},
			"text/html; charset=utf-8", "x"}, {"an event: text", "nodejs", "",
			files{"index.js": "exports.handler = async (event) => event.type"}, "text/plain; charset=utf-8", "arrival"},
		{"an event: bytes", "nodejs", "", files{"index.js": "exports.handler = () => Buffer.from([255])"},
			"application/octet-stream", "\xff"}, {"an event: value", "nodejs", "index.handler",
			files{"index.js": "exports.handler = ({ data }) => data"}, "application/json", `{"a":"ü"}`},
		{"an event: nothing", "nodejs", "", files{"index.mjs": "export const handler = () => {}"}, "", ""},
		{"an event: by name", "nodejs", "event:index.order", files{"index.js": "exports.order = (event) => event.id"},
			"text/plain; charset=utf-8", "1"}, {"an event: itself", "nodejs", "",
			files{"index.js": "exports.handler = (event) => event"}, "application/json", `{"a":"ü"}`},
	} {
		t.Run(test.language+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t, "confined")
			f := runnable(t, test.language, test.entry, test.content)
			asBytes := arrival(t, "x", "")
			if err := asBytes.SetData("application/json", []byte(`{"a":"ü"}`)); err != nil { // base64 on the line
				t.Fatal(err)
			}
			for _, e := range []event.Event{arrival(t, "x", `{"a":"ü"}`), asBytes} {
				answer := run(t, r, f, e)
				if fault, ok, _ := event.ErrorOf(answer); ok {
					t.Fatalf("the answer is the error %+v", fault)
				}
				// E-010: defined input, defined output
				if got := string(answer.Data()); got != test.want || answer.DataContentType() != test.contentType {
					t.Errorf("the answer is %q (%s), want %q (%s)", got, answer.DataContentType(), test.want, test.contentType)
				}
			}
		})
	}
}

// What a handler of events returns that is no event is refused by its name, and its process lives.
func TestAttributes(t *testing.T) {
	t.Parallel()
	for language, content := range map[string]files{
		"python": {"main.py": "def main(event): return {'specversion': '1.0', **event['data']}"},
		"nodejs": {"index.js": "exports.handler = ({ data }) => ({ specversion: '1.0', ...data })"},
	} {
		r, _ := start(t, "confined")
		f := runnable(t, language, "", content)
		for data, want := range map[string]string{
			`{"my-name":"x"}`:                    "a name has only a to z and 0 to 9",
			`{"amount":1.5}`:                     "its attribute amount; it must be a string, a whole number or a bool",
			`{"amount":3000000000}`:              "its attribute amount",
			`{"list":["x"]}`:                     "its attribute list",
			`{"error":{"message":"no order"}}`:   "no order",
			`{"protocol":{"status_code":404}}`:   "",
			`{"amount":5,"new":true,"name":"x"}`: "",
		} {
			answer := run(t, r, f, arrival(t, "x", data))
			fault, ok, err := event.ErrorOf(answer)
			if err != nil || ok != (want != "") || !strings.Contains(fault.Message, want) {
				t.Errorf("%s: %s: the error is %+v, %v; want %q", language, data, fault, err, want)
			}
			if p := protocol(t, answer); strings.Contains(data, "404") && p.Status != 404 {
				t.Errorf("%s: the protocol is %+v", language, p)
			}
		}
		if processes, _ := r.Count(f.ID); processes != 1 {
			t.Errorf("%s: there are %d processes, want 1", language, processes)
		}
	}
}

// The sample shop's functions run as they are.
func TestShop(t *testing.T) {
	t.Parallel()
	shop := files{}
	for _, folder := range []string{"shop", "checkout"} {
		paths, err := filepath.Glob(filepath.Join("../testdata/apps/shop/functions", folder, "*.py"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there are no functions: %v", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shop[filepath.Base(path)] = string(text)
		}
	}
	r, _ := start(t, "confined")
	post := event.Protocol{Method: "POST", RequestURL: "http://shop.localhost/api"}
	for _, test := range []struct {
		entry, url, body string
		status           int
		want             string
	}{
		{"catalogue.main", "http://shop.localhost/api/catalogue?shelf=garden", "", 200, `"potted-fern"`},
		{"cart.main", "", `{"heron-mug":2}`, 200, `"total": 4690`},
		{"cart.main", "", `{"heron-mug":99}`, 400, "1 to 20 at a time"},
		{"cart.main", "", `no basket`, 400, "A basket is an object"},
		{"checkout.main", "", `{"name":"Ada","email":"a@b","address":"x","items":{"heron-mug":1}}`, 201, `"name": "Ada"`},
		{"checkout.main", "", `{"name":"Ada"}`, 400, "The email is missing."},
	} {
		f := runnable(t, "python", test.entry, shop)
		f.ID = test.entry
		e := request(t, "x", post, "application/json", test.body)
		if test.url != "" {
			e = get(t, "x", test.url)
		}
		answer := run(t, r, f, e)
		if p := protocol(t, answer); p.Status != test.status || !strings.Contains(string(answer.Data()), test.want) ||
			answer.DataContentType() != "application/json" {
			t.Errorf("%s %s: the answer is %d with %s; want %d with %s", test.entry, test.body, p.Status, answer.Data(),
				test.status, test.want)
		}
	}
}
