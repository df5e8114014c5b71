package event

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"landfall.dev/landfall"
)

// Filter decides whether an event passes, in the dialects that every implementation of the CloudEvents Subscriptions
// API has. Exactly one field is set. Values are compared as they are written, including case; a missing attribute never
// matches.
type Filter struct {
	Exact  map[string]string `json:"exact,omitempty"`  // each attribute has this value
	Prefix map[string]string `json:"prefix,omitempty"` // each attribute begins with this
	Suffix map[string]string `json:"suffix,omitempty"` // each attribute ends with this
	All    []Filter          `json:"all,omitempty"`    // each of these lets the event pass
	Any    []Filter          `json:"any,omitempty"`    // at least one of these does
	Not    *Filter           `json:"not,omitempty"`    // this does not
}

// Filters let an event pass if each of them does. Without filters every event passes.
type Filters []Filter

// FilterError is the cause of an Invalid error of ParseFilters.
type FilterError struct {
	Path []string // of the wrong part, beginning at the list: "0", "any", "2", "exact", "type"
}

// Error implements error.
func (e *FilterError) Error() string { return "filters" + fieldPath(e.Path) }

// fieldPath writes a path for people: "[0].any[2].exact.type".
func fieldPath(path []string) string {
	var out strings.Builder
	for _, part := range path {
		if _, err := strconv.Atoi(part); err == nil {
			out.WriteString("[" + part + "]")
			continue
		}
		out.WriteString("." + part)
	}
	return out.String()
}

// ParseFilters reads a JSON array of filters; empty text has no filters. Invalid, with a FilterError as its cause if
// one of them is wrong.
func ParseFilters(text []byte) (Filters, error) {
	var all Filters
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &all, json.RejectUnknownMembers(true)); err != nil {
		return nil, landfall.Wrapf("event.ParseFilters", landfall.Invalid, err,
			"filters: it must be a list of exact, prefix, suffix, all, any and not, each with what it is of")
	}
	return all, checkFilters(all, nil)
}

func checkFilters(all []Filter, path []string) error {
	for i, f := range all {
		if err := f.check(append(slices.Clone(path), strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

// maxFilterDepth bounds how deeply filters may be nested.
const maxFilterDepth = 20

// check refuses a filter unless it has exactly one dialect, which is not empty.
func (f *Filter) check(path []string) error {
	wrong := func(problem string, below ...string) error {
		cause := &FilterError{Path: append(slices.Clone(path), below...)}
		return &landfall.Error{Op: "event.ParseFilters", Kind: landfall.Invalid, Message: cause.Error() + ": " + problem,
			Err: cause}
	}
	var dialects []string
	for name, has := range map[string]bool{
		"exact": f.Exact != nil, "prefix": f.Prefix != nil, "suffix": f.Suffix != nil, "all": f.All != nil,
		"any": f.Any != nil, "not": f.Not != nil,
	} {
		if has {
			dialects = append(dialects, name)
		}
	}
	slices.Sort(dialects)
	switch {
	case len(path) > 2*maxFilterDepth:
		return wrong(fmt.Sprintf("filters are nested %d levels deep at most", maxFilterDepth))
	case len(dialects) == 0:
		return wrong("a filter is one of exact, prefix, suffix, all, any and not, and this is none")
	case len(dialects) > 1:
		return wrong("a filter is one of them, and this is " + strings.Join(dialects, " and ") +
			"; write them as two, or below all")
	}
	dialect := dialects[0]
	if f.Not != nil {
		return f.Not.check(append(slices.Clone(path), dialect))
	}
	if nested := cmp.Or(len(f.All), len(f.Any)); nested > 0 {
		return checkFilters(append(slices.Clone(f.All), f.Any...), append(slices.Clone(path), dialect))
	}
	compared := f.comparisons()
	if len(compared) == 0 {
		return wrong("there is nothing in it", dialect)
	}
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		switch {
		case !isName(name) || name == "data":
			return wrong("the name of an attribute has only a to z and 0 to 9, and is not data", dialect, name)
		case compared[name] == "":
			return wrong("the value is empty, which no attribute is", dialect, name)
		}
	}
	return nil
}

// comparisons returns the attributes and values of the dialects that compare.
func (f *Filter) comparisons() map[string]string {
	switch {
	case f.Exact != nil:
		return f.Exact
	case f.Prefix != nil:
		return f.Prefix
	}
	return f.Suffix
}

// Pass reports whether every filter lets the event pass.
func (all Filters) Pass(e Event) bool {
	for i := range all {
		if !all[i].pass(e) {
			return false
		}
	}
	return true
}

func (f *Filter) pass(e Event) bool {
	switch {
	case f.All != nil:
		return Filters(f.All).Pass(e)
	case f.Any != nil:
		return slices.ContainsFunc(f.Any, func(one Filter) bool { return one.pass(e) })
	case f.Not != nil:
		return !f.Not.pass(e)
	}
	compare := func(value, wanted string) bool { return value == wanted }
	switch {
	case f.Prefix != nil:
		compare = strings.HasPrefix
	case f.Suffix != nil:
		compare = strings.HasSuffix
	}
	for name, wanted := range f.comparisons() {
		if value, ok := attributeText(e, name); !ok || !compare(value, wanted) {
			return false
		}
	}
	return true
}

// attributeText returns an attribute as CloudEvents writes it as a string, and false when the event does not have it.
func attributeText(e Event, name string) (string, bool) {
	var value string
	switch name {
	case "specversion":
		value = e.SpecVersion()
	case "id":
		value = e.ID()
	case "source":
		value = e.Source()
	case "type":
		value = e.Type()
	case "subject":
		value = e.Subject()
	case "datacontenttype":
		value = e.DataContentType()
	case "dataschema":
		value = e.DataSchema()
	case "time":
		if at := e.Time(); !at.IsZero() {
			value = at.UTC().Format(time.RFC3339Nano)
		}
	default:
		extension, ok := attribute(e, name)
		if !ok {
			return "", false
		}
		return fmt.Sprint(extension), true
	}
	return value, value != ""
}
