package spec

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// Alias is an Alias document: a name for versions of a function of the same Spec, unique within the function.
type Alias struct {
	Object

	Function string
	// one or two versions; they sum to 100, and the larger share is the first. The selector latest means the version
	// that the Spec declares.
	To []Weight
}

// UnitName returns the name of the alias as a unit: "hello:prod".
func (a Alias) UnitName() string { return a.Function + ":" + a.Name }

// References returns the versions that the alias names.
func (a Alias) References() []landfall.Reference {
	refs := make([]landfall.Reference, 0, len(a.To))
	for _, w := range a.To {
		refs = append(refs, w.Function)
	}
	return refs
}

// FunctionTag is a FunctionTag document: a name for versions of functions of the same Spec.
type FunctionTag struct {
	Object

	Functions []landfall.Reference // by name; the selector latest means the version that the Spec declares
}

// maxNamed is how many functions a function tag names, and how many aliases of one function a Spec declares.
const maxNamed = 100

func aliasFields() fields {
	return fields{"function": {shape: text}, "version": {shape: text},
		"weights": {shape: mapping, item: &field{shape: number}}}
}

func functionTagFields() fields { return fields{"functions": texts()} }

// aliasSpec has the fields of an Alias document.
type aliasSpec struct {
	Function string           `json:"function"`
	Version  string           `json:"version"`
	Weights  map[string]int64 `json:"weights"`
}

// alias returns what the fields say.
func (s aliasSpec) alias(o Object) Alias {
	a := Alias{Object: o, Function: s.Function}
	of := func(selector string, percent int64) {
		a.To = append(a.To, Weight{landfall.Reference{Name: s.Function, Selector: selector}, int(percent)})
	}
	if len(s.Weights) == 0 {
		of(s.Version, percentAll)
	}
	for selector, percent := range s.Weights {
		of(selector, percent)
	}
	slices.SortFunc(a.To, func(x, y Weight) int {
		return cmp.Or(y.Percent-x.Percent, strings.Compare(x.Function.Selector, y.Function.Selector))
	})
	return a
}

const percentAll = 100

func readAlias(d *document, o Object, spec map[string]any, n nodes) {
	weights, _ := spec["weights"].(map[string]any)
	if version, _ := spec["version"].(string); len(weights) == 0 && (version == "" || version == "0") {
		spec["version"] = landfall.Latest
	}
	var known aliasSpec
	if !d.finish(&o, spec, &known) {
		return
	}
	a := known.alias(o)
	who := "Alias " + o.Name
	pos := n.at("metadata", "name")
	switch why := landfall.UnfitName(o.Name); {
	case why != "":
		d.problemf(pos, "%s cannot be an alias: %s", quote(o.Name), why)
		return
	case known.Function == "":
		d.problemf(n.at("spec", "function"), "%s names no function (spec.function)", who)
		return
	case known.Version != "" && len(known.Weights) > 0:
		d.problemf(n.at("spec", "weights"), "%s has a version and weights; leave out one of them", who)
		return
	case !d.declare(pos, aliasKind, a.UnitName()):
		return
	}
	d.reference(n.at("spec", "function"), who, functionKind, known.Function)
	sum := 0
	for _, w := range a.To {
		sum += w.Percent
		at := n.at("spec", "version")
		if len(known.Weights) > 0 {
			at = n.at("spec", "weights", w.Function.Selector)
		}
		if w.Percent < 1 || w.Percent > percentAll {
			d.problemf(at, "%s: a weight is a percentage from 1 to 100", who)
			return
		}
		d.selector(at, who, w.Function)
	}
	if len(a.To) > 2 || sum != percentAll {
		d.problemf(n.at("spec", "weights"), "%s: weights name %s with %d percent; right are one or two with 100 percent", who,
			landfall.Count(len(a.To), "version"), sum)
	}
	d.spec.Aliases = append(d.spec.Aliases, a)
}

// selector checks what a declared name says of the version of a function.
func (d *document) selector(at Position, who string, ref landfall.Reference) {
	switch {
	case ref.Selector == landfall.LivePointer:
		d.problemf(at, "%s names %s, which moves by itself: name a version, or none for the one of this spec", who, ref)
	case ref.Selector == "" || strings.ContainsAny(ref.Selector, "/, \t"):
		d.problemf(at, "%s: %s is no version: it is a uid, a number, a label or a digest, or none for the one of this spec",
			who, quote(ref.Selector))
	}
}

func readFunctionTag(d *document, o Object, spec map[string]any, n nodes) {
	var known struct {
		Functions []string `json:"functions"`
	}
	if !d.finish(&o, spec, &known) {
		return
	}
	t := FunctionTag{Object: o}
	who := "FunctionTag " + o.Name
	if why := landfall.UnfitName(o.Name); why != "" {
		d.problemf(n.at("metadata", "name"), "%s cannot be a function tag: %s", quote(o.Name), why)
		return
	}
	if len(known.Functions) == 0 || len(known.Functions) > maxNamed {
		d.problemf(n.at("spec", "functions"), "%s names %s; it names from 1 to %d", who,
			landfall.Count(len(known.Functions), "function"), maxNamed)
		return
	}
	for i, written := range known.Functions {
		at := n.at("spec", "functions", strconv.Itoa(i))
		ref, ok := d.function(at, who, written)
		if !ok {
			continue
		}
		if slices.ContainsFunc(t.Functions, func(o landfall.Reference) bool { return o.Name == ref.Name }) {
			d.problemf(at, "%s names the function %s twice; it names one version of it", who, ref.Name)
			continue
		}
		d.selector(at, who, ref)
		t.Functions = append(t.Functions, ref)
	}
	d.spec.FunctionTags = append(d.spec.FunctionTags, sortedTag(t))
}

func sortedTag(t FunctionTag) FunctionTag {
	slices.SortFunc(t.Functions, func(a, b landfall.Reference) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// checkAliases reports functions with more aliases than one may have.
func (r *reader) checkAliases() {
	count := map[string]int{}
	for _, a := range r.spec.Aliases {
		count[a.Function]++
		if count[a.Function] == maxNamed+1 {
			r.problemf(a.Pos, "Function %s has more than %d aliases, which is as many as may be", a.Function, maxNamed)
		}
	}
}

// ReadAliasVersion reads the spec of a version of a declared alias, whose unit is called as Alias.UnitName says.
func ReadAliasVersion(unit landfall.UnitID, stored json.RawMessage) (Alias, error) {
	var s aliasSpec
	if err := json.Unmarshal(stored, &s); err != nil {
		return Alias{}, versionError(err)
	}
	return s.alias(Object{Name: strings.TrimPrefix(unit.Name, s.Function+":"), Spec: stored}), nil
}

// ReadFunctionTagVersion reads the spec of a version of a declared function tag.
func ReadFunctionTagVersion(unit landfall.UnitID, stored json.RawMessage) (FunctionTag, error) {
	var s struct {
		Functions []string `json:"functions"`
	}
	t := FunctionTag{Object: Object{Name: unit.Name, Spec: stored}}
	if err := json.Unmarshal(stored, &s); err != nil {
		return t, versionError(err)
	}
	for _, written := range s.Functions {
		ref, err := landfall.ParseReference(written)
		if err != nil {
			return t, versionError(err)
		}
		t.Functions = append(t.Functions, ref)
	}
	return sortedTag(t), nil
}

// CheckNameVersion returns an Invalid error unless a spec that is in no file can be that of a declared alias or
// function tag. The caller checks its functions, which are returned.
func CheckNameVersion(unit landfall.UnitID, stored json.RawMessage) ([]landfall.Reference, error) {
	kind, name := tagKind, unit.Name
	var refs []landfall.Reference
	if unit.Kind == landfall.AliasUnit {
		a, err := ReadAliasVersion(unit, stored)
		if err != nil {
			return nil, err
		}
		if a.UnitName() != unit.Name {
			return nil, versionError(landfall.Errorf(op, landfall.Invalid, "it is the alias %s", quote(a.UnitName())))
		}
		kind, name, refs = aliasKind, a.Name, a.References()
	} else {
		t, err := ReadFunctionTagVersion(unit, stored)
		if err != nil {
			return nil, err
		}
		refs = t.Functions
	}
	text, err := json.Marshal(map[string]any{"apiVersion": ourVersion, "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": stored})
	if err != nil {
		return nil, versionError(err)
	}
	r := newReader(Limits{})
	r.incomplete = true                                           // its functions are declared elsewhere
	documents, err := r.split([]Source{{Name: name, Data: text}}) // JSON is YAML
	if err != nil {
		return nil, err
	}
	for i := range documents {
		r.read(&documents[i])
	}
	if len(r.problems) > 0 {
		return nil, r.withoutPlaces(name)
	}
	return refs, nil
}

// Rename returns the spec of a version of a trigger, an alias or a function tag in which references to functions are
// others. The spec of any other unit stays as it is, and so does what cannot be read.
func Rename(unit landfall.UnitID, stored json.RawMessage,
	rename func(landfall.Reference) landfall.Reference) (json.RawMessage, error) {
	if !unit.Kind.IsTrigger() && unit.Kind != landfall.AliasUnit && unit.Kind != landfall.FunctionTagUnit {
		return stored, nil
	}
	var fields map[string]any
	if err := DecodeNumbers(stored, &fields); err != nil {
		return nil, versionError(err)
	}
	written := func(text string) string {
		if ref, err := landfall.ParseReference(text); err == nil {
			return rename(ref).String()
		}
		return text
	}
	switch ref, _ := fields["functionref"].(map[string]any); {
	case unit.Kind == landfall.FunctionTagUnit:
		functions, _ := fields["functions"].([]any)
		for i, f := range functions {
			if text, ok := f.(string); ok {
				functions[i] = written(text)
			}
		}
	case unit.Kind == landfall.AliasUnit:
		function, _ := fields["function"].(string)
		selector := func(s string) string { return rename(landfall.Reference{Name: function, Selector: s}).Selector }
		if version, ok := fields["version"].(string); ok {
			fields["version"] = selector(version)
		}
		renameWeights(fields, "weights", selector)
	case ref["type"] == byWeight:
		renameWeights(ref, "functionweights", written)
	case ref["type"] == byName:
		text := func(name string) string { s, _ := ref[name].(string); return s }
		f := functionSpec{Name: text("name"), Version: text("version"), Alias: text("alias")}
		if name, version, _ := strings.Cut(written(f.text()), ":"); name+":"+version != f.text() {
			ref["name"], ref["version"] = name, version
			delete(ref, "alias")
		}
	}
	return Canonical(fields)
}

// renameWeights gives weights in a field other names; those that have one name then count together.
func renameWeights(in map[string]any, field string, rename func(string) string) {
	weights, _ := in[field].(map[string]any)
	if len(weights) == 0 {
		return
	}
	renamed := map[string]any{}
	for _, name := range sortedKeys(weights) {
		to, weight := rename(name), weights[name]
		if before, ok := renamed[to].(json.Number); ok {
			x, _ := before.Int64()
			y, _ := weights[name].(json.Number)
			n, _ := y.Int64()
			weight = json.Number(strconv.FormatInt(x+n, 10))
		}
		renamed[to] = weight
	}
	in[field] = renamed
}
