// Package environment knows how functions of each language are run: what is added to a package, and how it starts.
//
// A function in Python or Node.js is no program that reads events. An adaptor is such a program, and calls the
// function. Adaptors are in the folders of this room. They are written into the function's own folder, so a function
// runs in a shell as it runs in the runner:
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | python3 .landfall/adaptor.py main.main
package environment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/spec"
)

//go:embed python/*.py nodejs/*.cjs binary/*.py */build.sh go/adaptor/*.go go/adapt/main.go go/source/source.go
var adaptors embed.FS

// folder is the folder of adaptors in a package. Functions run as users of their own, who must be able to read it.
const (
	folder                 = ".landfall"
	folderMode fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
)

// Environment is what a function runs in. Of returns one.
type Environment struct {
	name    string
	files   []string // files of adaptors
	command func(p pack, entrypoint string) ([]string, event.Form, error)
	install func(ctx context.Context, dir, into string) error // what it adds to a package; nil: nothing
	build   func() (string, Warmup)                           // what Fission's builder does; nil: nothing
	source  bool                                              // a source is no package until it is built
	// further checks of CheckEntrypoint after command; nil: none
	checkEntrypoint func(p pack, entrypoint string) error
	modules         bool   // Command returns a WebAssembly module, not a program
	file            string // the usual name of a package's only file
}

// environments returns all environments by their names.
func environments() map[string]Environment {
	all := map[string]Environment{}
	for _, e := range []Environment{
		{name: "binary", files: []string{"python/adaptor.py", "binary/exec.py"}, command: binaryCommand,
			build: script("binary/build.sh")},
		{name: "container", file: "image.tar", command: containerCommand, install: installImage,
			checkEntrypoint: checkImage},
		{name: "go", file: "main.go", command: goCommand, build: goBuild, source: true},
		{name: spec.Requests, files: []string{"python/adaptor.py", "binary/exec.py"}, command: requestCommand,
			build: script("binary/build.sh")},
		{name: spec.Either, files: []string{"python/adaptor.py", "binary/exec.py"}, command: eitherCommand,
			build: script("binary/build.sh")},
		{name: "nodejs", file: "index.js", files: []string{"nodejs/adaptor.cjs"}, command: nodeCommand,
			checkEntrypoint: checkModule, build: script("nodejs/build.sh")},
		{
			name: "python", file: "main.py", command: pythonCommand, checkEntrypoint: checkPython,
			build: script("python/build.sh"),
			files: []string{"python/adaptor.py", "python/flask.py", "python/_flask_values.py", "python/_flask_more.py",
				"python/landfall_asgi.py"},
		},
		{
			name: "python-fastapi", file: "main.py", command: fastapiCommand, checkEntrypoint: checkPython,
			build: script("python/build.sh"),
			files: []string{"python/adaptor.py", "python/landfall_asgi.py"},
		},
		{name: "wasm", file: "main.wasm", command: moduleCommand, modules: true},
	} {
		all[e.name] = e
	}
	all["node"], all["golang"] = all["nodejs"], all["go"]
	return all
}

// These match the names of images and of environments that stand for one of ours.
var (
	imageName = regexp.MustCompile(`^(binary|container|go|nodejs|node|python-fastapi|python|wasm)-env(-\d.*)?$`)
	official  = regexp.MustCompile(`^(?:(?:docker\.io/)?library/)?(node|python|golang)(?:[:@].*)?$`)
	ownName   = regexp.MustCompile(`^(binary|container|go|nodejs|node|python-fastapi|python|wasm)([^a-z].*)?$`)
)

// Of returns the environment for an Environment document. It decides by the last element of the image, without tag
// (fission/python-env:1.34, node-env-16, binary-env); else by the beginning of the name (nodejs, python-27); else by an
// official image of a language (python:3.12). The image may be empty. For programs it also says whether they are
// Fission's. When the name begins with container, the image is the one to run, unless it is one of ours. Invalid, with
// the known names, for any other document.
func Of(e landfall.Environment) (Environment, error) {
	if PullImage(e.Name, e.Image) != "" {
		return environments()["container"], nil
	}
	for _, found := range [][]string{
		imageName.FindStringSubmatch(lastElement(e.Image)), ownName.FindStringSubmatch(e.Name),
		official.FindStringSubmatch(e.Image),
	} {
		switch {
		case len(found) == 0:
		case found[1] == "binary" && (e.Programs == spec.Requests || e.Programs == spec.Either):
			return environments()[e.Programs], nil
		default:
			return environments()[found[1]], nil
		}
	}
	return Environment{}, landfall.Errorf("environment.Of", landfall.Invalid,
		"functions cannot run in the environment %q: its image must be python-env, node-env, nodejs-env, go-env, wasm-env, "+
			"binary-env, container-env or python-fastapi-env, or node, python or golang, "+
			"or its name be one of python, node, nodejs, go, wasm, binary, container and python-fastapi, or begin with one "+
			"and a character that is no letter", e.Name)
}

// lastElement returns the last element of an image's name, without its tag.
func lastElement(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(path.Base(image), ":")
	return image
}

// Key names the environment with the content of its adaptor: Install writes the same files for the same key.
func (e Environment) Key() string {
	sum := sha256.New()
	for _, name := range e.files {
		text, _ := adaptors.ReadFile(name) // it is a part of the program
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	const digits = 12
	return e.name + "-" + hex.EncodeToString(sum.Sum(nil))[:digits]
}

// Install writes what the environment adds to a package into the unpacked package: below its .landfall, readable by
// everybody. Invalid, and nothing is written, when the package has a file of that name; Canceled when ctx ended.
func (e Environment) Install(ctx context.Context, dir string) error {
	const op landfall.Op = "environment.Install"
	into := filepath.Join(dir, folder)
	if err := os.Mkdir(into, folderMode); errors.Is(err, fs.ErrExist) {
		return &landfall.Error{
			Op: op, Kind: landfall.Invalid, Err: err,
			Message: "the package has a file or folder " + folder + ", which is the name of what runs it; leave it out",
		}
	} else if err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	err := os.Chmod(into, folderMode) // the umask does not matter
	for _, name := range e.files {
		text, _ := adaptors.ReadFile(name) // it is a part of the program
		file := filepath.Join(into, path.Base(name))
		err = errors.Join(err, os.WriteFile(file, text, fileMode), os.Chmod(file, fileMode))
	}
	if err == nil && e.install != nil {
		err = e.install(ctx, dir, into)
	}
	if err != nil {
		return &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: errors.Join(err, os.RemoveAll(into))}
	}
	return nil
}

// Command returns how a function starts in the folder of its package: the program and its arguments, with paths
// relative to dir, and the form of its events. An empty entry point stands for the language's usual name. Invalid, with
// what would be right, for a malformed entry point; Unavailable, with what to install, when the server has no
// interpreter.
func (e Environment) Command(dir, entrypoint string) (args []string, form event.Form, err error) {
	args, form, err = e.PortableCommand(dir, entrypoint)
	if err == nil && !e.modules && !strings.Contains(args[0], "/") {
		args[0], err = interpreter(programs, interpreters()[args[0]]...)
	}
	return args, form, err
}

// PortableCommand is Command for another machine. It names the interpreter without a path, because its path there is
// not known.
func (e Environment) PortableCommand(dir, entrypoint string) (args []string, form event.Form, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, event.Structured, &landfall.Error{Op: "environment.Command", Err: err}
	}
	args, form, err = e.command(pack{FS: root.FS()}, entrypoint)
	return args, form, errors.Join(err, root.Close())
}

// CheckEntrypoint returns an Invalid error, with what would be right, for an entry point that leads to no file of a
// package. files has the paths of the files, and whether they are executable. It also returns nil when names alone do
// not decide.
func (e Environment) CheckEntrypoint(files map[string]bool, entrypoint string) error {
	p := pack{fileSet: files}
	if e.checkEntrypoint != nil {
		return e.checkEntrypoint(p, entrypoint)
	}
	_, _, err := e.command(p, entrypoint)
	return err
}

// Folder returns the folder of adaptors in a package.
func Folder() string { return folder }

// Warmup makes something that builds of an environment need, so that they do not make it each time.
type Warmup struct {
	Command string // for a shell, in an empty folder; it is different when its output would be different
	Folder  string // the folder that it makes, which builds find above SRC_PKG; empty: there is nothing to make
	Note    string // a line for the person who waits while it is made
}

// builders is the name of Fission's builders, which a package or its Environment document uses.
const builders = "build"

// Build returns the command that builds the source of a package. named is the command of the package, or else of its
// Environment document. A command other than "build" is returned as it is; "build" is what Fission's builders do, which
// for some is nothing. When neither names a command, the source is the package, unless it must be built. The command is
// for a shell and follows Fission's contract: it starts in the folder SRC_PKG, and leaves the package at DEPLOY_PKG.
func (e Environment) Build(named string) (string, Warmup) {
	switch {
	case named != "" && named != builders:
		return named, Warmup{}
	case e.build == nil, named == "" && !e.source:
		return "", Warmup{}
	}
	return e.build()
}

// script returns a function that returns a command without a warmup.
func script(name string) func() (string, Warmup) {
	return func() (string, Warmup) {
		text, _ := adaptors.ReadFile(name) // it is a part of the program
		return string(text), Warmup{}
	}
}

// Modules reports whether Command returns a WebAssembly module with its arguments, and not a program.
func (e Environment) Modules() bool { return e.modules }

// File returns the usual name of a package's only file, for one whose name nobody said: a function without an entry
// point is in it.
func (e Environment) File() string { return cmp.Or(e.file, "main") }

// Images reports whether its functions are container images.
func (e Environment) Images() bool { return e.install != nil }

// invalid is the error for an entry point.
func invalid(entrypoint, format string, args ...any) error {
	message := fmt.Sprintf("the entry point %q cannot be: ", entrypoint) + fmt.Sprintf(format, args...)
	return &landfall.Error{Op: "environment.Command", Kind: landfall.Invalid, Message: message}
}

// pack is an unpacked package, or a list of its files.
type pack struct {
	fs.FS
	fileSet map[string]bool // the files by their paths, and whether they are executable; nil: the package is unpacked
}

// has reports whether a file exists.
func (p pack) has(name string) bool {
	if p.fileSet != nil {
		_, found := p.fileSet[name]
		return found
	}
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular()
}

// isExecutable reports whether a file exists and is executable.
func (p pack) isExecutable(name string) bool {
	if p.fileSet != nil {
		return p.fileSet[name]
	}
	const everybody = 0o001
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&everybody != 0
}

// listFiles lists, for a message, the files for which a condition holds: those in the package's own folder, or all when
// there are none.
func (p pack) listFiles(holds func(name string) bool) string {
	names := p.top(holds)
	if len(names) == 0 {
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(p.fileSet)), func(name string) bool { return !holds(name) })
	}
	return joinNames(names)
}

// top returns the names of the files in the package's own folder for which a condition holds.
func (p pack) top(holds func(name string) bool) []string {
	all := slices.Sorted(maps.Keys(p.fileSet))
	if p.fileSet == nil {
		entries, _ := fs.ReadDir(p, ".")
		for _, entry := range entries {
			all = append(all, entry.Name())
		}
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.Contains(name, "/") || !holds(name)
	})
}
