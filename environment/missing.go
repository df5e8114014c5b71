package environment

import (
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall/environment/container"
)

// checkPython looks for the module of an entry point as the adaptor does, including modules that are not text, and
// folders.
func checkPython(p pack, entrypoint string) error {
	args, _, err := pythonCommand(p, entrypoint)
	if err != nil {
		return err
	}
	entry := args[len(args)-1]
	module := strings.ReplaceAll(entry[:strings.LastIndex(entry, ".")], ".", "/")
	for name := range p.fileSet {
		if strings.HasPrefix(name, module+".") || strings.HasPrefix(name, module+"/") {
			return nil
		}
	}
	return invalid(entrypoint, "the package has neither %s.py nor %s/__init__.py; it has %s", module, module,
		p.listFiles(p.has))
}

// checkModule looks for the Node.js module of an entry point as the adaptor does. It does not know what a package.json
// says.
func checkModule(p pack, entrypoint string) error {
	if _, _, err := nodeCommand(p, entrypoint); err != nil {
		return err
	}
	module := strings.TrimPrefix(entrypoint, "event:")
	module = strings.TrimSuffix(module, path.Ext(module))
	if p.has(path.Join(module, "package.json")) {
		return nil
	}
	tried := modules(entrypoint)
	for _, name := range tried {
		if p.has(path.Clean(name)) {
			return nil
		}
	}
	scripts := p.top(func(name string) bool {
		return slices.Contains([]string{".js", ".mjs", ".cjs"}, path.Ext(name))
	})
	if module == "" && len(scripts) == 1 {
		return nil
	}
	return invalid(entrypoint, "the package has none of %s; it has %s", joinNames(tried), p.listFiles(p.has))
}

// checkImage looks for an image in a package.
func checkImage(p pack, _ string) error { return container.CheckImage(p.has) }
