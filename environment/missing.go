package environment

import (
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall/environment/container"
)

// missingPython looks for the module that an entry point names, as the adaptor does: also for one that is no text, and for a folder.
func missingPython(p pack, entrypoint string) error {
	args, _, err := pythonCommand(p, entrypoint)
	if err != nil {
		return err
	}
	entry := args[len(args)-1]
	module := strings.ReplaceAll(entry[:strings.LastIndex(entry, ".")], ".", "/")
	for name := range p.listed {
		if strings.HasPrefix(name, module+".") || strings.HasPrefix(name, module+"/") {
			return nil
		}
	}
	return invalid(entrypoint, "the package has neither %s.py nor %s/__init__.py; it has %s", module, module, p.shown(p.has))
}

// missingModule looks for the module of Node.js that an entry point names, as the adaptor does. What a package.json says is not known.
func missingModule(p pack, entrypoint string) error {
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
	return invalid(entrypoint, "the package has none of %s; it has %s", listed(tried), p.shown(p.has))
}

// missingImage looks for an image in a package.
func missingImage(p pack, _ string) error { return container.Missing(p.has) }
