package function_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// promising is FunctionsSpec with a contract for one of the functions, each line of it.
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
const sayingSo = "import sys\n\ndef main(event):\n    print('it runs', file=sys.stderr)\n    return 'Hello, ' + " +
	"event['data']['name']\n"

// Whoever sends a function other data than it takes is told what is wrong with it, and the function does not run.
func TestContractOfInput(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := promising(site.FunctionsSpec("python-env", "greet greet.main"), "greet", "input: schemas/order.json")
	r.Write("specs/functions.yaml", specs+site.QueueSpec("queued", "functionref: {name: greet}", "topic: orders",
		"maxRetries: 5"), "specs/app.yaml", site.AppSpec("shop"),
		"site/index.html", "page", "greet/greet.py", sayingSo, "schemas/order.json", greetOrder)
	s.Pushed(r, "shop", "A function with a contract")
	route := s.At("shop", "/api/greet")

	right := s.Post(route, "application/json", `{"name": "Ada"}`)
	testkit.Equal(t, "answer to the right data", right.Body, "Hello, Ada")
	wrong := s.Post(route, "application/json", `{"age": "s3cret"}`, "Accept", "application/json")
	// E-049
	testkit.Equal(t, "status for the wrong data", wrong.Status, http.StatusBadRequest)
	problem := testkit.Decode[struct {
		Detail string
		Errors []struct{ Detail, Pointer string }
	}](t, []byte(wrong.Body))
	testkit.Equal(t, "what is wrong", problem.Detail,
		"The function takes other data: /age is a string; it must be an integer; /name is missing.")
	if len(problem.Errors) != 2 || problem.Errors[1].Pointer != "#/name" || problem.Errors[1].Detail != "is missing" {
		t.Errorf("problems: %+v", problem.Errors)
	}
	testkit.Equal(t, "execution of what was not executed", wrong.Header.Get("Landfall-Execution"), "")
	testkit.Equal(t, "type of the problem", wrong.Header.Get("Content-Type"), "application/problem+json")
	person := s.Post(route, "text/plain", "Ada", "Accept", "text/html")
	testkit.Equal(t, "status for text", person.Status, http.StatusBadRequest)
	testkit.Contains(t, site.Told{person.Body}, "<h1>The data does not fit</h1>", "it is text/plain; it must be JSON")

	control := s.URL
	const event = `{"specversion": "1.0", "id": "1", "source": "/r/default/shop/greet", "type": "t", "data": {"name": ""}}`
	for _, path := range []string{"/functions/default/greet", "/run", "/fire"} {
		for name, header := range map[string][]string{"waiting": nil, "not waiting": {"Prefer", "respond-async"}} {
			answer := s.Post(control+path, "application/cloudevents+json", event, header...)
			testkit.Equal(t, path+" "+name, answer.Status, http.StatusBadRequest)
			testkit.Contains(t, site.Told{answer.Body}, "/name is too short: 1 characters at least", `\"type\":\"invalid\"`)
			testkit.Equal(t, "execution at "+path, answer.Header.Get("Landfall-Execution"), "")
		}
	}
	testkit.Equal(t, "status at the trigger's address",
		s.Post(control+"/r/default/shop/greet", "application/json", `[]`).Status, http.StatusBadRequest)
	out, code := s.Run(t.TempDir(), "function", "invoke", "greet", "--data", `{"name": 7}`)
	testkit.Equal(t, "exit code", code, 2)
	testkit.Contains(t, site.Told{out}, "/name is a number; it must be a string (invalid)")

	s.Landfall("queue", "publish", "shop", "orders", "--data", `{"age": 7}`)
	s.Eventually("a dead letter", func() bool { return len(s.Messages("shop", "dead.queued")) == 1 })
	letter := s.Messages("shop", "dead.queued")[0]
	testkit.Equal(t, "dead letter", letter.Data, `{"age": 7}`)
	testkit.Contains(t, site.Told{strings.Join(letter.Headers["Landfall-Error"], "")}, "/name is missing")

	executions := testkit.Decode[[]landfall.Execution](t,
		[]byte(s.Landfall("execution", "list", "--app", "shop", "-o", "json")))
	testkit.Equal(t, "executions, of the right data alone", len(executions), 1)
	shown := s.ReadAs(control + "/functions/default/greet:live")
	described := testkit.Decode[struct {
		Contract struct{ Input json.RawMessage }
	}](t, []byte(shown.Body))
	testkit.Contains(t, site.Told{string(described.Contract.Input)}, `"required":["name"]`)
	testkit.Contains(t, site.Told{s.Landfall("function", "version", "show", "greet", "live")},
		`"contract":{"input":{"properties":`)

	// The contract is the version's: another one leaves the older release as it is.
	r.Write("schemas/order.json", `{"type": "string"}`)
	s.Pushed(r, "shop", "Another contract")
	testkit.Equal(t, "status by the new release", s.Post(route, "application/json", `{"name": "Ada"}`).Status,
		http.StatusBadRequest)
	testkit.Equal(t, "answer of the old release", s.Post(s.At("shop--"+right.Header.Get("Landfall-Release"), "/api/greet"),
		"application/json", `{"name": "Ada"}`).Body, "Hello, Ada")
}

// Who reviews a change sees that a function takes or answers something else, which its callers have to know; its tests
// are no promise.
func TestContractChangeIsShown(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "greet greet.main", "tell tell.main")
	files := []string{"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "greet/greet.py", sayingSo,
		"tell/tell.py", sayingSo, "schemas/order.json", greetOrder}
	r.Write(append([]string{"specs/functions.yaml", promising(specs, "greet", "input: schemas/order.json")}, files...)...)
	before := s.Pushed(r, "shop", "A function with a contract")
	const shown = "its contract changed"
	changes := func(contract ...string) string {
		r.Write("specs/functions.yaml", promising(specs, "greet", contract...))
		out, _ := s.Run(r.Dir, "spec", "diff")
		return out
	}
	for name, contract := range map[string][]string{
		"another input": {"input: {type: object}"}, "an output": {"input: schemas/order.json", "output: {type: string}"},
	} {
		site.WantFiles(t, changes(contract...), "function greet changed", shown)
		if out := changes(contract...); strings.Count(out, shown) != 1 {
			t.Errorf("%s: of another function it is said, too: %s", name, out)
		}
	}
	if out := changes("input: schemas/order.json", "tests:", "- {name: ada, data: {name: Ada}}"); !strings.Contains(out,
		"greet") || strings.Contains(out, shown) {
		t.Errorf("a test: got %s", out)
	}
	r.Write("specs/functions.yaml", specs)
	after := s.Pushed(r, "shop", "A function without a contract")
	site.WantFiles(t, s.Landfall("release", "diff", "shop", string(before), string(after)),
		"function greet changed", shown)
	testkit.Contains(t, site.Told{s.Landfall("run", "show", s.In(t).Finished("shop", r.Head()).ID)}, shown)
	p := s.Person(t)
	p.SignIn(s.URL+"/sign-in", s.Token)
	seen, _ := p.Open(s.URL + "/apps/shop/diff?from=" + string(before) + "&to=" + string(after))
	testkit.Contains(t, site.Told{seen.Body}, shown)
}

// A version whose function fails a test of its contract is not released, and what is live stays.
func TestContractTests(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := promising(site.FunctionsSpec("python-env", "greet greet.main"), "greet", "input: schemas/order.json",
		"output: {type: object, required: [hello]}", "tests:", "- {name: ada, data: {name: Ada}, answer: {hello: Ada}}",
		"- name: from a file", "  event: tests/bob.json")
	good := "import json\n\ndef main(event):\n    return {'hello': event['data']['name']}\n"
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"greet/greet.py", good, "schemas/order.json", greetOrder, "tests/bob.json",
		`{"type": "greeting", "data": {"name": "Bob"}}`)
	first := s.Pushed(r, "shop", "A function that keeps its promise")
	testkit.Contains(t, site.Told{s.Landfall("run", "logs", s.In(t).Finished("shop", r.Head()).ID)},
		"Function greet: 2 tests passed")

	for source, want := range map[string]string{
		"def main(event):\n    return {'hi': event['data']['name']}\n": `Function greet: the test "ada" failed: the data of the answer does not fit the output ` +
			`that the function's contract promises: /hello is missing; what came is {"hi"`,
		"def main(event):\n    return {'hello': 'Ada' if event['data']['name'] == 'Bob' else 'Eve'}\n":                                `the test "ada" failed: the answer is {"hello"`,
		"def main(event):\n    if event['data']['name'] == 'Bob':\n        raise ValueError('no Bob')\n    return {'hello': 'Ada'}\n": `the test "from a file" failed: `,
		"import sys\nsys.exit(3)\n": `the test "ada" failed: `,
	} {
		r.Write("greet/greet.py", source)
		r.Commit("A function that does not")
		pushed := r.Push("HEAD")
		// E-048
		site.WantFailed(t, s, "shop", r, pushed, "specs/functions.yaml:", want)
		testkit.Equal(t, "live", s.ShowApp("shop").Live, first)
	}
	broken := strings.Replace(greetOrder, `"object"`, `"things"`, 1)
	r.Write("greet/greet.py", good, "schemas/order.json", broken)
	r.Commit("A schema that is none")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:",
		"contract.input: the schema cannot be read: /type fits none")
	out, code := s.Run(r.Dir, "spec", "validate")
	testkit.Equal(t, "exit code of spec validate", code, 2)
	testkit.Contains(t, site.Told{out}, "contract.input: the schema cannot be read: /type fits none")

	// What runs goes on: an answer that does not fit is counted, and passed on.
	r.Write("greet/greet.py",
		"def main(event):\n    return {'hello': 'Ada'} if event['data'].get('age') is None else {}\n", "schemas/order.json",
		greetOrder, "tests/bob.json", `{"data": {"name": "Ada"}}`)
	s.Pushed(r, "shop", "A function that forgets its promise")
	answer := s.Post(s.At("shop", "/api/greet"), "application/json", `{"name": "Ada", "age": 3}`)
	testkit.Equal(t, "answer that does not fit", answer.Body, "{}")
	testkit.Contains(t, site.Told{s.ReadAs(s.URL + "/metrics").Body},
		`landfall_function_unfit_total{function="greet",namespace="default",side="output"`)
}

// An administrator may demand that every function passes a test, programs too.
func TestContractTestsAreRequired(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_REQUIRE_TESTS=true")
	r := s.Repository(s.App("shop"))
	program := "#!/bin/sh\nwhile read -r event; do\n\techo " +
		"'{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/me\",\"type\":\"t\",\"datacontenttype\":\"text/plain\",\"data\":\"'\"$key\"'\"}'\ndone\n"
	r.Write("specs/functions.yaml", site.FunctionsSpec("binary-env", "hello hello.sh"), "specs/app.yaml",
		site.AppSpec("shop", "config: {key: value}"), "site/index.html", "page",
		"hello/hello.sh", program)
	if err := os.Chmod(filepath.Join(r.Dir, "hello", "hello.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Commit("A function without a test")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"), "specs/functions.yaml:6: Function hello has no test")
	r.Write("specs/functions.yaml", promising(site.FunctionsSpec("binary-env", "hello hello.sh"), "hello", "tests:",
		"- {name: says it, answer: value}"))
	s.Pushed(r, "shop", "A function with one")
	testkit.Equal(t, "answer", s.Get(s.At("shop", "/api/hello")).Body, "value")

	// by hand nothing is released that no test has seen, and of an archive neither; the same again is
	archive := filepath.Join(t.TempDir(), "shop.tar")
	for _, c := range []struct {
		code int
		line []string
	}{
		{4, []string{"function", "create", "other", "--pkg", "hello-pkg", "--env", "binary", "--entrypoint", "hello.sh"}},
		{4, []string{"function", "version", "create", "hello", "--entrypoint", "other.sh"}},
		{0, []string{"function", "version", "create", "hello", "--version", "same"}},
		{0, []string{"release", "export", "shop", "live", archive}},
		{4, []string{"release", "import", archive, "--app", "store"}},
		{3, []string{"app", "show", "store"}},
	} {
		out, code := s.Run(r.Dir, c.line...)
		testkit.Equal(t, strings.Join(c.line, " ")+": "+out, code, c.code)
	}
}

// The tests of a contract give a function its secrets as its calls do: in its environment, and nowhere else.
func TestContractTestsGiveSecretsAsCallsDo(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	const telling = "import json, os\n\ndef main(event):\n    return [os.environ.get('STRIPE_KEY'), " +
		"json.loads(event['config']), json.loads(event['trigger'])['config']]\n"
	specs := site.Naming(promising(site.FunctionsSpec("python-env", "tell tell.main"), "tell", "tests:",
		"- {name: what it finds, answer: [test, {colour: blue}, {colour: blue}]}"), "STRIPE_KEY")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop", "config: {colour: blue}"),
		"site/index.html", "page", "tell/tell.py", telling)
	s.SetSecret("shop", "STRIPE_KEY", "sk_live_1")
	s.Pushed(r, "shop", "A function with a secret")
	testkit.Equal(t, "what a call finds", s.Get(s.At("shop", "/api/tell")).Body,
		`["sk_live_1",{"colour":"blue"},{"colour":"blue"}]`)
}

// What a function streams is held to its contract by its tests, and one that reads bodies while they come is given them
// so by its tests.
func TestContractTestsOfStreams(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	contract := promising(site.FunctionsSpec("python-env", "greet greet.main"), "greet",
		"output: {type: object, required: [hello]}", "tests:", "- {name: ada, data: {name: Ada}}")
	specs := strings.Replace(contract, "\n  contract:\n", "\n  stream_body: true\n  contract:\n", 1)
	const streaming = `import json


def main(event):
    name = json.loads(event["data"].read())["name"]
    yield {"specversion": "1.0", "datacontenttype": "application/json"}
    yield json.dumps({"hello": name})
`
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"greet/greet.py", streaming)
	first := s.Pushed(r, "shop", "A function that streams what it promises")
	answer := s.Post(s.At("shop", "/api/greet"), "application/json", `{"name": "Ada"}`)
	testkit.Equal(t, "answer", answer.Body, `{"hello": "Ada"}`)
	var x landfall.Execution
	s.Eventually("the execution is on record", func() bool {
		return s.Do(t.Context(), http.MethodGet, "/executions/"+answer.Header.Get("Landfall-Execution"), nil, &x) == nil &&
			!x.Finished.IsZero()
	})
	testkit.Equal(t, "bytes that came and went", [2]int64{x.Input, x.Output}, [2]int64{15, 16})

	r.Write("greet/greet.py", strings.Replace(streaming, `"hello"`, `"hi"`, 1))
	r.Commit("A function that streams something else")
	site.WantFailed(t, s, "shop", r, r.Push("HEAD"),
		`the test "ada" failed: the data of the answer does not fit the output`)
	testkit.Equal(t, "live", s.ShowApp("shop").Live, first)
}
