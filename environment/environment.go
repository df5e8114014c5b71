// Package environment knows how a function of each language is run: what lies beside its package, and how it starts.
//
// A function in Python or Node.js is no program that reads events; an adaptor is, which calls it. Adaptors lie in the folders
// of this room, and are written into the function's own folder, so that it runs in a shell as it runs in the runner:
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | python3 .landfall/adaptor.py main.main
package environment

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

//go:embed python/*.py nodejs/*.cjs binary/*.py
var adaptors embed.FS

// folder is where adaptors lie, beside a package. Functions run as a user of their own, who reads them.
const (
	folder                 = ".landfall"
	folderMode fs.FileMode = 0o755
	fileMode   fs.FileMode = 0o644
)

// Environment is what a function runs in. Of returns one.
type Environment struct {
	name    string
	files   []string // of adaptors
	command func(p pack, entrypoint string) ([]string, event.Form, error)
}

// environments are those that there are.
func environments() map[string]Environment {
	all := map[string]Environment{}
	for _, e := range []Environment{
		{"binary", []string{"python/adaptor.py", "binary/exec.py"}, binaryCommand},
		{"nodejs", []string{"nodejs/adaptor.cjs"}, nodeCommand},
		{"python", []string{"python/adaptor.py", "python/flask.py"}, pythonCommand},
	} {
		all[e.name] = e
	}
	all["node"] = all["nodejs"]
	return all
}

// These are the names of images and of environments that stand for one of ours.
var (
	imageName = regexp.MustCompile(`^(binary|nodejs|node|python)-env(-\d.*)?$`)
	ownName   = regexp.MustCompile(`^(binary|nodejs|node|python)([^a-z].*)?$`)
)

// Of returns the environment that an Environment document means: by the last element of its image, without tag
// (fission/python-env:1.34, node-env-16, binary-env), else by its name's beginning (nodejs, python-27). The image may be empty.
// Invalid, with the names that are known, for another.
func Of(name, image string) (Environment, error) {
	image, _, _ = strings.Cut(path.Base(image), "@")
	image, _, _ = strings.Cut(image, ":")
	for _, found := range [][]string{imageName.FindStringSubmatch(image), ownName.FindStringSubmatch(name)} {
		if found != nil {
			return environments()[found[1]], nil
		}
	}
	return Environment{}, &landfall.Error{Op: "environment.Of", Kind: landfall.Invalid, Message: fmt.Sprintf(
		"functions cannot run in the environment %q: its image must be python-env, node-env, nodejs-env or binary-env, "+
			"or its name begin with python, node, nodejs or binary", name)}
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
// .landfall, readable by everybody. Invalid, and nothing is written, when the package has something of that name.
func (e Environment) Install(dir string) error {
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
	if err != nil {
		return &landfall.Error{Op: op, Err: errors.Join(err, os.RemoveAll(into))}
	}
	return nil
}

// Command returns how a function starts in the folder of its package: the program and its arguments, with paths relative to
// dir, and the form of its events. An empty entry point is what the language's functions are usually called. Invalid, with what
// would be right, for an entry point that cannot be; Unavailable, with what to install, when the server has no interpreter.
func (e Environment) Command(dir, entrypoint string) (args []string, form event.Form, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, event.Structured, &landfall.Error{Op: "environment.Command", Err: err}
	}
	args, form, err = e.command(pack{root.FS()}, entrypoint)
	return args, form, errors.Join(err, root.Close())
}

// invalid refuses an entry point.
func invalid(entrypoint, format string, args ...any) error {
	message := fmt.Sprintf("the entry point %q cannot be: ", entrypoint) + fmt.Sprintf(format, args...)
	return &landfall.Error{Op: "environment.Command", Kind: landfall.Invalid, Message: message}
}

// pack is an unpacked package.
type pack struct{ fs.FS }

// has reports whether a file is there.
func (p pack) has(name string) bool {
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular()
}

// runs reports whether a file is there that can be executed.
func (p pack) runs(name string) bool {
	const everybody = 0o001
	info, err := fs.Stat(p, name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&everybody != 0
}

// top returns the names of the files in the package's own folder for which a condition holds.
func (p pack) top(holds func(name string) bool) []string {
	entries, _ := fs.ReadDir(p, ".")
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasPrefix(name, ".") && holds(name) {
			names = append(names, name)
		}
	}
	return names
}
