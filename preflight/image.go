package preflight

import (
	"context"
	"os"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/artifact"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// ByPackage returns functions with those of one package behind each other.
func ByPackage(functions []spec.Function) []spec.Function {
	return slices.SortedStableFunc(slices.Values(functions), func(a, b spec.Function) int {
		return strings.Compare(a.Package, b.Package)
	})
}

// Image is the image of the package that was looked at last, unpacked where nobody uses it: once for all functions of
// it.
type Image struct {
	Below string // the folder for it; empty: the system's folder for temporary files

	of  string // the package
	dir string
	err error // why it cannot be unpacked
}

// Check fails for a function whose image cannot be unpacked, or has no program for its entry point.
func (u *Image) Check(ctx context.Context, env environment.Environment, f spec.Function, d Deployment) error {
	if u.dir == "" || u.of != f.Package {
		u.Remove()
		if err := u.unpack(ctx, env, d); err != nil {
			return err
		}
		u.of = f.Package
	}
	if u.err != nil {
		return u.err
	}
	_, _, err := env.PortableCommand(u.dir, f.FunctionName)
	return err
}

func (u *Image) unpack(ctx context.Context, env environment.Environment, d Deployment) (err error) {
	if u.Below != "" {
		err = os.MkdirAll(u.Below, 0o700)
	}
	if err == nil {
		u.dir, err = os.MkdirTemp(u.Below, "landfall-image-")
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // each file was closed before
	for name, f := range d.Files {
		if err := artifact.CopyFile(ctx, root, name, f, d.Open); err != nil {
			return err
		}
	}
	u.err = env.Install(ctx, u.dir)
	return nil
}

// Remove removes what is unpacked.
func (u *Image) Remove() {
	if u.dir != "" {
		_ = os.RemoveAll(u.dir) // the next start removes what is left
	}
	u.dir, u.of, u.err = "", "", nil
}

// brokenImages finds the functions of a spec whose container image, which lies among the files of the app's folder,
// cannot be run. Of images of registries and of those that a build makes nothing is known.
func brokenImages(ctx context.Context, s *spec.Spec, files []landfall.File,
	open artifact.Opener) ([]spec.Problem, error) {
	packages := committedPackages(s, files, open)
	image := Image{}
	defer image.Remove()
	var problems []spec.Problem
	for _, f := range ByPackage(s.Functions) {
		env, err := EnvironmentOf(s, f.Environment)
		known, ok := packages[f.Package]
		if err != nil || !env.Images() || !ok || env.CheckEntrypoint(known.Modes, f.FunctionName) != nil {
			continue // there is another problem with it
		}
		err = image.Check(ctx, env, f, known)
		switch kind := landfall.KindOf(err); {
		case err == nil:
		case kind == landfall.Invalid:
			problems = append(problems, entryProblem(f, err))
		default:
			return nil, err
		}
	}
	return problems, nil
}
