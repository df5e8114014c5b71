// Package route reads the addresses of routes for which http.ServeMux has no pattern: those with regular expressions.
package route

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"landfall.dev/landfall"
)

// MaxSize is how large an expression may be when it is compiled, in instructions. The time that a path takes is at most
// proportional to that, and to the length of the path.
const MaxSize = 1000

// Expression is a path in which {NAME:EXPRESSION} stands for what the regular expression matches, slashes included, and
// {NAME} for a part of one segment. The other characters stand for themselves. It is immutable.
type Expression struct {
	Shown string // the path with {NAME} in place of each expression
	Key   string // the same for two expressions that differ only in names
	Fixed string // with what every path begins that it matches
	Size  int    // compiled, in instructions

	names  []string
	groups []int // of each name, in whole
	whole  *regexp.Regexp
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	plain    = regexp.MustCompile(`^\{([A-Za-z_][A-Za-z0-9_]*(\.{3})?|\$)\}$`)
)

// segment is what {NAME} stands for.
const segment = "[^/]+"

// Needed reports whether a path is an expression: http.ServeMux has only {NAME} for a whole segment, {NAME...} and {$}.
func Needed(path string) bool {
	depth, start := 0, 0
	for i, c := range []byte(path) {
		switch c {
		case '{':
			if depth == 0 {
				start = i
			}
			depth++
		case '}':
			depth--
			whole := start > 0 && path[start-1] == '/' && (i+1 == len(path) || path[i+1] == '/')
			if depth == 0 && (!whole || !plain.MatchString(path[start:i+1])) {
				return true
			}
		}
	}
	return false
}

// Below returns an expression that matches also everything below the paths that another one matches.
func Below(path string) string { return strings.TrimSuffix(path, "/") + below }

// below has no name: it is no value of the path.
const below = "{:(?:/.*)?}"

// Parse reads a path. Invalid, with what would be right, when it is none.
func Parse(path string) (*Expression, error) {
	e := &Expression{}
	var whole strings.Builder
	group, fixed := 1, true
	for rest := path; rest != ""; {
		text, inner, after, err := cut(rest)
		if err != nil {
			return nil, err
		}
		if err := checkText(text); err != nil {
			return nil, err
		}
		e.Shown, e.Key = e.Shown+text, e.Key+text
		whole.WriteString(regexp.QuoteMeta(text))
		if fixed {
			e.Fixed = text
		}
		rest = after
		if inner == "" {
			continue
		}
		fixed = false
		groups, err := e.add(inner, group)
		if err != nil {
			return nil, err
		}
		group += groups
		whole.WriteString("(" + expressionOf(inner) + ")")
	}
	if err := e.compile(whole.String()); err != nil {
		return nil, err
	}
	return e, nil
}

// cut returns the text in front of the first brace, what is in the braces, and what follows them. Braces may be nested.
func cut(s string) (text, inner, after string, err error) {
	start := strings.IndexAny(s, "{}")
	if start < 0 {
		return s, "", "", nil
	}
	depth := 0
	for i := start; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 && i > start+1 {
			return s[:start], s[start+1 : i], s[i+1:], nil
		}
		if depth <= 0 {
			break
		}
	}
	return "", "", "", wrong("its braces do not fit together")
}

// add takes what stands in braces, whose own group has a number, and returns how many groups it has.
func (e *Expression) add(inner string, group int) (int, error) {
	name, _, _ := strings.Cut(inner, ":")
	expression := expressionOf(inner)
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, wrong("the regular expression %q cannot be read: %v", expression, err)
	}
	e.Key += "{:" + expression + "}"
	if inner == below[1:len(below)-1] {
		return 1, nil
	}
	if !variable.MatchString(name) {
		return 0, wrong("%q is no name of a value: it has letters, digits, - and _, as in {file:[a-z]+}", name)
	}
	for _, known := range e.names {
		if strings.EqualFold(known, name) {
			return 0, wrong("it has two values with the name %q", name)
		}
	}
	e.names, e.groups = append(e.names, name), append(e.groups, group)
	e.Shown += "{" + name + "}"
	return 1 + parsed.MaxCap(), nil
}

// expressionOf returns the regular expression of what stands in braces.
func expressionOf(inner string) string {
	if _, expression, given := strings.Cut(inner, ":"); given {
		return expression
	}
	return segment
}

// compile makes the expression for whole paths, as gorilla's router does.
func (e *Expression) compile(expression string) error {
	if !strings.HasPrefix(e.Fixed, "/") {
		return wrong("it must begin with /")
	}
	expression = `\A` + expression + `\z`
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return wrong("its regular expressions cannot be read: %v", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return wrong("its regular expressions cannot be read: %v", err)
	}
	if e.Size = len(program.Inst); e.Size > MaxSize {
		return wrong("its regular expressions are too large: compiled, they have %d instructions, and may have %d",
			e.Size, MaxSize)
	}
	e.whole, err = regexp.Compile(expression)
	if err != nil {
		return wrong("its regular expressions cannot be read: %v", err)
	}
	return nil
}

// checkText refuses fixed text that no clean path has.
func checkText(text string) error {
	if strings.ContainsAny(text, "?#\\") || strings.Contains(text, "//") || strings.Contains(text, "/./") ||
		strings.Contains(text, "/../") {
		return wrong("outside of braces it is a clean path: without ?, #, \\, //, /./ and /../")
	}
	return nil
}

// Match returns the values of a path by their names, and whether the expression matches it. The path is decoded and
// clean.
func (e *Expression) Match(path string) (values map[string]string, matches bool) {
	if !strings.HasPrefix(path, e.Fixed) {
		return nil, false
	}
	found := e.whole.FindStringSubmatch(path)
	if found == nil {
		return nil, false
	}
	values = make(map[string]string, len(e.names))
	for i, name := range e.names {
		values[name] = found[e.groups[i]]
	}
	return values, true
}

func wrong(format string, args ...any) error {
	return &landfall.Error{Op: "route.Parse", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}
