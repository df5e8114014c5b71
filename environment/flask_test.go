package environment_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/runner"
)

// flaskFolder has Flask itself, unpacked from Debian's packages.
const flaskFolder = "../build/flask/usr/lib/python3/dist-packages"

// flaskCase is a function in Python, and a request to it.
type flaskCase struct {
	name    string
	code    string // the body of the function
	request event.Protocol
	body    string
	kind    string // of the body
}

// A function answers the same whether its package brings Flask or not.
func TestFlaskStandIn(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	cases := flaskCases()
	standIn, flask := runnable(t, "python", "", flaskFunctions(cases)), runnable(t, "python", "", flaskFunctions(cases))
	standIn.ID, flask.ID = "stand-in", "flask"
	if err := os.CopyFS(flask.Dir, os.DirFS(flaskFolder)); err != nil {
		t.Fatalf("%v; type: make needs", err)
	}
	// K-008: the stand-in answers as Flask does
	for i, test := range cases {
		want := flaskAnswer(t, r, flask, i, test)
		got := flaskAnswer(t, r, standIn, i, test)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the answer is (-Flask's, +got):\n%s", test.name, diff)
		}
	}
}

// A function makes pages by Jinja when its package brings it, as Flask does, and is told what is missing otherwise.
func TestFlaskTemplates(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	cases := []flaskCase{
		{name: "a page", code: "return render_template('page.html', name='<b>', day=datetime.date(2026, 1, 2))",
			request: event.Protocol{RequestURL: "/?who=%3Cme%3E"}},
		{name: "the first page there is",
			code: "return render_template(['none.html', 'page.html'], name=escape('<i>') + '&')"},
		{name: "a text", code: "return render_template('page.txt', name='<b>')"},
		{name: "a source",
			code: "g.name = '<g>'\nreturn render_template_string('{{ name }} {{ g.name }} {{ config.X }}', name='<b>')"},
		{name: "no such page", code: "return render_template('none.html')"},
	}
	content := flaskFunctions(cases)
	content["templates/page.html"] = "<p>{{ name }}</p> {{ request.args.who }} {{ day|default('')|tojson }} {{ {'b': " +
		"1, 'a': '<'}|tojson }}"
	content["templates/page.txt"] = "{{ name }} {{ request.path }}\n"
	standIn, flask, bare := runnable(t, "python", "", content), runnable(t, "python", "", content),
		runnable(t, "python", "", content)
	standIn.ID, flask.ID = "stand-in", "flask"
	for folder, from := range map[string]string{flask.Dir: ".", standIn.Dir + "/jinja2": "jinja2",
		standIn.Dir + "/markupsafe": "markupsafe"} {
		if err := os.CopyFS(folder, os.DirFS(flaskFolder+"/"+from)); err != nil {
			t.Fatalf("%v; type: make needs", err)
		}
	}
	for i, test := range cases {
		if diff := cmp.Diff(flaskAnswer(t, r, flask, i, test), flaskAnswer(t, r, standIn, i, test)); diff != "" {
			t.Errorf("%s: the answer is (-Flask's, +got):\n%s", test.name, diff)
		}
	}
	if got := flaskAnswer(t, r, bare, 0, cases[0]); !strings.Contains(got, "jinja2") || !strings.Contains(got, "package") {
		t.Errorf("without Jinja the answer is %s", got)
	}
}

// What the stand-in does not have says that the package must bring Flask, and is never passed over in silence.
func TestFlaskStandInLacks(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	cases := []flaskCase{
		{name: "session", code: "from flask import session"},
		{name: "request.files", code: "return str(request.files)"},
		{name: "Response.last_modified", code: "r = Response('x')\nr.last_modified = 5\nreturn r"},
		{name: "Flask.route", code: "@flask.Flask(__name__).route('/')\ndef index(): return ''"},
		{name: "forms with files", code: "return request.form", request: event.Protocol{Method: "POST"},
			kind: "multipart/form-data; boundary=a",
			body: "--a\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\nx\r\n--a--\r\n"},
	}
	f := runnable(t, "python", "", flaskFunctions(cases))
	for i, test := range cases {
		if got := flaskAnswer(t, r, f, i, test); !strings.Contains(got, "package must bring") {
			t.Errorf("%s: the answer is %s", test.name, got)
		}
	}
}

// Many fields, headers and cookies cost what they are, not their square, and there is a bound.
func TestFlaskManyFields(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "confined")
	const uses = `
def form(n):
    return "&".join(f"field{i}={i}" for i in range(n))

def used(n, environ):
    import io, time
    environ = {**environ, "QUERY_STRING": form(n), "HTTP_COOKIE": form(n).replace("&", "; "), "wsgi.input": io.BytesIO(form(n).encode())}
    environ.update(REQUEST_METHOD="POST", CONTENT_TYPE="application/x-www-form-urlencoded")
    began = time.process_time()
    with flask.Flask("test").request_context(environ):
        for names in request.form, request.args, request.cookies, request.values:
            for name in names:
                names[name], names.get(name), name in names
            len(names), list(names.values()), list(names.items()), list(names.lists()), names.to_dict(), str(names)
    headers = flask.make_response("x").headers
    for i in range(n // 10):
        headers.add(f"X-{i}", i), headers.get(f"x-{i}"), headers.setdefault("X-0", "b")
    for name in headers.keys():
        headers[name], name in headers, headers.getlist(name)
    return time.process_time() - began
`
	cases := []flaskCase{
		{name: "linear", code: "environ = request.environ\nsmall = min(used(1000, environ) for _ in range(5))\nlarge = " +
			"min(used(8000, environ) for _ in range(5))\nreturn str(large / small)"},
		{name: "a form", code: "return str(len(request.form))"},
		{name: "headers", code: "return str(len(request.headers))"},
	}
	content := flaskFunctions(cases)
	content["main.py"] += uses
	f := runnable(t, "python", "", content)

	// K-008: eight times as many names take eight times as long; were each looked for among all, they would take 64
	// times
	var ratio float64
	answer := flaskAnswer(t, r, f, 0, cases[0])
	_, text, _ := strings.Cut(answer, "\n")
	if _, err := fmt.Sscan(text, &ratio); err != nil || ratio > 24 {
		t.Errorf("8,000 names take %g times as long as 1,000: %s", ratio, answer)
	}
	names := func(n int, between string) string { return strings.Repeat("a=1"+between, n-1) + "a=1" }
	form := flaskCase{request: event.Protocol{Method: "POST"}, kind: "application/x-www-form-urlencoded",
		body: names(10_000, "&")}
	if got := flaskAnswer(t, r, f, 1, form); !strings.HasSuffix(got, "\n1") {
		t.Errorf("10,000 fields: %s", got)
	}
	form.body = names(10_001, "&")
	if got := flaskAnswer(t, r, f, 1, form); !strings.HasPrefix(got, "413 ") ||
		!strings.Contains(got, "more than 10000 fields") {
		t.Errorf("10,001 fields: %s", got)
	}
	many := event.Protocol{Headers: map[string][]string{}}
	for i := range 1_001 {
		many.Headers[fmt.Sprintf("X-%d", i)] = []string{"1"}
	}
	if got := flaskAnswer(t, r, f, 2, flaskCase{request: many}); !strings.HasPrefix(got, "431 ") ||
		!strings.Contains(got, "more than 1000 headers") {
		t.Errorf("1,001 headers: %s", got)
	}
}

// flaskFunctions returns a package in which the header X-Case names a function.
func flaskFunctions(cases []flaskCase) files {
	var main strings.Builder
	main.WriteString(`import dataclasses, datetime, decimal, flask, uuid
from flask import Response, abort, current_app, escape, g, json, jsonify, make_response, redirect, render_template, render_template_string, request

@dataclasses.dataclass
class Order:
    id: int
    paid: decimal.Decimal

UTC = datetime.timezone.utc
`)
	for i, test := range cases {
		fmt.Fprintf(&main, "\ndef case_%d():\n    %s\n", i, strings.ReplaceAll(test.code, "\n", "\n    "))
	}
	main.WriteString("\ndef main():\n    return globals()['case_' + request.headers['X-Case']]()\n")
	return files{"main.py": main.String()}
}

// flaskAnswer is what a visitor gets.
func flaskAnswer(t *testing.T, r *runner.Runner, f runner.Function, number int, test flaskCase) string {
	t.Helper()
	p := test.request
	if p.Method == "" {
		p.Method = "GET"
	}
	if p.RequestURL == "" {
		p.RequestURL = "http://shop.localhost:8080/"
	}
	headers := map[string][]string{"X-Case": {fmt.Sprint(number)}, "Host": {"shop.localhost:8080"}}
	maps.Copy(headers, p.Headers)
	p.Headers = headers
	answer, err := r.Run(t.Context(), f, function.Call{Event: request(t, "", p, test.kind, test.body)})
	if err != nil {
		fault := function.EventError(err)
		return fmt.Sprintf("%s: %s", fault.Type, fault.Message)
	}
	said := protocol(t, answer)
	if fault, failed, _ := event.ErrorOf(answer); failed {
		return fmt.Sprintf("%d %s: %s", said.Status, fault.Type, fault.Message)
	}
	return fmt.Sprintf("%d %v\n%s", said.Status, said.Headers, answer.Data())
}

// flaskCases are the functions.
func flaskCases() []flaskCase {
	const form = "application/x-www-form-urlencoded"
	query := event.Protocol{
		RequestURL: "http://shop.localhost:80/a//%C3%BC%20x/?a=1&b=2&a=3&c&d=%C3%A9&e=a+b&&f=%ff&=g&a%3D=b;c&h=%3d%41%c3%bc%ff"}
	post := event.Protocol{Method: "POST", RequestURL: "/form?a=0&x=y"}
	with := func(pairs ...string) event.Protocol {
		p := event.Protocol{Headers: map[string][]string{}}
		for i := 0; i < len(pairs); i += 2 {
			p.Headers[pairs[i]] = append(p.Headers[pairs[i]], pairs[i+1])
		}
		return p
	}
	return []flaskCase{
		// What JSON has no form for.
		{name: "a date", code: "return {'day': datetime.date(2026, 2, 1)}"},
		{name: "a time", code: "return jsonify(at=datetime.datetime(2026, 12, 31, 23, 59, 58, 999))"},
		{name: "a time with a zone",
			code: "return jsonify(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))))"},
		{name: "a Decimal", code: "return jsonify(price=decimal.Decimal('12.50'))"},
		{name: "a UUID", code: "return jsonify(id=uuid.UUID(int=7))"},
		{name: "a dataclass", code: "return jsonify(Order(1, decimal.Decimal('2.0')), [Order(2, 3)])"},
		{name: "HTML in JSON", code: "return jsonify(escape('<a>'))"},
		{name: "a set", code: "return jsonify({1})"},
		{name: "an object", code: "return jsonify(object)"},
		{name: "sorted names", code: "return jsonify(b=1, a={'d': 'ü', 'c': None})"},
		{name: "names of two types", code: "return jsonify({1: 2, 'a': 3})"},
		{name: "numbers as names", code: "return {2: 'b', 10: 'a'}"},
		{name: "a list", code: "return [1, 'a', None, True, 1.5]"},
		{name: "several values", code: "return jsonify(1, 2)"},
		{name: "values and names",
			code: "try:\n    return jsonify(1, a=2)\nexcept TypeError as e:\n    return type(e).__name__"},
		{name: "nothing in JSON", code: "return jsonify()"},
		{name: "dumps", code: "return json.dumps({'b': [datetime.date(2026, 1, 1)], 'a': 'ü'})"},
		{name: "loads", code: "return json.loads('{\"a\": 1}')"},
		{name: "a query as JSON", code: "return jsonify(request.args)", request: query},

		// Requests.
		{name: "a query", code: "a = request.args\nreturn jsonify([a['a'], a.get('b', type=int), a.get('d', 7, type=int), " +
			"a.getlist('a'), a.getlist('a', int), a.getlist('z'), a.to_dict(), a.to_dict(flat=False), list(a.items()), " +
			"list(a.items(multi=True)), list(a.keys()), list(a.values()), [list(x) for x in a.lists()], len(a), 'a' in a, " +
			"'z' in a, dict(a), list(a)])", request: query},
		{name: "a query as text", code: "return str(request.args) + repr(request.args)", request: query},
		{name: "a query is not changed", code: "try:\n    request.args['a'] = 1\nexcept TypeError as e:\n    return str(e)",
			request: query},
		{name: "no query", code: "return jsonify([request.args, request.url, request.full_path, list(request.values)])"},
		{name: "the address", code: "r = request\nreturn jsonify([r.url, r.base_url, r.host_url, r.root_url, r.url_root, " +
			"r.path, r.full_path, r.host, r.scheme, r.is_secure, r.method, r.query_string.decode()])", request: query},
		{name: "the address by https", code: "r = request\nreturn jsonify([r.url, r.host, r.is_secure])",
			request: event.Protocol{RequestURL: "https://shop.example/%F0%9F%9A%80%ff?q=%F0%9F%9A%80%25%ff%26",
				Headers: map[string][]string{"Host": {"shop.example:443"}}}},
		{name: "headers as text", code: "return str(request.headers)",
			request: with("X-B", "1", "X-B", "2", "User-Agent", "me")},
		{name: "headers", code: "h = request.headers\nreturn jsonify([h['x-b'], h.get('X-C', 3), h.get('x-n', type=int), " +
			"h.getlist('X-b'), 'x-B' in h, 'z' in h, sorted(h), sorted(h.items()), sorted(h.keys()), len(h), dict(h)])",
			request: with("X-B", "1", "X-N", "5")},
		{name: "cookies", code: "return jsonify(request.cookies)",
			request: with("Cookie", `a=1; b="x\054y"; d="q"; e=a=b`, "Cookie", "a=2; f=")},
		{name: "what kind of body", code: "r = request\nreturn jsonify([r.content_type, r.mimetype, r.is_json, " +
			"r.content_length])", request: post, body: "{}", kind: "Application/JSON; charset=utf-8"},
		{name: "JSON", code: "return jsonify([request.json, request.get_json(), request.get_data(as_text=True)])",
			request: post, body: `{"a":[1,"ü"]}`, kind: "application/json"}, {name: "JSON of another type",
			code: "return jsonify(request.get_json(force=True))", request: post, body: `{"a":1}`, kind: "text/plain"},
		{name: "no JSON", code: "return jsonify([request.get_json(silent=True), request.is_json])", request: post,
			body: `{"a":`, kind: "application/json"},
		{name: "a form", code: "return jsonify([request.form, request.form.getlist('a'), request.values.getlist('a'), " +
			"request.values.to_dict(), 'x' in request.values, request.data.decode()])", request: post,
			body: "a=1&b=%C3%BC&a=2&c&d=+%2B", kind: form},
		{name: "a form's text", code: "return jsonify([request.get_data(as_text=True), request.form, request.data.decode()])",
			request: post, body: "a=1", kind: form}, {name: "the body after the form",
			code: "return jsonify([request.form, request.get_data(as_text=True)])", request: post, body: "a=1", kind: form},
		{name: "a form in parts", code: "return jsonify([request.form, request.form.getlist('a'), " +
			"request.values.getlist('a'), request.data.decode()])", request: post, kind: "multipart/form-data; boundary=a",
			body: "before\r\n--a\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--a \r\ncontent-disposition: " +
				"form-data; name=b\r\nContent-Type: text/plain; " +
				"charset=utf-8\r\n\r\nü\r\n--ab\r\n\r\n--a\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--a--\r\nafter"},
		{name: "names of parts", code: "return jsonify(request.form)", request: post,
			kind: "multipart/form-data; boundary=\"a b\"",
			body: "--a b\r\nContent-Disposition: form-data; name=\"ü; \\\"x\\\"\"\r\n\r\n1\r\n--a b\r\nX-A: " +
				"b\r\nContent-Disposition: form-data; name=\"%22\"\r\n\r\n2\r\n--a b--"},
		{name: "a form in parts without an end", code: "return jsonify(request.form)", request: post,
			kind: "multipart/form-data; boundary=a", body: "--a\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1"},
		{name: "a form in parts without any", code: "return jsonify(request.form)", request: post,
			kind: "multipart/form-data; boundary=a", body: "--a--\r\n"}, {name: "a form in parts without a boundary",
			code: "return jsonify(request.form)", request: post, kind: "multipart/form-data", body: "--a--\r\n"},
		{name: "who asks", code: "return jsonify([request.remote_addr, request.user_agent.string, " +
			"str(request.user_agent), bool(request.user_agent)])",
			request: with("X-Forwarded-For", "203.0.113.7", "User-Agent", "me/1")},
		{name: "who asks is not known", code: "return jsonify([request.remote_addr, request.user_agent.string, " +
			"bool(request.user_agent), request.authorization])"},
		{name: "a name and a password", code: "a = request.authorization\nreturn jsonify([a.type, a.username, a.password])",
			request: with("Authorization", "Basic w7w6cDpx")},
		{name: "a broken authorization", code: "return jsonify(request.authorization)",
			request: with("Authorization", "Basic !")},
		{name: "an authorization of nothing", code: "return jsonify(request.authorization)",
			request: with("Authorization", "Basic")},
		{name: "a status with its reason", code: "return 'x', '404 NOT HERE'"},
		{name: "reasons", code: "r = Response('x', '404 NOT HERE')\nseen = [r.status]\nr.status = " +
			"'201'\nseen.append(r.status)\nr.status_code = 299\nseen.append(r.status)\nr.status = '404 NOT " +
			"HERE'\nr.status_code = 404\nreturn jsonify(seen + [r.status])"},
		{name: "no form", code: "return jsonify([request.form, request.data.decode()])", request: post, body: "a=1",
			kind: "text/plain"},
		{name: "a form of a GET", code: "return jsonify([request.values.to_dict()])",
			request: event.Protocol{RequestURL: "/?a=1"}, body: "b=2", kind: form}, {name: "the body as a file",
			code: "return request.stream.read(2) + b'|' + request.get_data()", request: post, body: "abcd", kind: "text/plain"},
		{name: "what one request keeps", code: "g.user = 'me'\nreturn jsonify([g.user, g.get('other', 1), 'user' in g, " +
			"g.pop('user'), g.setdefault('a', 2), list(g)])"},

		// Answers.
		{name: "a text", code: "return 'ü'"},
		{name: "bytes", code: "return b'\\xff'"},
		{name: "nothing", code: "return ''"},
		{name: "no content", code: "return '', 204"},
		{name: "a status", code: "return 'made', 201"},
		{name: "a status as text", code: "return 'made', '201 CREATED'"},
		{name: "headers behind it", code: "return 'x', {'X-A': 'b', 'Content-Type': 'text/csv'}"},
		{name: "a status and headers", code: "return {'a': 1}, 418, [('X-A', 'b'), ('X-A', 'c')]"},
		{name: "a header with several values", code: "return 'x', 200, {'X-A': ['b', 'c']}"},
		{name: "a response with headers behind it",
			code: "r = make_response('x')\nr.headers['X-A'] = 'a'\nr.headers.add('X-A', 'b')\nreturn r, 202, {'x-a': 'c', " +
				"'X-N': 5}"},
		{name: "changed headers", code: "h = make_response('x').headers\nh.add('X-A', 1)\nh.add('X-B', 'b')\nh['x-a'] = " +
			"2\nh.setdefault('X-B', 'z')\nh.setdefault('X-C', 'c')\nh.extend([('X-D', 'd'), ('X-D', 'e')])\nh.update({'X-B': " +
			"'f'})\nh.remove('X-C')\ndel h['Content-Length']\nreturn str(h)"},
		{name: "a response", code: "return Response('<a/>', status=202, mimetype='application/xml')"},
		{name: "a response's types", code: "return jsonify([Response('', mimetype=m).content_type for m in ('text/css', " +
			"'application/json', 'image/svg+xml', 'application/javascript', 'image/png')] + [Response('', " +
			"content_type='a/b').mimetype, Response('', headers={'Content-Type': 'c/d'}).content_type, Response('', " +
			"headers={'Content-Type': 'c/d'}, mimetype='text/x').content_type])"},
		{name: "a response's status", code: "r = Response('x')\nseen = [r.status]\nr.status_code = " +
			"404\nseen.append(r.status)\nr.status = '201 Whatever'\nreturn jsonify(seen + [r.status_code])"},
		{name: "a response's data", code: "r = Response(['a', b'b'])\nseen = r.get_data(as_text=True)\nr.data = " +
			"'c'\nreturn jsonify([seen, r.data.decode(), r.is_json, jsonify(a=1).json])"},
		{name: "cookies set", code: "r = make_response('x')\nr.set_cookie('a', 'b')\nr.set_cookie('c', 'd;\"\\\\ü,', " +
			"httponly=True, secure=True, samesite='Lax', domain='shop.example', path='/x')\nr.set_cookie('e', 'f', " +
			"expires=datetime.datetime(2030, 1, 2, 3, 4, 5))\nr.delete_cookie('g')\nreturn r"},
		{name: "a redirect", code: "r = redirect('/é x?a=1&b=2#c', 301)\nr.data = ''\nreturn r"},
		{name: "an iterator", code: "return Response(iter(['a', b'b']), mimetype='text/plain')"},
		{name: "a generator",
			code: "def made():\n    yield 'a'\n    yield 'b'\nreturn made(), {'Content-Type': 'text/plain'}"},
		{name: "an error", code: "abort(404, 'no such\\n<order>')"},
		{name: "an error with its answer", code: "abort(Response('mine', 409))"},
		{name: "an answer as an error", code: "abort(200)"},
		{name: "an error's status", code: "try:\n    abort(503, description='later')\nexcept Exception as e:\n    return " +
			"jsonify([e.code, e.name, e.description])"},
		{name: "HTML", code: "return escape('<a href=\"x\">&\\'') + '<b>'"},
		{name: "HTML of a number", code: "return escape(5) + escape(None)"},
		{name: "an application", code: "return jsonify([current_app.name, current_app.config.get('X')])"},
	}
}
