package environment

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall/event"
)

// moduleCommand takes the path of a WebAssembly module of the package.
func moduleCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	names := p.top(p.has)
	if file := clean(entrypoint); filepath.IsLocal(file) && p.has(file) {
		names = append(names, file)
	}
	file, form, err := Module(names, entrypoint)
	return []string{file}, form, err
}

// Module returns the path of the module of an entry point, among the files of a package, and the form of its events.
// Without an entry point it is main.wasm, or the only module in the package's own folder. Invalid, with what would be
// right, for a malformed entry point.
func Module(files []string, entrypoint string) (file string, form event.Form, err error) {
	const usual, extension = "main.wasm", ".wasm"
	if strings.HasPrefix(entrypoint, draftPrefix) {
		form = event.Draft
	}
	all := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return path.Ext(name) != extension })
	modules := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return path.Dir(name) != "." })
	switch file = clean(entrypoint); {
	case strings.Contains(file, ":"):
		return "", form, invalid(entrypoint, "it is the path of a WebAssembly module in the package, like %s", usual)
	case file != "" && slices.Contains(files, file):
		return file, form, nil
	case file != "":
		return "", form, invalid(entrypoint, "the package has no such file; modules in it are %s", joinNames(all))
	case slices.Contains(files, usual):
		return usual, form, nil
	case len(modules) == 1:
		return modules[0], form, nil
	}
	return "", form, invalid(entrypoint,
		"it says no module, and the package has no %s; write a path; modules in it are %s", usual, joinNames(all))
}

// clean returns the path in an entry point; empty when it has none.
func clean(entrypoint string) string {
	file := strings.TrimPrefix(entrypoint, draftPrefix)
	if file == "" {
		return ""
	}
	return path.Clean(file)
}
