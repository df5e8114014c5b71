package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
)

// contractField describes the contract of a function, which is our own: Fission has none. Text in place of a schema or
// of an event is the path of a file.
func contractField() field {
	return field{shape: object, fields: fields{
		"input": {}, "output": {},
		"tests": {shape: list, item: &field{shape: object, fields: fields{
			"name": {shape: text}, "event": {}, "data": {}, "answer": {}, "status": {shape: number},
		}}},
	}}
}

// contractSpec is a contract as a Function document writes it.
type contractSpec struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	Tests  []contract.Test `json:"tests"`
}

// contractPositions has a contract whose files were not read yet, and the positions of its parts.
type contractPositions struct {
	contractSpec

	pos, input, output Position
	tests              []Position
}

// maxTests bounds the tests of a function, which run one after the other before each version is released.
const maxTests = 32

// maxContract bounds the bytes of a contract with its files, because each version of the function has them.
const maxContract = 256 << 10

// checkContract checks everything in a contract that does not need its files.
func (d *document) checkContract(n nodes, function string, c *contractSpec) *contractPositions {
	if c == nil {
		return nil
	}
	at := func(path ...string) Position { return n.at(append([]string{"spec", "contract"}, path...)...) }
	p := &contractPositions{contractSpec: *c, pos: at(), input: at("input"), output: at("output")}
	if len(c.Tests) > maxTests {
		d.problemf(at("tests"), "Function %s has %d tests; it may have %d", function, len(c.Tests), maxTests)
		return nil
	}
	names := map[string]bool{}
	for i, t := range c.Tests {
		pos := at("tests", strconv.Itoa(i))
		p.tests = append(p.tests, pos)
		switch {
		case t.Name == "":
			d.problemf(pos, "Function %s has a test without a name", function)
		case names[t.Name]:
			d.problemf(pos, "Function %s has two tests named %s", function, quote(t.Name))
		case len(t.Event) > 0 && len(t.Data) > 0:
			d.problemf(pos, "Function %s: the test %s has both an event and data, which is the event's", function, quote(t.Name))
		case t.Status != 0 && (t.Status < 200 || t.Status > 599):
			d.problemf(pos, "Function %s: the test %s wants the status %d; it is a number from 200 to 599", function,
				quote(t.Name), t.Status)
		}
		names[t.Name] = true
	}
	return p
}

// ReadContracts puts the files that contracts name into the functions' specs, and checks every contract with its tests.
// read returns a file of the app's folder by its path; its error is a sentence with the reason. The error is like that
// of Parse, and so is the bound on the bytes.
func (s *Spec) ReadContracts(limits Limits, read func(name string) ([]byte, error)) error {
	r := newReader(limits)
	var size int64
	for i := range s.Functions {
		f := &s.Functions[i]
		if f.positions == nil {
			continue
		}
		if err := f.readContract(r, read); err != nil {
			return err
		}
		size += int64(len(f.Contract.Text()))
		if size > r.limits.Bytes {
			return overLimit("contracts of functions", "bytes", size, r.limits.Bytes, "LANDFALL_MAX_SPEC_BYTES")
		}
	}
	for _, t := range s.Triggers {
		s.checkSchedule(r, t)
	}
	return r.err()
}

// readContract makes a function's contract from its document.
func (f *Function) readContract(r *reader, read func(name string) ([]byte, error)) error {
	p, right := f.positions, true
	wrong := func(pos Position, format string, args ...any) {
		right = false
		r.problemf(pos, "Function %s: %s", f.Name, fmt.Sprintf(format, args...))
	}
	resolve := func(pos Position, what string, value *json.RawMessage) {
		if err := resolveFile(value, read); err != nil {
			wrong(pos, "%s %s", what, landfall.MessageOf(err))
		}
	}
	for _, schema := range []struct {
		what  string
		pos   Position
		value *json.RawMessage
	}{{"contract.input", p.input, &p.Input}, {"contract.output", p.output, &p.Output}} {
		resolve(schema.pos, schema.what, schema.value)
		if len(*schema.value) == 0 || !right {
			continue
		}
		if _, err := contract.Compile(*schema.value); err != nil {
			wrong(schema.pos, "%s: %s", schema.what, landfall.MessageOf(err))
		}
	}
	for i := range p.Tests {
		resolve(p.tests[i], "the test "+quote(p.Tests[i].Name), &p.Tests[i].Event)
	}
	if !right {
		return nil
	}
	if err := f.keepContract(); err != nil {
		return err
	}
	if size := len(f.Contract.Text()); size > maxContract {
		f.Contract = nil
		wrong(p.pos, "contract has %d bytes with the files that it names; the limit is %d", size, maxContract)
		return nil
	}
	for i, t := range p.Tests {
		e, err := t.Request()
		if err == nil {
			err = f.Contract.CheckInput(e)
		}
		if err != nil {
			wrong(p.tests[i], "the test %s: %s", quote(t.Name), landfall.MessageOf(err))
		}
	}
	return nil
}

// keepContract puts a contract without files into the function's spec.
func (f *Function) keepContract() error {
	fields := map[string]any{}
	if err := DecodeNumbers(f.Spec, &fields); err != nil {
		return versionError(err)
	}
	resolved := map[string]any{}
	for name, value := range map[string]json.RawMessage{"input": f.positions.Input, "output": f.positions.Output} {
		if len(value) == 0 {
			continue
		}
		var schema any
		if err := DecodeNumbers(value, &schema); err != nil {
			return versionError(err)
		}
		resolved[name] = schema
	}
	if len(f.positions.Tests) > 0 {
		text, err := json.Marshal(f.positions.Tests)
		if err != nil {
			return versionError(err)
		}
		var tests any
		if err := DecodeNumbers(text, &tests); err != nil {
			return versionError(err)
		}
		resolved["tests"] = tests
	}
	fields["contract"] = resolved
	data, err := Canonical(fields)
	if err != nil {
		return versionError(err)
	}
	own, err := Canonical(resolved)
	if err != nil {
		return versionError(err)
	}
	f.Spec, f.Contract = data, contract.Of(own)
	return nil
}

// DecodeNumbers reads JSON, with its numbers as they stand there.
func DecodeNumbers(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// resolveFile replaces a path by the JSON in the file.
func resolveFile(value *json.RawMessage, read func(name string) ([]byte, error)) error {
	if !bytes.HasPrefix(*value, []byte(`"`)) {
		return nil
	}
	var name string
	if err := json.Unmarshal(*value, &name); err != nil {
		return versionError(err)
	}
	if wrong := checkPath(name); wrong != "" {
		return wrongf("names the file %s, which %s", quote(name), wrong)
	}
	data, err := read(name)
	switch {
	case err != nil:
		return wrongf("names the file %s: %s", quote(name), landfall.MessageOf(err))
	case len(data) > contract.MaxSchema:
		return wrongf("names the file %s, which has %d bytes; the limit is %d", quote(name), len(data), contract.MaxSchema)
	case !json.Valid(data):
		return wrongf("names the file %s, which is no JSON%s", quote(name), lineOf(data))
	}
	*value = data
	return nil
}

// lineOf returns the line in which text stops being JSON.
func lineOf(data []byte) string {
	var value json.RawMessage
	//nolint:errorlint // the standard library returns it as it is
	place, ok := json.Unmarshal(data, &value).(*json.SyntaxError)
	if !ok {
		return ""
	}
	return " (line " + strconv.Itoa(1+bytes.Count(data[:min(int(place.Offset), len(data))], []byte("\n"))) + ")"
}

// checkSchedule reports that a time trigger would never get an answer, because the event of a schedule has no data.
func (s *Spec) checkSchedule(r *reader, t Trigger) {
	if t.Kind != landfall.TimeTrigger {
		return
	}
	for _, f := range s.Functions {
		named := slices.ContainsFunc(t.References(), func(ref landfall.Reference) bool {
			return ref.Name == f.Name && (ref.Selector == "" || ref.Selector == landfall.Latest)
		})
		if named && f.Contract.CheckInput(event.New()) != nil {
			r.problemf(t.Pos, "TimeTrigger %s: the events of a schedule have no data, and the contract of Function %s "+
				"refuses them: let its input be null, too", t.Name, f.Name)
		}
	}
}

// TestPos returns the position of a test of the function's contract.
func (f *Function) TestPos(i int) Position { return f.positions.tests[i] }
