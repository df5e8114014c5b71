package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"landfall.dev/landfall"
)

// The bounds.
const (
	MaxSchema  = 64 << 10 // bytes of a schema
	maxValues  = 5_000    // of a schema
	maxDepth   = 100      // levels of nesting, of a schema and of data
	maxPattern = 2_000    // instructions of a pattern of a schema
	maxData    = 1 << 20  // bytes of data that is checked
	maxItems   = 100_000  // values of data
	maxWork    = 500_000  // of one check: values, counted for each schema that looks at them
	maxNumber  = 64       // characters of a number
	maxPower   = 400      // its exponent
	maxShown   = 20       // problems
)

// Schema is a JSON Schema. It also checks formats. It is safe for concurrent use: it makes one check at a time.
type Schema struct {
	mu     sync.Mutex
	schema *jsonschema.Schema
	work   *work
}

// work is what the current check has done so far.
type work struct{ done int }

// errWork is the panic of a check that has done too much; the library cannot be stopped in another way.
var errWork = errors.New("too much work")

func (w *work) add(n int) {
	if w.done += n; w.done > maxWork {
		panic(errWork) //nolint:forbidigo // the library has no other way to be stopped; validate recovers it
	}
}

// noLoader refuses to fetch what a schema refers to.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("other documents are not fetched; put the schema below $defs")
}

// schemaURL is the name of a schema for the library.
const schemaURL = schemaBase + "schema"

const schemaBase = "https://contract.invalid/"

// Compile reads a JSON Schema. Invalid, with what is wrong and where, when it is malformed or over a limit. References
// lead to other places in the same schema.
func Compile(text []byte) (*Schema, error) {
	if len(text) > MaxSchema {
		return nil, invalidf("the schema has %d bytes; the limit is %d", len(text), MaxSchema)
	}
	document, err := decode(text, maxValues)
	if err != nil {
		return nil, invalidf("the schema %s", err)
	}
	s := &Schema{work: &work{}}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(s.work.pattern)
	if err = c.AddResource(schemaURL, document); err == nil {
		s.schema, err = c.Compile(schemaURL)
	}
	if err != nil {
		return nil, invalidf("the schema cannot be read: %s", libraryMessage(err))
	}
	if err := s.bound(); err != nil {
		return nil, err
	}
	return s, nil
}

// libraryMessage returns the library's message about a schema, without its own names for places.
func libraryMessage(err error) string {
	if wrong, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if inner, ok := errors.AsType[*jsonschema.ValidationError](wrong.Err); ok {
			return mismatchOf(inner).Error()
		}
	}
	if loading, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return cut(strings.TrimPrefix(loading.URL, schemaBase)) + ": " + loading.Err.Error()
	}
	return landfall.Printable(strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), schemaURL, ""))
}

// pattern compiles a pattern and counts its work. Its time depends only on the length of the text.
func (w *work) pattern(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPattern {
		return nil, fmt.Errorf("the pattern is too large: %d steps, and the limit is %d", len(program.Inst), maxPattern)
	}
	compiled, err := regexp.Compile(text)
	return pattern{compiled, len(program.Inst), w}, err
}

type pattern struct {
	*regexp.Regexp

	size int
	work *work
}

// MatchString implements jsonschema.Regexp.
func (p pattern) MatchString(s string) bool {
	const cheap = 10 // a step of a pattern costs much less than a value
	p.work.add(1 + p.size*len(s)/cheap)
	return p.Regexp.MatchString(s)
}

// bound makes every schema in s count its work before it does any. The library has no bound of its own, and schemas
// that refer to each other can double the work with each level.
func (s *Schema) bound() error {
	seen := map[*jsonschema.Schema]bool{}
	next := []*jsonschema.Schema{s.schema}
	for len(next) > 0 {
		one := next[len(next)-1]
		next = next[:len(next)-1]
		if one == nil || seen[one] {
			continue
		}
		seen[one] = true
		if one.DynamicRef != nil || one.RecursiveRef != nil {
			return invalidf("the schema has $dynamicRef or $recursiveRef, which are not read; write $ref")
		}
		next = append(next, children(one)...)
		s.count(one)
	}
	return nil
}

// count makes a schema count its work: the library checks the format before anything that may take long.
func (s *Schema) count(one *jsonschema.Schema) {
	// a schema that looks at the same value again must be found among all that do
	const single, again = 1, 20
	checked, once, each := one.Format, single, single // for the value, and for each value in it
	for _, child := range children(one) {
		weight := single
		if child.Enum != nil {
			weight += len(child.Enum.Values)
		}
		once += weight
		if !appliesToMembers(one, child) {
			once += again
		}
		if !appliesOnce(one, child) {
			each += weight
		}
	}
	one.Format = &jsonschema.Format{Validate: func(v any) error {
		switch v := v.(type) {
		case map[string]any:
			s.work.add(once + each*len(v))
		case []any:
			s.work.add(once + each*len(v))
		case string:
			const cheap = 100
			s.work.add(once + len(v)/cheap)
		default:
			s.work.add(once)
		}
		if checked == nil {
			return nil
		}
		return checked.Validate(v)
	}}
	if checked != nil {
		one.Format.Name = checked.Name
	}
}

// appliesOnce reports whether a schema applies another one to at most one value.
func appliesOnce(s, child *jsonschema.Schema) bool {
	for _, one := range s.Properties {
		if one == child {
			return true
		}
	}
	return slices.Contains(s.PrefixItems, child)
}

// appliesToMembers reports whether a schema applies another one to the values inside its own.
func appliesToMembers(s, child *jsonschema.Schema) bool {
	same := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else})
	for _, one := range s.DependentSchemas {
		same = append(same, one)
	}
	for _, one := range s.Dependencies {
		if one, ok := one.(*jsonschema.Schema); ok {
			same = append(same, one)
		}
	}
	return !slices.Contains(same, child)
}

// children returns the schemas that a schema applies.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, []*jsonschema.Schema{
		s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020,
		s.UnevaluatedItems, s.ContentSchema,
	})
	for _, more := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, one := range more {
			all = append(all, one)
		}
	}
	for _, one := range s.PatternProperties {
		all = append(all, one)
	}
	loose := []any{s.AdditionalProperties, s.Items, s.AdditionalItems}
	for _, one := range s.Dependencies {
		loose = append(loose, one)
	}
	for _, one := range loose {
		switch one := one.(type) {
		case *jsonschema.Schema:
			all = append(all, one)
		case []*jsonschema.Schema:
			all = append(all, one...)
		}
	}
	return slices.DeleteFunc(all, func(one *jsonschema.Schema) bool { return one == nil })
}

// Check returns a *MismatchError unless JSON fits the schema.
func (s *Schema) Check(data []byte) error {
	if len(data) > maxData {
		return mismatch(fmt.Sprintf("has %d bytes; data that is checked has no more than %d", len(data), maxData))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, err := decode(data, maxItems)
	if err != nil {
		return mismatch(err.Error())
	}
	return s.validate(value)
}

// validate checks a value, and gives up when that is too much work. The caller holds the lock.
func (s *Schema) validate(value any) (err error) {
	s.work.done = 0
	defer func() {
		if p := recover(); p != nil {
			if p != any(errWork) {
				panic(p) //nolint:forbidigo // a fault of the library goes on as if nobody had recovered it
			}
			err = mismatch("cannot be checked: that would be too much work")
		}
	}()
	wrong, ok := errors.AsType[*jsonschema.ValidationError](s.schema.Validate(value))
	if !ok {
		return nil
	}
	return mismatchOf(wrong)
}

// decode reads one JSON value with no more than most values in it. The message of its error follows the name of the
// value.
func decode(text []byte, most int) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, notJSON(err, text)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return value, walk(value, &most, maxDepth)
}

func notJSON(err error, text []byte) error {
	line := 1
	if place, ok := errors.AsType[*json.SyntaxError](err); ok {
		line += bytes.Count(text[:min(max(int(place.Offset), 0), len(text))], []byte("\n"))
	} else {
		line += bytes.Count(text, []byte("\n"))
	}
	return fmt.Errorf("is no JSON (line %d)", line)
}

// walk fails for a value that contains too many values, or is too deep, or has a number that takes long to compute
// with.
func walk(value any, left *int, depth int) error {
	*left--
	switch {
	case *left < 0:
		return errors.New("has too many values")
	case depth < 0:
		return fmt.Errorf("is nested too deeply; the limit is %d levels", maxDepth)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if err := walk(inner, left, depth-1); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := walk(inner, left, depth-1); err != nil {
				return err
			}
		}
	case json.Number:
		at := strings.IndexAny(string(value), "eE")
		if at < 0 {
			at = len(value) - 1
		}
		power, err := strconv.Atoi("0" + strings.TrimLeft(string(value[at+1:]), "+-"))
		if len(value) > maxNumber || err != nil || power > maxPower {
			return fmt.Errorf("has a number of more than %d digits, or larger than any that is computed with", maxNumber)
		}
	}
	return nil
}

// mismatchOf returns the problems that the library found, without the values of the data.
func mismatchOf(wrong *jsonschema.ValidationError) *MismatchError {
	var c collector
	c.collect(wrong)
	all := c.all
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	all = slices.Compact(all)
	m := &MismatchError{Problems: all, More: c.more}
	if len(all) > maxShown {
		m.Problems, m.More = slices.Clone(all[:maxShown]), c.more+len(all)-maxShown
	}
	return m
}

// collector collects problems from the library's errors.
type collector struct {
	all  []Problem
	more int // problems that are not listed
}

func (c *collector) collect(wrong *jsonschema.ValidationError) {
	const most = 10 * maxShown
	add := func(message string, below ...string) {
		c.all = append(c.all, Problem{pointer(slices.Concat(wrong.InstanceLocation, below)), message})
	}
	if len(c.all) >= most && len(wrong.Causes) == 0 {
		c.more++
		return
	}
	switch k := wrong.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add("is missing", name)
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			add("is missing, which "+cut(strconv.Quote(k.Prop))+" needs", name)
		}
	case *kind.Dependency:
		for _, name := range k.Missing {
			add("is missing, which "+cut(strconv.Quote(k.Prop))+" needs", name)
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add("is not known", name)
		}
	case *kind.PropertyNames:
		add("has a name that is not allowed", k.Property)
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, cause := range wrong.Causes {
			c.collect(cause)
		}
	default:
		add(describe(wrong.ErrorKind))
	}
}

// describe returns what is wrong with a value, according to its schema.
func describe(wrong jsonschema.ErrorKind) string {
	switch k := wrong.(type) {
	case *kind.Type:
		return "is " + article(k.Got) + "; it must be " + alternatives(k.Want)
	case *kind.Const:
		return "must be " + literal(k.Want)
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Format:
		return "is not of the format " + cut(k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + cut(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("is too short: %d characters at least", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("is too long: %d characters at most", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d items; %d at least", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d items; %d at most", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("has %d fields; %d at least", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d fields; %d at most", k.Got, k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same item twice: %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return "must be " + cut(k.Want.RatString()) + " or more"
	case *kind.Maximum:
		return "must be " + cut(k.Want.RatString()) + " or less"
	case *kind.ExclusiveMinimum:
		return "must be more than " + cut(k.Want.RatString())
	case *kind.ExclusiveMaximum:
		return "must be less than " + cut(k.Want.RatString())
	case *kind.MultipleOf:
		return "must be a multiple of " + cut(k.Want.RatString())
	case *kind.FalseSchema:
		return "must not be there"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "fits more than one of the alternatives of oneOf"
		}
		return "fits none of the alternatives of oneOf"
	case *kind.AnyOf:
		return "fits none of the alternatives of anyOf"
	}
	return "does not fit " + cut(strings.Join(wrong.KeywordPath(), "/"))
}

func article(what string) string {
	switch what {
	case "null":
		return what
	case "array", "object", "integer":
		return "an " + what
	}
	return "a " + what
}

func alternatives(all []string) string {
	named := make([]string, len(all))
	for i, one := range all {
		named[i] = article(one)
	}
	return strings.Join(named, " or ")
}

// oneOf lists the values that a schema allows.
func oneOf(all []any) string {
	const most = 10
	named := make([]string, 0, most)
	for _, one := range all[:min(most, len(all))] {
		named = append(named, literal(one))
	}
	if len(all) > most {
		named = append(named, "…")
	}
	return "one of " + strings.Join(named, ", ")
}

func literal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "what the schema says"
	}
	return cut(string(text))
}

// pointer returns the JSON pointer of a place. Its names may come from a stranger.
func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(cut(landfall.Printable(name))))
	}
	return b.String()
}
