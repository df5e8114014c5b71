package environment

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	pythonFunction = regexp.MustCompile(`(?m)^(?:async[ \t]+)?def[ \t]+(\w+)`)
	// With these a Python module may have names that are not written in it.
	pythonDynamic = regexp.MustCompile(`\bimport[\s\\(]*\*|sys\s*\.\s*modules|f_globals|` +
		`\b(?:globals|locals|vars|exec|eval|setattr|__dict__|__getattr__|__getattribute__|__setattr__|__class__)\b`)
)

// CheckDefined returns an Invalid error when the function of an entry point is clearly not in its Python file: other
// functions are, and its name is nowhere in the file, not even in a text or a comment. It returns nil when the function
// is there, when only a call can tell, and when it is not certain which file is meant. files are those of the package,
// as for Source.
func (e Environment) CheckDefined(files map[string]bool, source []byte, entrypoint string) error {
	const usual = "main"
	file, packages := e.Source(files, entrypoint), pack{fileSet: files}
	module, function, named := cutLast(entrypoint)
	if !named {
		module = usual
	}
	function = cmp.Or(function, usual)
	module = strings.ReplaceAll(module, ".", "/")
	switch {
	case e.name != "python" && e.name != "python-fastapi", source == nil:
		return nil
	case e.name == "python-fastapi" && function == usual: // an application may have another name
		return nil
	case file != module+".py" || packages.has(module+"/__init__.py"):
		return nil
	case len(function) > maxName || strings.IndexFunc(function, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0:
		return nil // Python accepts several spellings of one name
	}
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(function) + `\b`)
	if word.Match(source) || pythonDynamic.Match(source) {
		return nil
	}
	var functions []string // without any, it is another kind of file than one with a misspelt function
	for _, found := range pythonFunction.FindAllSubmatch(pythonCode(source), -1) {
		functions = append(functions, string(bytes.Clone(found[1])))
	}
	if len(functions) == 0 {
		return nil
	}
	slices.Sort(functions)
	return invalid(entrypoint, "%s has no function %s; it has %s", file, function, joinNames(slices.Compact(functions)))
}
