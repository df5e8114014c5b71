package spec_test

import (
	"errors"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/test/testkit"
)

// promising is a spec whose function has a contract.
func promising(contract string, more ...string) []spec.Source {
	return []spec.Source{{Name: "specs/f.yaml", Data: []byte(`apiVersion: fission.io/v1
kind: Package
metadata: {name: pkg}
spec: {environment: {name: python}, deployment: {url: "https://example.com/a.zip"}}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: hello}
spec:
  environment: {name: python}
  package: {packageref: {name: pkg}}
  contract:
` + contract + strings.Join(more, ""))}}
}

// files are those of a repository.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	text, ok := f[name]
	if !ok {
		return nil, &landfall.Error{Kind: landfall.Invalid, Message: "there is no such file"}
	}
	return []byte(text), nil
}

const nightly = `---
apiVersion: fission.io/v1
kind: TimeTrigger
metadata: {name: nightly}
spec: {cron: "0 8 * * *", functionref: {type: name, name: hello}}
`

// A contract becomes a part of the function's version, with what the files say that it names.
func TestContract(t *testing.T) {
	t.Parallel()
	s := mustParse(t, promising(`    input: schemas/order.json
    output: {type: string}
    tests:
    - {name: ada, data: {name: Ada}, answer: "Hello, Ada"}
    - {name: event, event: tests/bob.json, status: 201}
`)...)
	repository := files{
		"schemas/order.json": "{\n  \"type\": \"object\",\n  \"required\": [\"name\"]\n}\n",
		"tests/bob.json":     `{"type": "greeting", "data": {"name": "Bob"}}`,
	}
	if err := s.ReadContracts(spec.Limits{}, repository.read); err != nil {
		t.Fatal(err)
	}
	const want = `{"input":{"required":["name"],"type":"object"},"output":{"type":"string"},"tests":[` +
		`{"answer":"Hello, Ada","data":{"name":"Ada"},"name":"ada"},{"event":{"data":{"name":"Bob"},"type":"greeting"},"name":"event","status":201}]}`
	testkit.Equal(t, "contract", string(s.Functions[0].Contract.Text()), want)
	contains(t, string(s.Functions[0].Spec), `"contract":`+want)
	stored, err := spec.ReadFunctionVersion(s.Functions[0].Spec)
	if err != nil || string(stored.Contract) != want {
		t.Errorf("of the version: %s %v", stored.Contract, err)
	}
	tests, err := s.Functions[0].Contract.Tests()
	if err != nil || len(tests) != 2 {
		t.Errorf("tests: %v %v", tests, err)
	}
}

// What is wrong with a contract is said with the line of the spec, and of the file where that is no JSON.
func TestContractProblems(t *testing.T) {
	t.Parallel()
	repository := files{
		"order.json": `{"type": "object", "required": ["name"]}`, "broken.json": "{\n \"type\": \n}",
		"text.json": `{"type": "text"}`, "large.json": `"` + strings.Repeat("x", 64<<10) + `"`,
	}
	for contract, want := range map[string]string{
		"    input: gone.json\n":                           `specs/f.yaml:13: Function hello: contract.input names the file "gone.json": there is no such file`,
		"    input: /etc/passwd\n":                         `names the file "/etc/passwd", which must be relative to the repository's root`,
		"    input: ../order.json\n":                       `names the file "../order.json", which must not contain ..`,
		"    input: order.json\n    output: broken.json\n": `specs/f.yaml:14: Function hello: contract.output names the file "broken.json", which is no JSON (line 3)`,
		"    output: text.json\n":                          `specs/f.yaml:13: Function hello: contract.output: the schema cannot be read: /type fits none of the alternatives of anyOf`,
		"    output: large.json\n":                         "which has 65538 bytes; the limit is 65536",
		"    inputs: order.json\n":                         `specs/f.yaml:13: unknown field "inputs"; did you mean "input"?`,
		"    input: 7\n": "contract.input: the schema cannot be read: it " +
			"is a number; it must be a boolean or an object",
		"    tests:\n    - data: {}\n": "specs/f.yaml:14: Function hello has a test " +
			"without a name",
		"    tests:\n    - {name: a}\n    - {name: a}\n":    `specs/f.yaml:15: Function hello has two tests named "a"`,
		"    tests:\n    - {name: a, data: 1, event: {}}\n": "has both an event and data",
		"    tests:\n    - {name: a, status: 99}\n": "wants the status 99; it is a number from 200 " +
			"to 599",
		"    tests:\n    - {name: a, event: {specversion: '3'}}\n":       `the test "a": its event: specversion`,
		"    tests:\n    - {name: a, event: gone.json}\n":                `specs/f.yaml:14: Function hello: the test "a" names the file "gone.json": there is no such file`,
		"    input: order.json\n    tests:\n    - {name: a, data: {}}\n": `specs/f.yaml:15: Function hello: the test "a": the data of the event does not fit the input that the function's contract takes: /name is missing`,
		"    tests:\n" + strings.Repeat("    - {name: a}\n", 33):         "Function hello has 33 tests; it may have 32",
		"    input: order.json\n  stream_body: true\n": "specs/f.yaml:13: Function hello: its input " +
			"cannot be checked before it starts, because it reads bodies while they come",
		"    input: order.json\n" + nightly: "specs/f.yaml:15: TimeTrigger nightly: the events of a schedule have no " +
			"data, and the contract of Function hello refuses them",
	} {
		s, err := spec.Parse(promising(contract), spec.Limits{})
		if err == nil {
			err = s.ReadContracts(spec.Limits{}, repository.read)
		}
		if err == nil || landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%s\n got %v\nwant %s", contract, err, want)
		}
	}
	s := mustParse(t, promising("    input: {type: [object, 'null']}\n", nightly)...)
	if err := s.ReadContracts(spec.Limits{}, repository.read); err != nil {
		t.Errorf("a schedule of a function that takes no data: %v", err)
	}
}

// One file that many contracts name does not become more than the spec files may be.
func TestContractsAreBounded(t *testing.T) {
	t.Parallel()
	large := `{"description": "` + strings.Repeat("x", 60_000) + `"}`
	tests := "    tests:\n"
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		tests += "    - {name: " + name + ", event: large.json}\n"
	}
	read := files{"large.json": large}.read
	s := mustParse(t, promising(tests)...)
	contains(t, landfall.MessageOf(s.ReadContracts(spec.Limits{}, read)), "contract has 300")
	s = mustParse(t, promising("    input: large.json\n")...)
	contains(t, landfall.MessageOf(s.ReadContracts(spec.Limits{Bytes: 10_000}, read)), "LANDFALL_MAX_SPEC_BYTES")
	s = mustParse(t, promising("    input: large.json\n")...)
	failed := s.ReadContracts(spec.Limits{}, func(string) ([]byte, error) { return nil, errors.New("no disk") })
	testkit.Equal(t, "what the disk says", landfall.KindOf(failed), landfall.Invalid)
}
