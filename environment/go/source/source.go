// Package source reads the Go files of a function's folder: which functions answer requests as net/http has them, and whether the folder
// is a program. A build makes a program of them; a push looks whether they have what an entry point names.
//
// It is compiled in builds, too, so it needs nothing but the standard library.
package source

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"
)

// Folder is what the Go files of a folder declare.
type Folder struct {
	Functions []string          // that answer requests, sorted
	Others    map[string]string // exported functions that do not, with their places: file.go:3
	Program   bool              // it has func main()

	main token.Position // the name of func main()
}

// Reads reports whether a file is one of a folder's that Read reads: files of Go, but no tests.
func Reads(name string) bool {
	return path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && path.Base(name) == name
}

// Read reads the Go files of a folder, as far as they are compiled on this machine: files has the text of each. It fails, with file and line,
// where they are not Go, and with what would be right when they have neither a program nor a function that answers requests, or not in
// package main.
func Read(files map[string][]byte) (Folder, error) {
	context := build.Default
	context.CgoEnabled, context.GOOS = false, "linux" // where functions run
	context.OpenFile = func(name string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files[path.Base(name)])), nil
	}
	f, compiled, outside := Folder{Others: map[string]string{}}, 0, "" // outside of package main: the first of them
	for _, name := range sorted(files) {
		if matches, err := context.MatchFile(".", name); err == nil && !matches {
			continue
		}
		compiled++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			return f, err
		}
		found := len(f.Functions)
		f.add(set, file)
		if file.Name.Name != "main" && len(f.Functions) > found && outside == "" {
			outside = set.Position(file.Name.Pos()).String()
		}
	}
	sort.Strings(f.Functions)
	switch {
	case compiled == 0:
		return f, errors.New("the package has no Go files in its folder")
	case f.Program:
		return f, nil
	case len(f.Functions) == 0:
		return f, errors.New("the package has neither a program (func main()) nor a function like " +
			"func Handler(w http.ResponseWriter, r *http.Request)" + f.near())
	case outside != "":
		return f, errors.New(outside + ": the functions must be in package main")
	}
	return f, nil
}

// near names a function that may be meant for one that answers requests.
func (f *Folder) near() string {
	for _, name := range sorted(f.Others) {
		return fmt.Sprintf("; %s at %s takes or returns something else", name, f.Others[name])
	}
	return ""
}

// sorted returns the keys of a map. An old Go, which may compile this, has no package for that.
func sorted[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// add adds what a file declares.
func (f *Folder) add(set *token.FileSet, file *ast.File) {
	packages := map[string]bool{} // the names that the file has net/http by
	for _, spec := range file.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); imported == "net/http" && spec.Name != nil {
			packages[spec.Name.Name] = true
		} else if imported == "net/http" {
			packages["http"] = true
		}
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		name, at := function.Name.Name, set.PositionFor(function.Name.Pos(), false) // whatever a //line says
		switch {
		case name == "main" && file.Name.Name == "main":
			f.Program, f.main = true, at
		case !ast.IsExported(name):
		case answersRequests(function.Type, packages):
			f.Functions = append(f.Functions, name)
		default:
			f.Others[name] = at.Filename + ":" + strconv.Itoa(at.Line)
		}
	}
}

// answersRequests reports whether a function is one of an http.ResponseWriter and an *http.Request, in a file that has net/http by some names.
func answersRequests(function *ast.FuncType, packages map[string]bool) bool {
	if function.Results.NumFields() > 0 || function.TypeParams.NumFields() > 0 {
		return false
	}
	is := func(expression ast.Expr, name string) bool {
		switch e := expression.(type) {
		case *ast.SelectorExpr:
			of, ok := e.X.(*ast.Ident)
			return ok && packages[of.Name] && e.Sel.Name == name
		case *ast.Ident:
			return packages["."] && e.Name == name
		}
		return false
	}
	parameters := function.Params.List
	if function.Params.NumFields() != 2 || len(parameters) != 2 {
		return false
	}
	pointer, ok := parameters[1].Type.(*ast.StarExpr)
	return ok && is(parameters[0].Type, "ResponseWriter") && is(pointer.X, "Request")
}

// renamed is what func main() is called when the program begins with another one.
const renamed = "landfall_main"

// Adapt writes what begins a program of the functions in a folder, the current one: one that is called with the name of a function answers
// requests by it, and another one is the folder's own program, if it is one. adaptor is the path that imports the function adaptor.
func Adapt(f *Folder, adaptor string) error {
	if len(f.Functions) == 0 {
		return nil
	}
	var begin bytes.Buffer
	begin.WriteString(
		"package main\n\nimport (\n\tlandfall_http \"net/http\"\n\tlandfall_os \"os\"\n\n\tlandfall_adaptor " +
			strconv.Quote(adaptor) + "\n)\n\n")
	begin.WriteString("func main() {\n\tfunctions := map[string]landfall_http.HandlerFunc{\n")
	for _, name := range f.Functions {
		fmt.Fprintf(&begin, "\t\t%q: %s,\n", name, name)
	}
	begin.WriteString("\t}\n")
	if f.Program {
		if err := f.renameMain(); err != nil {
			return err
		}
		begin.WriteString("\tif len(landfall_os.Args) < 2 || functions[landfall_os.Args[1]] == nil {\n\t\t" + renamed +
			"()\n\t\treturn\n\t}\n")
	}
	begin.WriteString("\tlandfall_os.Exit(landfall_adaptor.Serve(functions))\n}\n")
	return os.WriteFile("landfall_main.go", begin.Bytes(), 0o600)
}

// renameMain gives func main() another name, in its file.
func (f *Folder) renameMain() error {
	text, err := os.ReadFile(f.main.Filename)
	if err != nil {
		return err
	}
	at := f.main.Offset
	text = append(append(append([]byte{}, text[:at]...), renamed...), text[at+len("main"):]...)
	return os.WriteFile(f.main.Filename, text, 0o600)
}
