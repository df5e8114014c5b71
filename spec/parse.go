package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

const op landfall.Op = "spec.parse"

// Limits bound the work of Parse for a push. A zero field has its default. Each is a setting, and an error about a
// limit names the setting.
type Limits struct {
	Bytes   int64 // LANDFALL_MAX_SPEC_BYTES: all files together; 8 MiB
	Objects int   // LANDFALL_MAX_SPEC_OBJECTS: documents; 10,000
	// LANDFALL_MAX_SPEC_VALUES: lines and punctuation of one document, which bound the number of its values; 100,000
	Values int
	Depth  int // LANDFALL_MAX_SPEC_DEPTH: nesting of one document; 100
}

// withDefaults returns l with its zero fields filled in.
func (l Limits) withDefaults() Limits {
	return Limits{
		Bytes:   cmp.Or(l.Bytes, 8<<20),
		Objects: cmp.Or(l.Objects, 10_000),
		Values:  cmp.Or(l.Values, 100_000),
		Depth:   cmp.Or(l.Depth, 100),
	}
}

const (
	shownProblems  = 20    // in an error's message
	storedProblems = 1_000 // further problems are only counted
)

// Parse reads the documents of all sources, in whatever order they come, and checks each of them and their references
// to each other. It reads nothing over a limit: every limit except Depth is enforced before YAML is decoded at all.
//
// The error is a *landfall.Error of kind Invalid whose message has one line "file:line: sentence" for each problem.
// Without documents the Spec is empty.
func Parse(sources []Source, limits Limits) (*Spec, error) {
	r := newReader(limits)
	documents, err := r.split(sources)
	if err != nil {
		return nil, err
	}
	for i := range documents {
		r.read(&documents[i])
		documents[i].text = nil
	}
	r.sort()
	r.checkReferences()
	r.checkConfigMaps()
	r.checkRoutes()
	r.checkBounds()
	r.checkCanaries()
	r.checkAliases()
	if err := r.err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.spec.Warnings, compareProblems)
	return r.spec, nil
}

// name is a declared object: names are unique within a document kind.
type name struct{ kind, name string }

// reader collects what the documents declare and the problems with them.
type reader struct {
	limits     Limits
	objects    int // documents with content
	spec       *Spec
	kinds      map[string]kind
	names      map[name]Position // includes documents that have problems
	pending    []pendingReference
	routes     []servedTrigger
	warm       map[string]int // processes that functions keep warm, by their names
	bounds     []processBound
	problems   []Problem
	more       int  // problems that were not stored
	incomplete bool // a document could not be read, so a missing name may be in it
	locating   int  // bytes that may still be parsed to find the line of a syntax error
}

func newReader(limits Limits) *reader {
	return &reader{limits: limits.withDefaults(), spec: &Spec{}, kinds: kinds(), names: map[name]Position{},
		warm: map[string]int{}, locating: locatingBudget}
}

// problemf records a problem at pos. It makes the sentence only when it can be shown.
func (r *reader) problemf(pos Position, format string, args ...any) {
	if len(r.problems) >= storedProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{pos, fmt.Sprintf(format, args...)})
}

// warnf records a warning at pos.
func (r *reader) warnf(pos Position, format string, args ...any) {
	if len(r.spec.Warnings) < storedProblems {
		r.spec.Warnings = append(r.spec.Warnings, Problem{pos, fmt.Sprintf(format, args...)})
	}
}

// declare records the declaration of an object at pos, and reports whether it is the first one.
func (r *reader) declare(pos Position, kind, object string) bool {
	key := name{kind, object}
	if first, ok := r.names[key]; ok {
		r.problemf(pos, "%s %s is already defined at %s", kind, quote(object), first)
		return false
	}
	r.names[key] = pos
	return true
}

// has reports whether an object is declared, or may be in a document that could not be read.
func (r *reader) has(kind, object string) bool {
	_, ok := r.names[name{kind, object}]
	return ok || r.incomplete
}

// err returns the error for all problems, or nil when there is none.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return errorOf(r.problems, r.more)
}

// ErrorOf returns the error for problems that were found after the spec was read, in the form of Parse; nil when there
// is none.
func ErrorOf(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return errorOf(slices.Clone(problems), 0)
}

// errorOf returns the error for problems, which it sorts, and for unstored others.
func errorOf(problems []Problem, unstored int) error {
	slices.SortStableFunc(problems, compareProblems)
	lines := make([]string, 0, shownProblems+1)
	for _, p := range problems[:min(len(problems), shownProblems)] {
		lines = append(lines, p.String())
	}
	if more := len(problems) - len(lines) + unstored; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return landfall.Errorf(op, landfall.Invalid, "%s", strings.Join(lines, "\n"))
}

// CheckBytes returns the error for spec files that have too many bytes, without reading them; nil when they do not.
func (l Limits) CheckBytes(size int64) error {
	if limit := l.withDefaults().Bytes; size > limit {
		return overLimit("spec files", "bytes", size, limit, "LANDFALL_MAX_SPEC_BYTES")
	}
	return nil
}

// overLimit returns the error for a figure that is over its limit.
func overLimit(where, what string, figure, limit int64, setting string) error {
	return landfall.Errorf(op, landfall.Invalid, "%s: %d %s; the limit is %d (setting %s)", where, figure, what, limit,
		setting)
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
		cmp.Compare(a.Message, b.Message))
}

// sort sorts everything as Spec promises.
func (r *reader) sort() {
	s := r.spec
	byName := func(a, b Object) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(s.Functions, func(a, b Function) int { return byName(a.Object, b.Object) })
	slices.SortFunc(s.Packages, func(a, b Package) int { return byName(a.Object, b.Object) })
	slices.SortFunc(s.Environments, func(a, b Environment) int { return byName(a.Object, b.Object) })
	slices.SortFunc(s.Triggers, func(a, b Trigger) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), byName(a.Object, b.Object))
	})
	slices.SortFunc(s.Aliases, func(a, b Alias) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), byName(a.Object, b.Object))
	})
	slices.SortFunc(s.FunctionTags, func(a, b FunctionTag) int { return byName(a.Object, b.Object) })
	slices.SortFunc(s.Archives, func(a, b Archive) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Canaries, func(x, y Canary) int { return cmp.Compare(x.Name, y.Name) })
}

// Canonical returns v, a tree of maps, slices and scalars, as JSON with sorted keys and without white space.
func Canonical(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// quote returns an author's text in quotes and cut to a readable length.
func quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
