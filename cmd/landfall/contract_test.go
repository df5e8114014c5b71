package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// promising is functionsSpec with a contract for one of the functions, each line of it.
func promising(specs, function string, contract ...string) string {
	entry := "package: {packageref: {name: " + function + "-pkg}, functionName: "
	before, after, _ := strings.Cut(specs, entry)
	entrypoint, rest, _ := strings.Cut(after, "\n")
	return before + entry + entrypoint + "\n  contract:\n    " + strings.Join(contract, "\n    ") + "\n" + rest
}

// greetOrder is what the function greet takes.
const greetOrder = `{
  "type": "object",
  "required": ["name"],
  "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer"}}
}
`

// sayingSo is a function that leaves a line in its log whenever it runs.
const sayingSo = "import sys\n\ndef main(event):\n    print('it runs', file=sys.stderr)\n    return 'Hello, ' + event['data']['name']\n"

// Whoever sends a function other data than it takes is told what is wrong with it, and the function does not run.
func TestContractOfInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := promising(functionsSpec("python-env", "greet greet.main"), "greet", "input: schemas/order.json")
	r.write("specs/functions.yaml", specs+queueSpec("queued", "functionref: {name: greet}", "topic: orders", "maxRetries: 5"), "specs/app.yaml", appSpec("shop"),
		"site/index.html", "page", "greet/greet.py", sayingSo, "schemas/order.json", greetOrder)
	s.pushed(r, "shop", "A function with a contract")
	route := s.at("shop", "/api/greet")

	right := s.post(route, "application/json", `{"name": "Ada"}`)
	wantEqual(t, "answer to the right data", right.body, "Hello, Ada")
	wrong := s.post(route, "application/json", `{"age": "s3cret"}`, "Accept", "application/json")
	// E-049
	wantEqual(t, "status for the wrong data", wrong.status, http.StatusBadRequest)
	problem := decode[struct {
		Detail string
		Errors []struct{ Detail, Pointer string }
	}](t, []byte(wrong.body))
	wantEqual(t, "what is wrong", problem.Detail, "The function takes other data: /age is a string; it must be an integer; /name is missing.")
	if len(problem.Errors) != 2 || problem.Errors[1].Pointer != "#/name" || problem.Errors[1].Detail != "is missing" {
		t.Errorf("problems: %+v", problem.Errors)
	}
	wantEqual(t, "execution of what was not executed", wrong.header.Get("Landfall-Execution"), "")
	wantEqual(t, "type of the problem", wrong.header.Get("Content-Type"), "application/problem+json")
	person := s.post(route, "text/plain", "Ada", "Accept", "text/html")
	wantEqual(t, "status for text", person.status, http.StatusBadRequest)
	wantText(t, told{person.body}, "<h1>The data does not fit</h1>", "it is text/plain; it must be JSON")

	control := s.URL
	const event = `{"specversion": "1.0", "id": "1", "source": "/r/default/shop/greet", "type": "t", "data": {"name": ""}}`
	for _, path := range []string{"/functions/default/greet", "/run", "/fire"} {
		for name, header := range map[string][]string{"waiting": nil, "not waiting": {"Prefer", "respond-async"}} {
			answer := s.post(control+path, "application/cloudevents+json", event, header...)
			wantEqual(t, path+" "+name, answer.status, http.StatusBadRequest)
			wantText(t, told{answer.body}, "/name is too short: 1 characters at least", `\"type\":\"invalid\"`)
			wantEqual(t, "execution at "+path, answer.header.Get("Landfall-Execution"), "")
		}
	}
	wantEqual(t, "status at the trigger's address", s.post(control+"/r/default/shop/greet", "application/json", `[]`).status, http.StatusBadRequest)
	out, code := s.run(t.TempDir(), "function", "invoke", "greet", "--data", `{"name": 7}`)
	wantEqual(t, "exit code", code, 2)
	wantText(t, told{out}, "/name is a number; it must be a string (invalid)")

	s.landfall("queue", "publish", "shop", "orders", "--data", `{"age": 7}`)
	s.eventually("a dead letter", func() bool { return len(s.messages("shop", "dead.queued")) == 1 })
	letter := s.messages("shop", "dead.queued")[0]
	wantEqual(t, "dead letter", letter.Data, `{"age": 7}`)
	wantText(t, told{strings.Join(letter.Headers["Landfall-Error"], "")}, "/name is missing")

	executions := decode[[]landfall.Execution](t, []byte(s.landfall("execution", "list", "--app", "shop", "-o", "json")))
	wantEqual(t, "executions, of the right data alone", len(executions), 1)
	shown := s.readAs(control + "/functions/default/greet:live")
	described := decode[struct {
		Contract struct{ Input json.RawMessage }
	}](t, []byte(shown.body))
	wantText(t, told{string(described.Contract.Input)}, `"required":["name"]`)
	wantText(t, told{s.landfall("function", "version", "show", "greet", "live")}, `"contract":{"input":{"properties":`)

	// The contract is the version's: another one leaves the older release as it is.
	r.write("schemas/order.json", `{"type": "string"}`)
	s.pushed(r, "shop", "Another contract")
	wantEqual(t, "status by the new release", s.post(route, "application/json", `{"name": "Ada"}`).status, http.StatusBadRequest)
	wantEqual(t, "answer of the old release", s.post(s.at("shop--"+right.header.Get("Landfall-Release"), "/api/greet"), "application/json", `{"name": "Ada"}`).body, "Hello, Ada")
}

// Who reviews a change sees that a function takes or answers something else, which its callers have to know; its tests are no promise.
func TestContractChangeIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "greet greet.main", "tell tell.main")
	files := []string{"specs/app.yaml", appSpec("shop"), "site/index.html", "page", "greet/greet.py", sayingSo, "tell/tell.py", sayingSo, "schemas/order.json", greetOrder}
	r.write(append([]string{"specs/functions.yaml", promising(specs, "greet", "input: schemas/order.json")}, files...)...)
	before := s.pushed(r, "shop", "A function with a contract")
	const shown = "its contract changed"
	changes := func(contract ...string) string {
		r.write("specs/functions.yaml", promising(specs, "greet", contract...))
		out, _ := s.run(r.dir, "spec", "diff")
		return out
	}
	for name, contract := range map[string][]string{
		"another input": {"input: {type: object}"}, "an output": {"input: schemas/order.json", "output: {type: string}"},
	} {
		wantFiles(t, changes(contract...), "function greet changed", shown)
		if out := changes(contract...); strings.Count(out, shown) != 1 {
			t.Errorf("%s: of another function it is said, too: %s", name, out)
		}
	}
	if out := changes("input: schemas/order.json", "tests:", "- {name: ada, data: {name: Ada}}"); !strings.Contains(out, "greet") || strings.Contains(out, shown) {
		t.Errorf("a test: got %s", out)
	}
	r.write("specs/functions.yaml", specs)
	after := s.pushed(r, "shop", "A function without a contract")
	wantFiles(t, s.landfall("release", "diff", "shop", string(before), string(after)), "function greet changed", shown)
	wantText(t, told{s.landfall("run", "show", s.in(t).finished("shop", r.head()).ID)}, shown)
	p := s.person(t)
	p.signIn(s.URL+"/sign-in", s.Token)
	seen, _ := p.open(s.URL + "/apps/shop/diff?from=" + string(before) + "&to=" + string(after))
	wantText(t, told{seen.body}, shown)
}

// A version whose function fails a test of its contract is not released, and what is live stays.
func TestContractTests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := promising(functionsSpec("python-env", "greet greet.main"), "greet", "input: schemas/order.json", "output: {type: object, required: [hello]}",
		"tests:", "- {name: ada, data: {name: Ada}, answer: {hello: Ada}}", "- name: from a file", "  event: tests/bob.json")
	good := "import json\n\ndef main(event):\n    return {'hello': event['data']['name']}\n"
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "greet/greet.py", good,
		"schemas/order.json", greetOrder, "tests/bob.json", `{"type": "greeting", "data": {"name": "Bob"}}`)
	first := s.pushed(r, "shop", "A function that keeps its promise")
	wantText(t, told{s.landfall("run", "logs", s.in(t).finished("shop", r.head()).ID)}, "Function greet: 2 tests passed")

	for source, want := range map[string]string{
		"def main(event):\n    return {'hi': event['data']['name']}\n": `Function greet: the test "ada" failed: the data of the answer does not fit the output ` +
			`that the function's contract promises: /hello is missing; what came is {"hi"`,
		"def main(event):\n    return {'hello': 'Ada' if event['data']['name'] == 'Bob' else 'Eve'}\n":                                `the test "ada" failed: the answer is {"hello"`,
		"def main(event):\n    if event['data']['name'] == 'Bob':\n        raise ValueError('no Bob')\n    return {'hello': 'Ada'}\n": `the test "from a file" failed: `,
		"import sys\nsys.exit(3)\n": `the test "ada" failed: `,
	} {
		r.write("greet/greet.py", source)
		r.commit("A function that does not")
		pushed := r.push("HEAD")
		// E-048
		wantFailed(t, s, "shop", r, pushed, "specs/functions.yaml:", want)
		wantEqual(t, "live", s.showApp("shop").Live, first)
	}
	broken := strings.Replace(greetOrder, `"object"`, `"things"`, 1)
	r.write("greet/greet.py", good, "schemas/order.json", broken)
	r.commit("A schema that is none")
	wantFailed(t, s, "shop", r, r.push("HEAD"), "specs/functions.yaml:", "contract.input: the schema cannot be read: /type fits none")
	out, code := s.run(r.dir, "spec", "validate")
	wantEqual(t, "exit code of spec validate", code, 2)
	wantText(t, told{out}, "contract.input: the schema cannot be read: /type fits none")

	// What runs goes on: an answer that does not fit is counted, and passed on.
	r.write("greet/greet.py", "def main(event):\n    return {'hello': 'Ada'} if event['data'].get('age') is None else {}\n", "schemas/order.json", greetOrder,
		"tests/bob.json", `{"data": {"name": "Ada"}}`)
	s.pushed(r, "shop", "A function that forgets its promise")
	answer := s.post(s.at("shop", "/api/greet"), "application/json", `{"name": "Ada", "age": 3}`)
	wantEqual(t, "answer that does not fit", answer.body, "{}")
	wantText(t, told{s.readAs(s.URL + "/metrics").body}, `landfall_function_unfit_total{function="greet",namespace="default",side="output"`)
}

// An administrator may demand that every function passes a test, programs too.
func TestContractTestsAreRequired(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_REQUIRE_TESTS=true")
	r := s.repository(s.app("shop"))
	program := "#!/bin/sh\nwhile read -r event; do\n\techo '{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/me\",\"type\":\"t\",\"datacontenttype\":\"text/plain\",\"data\":\"'\"$key\"'\"}'\ndone\n"
	r.write("specs/functions.yaml", functionsSpec("binary-env", "hello hello.sh"), "specs/app.yaml", appSpec("shop", "config: {key: value}"), "site/index.html", "page",
		"hello/hello.sh", program)
	if err := os.Chmod(filepath.Join(r.dir, "hello", "hello.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.commit("A function without a test")
	wantFailed(t, s, "shop", r, r.push("HEAD"), "specs/functions.yaml:6: Function hello has no test")
	r.write("specs/functions.yaml", promising(functionsSpec("binary-env", "hello hello.sh"), "hello", "tests:", "- {name: says it, answer: value}"))
	s.pushed(r, "shop", "A function with one")
	wantEqual(t, "answer", s.get(s.at("shop", "/api/hello")).body, "value")
}

// The tests of a contract give a function its secrets as its calls do: in its environment, and nowhere else.
func TestContractTestsGiveSecretsAsCallsDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	const telling = "import json, os\n\ndef main(event):\n    return [os.environ.get('STRIPE_KEY'), json.loads(event['config']), json.loads(event['trigger'])['config']]\n"
	specs := naming(promising(functionsSpec("python-env", "tell tell.main"), "tell", "tests:", "- {name: what it finds, answer: [test, {colour: blue}, {colour: blue}]}"), "STRIPE_KEY")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop", "config: {colour: blue}"), "site/index.html", "page", "tell/tell.py", telling)
	s.setSecret("shop", "STRIPE_KEY", "sk_live_1")
	s.pushed(r, "shop", "A function with a secret")
	wantEqual(t, "what a call finds", s.get(s.at("shop", "/api/tell")).body, `["sk_live_1",{"colour":"blue"},{"colour":"blue"}]`)
}

// What a function streams is held to its contract by its tests, and one that reads bodies while they come is given them so by its tests.
func TestContractTestsOfStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	contract := promising(functionsSpec("python-env", "greet greet.main"), "greet", "output: {type: object, required: [hello]}", "tests:", "- {name: ada, data: {name: Ada}}")
	specs := strings.Replace(contract, "\n  contract:\n", "\n  stream_body: true\n  contract:\n", 1)
	const streaming = `import json


def main(event):
    name = json.loads(event["data"].read())["name"]
    yield {"specversion": "1.0", "datacontenttype": "application/json"}
    yield json.dumps({"hello": name})
`
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"greet/greet.py", streaming)
	first := s.pushed(r, "shop", "A function that streams what it promises")
	answer := s.post(s.at("shop", "/api/greet"), "application/json", `{"name": "Ada"}`)
	wantEqual(t, "answer", answer.body, `{"hello": "Ada"}`)
	var x landfall.Execution
	s.eventually("the execution is on record", func() bool {
		return s.Do(t.Context(), http.MethodGet, "/executions/"+answer.header.Get("Landfall-Execution"), nil, &x) == nil && !x.Finished.IsZero()
	})
	wantEqual(t, "bytes that came and went", [2]int64{x.Input, x.Output}, [2]int64{15, 16})

	r.write("greet/greet.py", strings.Replace(streaming, `"hello"`, `"hi"`, 1))
	r.commit("A function that streams something else")
	wantFailed(t, s, "shop", r, r.push("HEAD"), `the test "ada" failed: the data of the answer does not fit the output`)
	wantEqual(t, "live", s.showApp("shop").Live, first)
}
