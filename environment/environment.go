// Package environment knows how a function of each language is run: what lies beside its package, and how it starts.
//
// A function in Python or Node.js is no program that reads events; an adaptor is, which calls it. Adaptors lie in the folders
// of this room, and are written into the function's own folder, so that it runs in a shell as it runs in the runner:
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | python3 .landfall/adaptor.py main.main
package environment

import (
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

// folder is where adaptors lie, beside a package. Functions run as a user of their own, who reads them.
const (
	folder                 = ".landfall"
	folderMode fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
)

// Environment is what a function runs in. Of returns one.
type Environment struct {
	name            string
	files           []string // of adaptors
	command         func(p pack, entrypoint string) ([]string, event.Form, error)
	install         func(ctx context.Context, dir, into string) error // what else it does with a package; nil: nothing
	build           func() (string, Warmup)                           // what Fission's builder does; nil: nothing
	source          bool                                              // a source is no package until it is built
	checkEntrypoint func(p pack, entrypoint string) error             // what Missing looks for beyond command; nil: nothing
	modules         bool                                              // what Command returns is a WebAssembly module, not a program
}

// environments are those that there are.
func environments() map[string]Environment {
	all := map[string]Environment{}
	for _, e := range []Environment{
		{name: "binary", files: []string{"python/adaptor.py", "binary/exec.py"}, command: binaryCommand, build: script("binary/build.sh")},
		{name: "container", command: containerCommand, install: installImage, checkEntrypoint: checkImage},
		{name: "go", command: goCommand, build: goBuild, source: true},
		{name: spec.Requests, files: []string{"python/adaptor.py", "binary/exec.py"}, command: requestCommand, build: script("binary/build.sh")},
		{name: spec.Either, files: []string{"python/adaptor.py", "binary/exec.py"}, command: eitherCommand, build: script("binary/build.sh")},
		{name: "nodejs", files: []string{"nodejs/adaptor.cjs"}, command: nodeCommand, checkEntrypoint: checkModule, build: script("nodejs/build.sh")},
		{
			name: "python", command: pythonCommand, checkEntrypoint: checkPython, build: script("python/build.sh"),
			files: []string{"python/adaptor.py", "python/flask.py", "python/_flask_values.py", "python/_flask_more.py", "python/landfall_asgi.py"},
		},
		{
			name: "python-fastapi", command: fastapiCommand, checkEntrypoint: checkPython, build: script("python/build.sh"),
			files: []string{"python/adaptor.py", "python/landfall_asgi.py"},
		},
		{name: "wasm", command: moduleCommand, modules: true},
	} {
		all[e.name] = e
	}
	all["node"], all["golang"] = all["nodejs"], all["go"]
	return all
}

// These are the names of images and of environments that stand for one of ours.
var (
	imageName = regexp.MustCompile(`^(binary|container|go|nodejs|node|python-fastapi|python|wasm)-env(-\d.*)?$`)
	official  = regexp.MustCompile(`^(?:(?:docker\.io/)?library/)?(node|python|golang)(?:[:@].*)?$`)
	ownName   = regexp.MustCompile(`^(binary|container|go|nodejs|node|python-fastapi|python|wasm)([^a-z].*)?$`)
)

// Of returns the environment that an Environment document means: by the last element of its image, without tag
// (fission/python-env:1.34, node-env-16, binary-env), else by its name's beginning (nodejs, python-27), else by an official image of a
// language (python:3.12). The image may be empty; of programs it says, too, whether they are Fission's. The image of
// an environment whose name begins with container is the one to run, unless it is one of ours.
// Invalid, with the names that are known, for another.
func Of(e landfall.Environment) (Environment, error) {
	if PullImage(e.Name, e.Image) != "" {
		return environments()["container"], nil
	}
	for _, found := range [][]string{
		imageName.FindStringSubmatch(lastElement(e.Image)), ownName.FindStringSubmatch(e.Name), official.FindStringSubmatch(e.Image),
	} {
		switch {
		case len(found) == 0:
		case found[1] == "binary" && (e.Programs == spec.Requests || e.Programs == spec.Either):
			return environments()[e.Programs], nil
		default:
			return environments()[found[1]], nil
		}
	}
	return Environment{}, &landfall.Error{Op: "environment.Of", Kind: landfall.Invalid, Message: fmt.Sprintf(
		"functions cannot run in the environment %q: its image must be python-env, node-env, nodejs-env, go-env, wasm-env, "+
			"binary-env, container-env or python-fastapi-env, or node, python or golang, "+
			"or its name be one of python, node, nodejs, go, wasm, binary, container and python-fastapi, or begin with one and a character that is no letter", e.Name)}
}

// lastElement returns the last element of an image's name, without its tag.
func lastElement(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(path.Base(image), ":")
	return image
}

// Key names the environment with the content of its adaptor: what Install writes is the same where the key is.
func (e Environment) Key() string {
	sum := sha256.New()
	for _, name := range e.files {
		text, _ := adaptors.ReadFile(name) // it is a part of the program
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	const digits = 12
	return e.name + "-" + hex.EncodeToString(sum.Sum(nil))[:digits]
}

// Install writes what the environment needs beside a package into the folder that the package was unpacked into: below its
// .landfall, readable by everybody. Invalid, and nothing is written, when the package has something of that name; Canceled when ctx ended.
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
	err := os.Chmod(into, folderMode) // whatever the umask is
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

// Command returns how a function starts in the folder of its package: the program and its arguments, with paths relative to
// dir, and the form of its events. An empty entry point is what the language's functions are usually called. Invalid, with what
// would be right, for an entry point that cannot be; Unavailable, with what to install, when the server has no interpreter.
func (e Environment) Command(dir, entrypoint string) (args []string, form event.Form, err error) {
	args, form, err = e.PortableCommand(dir, entrypoint)
	if err == nil && !e.modules && !strings.Contains(args[0], "/") {
		args[0], err = interpreter(programs, interpreters()[args[0]]...)
	}
	return args, form, err
}

// PortableCommand is Command for another machine, of which nobody knows where its interpreter lies: that is named only.
func (e Environment) PortableCommand(dir, entrypoint string) (args []string, form event.Form, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, event.Structured, &landfall.Error{Op: "environment.Command", Err: err}
	}
	args, form, err = e.command(pack{FS: root.FS()}, entrypoint)
	return args, form, errors.Join(err, root.Close())
}

// CheckEntrypoint says why an entry point leads to no file of a package, of which the files are known by their paths, and whether they can be
// executed. Invalid, with what would be right; nil, too, where names alone do not tell.
func (e Environment) CheckEntrypoint(files map[string]bool, entrypoint string) error {
	p := pack{fileSet: files}
	if e.checkEntrypoint != nil {
		return e.checkEntrypoint(p, entrypoint)
	}
	_, _, err := e.command(p, entrypoint)
	return err
}

// Folder is where adaptors lie in the folder of a package.
func Folder() string { return folder }

// Warmup makes what builds of an environment begin with, so that they do not make it each time.
type Warmup struct {
	Command string // for a shell, in an empty folder; another one when what it makes would be another
	Folder  string // which it leaves there, and which builds find in the folder above SRC_PKG; empty: there is nothing to make
	Note    string // a line for whoever waits while it is made
}

// builders is what Fission's builders are called: a package, or its Environment document, names them by it.
const builders = "build"

// Build returns the command that builds the source of a package, by what the package names, or else its Environment document: another
// command than "build" is that itself, and "build" is what Fission's builders do, which is nothing for some. Where neither names one, a
// source is the package, unless it is nothing without a build. The command is for a shell, by Fission's contract: it starts in the
// folder SRC_PKG, and what it leaves at DEPLOY_PKG is the package.
func (e Environment) Build(named string) (string, Warmup) {
	switch {
	case named != "" && named != builders:
		return named, Warmup{}
	case e.build == nil, named == "" && !e.source:
		return "", Warmup{}
	}
	return e.build()
}

// script returns a function that returns a command, which needs nothing before it.
func script(name string) func() (string, Warmup) {
	return func() (string, Warmup) {
		text, _ := adaptors.ReadFile(name) // it is a part of the program
		return string(text), Warmup{}
	}
}

// Modules reports whether what Command returns is a WebAssembly module, and its arguments, and not a program.
func (e Environment) Modules() bool { return e.modules }

// Images reports whether its functions are container images.
func (e Environment) Images() bool { return e.install != nil }

// invalid refuses an entry point.
func invalid(entrypoint, format string, args ...any) error {
	message := fmt.Sprintf("the entry point %q cannot be: ", entrypoint) + fmt.Sprintf(format, args...)
	return &landfall.Error{Op: "environment.Command", Kind: landfall.Invalid, Message: message}
}

// pack is an unpacked package, or a list of the files that one would have.
type pack struct {
	fs.FS
	fileSet map[string]bool // the files by their paths, and whether they can be executed; nil: the package is unpacked
}

// has reports whether a file is there.
func (p pack) has(name string) bool {
	if p.fileSet != nil {
		_, found := p.fileSet[name]
		return found
	}
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular()
}

// isExecutable reports whether a file is there that can be executed.
func (p pack) isExecutable(name string) bool {
	if p.fileSet != nil {
		return p.fileSet[name]
	}
	const everybody = 0o001
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&everybody != 0
}

// listFiles names, for a message, the files for which a condition holds: those in the package's own folder, or all when none is there.
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
