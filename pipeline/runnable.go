package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// checkFunctions fails for a new version of a function that cannot be run, as its package shows once all files of it are there: its
// WebAssembly module or its container image is broken, or its entry point is no file of the package, no function of its source, takes a
// WebSocket, needs a library that is not there, or is in a file of Python that is none.
func (w built) checkFunctions(ctx context.Context) error {
	image := unpackedImage{below: w.Scratch}
	defer image.remove()
	var d deployment
	of := "" // the package whose it is
	var plan packagePlan
	var entries []entryFile
	for _, f := range byPackage(w.spec.Functions) {
		_, known := w.current[landfall.UnitID{Kind: landfall.FunctionUnit, Name: f.Name}]
		env, err := environmentOf(w.spec, f.Environment)
		if known || err != nil {
			continue
		}
		if of != f.Package {
			if d, err = w.deployed(ctx, landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package}); err != nil {
				return err
			}
			of, plan = f.Package, w.packages[landfall.UnitID{Kind: landfall.PackageUnit, Name: f.Package}]
		}
		if len(d.files) == 0 {
			continue
		}
		verb := "will not run"
		switch {
		case env.Modules():
			verb, err = "cannot be run", w.checkModule(ctx, f, d)
		case env.Images():
			err = image.check(ctx, env, f, d)
		case env.Compiled(plan.pkg.BuildCommand) && !isZip(plan.source): // of a zip that is stored, what was built is looked at
			err = checkCompiled(ctx, env, f.FunctionName, deploymentOf(plan.source, w.open))
		default:
			entry := entryFile{function: f, env: env}
			entry.path, entry.source, err = w.checkSource(ctx, env, f.FunctionName, d)
			entries = append(entries, entry)
		}
		if err != nil {
			return &landfall.Error{Op: "pipeline.build", Kind: landfall.KindOf(err), Err: err,
				Message: fmt.Sprintf("%s: Function %s %s: %s", f.Pos, f.Name, verb, landfall.MessageOf(err))}
		}
	}
	return w.compile(ctx, entries)
}

// checkSource fails for an entry point that checkEntry refuses, or that needs FastAPI where there is none. It returns what checkEntry does.
func (w built) checkSource(ctx context.Context, env environment.Environment, entrypoint string, d deployment) (file string, source []byte, err error) {
	file, source, err = checkEntry(ctx, env, entrypoint, d)
	if err == nil && w.HasFastAPI != nil && env.NeedsFastAPI(d.modes, source, entrypoint) && !w.HasFastAPI() {
		err = &landfall.Error{Op: "pipeline.build", Kind: landfall.Invalid, Message: fmt.Sprintf(
			"%s needs FastAPI, which neither its package nor the server has: write fastapi into requirements.txt and let the package be built "+
				"(buildcmd: build), or install it on the server (apt-get install python3-fastapi)", file)}
	}
	return file, source, err
}

// byPackage returns functions with those of one package behind each other.
func byPackage(functions []spec.Function) []spec.Function {
	return slices.SortedStableFunc(slices.Values(functions), func(a, b spec.Function) int { return strings.Compare(a.Package, b.Package) })
}

// unpackedImage is the image of the package that was looked at last, unpacked where nobody uses it: once for all functions of it.
type unpackedImage struct {
	below string // the folder for it; empty: the system's for what is temporary
	of    string // the package
	dir   string
	err   error // why it cannot be unpacked
}

// check fails for a function whose image cannot be unpacked, or has no program for its entry point.
func (u *unpackedImage) check(ctx context.Context, env environment.Environment, f spec.Function, d deployment) error {
	if u.dir == "" || u.of != f.Package {
		u.remove()
		if err := u.unpack(ctx, env, d); err != nil {
			return err
		}
		u.of = f.Package
	}
	if u.err != nil {
		return u.err
	}
	_, _, err := env.Portable(u.dir, f.FunctionName)
	return err
}

func (u *unpackedImage) unpack(ctx context.Context, env environment.Environment, d deployment) (err error) {
	if u.below != "" {
		err = os.MkdirAll(u.below, 0o700)
	}
	if err == nil {
		u.dir, err = os.MkdirTemp(u.below, "landfall-image-")
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // each file was closed before
	for name, f := range d.files {
		if err := copyFile(ctx, root, name, f, d.open); err != nil {
			return err
		}
	}
	u.err = env.Install(ctx, u.dir)
	return nil
}

func (u *unpackedImage) remove() {
	if u.dir != "" {
		_ = os.RemoveAll(u.dir) // of what stays, the folder is emptied by the next start
	}
	u.dir, u.of, u.err = "", "", nil
}

// copyFile writes a file of another place to a path that is not there yet.
func copyFile(ctx context.Context, root *os.Root, at string, f landfall.File, open Opener) error {
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	in, err := open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	mode := fs.FileMode(0o644)
	if f.Mode == landfall.Executable {
		mode = 0o755
	}
	out, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// BrokenImages finds the functions of a spec whose container image, which lies among the files of the app's folder, cannot be run. Of
// images of registries and of those that a build makes nothing is known.
func BrokenImages(ctx context.Context, s *spec.Spec, files []landfall.File, open Opener) ([]spec.Problem, error) {
	packages := committed(s, files, open)
	image := unpackedImage{}
	defer image.remove()
	var problems []spec.Problem
	for _, f := range byPackage(s.Functions) {
		env, err := environmentOf(s, f.Environment)
		known, ok := packages[f.Package]
		if err != nil || !env.Images() || !ok || env.Missing(known.modes, f.FunctionName) != nil {
			continue // of which there is another problem
		}
		err = image.check(ctx, env, f, known)
		switch kind := landfall.KindOf(err); {
		case err == nil:
		case kind == landfall.Invalid:
			problems = append(problems, willNotRun(f, err))
		default:
			return nil, err
		}
	}
	return problems, nil
}
