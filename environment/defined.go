package environment

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

var (
	pythonFunction = regexp.MustCompile(`(?m)^(?:async[ \t]+)?def[ \t]+(\w+)`)
	// By these a module of Python may have names that do not stand in it.
	pythonDynamic = regexp.MustCompile(`\bimport\s*\(?\s*\*|\b(?:globals|locals|vars|exec|eval|setattr|__dict__|__getattr__)\b`)
)

// Undefined returns an error, Invalid, when the function of an entry point is surely not in the file of Python that it means: other functions
// are, its name stands nowhere in the code, and no name can come from elsewhere. nil when it is there, or when only a call can tell.
func (e Environment) Undefined(file string, source []byte, entrypoint string) error {
	if e.name != "python" && e.name != "python-fastapi" || source == nil {
		return nil
	}
	module, function, named := cutLast(entrypoint)
	if module = strings.ReplaceAll(module, ".", "/"); named && !slices.Contains([]string{module + ".py", module + "/__init__.py"}, file) {
		return nil
	}
	if function == "" {
		function = "main"
	}
	code := pythonCode(source)
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(function) + `\b`)
	if len(function) > maxName || word.Match(code) || pythonDynamic.Match(code) {
		return nil
	}
	var functions []string // without any, it is another kind of file than one that somebody mistyped a name of
	for _, found := range pythonFunction.FindAllSubmatch(code, -1) {
		functions = append(functions, string(bytes.Clone(found[1])))
	}
	if len(functions) == 0 {
		return nil
	}
	slices.Sort(functions)
	return invalid(entrypoint, "%s has no function %s; it has %s", file, function, listed(slices.Compact(functions)))
}
