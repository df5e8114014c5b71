package contract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
)

// order is a schema of the kind that people write.
const order = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["name", "items"],
	"additionalProperties": false,
	"properties": {
		"name": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
		"mail": {"type": "string", "format": "email"},
		"kind": {"enum": ["new", "repeat"]},
		"items": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"$ref": "#/$defs/item"}}
	},
	"$defs": {"item": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}}}}}`

func compiled(t *testing.T, text string) *contract.Schema {
	t.Helper()
	s, err := contract.Compile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What does not fit is said with its place, and without the value.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := compiled(t, order)
	for data, want := range map[string]string{
		`{"name": "Ada", "items": [{"sku": "a", "count": 2}], "mail": "ada@example.com", "kind": "new"}`: "",
		`null`: "it is null; it must be an object",
		`{"name": "Ada", "items": [{"sku": "a"}], "s3cret": "hidden"}`: "/s3cret is not known",
		`{"items": []}`: "/items has 0 items; 1 at least; /name is missing",
		`{"name": "hidden", "items": [{"sku": "a"}]}`: "/name does not match the " +
			"pattern ^[A-Z]",
		`{"name": "A", "items": [{"sku": "a"}]}`: "/name is too short: 2 " +
			"characters at least",
		`{"name": "Ada", "items": [{"sku": "a"}, {"count": 0}]}`: "/items/1/count must be 1 or " +
			"more; /items/1/sku is missing",
		`{"name": "Ada", "items": [{"sku": "a", "count": 1.5}]}`: "/items/0/count is a number; it " +
			"must be an integer",
		`{"name": "Ada", "items": [{"sku": "a"}, {"sku": "a"}]}`: "/items has the same item twice: " +
			"0 and 1",
		`{"name": "Ada", "items": [{"sku": "a"}], "mail": "hidden"}`: "/mail is not of the format email",
		`{"name": "Ada", "items": [{"sku": "a"}], "kind": "hidden"}`: `/kind must be one of "new", "repeat"`,
		`{"name": "Ada", "items": [{"sku": "a"}], "a/b~": 1}`:        "/a~1b~0 is not known",
		"{\"name\":\n \"hidden\"":                                    "it is no JSON (line 2)",
		`{} {}`:                                                      "it is more than one JSON value",
		`{"name": 1e999999999, "items": []}`: "it has a number of more than 64 " +
			"digits, or larger than any that is computed with",
		strings.Repeat("[", 200) + strings.Repeat("]",
			200): "it is nested too deeply; the limit is 100 levels",
		`"` + strings.Repeat("x", 1<<20) +
			`"`: "it has 1048578 bytes; data that is checked has no more than 1048576",
		`{"name": "Ada", "items": [{"sku": "a"}], "` + strings.Repeat("k", 99) + `":0}`: "/" + strings.Repeat("k", 60) +
			"… is not known",
	} {
		got := ""
		if err := s.Check([]byte(data)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.80s\n got %q\nwant %q", data, got, want)
		}
		if strings.Contains(got, "hidden") {
			t.Errorf("%.80s: the value is told: %s", data, got)
		}
	}
}

// What is no schema is refused with what is wrong with it, and nothing is fetched for it.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`: "the schema is no JSON (line 1)",
		`7`: "the schema cannot be read: it is a number; it must be a boolean or an " +
			"object",
		`{"type": "text"}`:         "/type fits none of the alternatives of anyOf",
		`{"minLength": -1}`:        "/minLength must be 0 or more",
		`{"pattern": "("}`:         "/pattern is not of the format regex",
		`{"$ref": "#/$defs/gone"}`: "the schema cannot be read",
		`{"$ref": "https://example.com/a.json"}`: "https://example.com/a.json: other documents " +
			"are not fetched; put the schema below $defs",
		`{"$ref": "file:///etc/passwd"}`: "file:///etc/passwd: other documents are not " +
			"fetched",
		`{"$ref": "other.json"}`: "other.json: other documents are not fetched",
		`{"$schema": "https://example.com/draft"}`: "https://example.com/draft: other documents are " +
			"not fetched",
		`{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}`: "write $ref",
		`{"pattern": "((a{1,100}){1,9}){9}"}`:                            "the schema cannot be read",
		`{"description": "` + strings.Repeat("x", 64<<10) + `"}`:         "the schema has 65555 bytes; the limit is 65536",
		`{"enum": [` + strings.Repeat("0,", 5000) + `0]}`:                "the schema has too many values",
		`{"minimum": 1e999999}`:                                          "the schema has a number",
		strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat(`}`, 101): "the schema is nested too deeply",
	} {
		_, err := contract.Compile([]byte(text))
		if err == nil || landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%.80s\n got %v\nwant %q", text, err, want)
		}
	}
}

// doubling is a schema whose every level has two ways to the next one.
func doubling(level func(next string) string) string {
	var defs []string
	for i := range 60 {
		defs = append(defs, fmt.Sprintf(`"l%d": %s`, i, level(fmt.Sprintf(`{"$ref": "#/$defs/l%d"}`, i+1))))
	}
	return `{"$ref": "#/$defs/l0", "$defs": {` + strings.Join(defs, ",") + `, "l60": {"type": "string"}}}`
}

// Whatever the schema and the data are, a check ends.
func TestCheckIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 90) + strings.Repeat("]", 90)
	nested := strings.Repeat(`{"a":`, 90) + "0" + strings.Repeat("}", 90)
	zeros := "[" + strings.Repeat("0,", 99_000) + "0]"
	for name, c := range map[string]struct{ schema, data, want string }{
		"all of two": {doubling(func(n string) string {
			return `{"allOf": [` + n + `,` + n + `]}`
		}), `""`, "too much work"},
		"any of two, wrong": {doubling(func(n string) string {
			return `{"anyOf": [` + n + `,` + n + `]}`
		}), `0`, "too much work"},
		"not and reference": {doubling(func(n string) string {
			return `{"not": {"allOf": [` + n + `], "not": ` + n + `}}`
		}), `0`, ""},
		"items of two": {
			`{"$ref": "#/$defs/s", "$defs": {"s": {"allOf": [{"items": {"$ref": "#/$defs/s"}}, {"items": {"$ref": "#/$defs/s"}}]}}}`, deep, "too much work"},
		"a cycle": {`{"$ref": "#/$defs/s", "$defs": {"s": {"allOf": [{"$ref": "#/$defs/s"}]}}}`, `0`, "does not fit"},
		"recursion in data": {`{"type": "object", "properties": {"a": {"$ref": "#"}}}`, nested,
			"is a number; it must be an object"},
		"many wrong items":  {`{"items": {"type": "string"}}`, zeros, "and 98981 more"},
		"many alternatives": {`{"items": {"enum": [` + strings.Repeat(`"x",`, 3000) + `"y"]}}`, zeros, "too much work"},
		"a pattern": {`{"pattern": "^(a?){200}a{200}$"}`, `"` + strings.Repeat("a", 1_000_000) + `"`,
			"too much work"},
		"patterns of names": {`{"patternProperties": {"^(a|b|c)*x$": false, "(.*y){9}": false}}`,
			`{"` + strings.Repeat("a", 900_000) + `": 0}`, "too much work"},
		"unique items": {`{"uniqueItems": true}`, zeros, "the same item twice"},
		"unevaluated fields": {doubling(func(n string) string {
			return `{"allOf": [` + n + `,` + n + `], "unevaluatedProperties": false}`
		}), `{"a": 0}`, "too much work"},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiled(t, c.schema)
			begin := time.Now()
			err := s.Check([]byte(c.data))
			t.Logf(name+" %s: %.100v", time.Since(begin).Round(time.Millisecond), err)
			if c.want == "" && err == nil {
				return
			}
			if err == nil || c.want != "" && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200v, want %q", err, c.want)
			}
			// A check that was given up leaves the schema as it was.
			if wrong, ok := errors.AsType[*contract.MismatchError](s.Check([]byte(c.data))); !ok ||
				wrong.Error() != err.Error() {
				t.Errorf("once more: %v", wrong)
			}
		})
	}
}

func eventOf(t *testing.T, text string) event.Event {
	t.Helper()
	e, _, err := event.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The data of an event in any form fits, or does not; an event without data has the data null.
func TestTake(t *testing.T) {
	t.Parallel()
	c := contract.Of(json.RawMessage(`{"input": {"type": "object"}, "output": {"type": "string"}}`))
	const head = `{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"`
	for text, want := range map[string]string{
		head + `, "data": {"a": 1}}`: "",
		head + `, "datacontenttype": "application/vnd.a+json", "data": {"a": 1}}`:                               "",
		head + `, "datacontenttype": "application/json", "data_base64": "eyJhIjogMX0="}`:                        "",
		`{"cloud-events-version": "0.1", "event-type": "t", "event-id": "1", "source": "/s", "data": {"a": 1}}`: "",
		head + `, "data": [1]}`: "it is an array; it must be an object",
		head + `}`:              "it is null; it must be an object",
		head + `, "datacontenttype": "text/plain", "data": "{}"}`: "it is text/plain; it must be JSON (application/json)",
	} {
		err := c.CheckInput(eventOf(t, text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || landfall.KindOf(err) != landfall.Invalid ||
			!strings.HasSuffix(landfall.MessageOf(err), ": "+want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := c.CheckOutput(eventOf(t, head+`, "data": 7}`)); err == nil {
		t.Error("an answer that does not fit is taken for one that does")
	}
	if err := c.CheckOutput(eventOf(t, head+`, "error": {"message": "no"}}`)); err != nil {
		t.Errorf("an error has no data to fit: %v", err)
	}
	const streaming = head + `, "protocol": {"streaming": true}`
	if c.CheckOutput(eventOf(t, streaming+`}`)) != nil || c.CheckOutput(eventOf(t, streaming+`, "data": 7}`)) == nil {
		t.Error("of an answer that was made in parts, the data that was gathered is looked at, and nothing else")
	}
	var none *contract.Contract
	if err := errors.Join(none.CheckInput(eventOf(t, head+"}")), none.CheckOutput(eventOf(t, head+"}"))); err != nil {
		t.Errorf("what promises nothing takes everything: %v", err)
	}
}

// A function without a contract pays nothing for those that have one.
func TestWithoutContractNothingIsAllocated(t *testing.T) { //nolint:paralleltest // it counts allocations
	var none *contract.Contract
	e := eventOf(t, `{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": 1}}`)
	if n := testing.AllocsPerRun(100, func() {
		if none.CheckInput(e) != nil || none.CheckOutput(e) != nil {
			t.Error("it is refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Versions with the same contract share what is made of it.
func TestCache(t *testing.T) {
	t.Parallel()
	var c contract.Cache
	one := c.Of(json.RawMessage(`{"input": true}`))
	if again := c.Of(json.RawMessage(`{"input": true}`)); again != one || c.Of(nil) != nil {
		t.Error("it is made again")
	}
}

// A test says what was wrong with the answer, and what came.
func TestJudge(t *testing.T) {
	t.Parallel()
	c := contract.Of(json.RawMessage(`{"output": {"type": "object", "required": ["total"]}}`))
	const head = `{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"`
	for _, one := range []struct{ test, answer, want string }{
		{`{"name": "a"}`, `, "data": {"total": 1}}`, ""},
		{`{"name": "a", "answer": {"total": 1.0}}`, `, "data": {"total": 1}}`, ""},
		{`{"name": "a", "answer": {"total": 2}}`, `, "data": {"total": 1}}`,
			`the answer is {"total": 1}; it must be {"total": 2}`},
		{`{"name": "a"}`, `, "data": {"sum": 1}}`, `/total is missing; what came is {"sum": 1}`},
		{`{"name": "a"}`, `}`, "it is null; it must be an object; what came is no data"},
		{`{"name": "a"}`, `, "error": {"message": "no stock"}}`, "the answer is an error: no stock"},
		{`{"name": "a", "status": 502}`, `, "error": {"message": "no stock"}}`, ""},
		{`{"name": "a", "status": 404}`, `, "data": {"total": 1}}`, "the answer has the status 200; it must be 404"},
	} {
		var test contract.Test
		if err := json.Unmarshal([]byte(one.test), &test); err != nil {
			t.Fatal(err)
		}
		err := test.Judge(c, eventOf(t, head+one.answer))
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.HasSuffix(err.Error(), one.want)) {
			t.Errorf("%s to %s: %v, want %q", one.answer, one.test, err, one.want)
		}
	}
	text := contract.Test{Name: "text", Answer: json.RawMessage(`"Hello"`)}
	if err := text.Judge(nil, eventOf(t, head+`, "datacontenttype": "text/plain", "data": "Hello\n"}`)); err != nil {
		t.Errorf("text is compared as text: %v", err)
	}
	list := contract.Test{Name: "list", Answer: json.RawMessage(`[1]`)}
	err := list.Judge(nil, eventOf(t, head+`, "datacontenttype": "text/plain", "data": "[1]"}`))
	if err == nil || !strings.HasSuffix(err.Error(), "the answer is [1] (text/plain); it must be [1]") {
		t.Errorf("text that looks like what is wanted: %v", err)
	}
}

// The event of a test has what it is given, and what every event needs.
func TestRequest(t *testing.T) {
	t.Parallel()
	e, err := contract.Test{Name: "ada", Data: json.RawMessage(`{"name": "Ada"}`)}.Request()
	if err != nil || string(e.Data()) != `{"name":"Ada"}` || e.ID() != "ada" || e.DataContentType() != "application/json" {
		t.Errorf("%v %v", e, err)
	}
	e, err = contract.Test{Name: "ada", Event: json.RawMessage(`{"type": "order.placed", "data": 7}`)}.Request()
	if err != nil || e.Type() != "order.placed" || string(e.Data()) != "7" {
		t.Errorf("%v %v", e, err)
	}
	if _, err := (contract.Test{Name: "ada",
		Event: json.RawMessage(`{"specversion": "3"}`)}).Request(); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("an event of another version: %v", err)
	}
}
