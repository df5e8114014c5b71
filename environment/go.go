package environment

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"landfall.dev/landfall/event"
)

// goProgram is what a build makes that its package does not name.
const goProgram = "main"

var goFunction = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]*$`)

// goCommand takes the name of a function of the built program, or the path of a program, as binaryCommand does.
func goCommand(p pack, entrypoint string) ([]string, event.Form, error) {
	named := goFunction.MatchString(entrypoint) && !p.has(entrypoint)
	switch {
	case strings.HasPrefix(entrypoint, plainPrefix):
		return nil, event.Structured, invalid(entrypoint, "programs in Go read events; leave out %s, or use the environment binary", plainPrefix)
	case named && !p.has(goProgram), entrypoint == "" && len(p.top(p.runs)) == 0:
		return nil, event.Structured, invalid(entrypoint,
			"the package was not built: give it a source, which is built, and no deployment; it has %s", p.shown(p.has))
	case named:
		args, form, err := binaryCommand(p, goProgram)
		return append(args, entrypoint), form, err
	}
	return binaryCommand(p, entrypoint)
}

// goBuild returns the command that builds a package in Go, and what compiles the standard library for it.
func goBuild() (string, Warmup) {
	const end = "LANDFALL_ADAPTOR_ENDS"
	var build strings.Builder
	build.WriteString("adaptor() {\n")
	files, _ := fs.Glob(adaptors, "go/adaptor/*.go") // they are parts of the program
	for _, file := range files {
		text, _ := adaptors.ReadFile(file)
		build.WriteString("cat > " + path.Base(file) + " << '" + end + "'\n" + string(text) + end + "\n")
	}
	script, _ := adaptors.ReadFile("go/build.sh")
	build.WriteString("}\n" + string(script))
	const source = `package main\n\nimport "net/http"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n`
	warm := "# for " + goToolchain() + "\nmkdir src && cd src && printf '" + source +
		"' > function.go\nexport SRC_PKG=\"$PWD\" DEPLOY_PKG=\"${PWD%/*}/deploy\"\n" + build.String()
	return build.String(), Warmup{Command: warm, Folder: ".go-build",
		Note: "compiling Go's standard library, once for this server: this may take a minute, and later builds begin with it"}
}

// goToolchain tells the Go of builds from another one.
func goToolchain() string {
	for _, folder := range []string{programs + "/local/bin", programs + "/bin", programs + "/local/go/bin"} {
		if info, err := os.Stat(filepath.Join(folder, "go")); err == nil {
			return fmt.Sprint(folder, info.Size(), info.ModTime().UnixNano())
		}
	}
	return "none"
}
