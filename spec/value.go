package spec

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodes finds the positions of values: it holds the node of a mapping.
type nodes struct {
	*document
	node *yaml.Node
}

// at returns the position of the field at the path, or of its nearest parent that exists.
func (n nodes) at(path ...string) Position {
	node, pos := n.node, n.pos(n.node)
	for _, name := range path {
		next, key := child(node, name)
		if next == nil {
			break
		}
		node, pos = next, n.pos(key)
	}
	return pos
}

// child returns the value and the key of a field of a mapping; or, when a number names an item of a list, the item
// twice; or nil.
func child(n *yaml.Node, name string) (value, key *yaml.Node) {
	if i, err := strconv.Atoi(name); err == nil && n != nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, name) {
			return n.Content[i+1], n.Content[i]
		}
	}
	return nil, nil
}

// checker turns nodes into values and checks them against their description.
type checker struct {
	*document
	fold  bool // names are matched without case, as Fission's decoder does
	left  int  // levels of nesting
	wrong bool // a problem was found
}

// failf records a problem.
func (c *checker) failf(n *yaml.Node, format string, args ...any) {
	c.wrong = true
	c.problemf(c.pos(n), format, args...)
}

// value returns the value of n, which is at path, checked against f. It is nil when n is null or wrong.
func (c *checker) value(n *yaml.Node, f field, path string) any {
	if !c.checkPlain(n) || isNull(n) {
		return nil
	}
	c.left--
	defer func() { c.left++ }()
	if c.left < 0 {
		c.failf(n, "nested %d levels deep; the limit is %d (setting LANDFALL_MAX_SPEC_DEPTH)", c.limits.Depth+levels(n),
			c.limits.Depth)
		return nil
	}
	switch f.shape {
	case anything:
		return c.free(n, path)
	case object, mapping:
		if n.Kind != yaml.MappingNode {
			c.failf(n, "%s must be a mapping of names to values%s", path, corrected(n, f))
			return nil
		}
		return c.mapping(n, f, path)
	case list:
		if n.Kind != yaml.SequenceNode {
			c.failf(n, "%s must be a list%s", path, corrected(n, f))
			return nil
		}
		return c.list(n, *f.item, path)
	case text, number, boolean:
		return c.typedScalar(n, f.shape, path)
	}
	return nil
}

// simple matches text that can be written in the braces of YAML as it is.
var simple = regexp.MustCompile(`^[A-Za-z0-9._/*-]{1,64}$`)

// corrected returns what would be right when a name is in place of the object that has it, or one item in place of a
// list.
func corrected(n *yaml.Node, f field) string {
	_, hasName := f.fields["name"]
	switch {
	case n.Kind != yaml.ScalarNode || !simple.MatchString(n.Value):
	case f.shape == object && hasName:
		return ", such as {name: " + n.Value + "}"
	case f.shape == list && f.item.shape == text:
		return ", such as [" + n.Value + "]"
	}
	return ""
}

// unit matches a number with a unit.
var unit = regexp.MustCompile(`^\d+ ?[A-Za-z]+$`)

// levels returns how many levels of nesting n has, itself included.
func levels(n *yaml.Node) int {
	below := 0
	for _, child := range n.Content {
		below = max(below, levels(child))
	}
	return 1 + below
}

// checkPlain refuses the parts of YAML that are more than values: anchors and aliases, which can multiply, and tags.
func (c *checker) checkPlain(n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		c.failf(n, "anchors and aliases (%s) are not read; write the value out", quote(n.Anchor+n.Value))
	case n.Style&yaml.TaggedStyle != 0:
		c.failf(n, "the tag %s is not read; write the value without it", quote(n.Tag))
	default:
		return true
	}
	return false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// mapping returns a mapping's fields that are not null.
func (c *checker) mapping(n *yaml.Node, f field, path string) map[string]any {
	values := make(map[string]any, len(n.Content)/2)
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, node := n.Content[i], n.Content[i+1]
		if !c.key(key) {
			continue
		}
		name, inner, ok := c.knownField(key, f)
		if !ok {
			continue
		}
		if first, ok := lines[name]; ok {
			c.failf(key, "%s is already given in line %d", quote(name), first)
			continue
		}
		lines[name] = c.pos(key).Line
		value := c.value(node, inner, join(path, name))
		if value == nil && (f.shape == object || inner.shape != anything) {
			continue
		}
		values[name] = value
		if inner.unused && !isEmpty(value) {
			c.warnf(c.pos(key), "kept, not used: %s", join(path, name))
		}
	}
	return values
}

// key reports whether n can name a field.
func (c *checker) key(n *yaml.Node) bool {
	if !c.checkPlain(n) {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!merge" {
		c.failf(n, "a name must be text")
		return false
	}
	return true
}

// knownField returns the name under which the key of a mapping is kept, and the description of its value.
func (c *checker) knownField(key *yaml.Node, f field) (string, field, bool) {
	if f.shape != object {
		return key.Value, *f.item, true
	}
	if inner, ok := f.fields[key.Value]; ok {
		return key.Value, inner, true
	}
	if c.fold {
		for name, inner := range f.fields {
			if strings.EqualFold(name, key.Value) {
				return name, inner, true
			}
		}
	}
	c.wrong = true
	if len(c.problems) >= storedProblems { // names are not looked for when nobody is shown the result
		c.more++
		return "", field{}, false
	}
	c.problemf(c.pos(key), "unknown field %s; %s", quote(key.Value), Suggest(key.Value, f.fields))
	return "", field{}, false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isEmpty reports whether a value says nothing. Tools write such fields by themselves.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, inner := range v {
			if !isEmpty(inner) {
				return false
			}
		}
		return true
	}
	return false
}

func (c *checker) list(n *yaml.Node, item field, path string) []any {
	values := make([]any, 0, len(n.Content))
	for i, node := range n.Content {
		where := path + "[" + strconv.Itoa(i) + "]"
		value := c.value(node, item, where)
		if value == nil && item.shape != anything {
			if isNull(node) {
				c.failf(node, "%s is empty", where)
			}
			continue
		}
		values = append(values, value)
	}
	return values
}

// free returns any value, including nulls.
func (c *checker) free(n *yaml.Node, path string) any {
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n, field{shape: mapping, item: &field{}}, path)
	case yaml.SequenceNode:
		return c.list(n, field{}, path)
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return c.scalar(n, path)
}

var wholeNumber = regexp.MustCompile(`^[-+]?\d[0-9_]*$`)

func digits(n *yaml.Node) string { return strings.ReplaceAll(n.Value, "_", "") }

// scalar returns the value of a scalar by YAML's rules; a date is text.
func (c *checker) scalar(n *yaml.Node, path string) any {
	switch n.Tag {
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if signed, err := strconv.ParseInt(digits(n), 0, 64); err == nil {
			return signed
		}
		if unsigned, err := strconv.ParseUint(digits(n), 0, 64); err == nil {
			return unsigned
		}
	case "!!float":
		if f, err := strconv.ParseFloat(digits(n), 64); err == nil && !wholeNumber.MatchString(n.Value) {
			return f
		}
	default:
		return n.Value
	}
	c.failf(n, "%s: the number %s cannot be kept exactly; write it in quotes", path, quote(n.Value))
	return nil
}

// typedScalar returns a scalar of the wanted shape.
func (c *checker) typedScalar(n *yaml.Node, want shape, path string) any {
	if n.Kind != yaml.ScalarNode {
		c.failf(n, "%s must be %s", path, want)
		return nil
	}
	switch {
	case want == text && strings.ContainsRune(n.Value, 0):
		c.failf(n, "%s must not contain a NUL character", path)
		return nil
	case want == text:
		return n.Value
	case want == boolean && n.Tag == "!!bool":
		return c.scalar(n, path)
	}
	whole, err := strconv.ParseInt(digits(n), 0, 64)
	if want != number || n.Tag != "!!int" || err != nil {
		hint := ""
		if want == number && unit.MatchString(n.Value) {
			hint = ", without a unit"
		}
		c.failf(n, "%s must be %s%s", path, want, hint)
		return nil
	}
	return whole
}

// String returns the name of a shape for people.
func (s shape) String() string {
	return [...]string{
		anything: "a value", text: "text", number: "a whole number", boolean: "true or false", object: "a mapping",
		mapping: "a mapping", list: "a list",
	}[s]
}
