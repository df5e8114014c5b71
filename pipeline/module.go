package pipeline

import (
	"context"
	"io"
	"maps"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/tree"
)

// Modules knows which WebAssembly modules can be run.
type Modules interface {
	// Check looks at a module, and makes it ready. Invalid, with what is wrong with it, when it cannot be run.
	Check(ctx context.Context, module io.Reader) error
}

// environmentOf returns how the functions of an environment of a spec are run. Invalid when that is not known.
func environmentOf(s *spec.Spec, name string) (environment.Environment, error) {
	e, _ := s.Environment(name)
	return environment.Of(e)
}

// Opener reads a file.
type Opener func(ctx context.Context, f landfall.File) (io.ReadCloser, error)

// deployment is the files of a package as its functions see them, by their paths, and what reads them.
type deployment struct {
	files map[string]landfall.File
	modes map[string]bool // whether it can be executed
	open  Opener

	compiled bool // they are the source that a build compiles
}

// deploymentOf returns the deployment that an archive's files are, with what links lead to in the place of the links.
func deploymentOf(archive []builder.ArchiveFile, open Opener) deployment {
	d := deployment{files: make(map[string]landfall.File, len(archive)), modes: make(map[string]bool, len(archive)), open: open}
	inside, lies := builder.InArchive(archive), make(map[string]landfall.File, len(archive))
	for _, f := range archive {
		lies[f.Path] = f.File
	}
	links := tree.Of(inside)
	for _, f := range links.Expand(maxOutputFiles) {
		if !f.IsBuiltLink() { // it leads to nothing
			to, _ := links.Follow(f.Path)
			d.files[f.Path], d.modes[f.Path] = lies[to], lies[to].Mode == landfall.Executable
		}
	}
	return d
}

// deployed returns the files of a package as its functions see them; none when it is not stored.
func (w built) deployed(ctx context.Context, id landfall.UnitID) (deployment, error) {
	plan := w.packages[id]
	list, built := w.made[id]
	switch {
	case built:
	case w.current[id].content() != nil:
		return w.builtBefore(ctx, id)
	case plan.deployment != nil:
		list = plan.deployment
	default:
		list = plan.source
	}
	return deploymentOf(list, w.open), nil
}

// builtBefore returns the files of a package that was stored for an earlier version of it.
func (w built) builtBefore(ctx context.Context, id landfall.UnitID) (deployment, error) {
	content, err := landfall.ReadContent[landfall.PackageContent](w.current[id].content())
	if err != nil || content.Deployment == nil {
		return deployment{}, err
	}
	stored, err := w.Objects.Open(ctx, content.Deployment.Key)
	if err != nil {
		return deployment{}, landfall.Ignore(err, landfall.NotFound) // it was just collected
	}
	defer func() { _ = stored.Close() }()
	list, err := builder.ListLinked(stored, content.Deployment.Size)
	files := make([]builder.ArchiveFile, len(list))
	for i, f := range list {
		files[i] = builder.ArchiveFile{Path: f.Path, File: f.File}
	}
	return deploymentOf(files, func(ctx context.Context, f landfall.File) (io.ReadCloser, error) {
		stored, err := w.Objects.Open(ctx, content.Deployment.Key)
		if err != nil {
			return nil, err
		}
		file, err := builder.OpenArchived(stored, content.Deployment.Size, f.Path)
		if err != nil {
			_ = stored.Close()
			return nil, err
		}
		return both{file, stored}, nil
	}), err
}

// both is a file of an archive, and the archive.
type both struct {
	io.ReadCloser

	archive io.Closer
}

// Close implements io.Closer.
func (b both) Close() error {
	err := b.ReadCloser.Close()
	if failed := b.archive.Close(); err == nil {
		err = failed
	}
	return err
}

func (w built) checkModule(ctx context.Context, f spec.Function, d deployment) error {
	name, _, err := environment.Module(slices.Sorted(maps.Keys(d.files)), f.FunctionName)
	if err != nil {
		return err
	}
	file, err := d.open(ctx, d.files[name])
	if err != nil {
		return err
	}
	err = w.Modules.Check(ctx, file)
	_ = file.Close() // it was only read
	if err != nil {
		return &landfall.Error{Op: "pipeline.build", Kind: landfall.KindOf(err), Err: err, Message: "its module " + name + ": " + landfall.MessageOf(err)}
	}
	return nil
}
