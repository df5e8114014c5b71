package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"landfall.dev/landfall"
)

// CheckName returns an Invalid error unless a function, a trigger or another object can have the name, which is a part
// of addresses.
func CheckName(name string) error {
	if !isObjectName(name) {
		return landfall.Errorf(op, landfall.Invalid, "%s", noName(name))
	}
	return nil
}

// noName says why a text is no name of an object.
func noName(name string) string {
	if lower := strings.ToLower(name); lower != name && isObjectName(lower) {
		return fmt.Sprintf("%s cannot be a name, because it has upper-case letters: write %s", quote(name), quote(lower))
	}
	return quote(name) + " cannot be a name: at most 253 of a-z, 0-9, - and ., with a letter or digit at both ends"
}

// ReadTrigger reads a trigger that is in no file: fields are the spec of a document of its kind. others are the other
// triggers; it must not use their routes. The caller checks its function. The error is Invalid, with a sentence for
// each problem.
func ReadTrigger(kind landfall.UnitKind, name string, fields map[string]any, others []Trigger,
	limits Limits) (Trigger, error) {
	if err := CheckName(name); err != nil {
		return Trigger{}, err
	}
	document := map[landfall.UnitKind]string{
		landfall.HTTPTrigger: "HTTPTrigger", landfall.TimeTrigger: "TimeTrigger", landfall.QueueTrigger: queueKind,
	}[kind]
	text, err := json.Marshal(map[string]any{
		"apiVersion": fissionVersion, "kind": document, "metadata": map[string]any{"name": name}, "spec": fields,
	})
	if err != nil {
		return Trigger{}, versionError(err)
	}
	r := newReader(limits)
	r.incomplete = true // its function is declared elsewhere
	r.serve(others)
	documents, err := r.split([]Source{{Name: name, Data: text}}) // JSON is YAML
	if err != nil {
		return Trigger{}, err
	}
	for i := range documents {
		r.read(&documents[i])
	}
	r.checkRoutes()
	if len(r.problems) > 0 || len(r.spec.Triggers) != 1 {
		return Trigger{}, r.withoutPlaces(name)
	}
	return r.spec.Triggers[0], nil
}

// CheckRoutes returns an Invalid error when two triggers that are in no file use routes of which neither is more
// specific, or all have more routes than may be.
func CheckRoutes(triggers []Trigger, limits Limits) error {
	r := newReader(limits)
	r.serve(triggers)
	r.checkRoutes()
	if len(r.problems) > 0 {
		return r.withoutPlaces("")
	}
	return nil
}

// serve adds the routes of triggers that are in no file.
func (r *reader) serve(triggers []Trigger) {
	for _, t := range triggers {
		if t.Kind == landfall.HTTPTrigger {
			r.routes = append(r.routes, servedTrigger{trigger: t})
		}
	}
}

// withoutPlaces returns the error without positions, for an object that is in no file.
func (r *reader) withoutPlaces(name string) error {
	sentences := make([]string, 0, len(r.problems))
	for _, p := range r.problems {
		sentences = append(sentences, p.Message)
	}
	if len(sentences) == 0 {
		sentences = []string{fmt.Sprintf("the trigger %s cannot be read", quote(name))}
	}
	return landfall.Errorf(op, landfall.Invalid, "%s", strings.Join(sentences, "\n"))
}

// WithFields returns the fields of a version's spec, of which there may be none, with others in place of those of the
// same names; a nil takes a field away.
func WithFields(stored json.RawMessage, others map[string]any) (map[string]any, error) {
	fields := map[string]any{}
	if len(stored) > 0 {
		if err := DecodeNumbers(stored, &fields); err != nil {
			return nil, versionError(err)
		}
	}
	maps.Copy(fields, others)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	return fields, nil
}

// WithCode returns the spec of a function's version with another package, environment or entry point: an empty one
// stays as it is. An empty spec is that of a function of which nothing is known yet. Invalid when no function could
// have the result.
func WithCode(stored json.RawMessage, pkg, environment, entrypoint string) (json.RawMessage, error) {
	fields, err := WithFields(stored, nil)
	if err != nil {
		return nil, err
	}
	code, _ := fields["package"].(map[string]any)
	if code == nil {
		code = map[string]any{}
	}
	if pkg != "" {
		code["packageref"] = map[string]any{"name": pkg}
	}
	if entrypoint != "" {
		code["functionName"] = entrypoint
	}
	fields["package"] = code
	if environment != "" {
		fields["environment"] = map[string]any{"name": environment}
	}
	if _, named := fields["environment"]; !named {
		return nil, landfall.Errorf(op, landfall.Invalid, "a new function needs an environment: say which (--env nodejs)")
	}
	data, err := Canonical(fields)
	if err != nil {
		return nil, versionError(err)
	}
	_, err = ReadFunctionVersion(data)
	return data, err
}
