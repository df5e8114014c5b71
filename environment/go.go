package environment

import (
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"landfall.dev/landfall/environment/go/source"
	"landfall.dev/landfall/event"
)

// goProgram is the name of the program that a build makes.
const goProgram = "main"

// isGoFunction reports whether an entry point can be the name of an exported function.
func isGoFunction(entrypoint string) bool {
	return token.IsIdentifier(entrypoint) && token.IsExported(entrypoint)
}

// goCommand takes the name of a function of the built program, or the path of a program as binaryCommand does.
func goCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	named := isGoFunction(entrypoint) && !p.has(entrypoint)
	switch {
	case strings.HasPrefix(entrypoint, plainPrefix):
		return nil, event.Structured, invalid(entrypoint,
			"programs in Go read events; leave out %s, or use the environment binary", plainPrefix)
	case named && !p.has(goProgram), entrypoint == "" && len(p.top(p.isExecutable)) == 0:
		return nil, event.Structured, invalid(entrypoint,
			"the package was not built: give it a source, which is built, and no deployment; it has %s", p.listFiles(p.has))
	case named:
		args, form, err := binaryCommand(p, goProgram)
		return append(args, entrypoint), form, err
	}
	return binaryCommand(p, entrypoint)
}

// goBuild returns the command that builds a package in Go, and the warmup that compiles the standard library for it.
func goBuild() (string, Warmup) {
	script, _ := adaptors.ReadFile("go/build.sh") // it is a part of the program
	build := writeScript("adaptor", path.Base, "go/adaptor/*.go") +
		writeScript("adapt", func(file string) string {
			return "environment/" + file
		}, "go/adapt/*.go", "go/source/source.go") + string(script)
	const function = `package main\n\nimport "net/http"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n`
	warm := "# for " + goToolchain() + "\nmkdir src && cd src && printf '" + function +
		"' > function.go\nexport SRC_PKG=\"$PWD\" DEPLOY_PKG=\"${PWD%/*}/deploy\"\n" + build
	return build, Warmup{Command: warm, Folder: ".go-build",
		Note: "compiling Go's standard library, once for this server: this may take a minute, and later builds begin with it"}
}

// writeScript returns a shell function that writes files of ours below the current folder; at returns the path of each.
func writeScript(name string, at func(file string) string, globs ...string) string {
	const end = "LANDFALL_FILE_ENDS"
	var function strings.Builder
	function.WriteString(name + "() {\n")
	for _, glob := range globs {
		files, _ := fs.Glob(adaptors, glob) // they are parts of the program
		for _, file := range files {
			text, _ := adaptors.ReadFile(file)
			function.WriteString("cat > " + at(file) + " << '" + end + "'\n" + string(text) + end + "\n")
		}
	}
	return function.String() + "}\n"
}

// IsCompiled reports whether a build command is the one that compiles a package's source and that CheckCompiled knows:
// Fission's build, in Go.
func (e Environment) IsCompiled(command string) bool {
	if e.name != "go" || command == "" {
		return false
	}
	own, _ := e.build()
	return command == own
}

// Compiles reports whether CheckCompiled needs a file of a package's source: none, except in Go.
func (e Environment) Compiles(name string) bool { return e.name == "go" && source.Reads(name) }

// CheckCompiled returns an Invalid error, with what would be right, for an entry point that is no function of the
// program which Fission's build makes from a package's source, or for a source that cannot be compiled. files has the
// files for which Compiles is true. It returns nil for an environment that compiles nothing.
func (e Environment) CheckCompiled(files map[string][]byte, entrypoint string) error {
	if e.name != "go" {
		return nil
	}
	const usual = "Handler"
	folder, err := source.Read(files)
	other, isOther := folder.Others[entrypoint]
	has := joinNames(folder.Functions)
	if folder.Program {
		has += "; without a name it is the program of func main()"
	}
	switch {
	case err != nil:
		return invalid(entrypoint, "%s", err)
	case entrypoint == "" && !folder.Program && len(folder.Functions) > 1 && !slices.Contains(folder.Functions, usual):
		return invalid(entrypoint,
			"it says no function, and the package has no %s; write the name of one; functions in it are %s", usual, has)
	case !isGoFunction(entrypoint) || slices.Contains(folder.Functions, entrypoint):
		return nil
	case isOther:
		return invalid(entrypoint, "%s has it, but not as func %s(w http.ResponseWriter, r *http.Request); functions like "+
			"that are %s", other, entrypoint, has)
	}
	return invalid(entrypoint, "the package has no function %s(w http.ResponseWriter, r *http.Request); it has %s",
		entrypoint, has)
}

// goToolchain returns a text that is different for each Go that builds use.
func goToolchain() string {
	for _, folder := range []string{programs + "/local/bin", programs + "/bin", programs + "/local/go/bin"} {
		if info, err := os.Stat(filepath.Join(folder, "go")); err == nil {
			return fmt.Sprint(folder, info.Size(), info.ModTime().UnixNano())
		}
	}
	return "none"
}
