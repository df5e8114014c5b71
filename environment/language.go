package environment

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

var (
	pythonEntry = regexp.MustCompile(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)
	nodeEntry   = regexp.MustCompile(`^(event:)?([^/.:][^/:]*(/[^/.:][^/:]*)*)?$`)
)

// pythonCommand takes module.function as Fission does. A name without a dot is a function of the package's main module;
// the default function is main.
func pythonCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	if entrypoint != "" && !pythonEntry.MatchString(entrypoint) {
		return nil, event.Structured, invalid(entrypoint,
			"in Python it is module.function, like main.main for the function main of main.py")
	}
	function := cmp.Or(entrypoint, "main")
	if !strings.Contains(function, ".") {
		module, err := mainModule(p, entrypoint)
		if err != nil {
			return nil, event.Structured, err
		}
		function = module + "." + function
	}
	return []string{"python3", "-B", folder + "/adaptor.py", function}, event.Structured, nil
}

// fastapiCommand takes module.function as pythonCommand does. Another adaptor runs it: an ASGI application, or a
// function that takes a request of FastAPI.
func fastapiCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	args, form, err := pythonCommand(p, entrypoint)
	if err != nil {
		return nil, form, err
	}
	return []string{args[0], args[1], folder + "/landfall_asgi.py", args[len(args)-1]}, form, nil
}

// mainModule returns the module of an entry point that names none: main, user, or the only one.
func mainModule(p pack, entrypoint string) (string, error) {
	const extension = ".py"
	for _, name := range []string{"main", "user"} {
		if p.has(name+extension) || p.has(name+"/__init__.py") {
			return name, nil
		}
	}
	modules := p.top(func(name string) bool { return path.Ext(name) == extension })
	if len(modules) != 1 {
		return "", invalid(entrypoint,
			"it says no module, and the package has no main.py; write module.function; there are %s", joinNames(modules))
	}
	return strings.TrimSuffix(modules[0], extension), nil
}

// nodeCommand takes module.export as Fission does, with event: before it for a function that gets events and is not
// called handler. The adaptor finds the module, by the rules of Node.js.
func nodeCommand(_ pack, entrypoint string) ([]string, event.Form, error) {
	if !nodeEntry.MatchString(entrypoint) {
		return nil, event.Structured, invalid(entrypoint,
			"in Node.js it is module or module.export, like index.handler for what index.js exports as handler, with event: "+
				"before it when it gets events")
	}
	return []string{"node", folder + "/adaptor.cjs", entrypoint}, event.Structured, nil
}

// These prefixes of an entry point say how a program that does not read events of 1.0 gets its input.
const (
	plainPrefix = "exec:"  // one process for each event; it reads the data, and prints the answer's data
	draftPrefix = "draft:" // events are of 0.1
)

// binaryCommand takes the path of a program of the package.
func binaryCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	file, plain := strings.CutPrefix(entrypoint, plainPrefix)
	file, draft := strings.CutPrefix(file, draftPrefix)
	form := event.Structured
	if draft {
		form = event.Draft
	}
	if draft && plain {
		return nil, form, invalid(entrypoint, "a program with %s gets no event; leave out %s", plainPrefix, draftPrefix)
	}
	if file == "" {
		var err error
		if file, err = mainProgram(p, entrypoint); err != nil {
			return nil, form, err
		}
	}
	file = strings.TrimPrefix(file, "./")
	switch {
	case !filepath.IsLocal(file) || strings.Contains(file, ":"):
		return nil, form, invalid(entrypoint,
			"it is the path of a program in the package, like bin/hello, with %s before it when the program reads no events "+
				"but plain data", plainPrefix)
	case !p.has(file):
		return nil, form, invalid(entrypoint, "the package has no such file; programs in it are %s",
			p.listFiles(p.isExecutable))
	case !p.isExecutable(file):
		return nil, form, invalid(entrypoint, "the file cannot be executed by everybody; type: chmod 755 %s", file)
	}
	program := "./" + path.Clean(file)
	if !plain {
		return []string{program}, form, nil
	}
	return []string{"python3", "-B", folder + "/exec.py", program}, form, nil
}

// mainProgram returns the program of a package without an entry point: main, bootstrap, or the only one.
func mainProgram(p pack, entrypoint string) (string, error) {
	for _, name := range []string{"main", "bootstrap"} {
		if p.isExecutable(name) {
			return name, nil
		}
	}
	programs := p.top(p.isExecutable)
	switch len(programs) {
	case 0:
		return "",
			invalid(entrypoint, "it says no program, and no file at the top of the package can be executed by everybody; "+
				"type: chmod 755 FILE, or write a path; the package has %s", p.listFiles(p.has))
	case 1:
		return programs[0], nil
	default:
		return "",
			invalid(entrypoint, "it says no program, and the package has neither main nor bootstrap; write a path; programs "+
				"in it are %s", joinNames(programs))
	}
}

// programs is the folder of the machine's programs that functions can see.
const programs = "/usr"

// interpreters returns the names that interpreters have on different machines.
func interpreters() map[string][]string {
	return map[string][]string{"python3": {"python3"}, "node": {"node", "nodejs"}}
}

// interpreter returns the path of the first program with one of the names that is, after following links, below a
// folder like programs. The sandbox does not show programs that users install for themselves.
func interpreter(below string, names ...string) (string, error) {
	folders := []string{filepath.Join(below, "local/bin"), filepath.Join(below, "bin")}
	for _, folder := range folders {
		for _, name := range names {
			file := filepath.Join(folder, name)
			target, err := filepath.EvalSymlinks(file)
			if err != nil || !strings.HasPrefix(target, below+"/") {
				continue
			}
			if info, err := os.Stat(target); err == nil && info.Mode().IsRegular() && info.Mode()&0o001 != 0 {
				return file, nil
			}
		}
	}
	name := names[len(names)-1] // the name of Debian's package
	return "", landfall.Errorf("environment.Command", landfall.Unavailable,
		"the server has no %s where functions can see it (%s); install it there, like: apt-get install %s", names[0],
		strings.Join(folders, ", "), name)
}

// joinNames joins names for a message.
func joinNames(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
